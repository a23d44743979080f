-- Who is missed, what was told to whom, who has taken it upon themselves, and slots that are withheld on purpose.

alter table stoker.heartbeats add column began_at timestamptz not null default now();
alter table stoker.heartbeats add column beats bigint not null default 1;
comment on column stoker.heartbeats.expected_seconds is 'the next one comes at the latest so many seconds after; 0: it ended in order';
comment on column stoker.heartbeats.began_at is 'when this one was first heard of, or again after it had ended in order';
