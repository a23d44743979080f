-- By which channels the fire's note will be sent, whoever closes it.
update stoker.fires set channels = :channels::json where fire = :fire
