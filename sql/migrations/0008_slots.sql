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
