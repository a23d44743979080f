-- How the last page of an incident fared, by channel.
select d.channel, d.state = 'taken' as is_taken, d.failure from stoker.page_deliveries d
where d.page = (select max(page) from stoker.pages where incident = :incident) order by d.channel
