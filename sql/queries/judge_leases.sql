-- Whether leases may be judged: not for one lease after the server started or its clock leapt.
select extract(epoch from now() - pg_postmaster_start_time()) > :lease
       and coalesce(extract(epoch from now() - leapt_at) > :lease, true) as judged
from stoker.installation
