select exit_reason from stoker.workers where worker = :worker
