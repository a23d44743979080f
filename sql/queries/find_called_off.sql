-- Which tasks of these claims somebody wants called off.
select r.id from stoker.claims c
cross join lateral unnest(c.los, c.his) as s (lo, hi)
join stoker.cancel_requests r on r.id between s.lo and s.hi
where c.token = any(:tokens::uuid[])
