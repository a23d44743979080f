select fire, lane, key, reason, opened_at, closing_at, closed_at, code_version, plan, sweep
from stoker.fires where fire = :fire
