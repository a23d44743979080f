-- It is tried again at the next look; how often it went wrong, and why, can be seen.
update stoker.incidents set paging_until = null, failures = failures + 1, failure = left(:failure, 500)
where incident = :incident
