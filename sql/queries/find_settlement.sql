-- After a COMMIT whose reply was lost: did this token write an end for this task and attempt?
select 1 as found from stoker.outcomes where lo <= :id and hi >= :id and token = :token
union all
select 1 from stoker.attempts where id = :id and attempt = :attempt and token = :token
limit 1
