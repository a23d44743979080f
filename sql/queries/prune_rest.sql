-- Up to :limit of each: fires that ended more than :keep seconds ago, with their notes and workers, but for the last
-- hundred and the newest of each lane; what people did; slots, but for the newest of each schedule; resolved incidents; messages
-- that were delivered or given up; hosts and components that were not heard of since.
with old as (
    select fire from stoker.fires f
    where fire < (select fire from stoker.fires order by fire desc offset 99 limit 1)
      and state in ('closed', 'refused') and coalesce(closed_at, opened_at) < now() - make_interval(secs => :keep)
      and (state = 'refused' or exists (select from stoker.fires n where n.lane = f.lane and n.opened_at > f.opened_at
                                           and n.state <> 'refused'))
      and not exists (select from stoker.workers w where w.fire = f.fire and w.exited_at is null)
      and not exists (select from stoker.outbox o where o.fire = f.fire and o.kind = 'note'
                                                          and o.state not in ('delivered', 'dropped'))
    order by fire limit :limit
), notes as (
    delete from stoker.notes where fire = any(array(select fire from old)) returning fire
), workers as (
    delete from stoker.workers where fire = any(array(select fire from old)) returning fire
), fires as (
    delete from stoker.fires where fire = any(array(select fire from old)) returning fire
), events as (
    delete from stoker.events where event = any(array(
        select event from stoker.events where at < now() - make_interval(secs => :keep) order by at limit :limit))
    returning event
), slots as (
    delete from stoker.slots where (schedule, due_at) in (
        select schedule, due_at from stoker.slots o
        where decided_at < now() - make_interval(secs => :keep)
          and exists (select from stoker.slots n where n.schedule = o.schedule and n.last_due_at > o.last_due_at) limit :limit)
), messages as (
    delete from stoker.outbox where message = any(array(
        select message from stoker.outbox
        where state in ('delivered', 'dropped', 'dead') and state_at < now() - make_interval(secs => :keep)
        order by state_at limit :limit))
), members as (
    delete from stoker.outbox o where state = 'collapsed' and state_at < now() - make_interval(secs => :keep)
       and not exists (select from stoker.outbox d where d.message = o.collapsed_into)
), incidents as (
    delete from stoker.incidents where resolved_at < now() - make_interval(secs => :keep)
), heartbeats as (
    delete from stoker.heartbeats where at < now() - make_interval(secs => :keep)
), hosts as (
    delete from stoker.hosts where seen_at < now() - make_interval(secs => :keep) returning boot_id
)
select (select count(*) from fires) as fires, (select count(*) from events) as events, (select count(*) from hosts) as hosts
