-- The compare-and-set that ends a fire. No row: somebody else closed it.
update stoker.fires set state = 'closed', closed_at = clock_timestamp()
where fire = :fire and state = 'closing' and closer = :closer returning fire
