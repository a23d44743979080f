def missing_colon()
    return 1
