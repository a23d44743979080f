-- Schedules that people hold: who, since when and why.
select schedule, paused_by, paused_at, pause_reason from stoker.schedules where paused_by is not null order by schedule
