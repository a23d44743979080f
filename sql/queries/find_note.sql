select n.fire, n.verdict, n.facts, n.written_at from stoker.notes n
where :fire::bigint is null or n.fire = :fire order by n.fire desc limit 1
