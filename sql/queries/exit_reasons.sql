select exit_reason, count(*) from stoker.workers where exit_reason is not null group by exit_reason
