-- The pages that are due and that nobody is sending: first ones, repetitions, resolutions; never more in an hour than :most.
with sent as (
    select coalesce(sum(1), 0) as pages from stoker.incidents where paged_at > now() - interval '1 hour'
), due as (
    select incident from stoker.incidents, sent
    where (paging_until is null or paging_until < now()) and sent.pages < :most
      and case when resolved_at is null then paged_at is null or paged_at < now() - make_interval(secs => :repeat)
               else not resolve_paged and incidents.pages > 0 end
    order by incident limit greatest(:most - (select pages from sent), 0) for update of incidents skip locked
)
update stoker.incidents i set paging_until = now() + interval '2 min' from due d where i.incident = d.incident
returning i.incident, i.cause, i.words, i.opened_at, i.resolved_at, i.pages
