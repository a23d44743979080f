update stoker.page_deliveries set state = 'taken', sending_until = null, failure = null where page = :page and channel = :channel
