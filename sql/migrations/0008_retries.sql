-- How often a worker's statements were tried again: deadlocks, serialization, timeouts, a read-only server.
alter table stoker.workers add column db_retries integer not null default 0;

-- A dump that is loaded makes every table anew: the schema no longer has the table it was made with.
alter table stoker.installation add column tasks oid;
comment on column stoker.installation.tasks is 'the table of tasks this schema was last known by; another one: a dump was loaded';
update stoker.installation set tasks = 'stoker.tasks'::regclass;

alter table stoker.installation add column environment text check (length(environment) between 1 and 63);
comment on column stoker.installation.environment is 'whose work this is, such as mainnet; null: nobody has said it';
