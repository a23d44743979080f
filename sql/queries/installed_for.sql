-- For how many seconds it is here, and since the gate was last opened; null: it never was closed.
select extract(epoch from now() - created_at)::float8 as seconds, extract(epoch from now() - gate_opened_at)::float8 as opened
from stoker.installation
