-- What those who start fires can run, and schedules that people hold.

alter table stoker.heartbeats add column modes text[];
comment on column stoker.heartbeats.modes is 'the modes whose fires this one starts; null: it starts none';
alter table stoker.heartbeats add column failures integer not null default 0;
alter table stoker.heartbeats add column error text;
alter table stoker.heartbeats add constraint heartbeats_error check (length(error) <= 500) not valid;
comment on column stoker.heartbeats.failures is 'batches in a row that failed; the last of them by error';

alter table stoker.schedules add column paused_by text;
alter table stoker.schedules add column paused_at timestamptz;
alter table stoker.schedules add column pause_reason text;
alter table stoker.schedules add constraint paused_with_a_reason
    check ((paused_by is null) = (paused_at is null) and (paused_by is null) = (pause_reason is null)) not valid;
comment on column stoker.schedules.paused_by is 'who holds it: its due slots are skipped; null: nobody';

alter table stoker.lanes add column expected_seconds double precision;
alter table stoker.lanes add column expected_since timestamptz;
alter table stoker.lanes add constraint expected_since_when
    check ((expected_seconds is null) = (expected_since is null) and expected_seconds > 0) not valid;
comment on column stoker.lanes.expected_seconds is 'how often a fire of the lane is to reach its note, as stoker wrap said; null: nothing is expected';
