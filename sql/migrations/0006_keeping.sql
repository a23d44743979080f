-- How long what is over is kept: where the sweep has got to.

create table stoker.marks (
    name text collate "C" primary key,
    id bigint not null default 0,
    resume_at timestamptz not null default '-infinity'
);
comment on table stoker.marks is 'one row a duty that goes through something bit by bit: the last it looked at, and when to go on';
insert into stoker.marks (name) values ('tasks'), ('partitions'), ('rest');
