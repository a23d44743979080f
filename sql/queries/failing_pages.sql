-- By channel, the pages that it did not take: how many, how often the first was tried, and the last failure.
select channel, count(*) as pages, max(attempts) as attempts,
       (array_agg(failure order by page desc))[1] as failure
from stoker.page_deliveries where state = 'waiting' and failure is not null group by channel order by channel
