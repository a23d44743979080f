-- When fires are due, as every process derives it, and what became of each due time.

create table stoker.schedules (
    schedule text collate "C" primary key check (length(schedule) between 1 and 63),
    rule json not null,
    since timestamptz not null,
    seen_at timestamptz not null default now()
);
comment on column stoker.schedules.rule is 'cron or every, and timezone: what due times are derived from';
comment on column stoker.schedules.since is 'due times up to here are of no concern: it was registered, or edited, then';

create table stoker.slots (
    schedule text collate "C" not null,
    due_at timestamptz not null,
    last_due_at timestamptz not null,
    state text collate "C" not null check (state in ('ran', 'skipped', 'missed')),
    reason text,
    fire bigint,
    decided_at timestamptz not null default now(),
    primary key (schedule, due_at),
    check (due_at <= last_due_at),
    check (state = 'missed' or due_at = last_due_at),
    check ((state = 'ran') = (fire is not null and reason is null))
);
create unique index slots_by_last on stoker.slots (schedule, last_due_at);
create index slots_by_fire on stoker.slots (fire);
comment on column stoker.slots.last_due_at is 'neighbouring due times that were missed for one reason share a row';

-- What the watchdog found: one open row a cause, however often it is seen, by however many watchdogs.
create table stoker.incidents (
    incident bigint generated always as identity primary key,
    cause text collate "C" not null check (length(cause) between 1 and 200),
    words text not null,
    opened_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    resolved_at timestamptz,
    paging_until timestamptz,
    paged_at timestamptz,
    pages integer not null default 0,
    resolve_paged boolean not null default false,
    failures integer not null default 0,
    failure text
);
create unique index incidents_one_open on stoker.incidents (cause) where resolved_at is null;
create index incidents_to_page on stoker.incidents (incident) where resolved_at is null or not resolve_paged;
comment on column stoker.incidents.paging_until is 'one watchdog is sending a page of it';

create table stoker.heartbeats (
    component text collate "C" not null,
    instance text collate "C" not null,
    at timestamptz not null default now(),
    expected_seconds double precision not null,
    primary key (component, instance)
);
comment on column stoker.heartbeats.expected_seconds is 'the next one comes at the latest so many seconds after';
