-- Who stands at the front of a line and is over: something of its end was left undone.
select id from stoker.lines where stoker.finished_at(id) is not null limit :limit
