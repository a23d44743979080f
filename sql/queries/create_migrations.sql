create table if not exists stoker.migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now(),
    applied_by text not null default current_user
)
