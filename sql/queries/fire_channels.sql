select channels from stoker.fires where fire = :fire
