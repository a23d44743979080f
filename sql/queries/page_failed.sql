-- It is tried again at the next look; how often it went wrong, and why, can be seen. This :attempt alone is over: another watchdog
-- may have begun the next one meanwhile.
update stoker.page_deliveries set sending_until = null, failure = left(:failure, 500), in_doubt = in_doubt or :in_doubt
where page = :page and channel = :channel and attempts = :attempt and state <> 'taken'
