update stoker.fires set plan = :plan, sweep = coalesce(:sweep, sweep) where fire = :fire and state = 'open' returning fire
