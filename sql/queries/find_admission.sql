-- Whether a fire was entered with this key, by ourselves: the reply to its COMMIT was lost.
select fire from stoker.fires where key = :key
