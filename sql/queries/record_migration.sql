insert into stoker.migrations (number, name, checksum) values (:number, :name, :checksum)
