-- Renew the lease of an open fire, or of one that this closer is closing. No row: somebody else is closing it.
update stoker.fires set lease_until = now() + make_interval(secs => :lease)
where fire = :fire and (state = 'open' or (state = 'closing' and closer = :closer::uuid)) returning fire
