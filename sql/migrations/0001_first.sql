-- The queue, the fires, the workers. A task is an immutable fact; its state is where its id stands.

create sequence stoker.task_ids as bigint;

create table stoker.installation (
    only_row boolean primary key default true check (only_row),
    id uuid not null default gen_random_uuid(),
    created_at timestamptz not null default now(),
    leapt_at timestamptz
);
comment on table stoker.installation is 'one row: who this schema is; leapt_at = when its clock was last seen to leap';
insert into stoker.installation default values;

create table stoker.hosts (
    boot_id text collate "C" primary key,
    host text not null,
    clock_offset double precision not null,
    seen_at timestamptz not null default now()
);
comment on column stoker.hosts.clock_offset is 'seconds: this database''s clock minus the time since that boot; it moves only if the clock leaps';

-- What was asked: written once, never updated.
create table stoker.tasks (
    id bigint not null default nextval('stoker.task_ids'),
    mode text collate "C" not null check (length(mode) between 1 and 63),
    priority integer not null default 0,
    version integer not null default 1 check (version > 0),
    max_attempts integer check (max_attempts > 0),
    created_at timestamptz not null default now(),
    key_id text,
    payload json,
    sealed bytea,
    primary key (id),
    check (num_nonnulls(payload, sealed) = 1)
) partition by range (id);
comment on column stoker.tasks.max_attempts is 'null: the mode''s';
comment on column stoker.tasks.sealed is 'the payload, encrypted under key_id, in place of payload';

-- Queued and claimable now. A span row only ever shrinks; it is found again by its immutable span id.
create table stoker.ready (
    span bigint generated always as identity primary key,
    mode text collate "C" not null,
    version integer not null,
    priority integer not null,
    lo bigint not null,
    hi bigint not null,
    ready_since timestamptz not null default now(),
    attempts integer not null default 0 check (attempts >= 0),
    suspect boolean not null default false,
    check (lo <= hi),
    check (not suspect or lo = hi)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index ready_in_order on stoker.ready (mode, version, priority, lo);
comment on column stoker.ready.ready_since is 'since when it could be claimed; what is given back, or was freed, begins anew';
comment on column stoker.ready.suspect is 'its worker died with it in a larger batch: to be claimed alone';

-- Queued, but not before available_at.
create table stoker.later (
    span bigint generated always as identity primary key,
    mode text collate "C" not null,
    version integer not null,
    priority integer not null,
    lo bigint not null,
    hi bigint not null,
    attempts integer not null default 0 check (attempts >= 0),
    available_at timestamptz not null,
    check (lo <= hi)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index later_by_time on stoker.later (available_at);
create index later_by_mode on stoker.later (mode, available_at);

create table stoker.lanes (
    lane text collate "C" primary key check (length(lane) between 1 and 63)
);
comment on table stoker.lanes is 'one row a lane: admission locks it before it counts';

create table stoker.fires (
    fire bigint generated always as identity primary key,
    key uuid not null unique,
    lane text collate "C" not null,
    state text collate "C" not null check (state in ('open', 'closing', 'closed', 'refused')),
    refusal text,
    reason text,
    day date not null,
    opened_at timestamptz not null default now(),
    lease_until timestamptz,
    deadline_at timestamptz,
    closing_at timestamptz,
    closed_at timestamptz,
    closer uuid,
    interlocks json not null,
    code_version text,
    owner json not null,
    plan json,
    sweep json,
    check ((state = 'refused') = (refusal is not null)),
    check ((state = 'closed') = (closed_at is not null))
);
create unique index fires_one_active_a_lane on stoker.fires (lane) where state in ('open', 'closing');
create index fires_by_lane on stoker.fires (lane, opened_at) where state <> 'refused';
comment on column stoker.fires.closer is 'who took it to closing; only that one may close it, until its lease is over';

create table stoker.workers (
    worker uuid primary key,
    fire bigint not null,
    mode text collate "C" not null,
    ordinal integer not null,
    owner json not null,
    started_at timestamptz not null default now(),
    lease_until timestamptz not null,
    fenced_at timestamptz,
    exited_at timestamptz,
    exit_reason text,
    exit_status text,
    done bigint not null default 0,
    failed bigint not null default 0,
    retried bigint not null default 0,
    busy_seconds double precision not null default 0,
    first_task_at timestamptz,
    respawns integer not null default 0,
    peak_memory_bytes bigint,
    cpu_seconds double precision,
    tally json
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);
create index workers_by_fire on stoker.workers (fire);
create index workers_by_mode on stoker.workers (mode, started_at);
create index workers_alive on stoker.workers (worker) where exited_at is null;

-- Who holds what: one row a batch. The lease is the worker's.
create table stoker.claims (
    token uuid primary key,
    worker uuid not null,
    fire bigint not null,
    mode text collate "C" not null,
    side_effect boolean not null,
    max_attempts integer not null,
    los bigint[] not null,
    his bigint[] not null,
    attempts integer[] not null,
    taken integer not null,
    started boolean not null,
    step integer not null default 0,
    claimed_at timestamptz not null default now(),
    dead_by timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
create index claims_by_worker on stoker.claims (worker);
comment on column stoker.claims.attempts is 'attempts spent before this claim, span by span';
comment on column stoker.claims.taken is 'tasks in it when it was made: a claim of one is charged when its keeper dies';
comment on column stoker.claims.started is 'its tasks may have been handed to the runner';
comment on column stoker.claims.dead_by is 'when the runner''s own timer has certainly ended it';

-- Done: spans of plain successes, and single rows for what has a result.
create table stoker.outcomes (
    lo bigint not null,
    hi bigint not null,
    fire bigint not null,
    worker uuid not null,
    token uuid not null,
    attempt integer not null,
    finished_at timestamptz not null default now(),
    seconds real not null,
    label text,
    result json,
    primary key (lo),
    check (lo <= hi),
    check (lo = hi or (result is null and label is null))
) partition by range (lo);
comment on column stoker.outcomes.seconds is 'one task''s; for a span the mean of the batch';

-- Every attempt that did not end plainly done.
create table stoker.attempts (
    id bigint not null,
    attempt integer not null,
    token uuid not null,
    fire bigint not null,
    worker uuid not null,
    verdict text collate "C" not null check (verdict in ('failed', 'retry', 'unknown')),
    error_kind text not null,
    error text,
    finished_at timestamptz not null default now(),
    seconds real,
    primary key (id, attempt, token)
) partition by range (id);
create index attempts_by_fire on stoker.attempts (fire);

-- What handlers printed.
create table stoker.outputs (
    id bigint not null,
    attempt integer not null,
    token uuid not null,
    output text not null,
    primary key (id, attempt, token)
) partition by range (id);

create table stoker.failed (
    id bigint primary key,
    attempts integer not null,
    fire bigint not null,
    failed_at timestamptz not null default now(),
    error_kind text not null,
    error text
);

create table stoker.unknown (
    id bigint primary key,
    attempts integer not null,
    fire bigint not null,
    worker uuid not null,
    token uuid not null,
    since timestamptz not null default now(),
    dead_by timestamptz not null,
    error_kind text not null
);
comment on table stoker.unknown is 'side effects whose outcome is not known: only recover() or a person moves them';

create table stoker.notes (
    fire bigint primary key references stoker.fires (fire),
    verdict text not null,
    facts json not null,
    written_at timestamptz not null default now()
);

-- Ten million ids a partition; more are added ahead of need, and the default ones are a net under them.
create table stoker.tasks_0 partition of stoker.tasks for values from (0) to (10000000);
create table stoker.tasks_1 partition of stoker.tasks for values from (10000000) to (20000000);
create table stoker.tasks_2 partition of stoker.tasks for values from (20000000) to (30000000);
create table stoker.tasks_beyond partition of stoker.tasks default;
create table stoker.outcomes_0 partition of stoker.outcomes for values from (0) to (10000000);
create table stoker.outcomes_1 partition of stoker.outcomes for values from (10000000) to (20000000);
create table stoker.outcomes_2 partition of stoker.outcomes for values from (20000000) to (30000000);
create table stoker.outcomes_beyond partition of stoker.outcomes default;
create table stoker.attempts_0 partition of stoker.attempts for values from (0) to (10000000);
create table stoker.attempts_1 partition of stoker.attempts for values from (10000000) to (20000000);
create table stoker.attempts_2 partition of stoker.attempts for values from (20000000) to (30000000);
create table stoker.attempts_beyond partition of stoker.attempts default;
create table stoker.outputs_0 partition of stoker.outputs for values from (0) to (10000000);
create table stoker.outputs_1 partition of stoker.outputs for values from (10000000) to (20000000);
create table stoker.outputs_2 partition of stoker.outputs for values from (20000000) to (30000000);
create table stoker.outputs_beyond partition of stoker.outputs default;

-- Every task with the plain columns an operator expects.
create view stoker.task_queue as
with stand as (
    select t.id, t.mode, t.version, t.priority, t.payload, t.max_attempts, t.created_at,
           r.span is not null as ready, r.attempts as ready_attempts, r.suspect,
           l.available_at, l.attempts as later_attempts,
           c.token, c.worker, c.claimed_at, c.started, c.spent, c.cap,
           o.finished_at, o.attempt, o.fire, o.worker as done_by, o.seconds, o.result, o.label,
           f.failed_at, f.attempts as failed_attempts, f.error_kind, f.error, f.fire as failed_fire,
           u.since, u.attempts as unknown_attempts, u.error_kind as unknown_kind, u.fire as unknown_fire
    from stoker.tasks t
    left join lateral (select span, attempts, suspect from stoker.ready
                        where mode = t.mode and version = t.version and priority = t.priority
                          and lo <= t.id and hi >= t.id order by lo desc limit 1) r on true
    left join lateral (select available_at, attempts from stoker.later
                        where mode = t.mode and lo <= t.id and hi >= t.id limit 1) l on true
    left join lateral (select token, worker, claimed_at, started, s.spent, k.max_attempts as cap
                         from stoker.claims k, unnest(k.los, k.his, k.attempts) as s (lo, hi, spent)
                        where t.id between s.lo and s.hi limit 1) c on true
    left join lateral (select finished_at, attempt, fire, worker, seconds, result, label, hi from stoker.outcomes
                        where lo <= t.id order by lo desc limit 1) o on o.hi >= t.id
    left join stoker.failed f on f.id = t.id
    left join stoker.unknown u on u.id = t.id
)
select id, mode,
       case when finished_at is not null then 'done' when failed_at is not null then 'failed'
            when since is not null then 'unknown' when token is not null then 'in_progress'
            when ready or available_at is not null then 'queued' end as status,
       payload, priority, version, worker as claimed_by, claimed_at,
       coalesce(attempt, failed_attempts, unknown_attempts, spent + started::integer, ready_attempts, later_attempts) as attempts,
       coalesce(max_attempts, cap) as max_attempts,
       coalesce(available_at, created_at) as available_at, created_at,
       coalesce(finished_at, failed_at, since, claimed_at, created_at) as updated_at,
       coalesce(finished_at, failed_at) as finished_at,
       coalesce(fire, failed_fire, unknown_fire) as fire, seconds, label, result,
       coalesce(error_kind, unknown_kind) as error_kind, error as error_detail, suspect
from stand;
comment on view stoker.task_queue is 'for people; what claims read is ready';
