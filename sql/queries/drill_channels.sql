-- How the pages of a drill fared by channel: that it is open, or that it is over.
select d.channel, d.state = 'taken' as is_taken, d.sending_until > now() is true as is_sending, d.failure
from stoker.pages p join stoker.page_deliveries d using (page)
where p.incident = :incident and p.action = :action order by d.channel
