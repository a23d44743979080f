select checksum from stoker.migrations where number = :number
