-- How often a worker's statements were tried again: deadlocks, serialization, timeouts, a read-only server.
alter table stoker.workers add column db_retries integer not null default 0;
