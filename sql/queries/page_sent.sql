update stoker.incidents
set paging_until = null, paged_at = now(), pages = pages + 1, failure = null,
    resolve_paged = resolve_paged or resolved_at is not null
where incident = :incident
