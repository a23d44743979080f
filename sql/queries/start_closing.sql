-- Take a fire to closing: an open one, or one whose closer, as it was seen, is gone. The closer is its owner from here.
update stoker.fires
set state = 'closing', closing_at = coalesce(closing_at, now()), closer = :closer, owner = :owner,
    lease_until = now() + make_interval(secs => :lease)
where fire = :fire and state in ('open', 'closing') and closer is not distinct from :seen_closer::uuid
  and (not :only_lapsed or lease_until < now())
returning fire
