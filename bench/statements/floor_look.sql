-- Without a lock: is anything left? An empty claim is not an empty queue.
select exists (select from stoker.ready where mode = 'floor' and version = 1)
