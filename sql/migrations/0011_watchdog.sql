-- Who is missed, what was told to whom, who has taken it upon themselves, and slots that are withheld on purpose.

alter table stoker.heartbeats add column began_at timestamptz not null default now();
alter table stoker.heartbeats add column beats bigint not null default 1;
comment on column stoker.heartbeats.expected_seconds is 'the next one comes at the latest so many seconds after; 0: it ended in order';
comment on column stoker.heartbeats.began_at is 'when this one was first heard of, or again after it had ended in order';

alter table stoker.installation add column gate_opened_at timestamptz;
comment on column stoker.installation.gate_opened_at is 'when the gate was last opened: what was due while it was closed is late from then on';

alter table stoker.schedules add column drill_until timestamptz;
comment on column stoker.schedules.drill_until is 'a slot that is withheld to try the watchdog: no trigger fires it, and after this anybody takes it away';

alter table stoker.incidents drop column paging_until;
alter table stoker.incidents drop column failures;
alter table stoker.incidents drop column failure;
alter table stoker.incidents add column escalated_at timestamptz;
alter table stoker.incidents add column acked_by text;
alter table stoker.incidents add column acked_at timestamptz;
alter table stoker.incidents add column ack_reason text;
alter table stoker.incidents add constraint acked_with_a_reason
    check ((acked_by is null) = (acked_at is null) and (acked_by is null) = (ack_reason is null));
comment on column stoker.incidents.resolve_paged is 'that it is over was told to whom it was told, if to anybody';
comment on column stoker.incidents.acked_by is 'who has taken it upon themselves: it is not told again until it is over';

-- A page is what is told of an incident at one time: written first, then sent by each channel on its own.
create table stoker.pages (
    page bigint generated always as identity primary key,
    delivery_id uuid not null unique default gen_random_uuid(),
    incident bigint not null references stoker.incidents (incident) on delete cascade,
    action text collate "C" not null check (action in ('trigger', 'escalate', 'acknowledge', 'resolve')),
    number integer not null,
    words text not null,
    at timestamptz not null default now()
);
create index pages_by_incident on stoker.pages (incident);
create index pages_by_time on stoker.pages (at) where action in ('trigger', 'escalate');
comment on column stoker.pages.delivery_id is 'the same at every try: by it a receiver knows a repetition';

create table stoker.page_deliveries (
    page bigint not null references stoker.pages (page) on delete cascade,
    channel text collate "C" not null check (length(channel) between 1 and 200),
    state text collate "C" not null default 'waiting' check (state in ('waiting', 'taken', 'outdated')),
    sending_until timestamptz,
    attempts integer not null default 0,
    in_doubt boolean not null default false,
    failure text check (length(failure) <= 500),
    primary key (page, channel)
);
create index page_deliveries_waiting on stoker.page_deliveries (channel, page) where state = 'waiting';
comment on column stoker.page_deliveries.state is 'taken: the channel has it; outdated: a newer page of the incident took its place';
comment on column stoker.page_deliveries.in_doubt is 'a try that was cut off, or was not answered in time, may have arrived: it is told that it is over';
comment on column stoker.page_deliveries.sending_until is 'one watchdog is sending it, or was when it died';
