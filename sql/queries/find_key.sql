select id from stoker.keys where mode = :mode and key = :key
