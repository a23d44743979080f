select 1 from stoker.fires where fire = :fire and state = 'closed' and closer = :closer
