-- What producers and operators expect of a queue: keys, expiry, approval, lines, cancelling, steps, events.

alter table stoker.tasks
    add column tags text[],
    add column expires_at timestamptz,
    add column needs_approval boolean,
    add column lane_key text collate "C",
    add column key text collate "C",
    add column erased_at timestamptz;
alter table stoker.tasks
    add constraint tasks_tags check (cardinality(tags) between 1 and 20) not valid,
    add constraint tasks_lane_key check (length(lane_key) between 1 and 200) not valid,
    add constraint tasks_key check (length(key) between 1 and 200) not valid;
comment on column stoker.tasks.expires_at is 'never claimed after it';
comment on column stoker.tasks.lane_key is 'tasks of one mode and key run one at a time, in the order of their ids';
comment on column stoker.tasks.key is 'the key that it was enqueued with; who has it now is in the table of keys';
comment on column stoker.tasks.erased_at is 'the payload was taken out; the fact stays';

-- The tasks of a span are alike in these too. One in a line is a span of its own.
alter table stoker.ready
    add column expires_at timestamptz,
    add column lane_key text collate "C",
    add constraint ready_alone_in_line check (lane_key is null or lo = hi) not valid;
alter table stoker.later
    add column expires_at timestamptz,
    add column lane_key text collate "C",
    add constraint later_alone_in_line check (lane_key is null or lo = hi) not valid;
create index ready_expiring on stoker.ready (expires_at) where expires_at is not null;
create index later_expiring on stoker.later (expires_at) where expires_at is not null;
alter table stoker.claims add column lined boolean not null default false;
alter table stoker.claims add column suspect boolean not null default false;
comment on column stoker.claims.lined is 'it holds tasks that others stand behind';
comment on column stoker.claims.suspect is 'it holds one task, which goes back as suspect if it does not start';

-- Who may not start yet, since a person must decide.
create table stoker.held (
    id bigint primary key,
    attempts integer not null default 0 check (attempts >= 0),
    since timestamptz not null default now(),
    kind text collate "C" not null check (kind in ('approval', 'question', 'operator', 'restored')),
    question text check (length(question) <= 4000),
    available_at timestamptz,
    expires_at timestamptz,
    fire bigint
);
create index held_expiring on stoker.held (expires_at) where expires_at is not null;
comment on column stoker.held.attempts is 'attempts spent';

create table stoker.cancelled (
    id bigint primary key,
    attempts integer not null,
    cancelled_at timestamptz not null default now(),
    fire bigint,
    actor text not null,
    reason text
);

create table stoker.expired (
    id bigint primary key,
    attempts integer not null,
    expired_at timestamptz not null default now()
);
create index expired_by_time on stoker.expired (expired_at);

-- Asked for while a worker held it: the settlement, the release and whoever looks again make it so, or it ends first.
create table stoker.cancel_requests (
    id bigint primary key,
    asked_at timestamptz not null default now(),
    actor text not null,
    reason text
);

-- One task a key, while it is unfinished and for so many seconds after. Whoever gives a key to another task, or opens the task
-- again that had it, locks its row first and looks in a later statement how the one that has it stands.
create table stoker.keys (
    mode text collate "C" not null,
    key text collate "C" not null check (length(key) between 1 and 200),
    id bigint not null,
    seconds double precision not null default 0 check (seconds >= 0),
    created_at timestamptz not null default now(),
    primary key (mode, key)
);
create index keys_by_id on stoker.keys (id);

-- Tasks of one mode and lane key: who is at the front, and who stands behind, in the order of their ids.
create table stoker.lines (
    mode text collate "C" not null,
    lane_key text collate "C" not null,
    id bigint not null unique,
    primary key (mode, lane_key)
);
create table stoker.in_line (
    mode text collate "C" not null,
    lane_key text collate "C" not null,
    id bigint not null unique,
    version integer not null,
    priority integer not null,
    available_at timestamptz,
    expires_at timestamptz,
    primary key (mode, lane_key, id)
);
create index in_line_expiring on stoker.in_line (expires_at) where expires_at is not null;

-- What a handler has finished of a task, and how far it says it is.
create table stoker.steps (
    id bigint not null,
    name text collate "C" not null check (length(name) between 1 and 200),
    attempt integer not null,
    result json,
    finished_at timestamptz not null default now(),
    primary key (id, name)
);
create table stoker.progress (
    id bigint primary key,
    attempt integer not null,
    fraction real check (fraction between 0 and 1),
    words text check (length(words) <= 200),
    said_at timestamptz not null default now()
);

create table stoker.paused (
    mode text collate "C" primary key,
    since timestamptz not null default now(),
    actor text not null,
    reason text not null
);

-- What people did: written once, never changed.
create table stoker.events (
    event bigint generated always as identity primary key,
    at timestamptz not null default now(),
    actor text not null,
    action text collate "C" not null,
    task bigint,
    mode text collate "C",
    reason text,
    detail json
);
create index events_by_task on stoker.events (task) where task is not null;
create index events_by_time on stoker.events (at);

alter table stoker.attempts drop constraint attempts_verdict_check;
alter table stoker.attempts add constraint attempts_verdict_check
    check (verdict in ('failed', 'retry', 'unknown', 'snooze', 'held', 'cancelled')) not valid;

-- What is configured, as the last fire or migration told: what stoker.enqueue checks against.
create table stoker.modes (
    mode text collate "C" primary key,
    version integer not null,
    seen_at timestamptz not null default now()
);
alter table stoker.installation add column payload_limit integer not null default 1048576;

-- The functions. Each looks only in pg_catalog for what it does not name in full, and nobody may call it unless allowed.

create function stoker.finished_at(task bigint) returns timestamptz
language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce((select case when hi >= task then finished_at end from stoker.outcomes where lo <= task order by lo desc limit 1),
                    (select failed_at from stoker.failed where id = task),
                    (select cancelled_at from stoker.cancelled where id = task),
                    (select expired_at from stoker.expired where id = task))
$$;
comment on function stoker.finished_at is 'when the task ended; null while it has not';

create function stoker.place(task bigint, spent integer, not_before timestamptz) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    t record;
    earlier record;
begin
    select mode, version, priority, expires_at, lane_key into strict t from stoker.tasks where id = task;
    if t.lane_key is not null then
        insert into stoker.lines (mode, lane_key, id) values (t.mode, t.lane_key, task) on conflict do nothing;
        if found then
            -- The line had lost its front while somebody came to stand in it: who stands there goes first.
            delete from stoker.in_line where id = (
                select i.id from stoker.in_line i where i.mode = t.mode and i.lane_key = t.lane_key
                order by i.id limit 1 for update skip locked)
            returning id, available_at into earlier;
            if found then
                update stoker.lines set id = earlier.id where id = task;
                perform stoker.place(earlier.id, 0, earlier.available_at);
            end if;
        end if;
        if not exists (select from stoker.lines where id = task) then
            insert into stoker.in_line (mode, lane_key, id, version, priority, available_at, expires_at)
            values (t.mode, t.lane_key, task, t.version, t.priority, not_before, t.expires_at);
            return 'in_line';
        end if;
    end if;
    if not_before > now() then
        insert into stoker.later (mode, version, priority, lo, hi, attempts, available_at, expires_at, lane_key)
        values (t.mode, t.version, t.priority, task, task, spent, not_before, t.expires_at, t.lane_key);
        return 'later';
    else
        insert into stoker.ready (mode, version, priority, lo, hi, attempts, expires_at, lane_key)
        values (t.mode, t.version, t.priority, task, task, spent, t.expires_at, t.lane_key);
        return 'ready';
    end if;
end
$$;
comment on function stoker.place is 'queue a task that stands nowhere: claimable, for later, or behind others of its line';

create function stoker.status(mode text, key text) returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select q.status from stoker.keys k join stoker.task_queue q on q.id = k.id
    where k.mode = status.mode and k.key = status.key
$$;
comment on function stoker.status is 'the state of the task with this key; null when there is none';

revoke execute on function stoker.finished_at, stoker.place, stoker.status from public;

create or replace view stoker.task_queue as
select id, mode,
       case when finished_at is not null then 'done' when failed_at is not null then 'failed'
            when cancelled_at is not null then 'cancelled' when expired_at is not null then 'expired'
            when since is not null then 'unknown' when held_since is not null then 'held' when token is not null then 'in_progress'
            when ready or later or in_line then 'queued' end as status,
       payload, priority, version, worker as claimed_by, claimed_at,
       coalesce(attempt, failed_attempts, cancelled_attempts, expired_attempts, unknown_attempts, held_attempts,
                spent + started::integer, ready_attempts, later_attempts, case when in_line then 0 end) as attempts,
       coalesce(max_attempts, cap) as max_attempts,
       coalesce(later_at, held_until, in_line_until, created_at) as available_at, created_at,
       coalesce(finished_at, failed_at, cancelled_at, expired_at, since, held_since, claimed_at, created_at) as updated_at,
       coalesce(finished_at, failed_at, cancelled_at, expired_at) as finished_at,
       coalesce(fire, failed_fire, cancelled_fire, unknown_fire, held_fire) as fire, seconds, label, result,
       coalesce(error_kind, unknown_kind) as error_kind, coalesce(error, cancelled_reason) as error_detail, suspect,
       tags, expires_at, lane_key, key, held_kind as held_for, question, in_line as is_in_line, fraction as progress, words as progress_text,
       cancel_asked_at
from (
    select t.id, t.mode, t.version, t.priority, t.payload, t.max_attempts, t.created_at, t.tags, t.expires_at, t.lane_key,
           r.span is not null as ready, r.attempts as ready_attempts, r.suspect,
           l.span is not null as later, l.available_at as later_at, l.attempts as later_attempts,
           c.token, c.worker, c.claimed_at, c.started, c.spent, c.cap,
           o.finished_at, o.attempt, o.fire, o.worker as done_by, o.seconds, o.result, o.label,
           f.failed_at, f.attempts as failed_attempts, f.error_kind, f.error, f.fire as failed_fire,
           u.since, u.attempts as unknown_attempts, u.error_kind as unknown_kind, u.fire as unknown_fire,
           h.since as held_since, h.attempts as held_attempts, h.kind as held_kind, h.question, h.available_at as held_until,
           h.fire as held_fire,
           x.cancelled_at, x.attempts as cancelled_attempts, x.fire as cancelled_fire, x.reason as cancelled_reason,
           e.expired_at, e.attempts as expired_attempts,
           i.id is not null as in_line, i.available_at as in_line_until, t.key, p.fraction, p.words, q.asked_at as cancel_asked_at
    from stoker.tasks t
    left join lateral (select span, attempts, suspect, hi from stoker.ready
                        where mode = t.mode and version = t.version and priority = t.priority and lo <= t.id
                        order by lo desc limit 1) r on r.hi >= t.id
    left join lateral (select span, available_at, attempts, hi from stoker.later
                        where lo <= t.id order by lo desc limit 1) l on l.hi >= t.id
    left join lateral (select finished_at, attempt, fire, worker, seconds, result, label, hi from stoker.outcomes
                        where lo <= t.id order by lo desc limit 1) o on o.hi >= t.id
    left join stoker.failed f on f.id = t.id
    left join stoker.unknown u on u.id = t.id
    left join stoker.held h on h.id = t.id
    left join stoker.cancelled x on x.id = t.id
    left join stoker.expired e on e.id = t.id
    left join stoker.in_line i on i.id = t.id
    left join stoker.progress p on p.id = t.id
    left join stoker.cancel_requests q on q.id = t.id
    left join lateral (select token, worker, claimed_at, started, s.spent, k.max_attempts as cap
                         from stoker.claims k, unnest(k.los, k.his, k.attempts) as s (lo, hi, spent)
                        where r.span is null and l.span is null and o.finished_at is null and f.id is null
                          and u.id is null and h.id is null and x.id is null and e.id is null and i.id is null
                          and t.id between s.lo and s.hi limit 1) c on true
) as stand;
