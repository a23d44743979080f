select refusal from stoker.fires where fire = :fire
