-- Tasks in progress, by mode.
select mode, sum(s.hi - s.lo + 1)::bigint as count from stoker.claims c, unnest(c.los, c.his) as s (lo, hi) group by mode order by mode
