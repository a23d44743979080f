def unclosed():
    return (1, 2
