lock table stoker.migrations in exclusive mode
