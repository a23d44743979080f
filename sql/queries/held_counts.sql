-- Who waits for a person, by mode and kind: how many, and the first.
select t.mode, h.kind, count(*) as count, min(h.id) as task from stoker.held h join stoker.tasks t on t.id = h.id
group by t.mode, h.kind order by t.mode, h.kind
