-- It is tried again at the next look; how often it went wrong, and why, can be seen.
update stoker.page_deliveries set sending_until = null, failure = left(:failure, 500)
where page = :page and channel = :channel and state <> 'taken'
