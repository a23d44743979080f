-- After a COMMIT whose reply was lost: did this token write an end for this task and attempt?
select 1 as found from (select hi, token from stoker.outcomes where lo <= :id order by lo desc limit 1) as last
where hi >= :id and token = :token
union all
select 1 from stoker.attempts where id = :id and attempt = :attempt and token = :token
limit 1
