-- What is to be told, and to whom: written in the transaction that makes it true, sent afterwards.

alter table stoker.fires add column channels json not null default '{}';
comment on column stoker.fires.channels is 'by name, when its note is sent by this channel: always or problems; as its host had them when it opened';

create table stoker.outbox (
    message bigint generated always as identity primary key,
    delivery_id uuid not null unique default gen_random_uuid(),
    kind text collate "C" not null check (kind in ('note', 'digest', 'callback')),
    channel text collate "C" not null check (length(channel) between 1 and 63),
    fire bigint,
    body json,
    state text collate "C" not null default 'queued'
        check (state in ('queued', 'delivered', 'dead', 'held', 'collapsed', 'dropped')),
    state_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    available_at timestamptz not null default now(),
    tried_at timestamptz,
    attempts integer not null default 0,
    in_doubt boolean not null default false,
    last_error text check (length(last_error) <= 500),
    collapsed_into bigint,
    check (kind <> 'note' or fire is not null),
    check (state <> 'collapsed' or collapsed_into is not null)
);
create unique index outbox_one_note_a_channel on stoker.outbox (fire, channel) where kind = 'note';
create index outbox_queued on stoker.outbox (channel, created_at) where state = 'queued';
create index outbox_undelivered on stoker.outbox (channel, message) where state in ('queued', 'dead', 'held');
create index outbox_members on stoker.outbox (collapsed_into) where collapsed_into is not null;
create index outbox_over on stoker.outbox (state_at) where state not in ('queued', 'held');
comment on column stoker.outbox.delivery_id is 'the same at every try: by it a receiver knows a repetition';
comment on column stoker.outbox.in_doubt is 'a try ended, or was cut off, so that nobody knows whether it was received';
comment on column stoker.outbox.collapsed_into is 'the message that tells this one too';

-- One message at a time is sent by a channel: who holds the lease sends, outside any transaction.
create table stoker.channels (
    channel text collate "C" primary key check (length(channel) between 1 and 63),
    token uuid,
    claimed_until timestamptz,
    failures integer not null default 0,
    retry_at timestamptz
);
comment on column stoker.channels.failures is 'in a row; retry_at = nothing is sent by it before';
