-- What the door in SQL refuses is what the door in Python refuses: a row that no worker could run is never made.

create function stoker.unreadable(payload text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    bare text;
    deep integer := 0;
    number text;
begin
    if length(payload) - length(translate(payload, '[{', '')) > 200 then
        bare := translate(regexp_replace(payload, E'"(?:[^"\\\\]|\\\\.)*"', '', 'g'), '{}', '[]');
        bare := regexp_replace(bare, '[^][]+', '', 'g');
        while bare <> '' loop
            deep := deep + 1;
            if deep > 200 then
                return 'payload is nested deeper than 200 levels';
            end if;
            bare := replace(bare, '[]', '');
        end loop;
    end if;
    if payload ~ '[0-9][eE][+]?[0-9]{2}|[0-9]{250}' then
        bare := regexp_replace(payload, E'"(?:[^"\\\\]|\\\\.)*"', '', 'g');
        for number in select m[1] from regexp_matches(bare, '([0-9][0-9.]*(?:[eE][+]?[0-9]+)?)', 'g') as m
                      where length(m[1]) > 249 or m[1] ~ '[eE]' loop
            if number !~ '[.eE]' then
                if length(number) > 4300 then
                    return 'payload holds a number of more than 4300 digits, which Python does not read back';
                end if;
                continue;
            end if;
            begin
                perform number::float8;
            exception when numeric_value_out_of_range then
                return 'payload holds a number beyond the range of a double';
            end;
        end loop;
    end if;
    if strpos(payload, E'\\u') > 0 then
        begin
            perform payload::jsonb;
        exception when data_exception then
            return 'payload holds a NUL character or a lone surrogate, which is no Unicode text';
        end;
    end if;
    return null;
end
$$;
comment on function stoker.unreadable is 'why a worker could not read this JSON; null when it can';

create function stoker.check_task(
    mode text, version integer, max_attempts integer, available_at timestamptz, expires_at timestamptz, tags text[],
    lane_key text, key text, key_seconds double precision, retry_terminal boolean
) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    wrong text;
    moment timestamptz;
begin
    wrong := case
        when mode is null or length(mode) not between 1 and 63 then 'mode must be a name of 1 to 63 characters'
        when version < 1 then 'version must be a whole number from 1'
        when max_attempts < 1 then 'max_attempts must be a whole number from 1'
        when length(lane_key) not between 1 and 200 then 'lane_key must be 1 to 200 characters'
        when length(key) not between 1 and 200 then 'key must be 1 to 200 characters'
        when key is null and retry_terminal then 'retry_terminal needs a key: it opens the task again that has it'
        when key_seconds < 0 or key_seconds > 316224000 then 'key_seconds must be a number of seconds from 0 to 316224000'
    end;
    if tags is not null then
        if cardinality(tags) > 20 or array_ndims(tags) > 1 then
            wrong := 'tags must be at most 20 words';
        elsif array_position(tags, null) is not null
              or exists (select from unnest(tags) as tag where length(tag) not between 1 and 100) then
            wrong := 'a tag must be 1 to 100 characters';
        end if;
    end if;
    if available_at is not null or expires_at is not null then
        foreach moment in array array[available_at, expires_at] loop
            if moment < '0002-01-01 00:00:00+00' or moment >= '9999-01-01 00:00:00+00' then
                wrong := 'a time is beyond the years 2 to 9998';
            end if;
        end loop;
    end if;
    if wrong is not null then
        raise exception '%', wrong using errcode = 'invalid_parameter_value';
    end if;
end
$$;
comment on function stoker.check_task is 'refuse what is no task; all but its payload';

create function stoker.take_key(mode text, key text, new_id bigint, seconds double precision, retry_terminal boolean)
returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    holder bigint;
    kept double precision;
    ended timestamptz;
begin
    loop
        insert into stoker.keys (mode, key, id, seconds) values (take_key.mode, take_key.key, new_id, take_key.seconds)
        on conflict do nothing;
        if found then
            return new_id;
        end if;
        select k.id, k.seconds into holder, kept from stoker.keys k where k.mode = take_key.mode and k.key = take_key.key;
        continue when not found;
        ended := stoker.finished_at(holder);
        -- One that has not ended, or is gone since it was looked at: whoever is gone has no key any more.
        if ended is null or not (retry_terminal or ended + make_interval(secs => kept) <= now()) then
            perform from stoker.keys k where k.mode = take_key.mode and k.key = take_key.key and k.id = holder;
            continue when not found;
            return holder;
        end if;
        perform from stoker.keys k where k.mode = take_key.mode and k.key = take_key.key and k.id = holder for update;
        continue when not found;
        ended := stoker.finished_at(holder);
        continue when ended is null;
        if retry_terminal and stoker.reopen(holder) or ended + make_interval(secs => kept) > now() then
            return holder;
        end if;
        update stoker.keys k set id = new_id, seconds = take_key.seconds, created_at = now()
        where k.mode = take_key.mode and k.key = take_key.key;
        return new_id;
    end loop;
end
$$;
comment on function stoker.take_key is 'who has the key from now on: the new task, or the one that keeps it, opened again if that is wanted';

create function stoker.enqueue(
    mode text, payload json, priority integer default 0, version integer default null, max_attempts integer default null,
    available_at timestamptz default null, expires_at timestamptz default null, tags text[] default null,
    lane_key text default null, needs_approval boolean default false, key text default null,
    key_seconds double precision default 0, retry_terminal boolean default false, allow_unknown boolean default false
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    new_id bigint;
    holder bigint;
    known integer;
    seen timestamptz;
    most integer;
    wrong text;
begin
    perform stoker.check_task(mode, version, max_attempts, available_at, expires_at, tags, lane_key, key, key_seconds,
                              retry_terminal);
    select i.payload_limit, m.version, m.seen_at into most, known, seen
    from stoker.installation i left join stoker.modes m on m.mode = enqueue.mode;
    if allow_unknown is not true then
        if seen <= now() - interval '30 days' then
            known := null;
        end if;
        if known is null and exists (select from stoker.modes m where m.seen_at > now() - interval '30 days') then
            raise exception 'unknown mode %', quote_literal(mode) using errcode = 'invalid_parameter_value',
                hint = 'configured: ' || (select string_agg(m.mode, ', ' order by m.mode) from stoker.modes m
                                          where m.seen_at > now() - interval '30 days')
                       || '; or allow_unknown => true';
        end if;
    end if;
    payload := coalesce(payload, 'null');
    if octet_length(payload::text) > most then
        raise exception 'payload is % bytes, above the limit of %', octet_length(payload::text), most
            using errcode = 'program_limit_exceeded', hint = 'store it elsewhere and enqueue its name';
    end if;
    -- What is short and has neither an exponent nor an escape cannot be unreadable.
    if octet_length(payload::text) > 200 or payload::text ~ E'[0-9][eE]|\\\\u' then
        wrong := stoker.unreadable(payload::text);
        if wrong is not null then
            raise exception '%', wrong using errcode = 'invalid_parameter_value';
        end if;
    end if;
    version := coalesce(version, known, 1);
    tags := nullif(tags, '{}');
    key_seconds := coalesce(key_seconds, 0);
    new_id := nextval('stoker.task_ids');
    if key is not null then
        holder := stoker.take_key(mode, key, new_id, key_seconds, coalesce(retry_terminal, false));
        if holder <> new_id then
            return holder;
        end if;
    end if;
    insert into stoker.tasks
        (id, mode, version, priority, max_attempts, payload, tags, expires_at, needs_approval, lane_key, key)
    values (new_id, mode, version, coalesce(priority, 0), max_attempts, payload, tags, expires_at, nullif(needs_approval, false),
            lane_key, key);
    if needs_approval then
        insert into stoker.held (id, kind, available_at, expires_at) values (new_id, 'approval', available_at, expires_at);
    elsif lane_key is null and coalesce(available_at <= now(), true) then
        insert into stoker.ready (mode, version, priority, lo, hi, expires_at)
        values (mode, version, coalesce(priority, 0), new_id, new_id, expires_at);
    else
        perform stoker.place(new_id, 0, available_at);
    end if;
    return new_id;
end
$$;
comment on function stoker.enqueue is 'put a task in, in the caller''s transaction; the id of it, or of the one that has its key';

create function stoker.follow(tasks json, of_task bigint) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    select stoker.enqueue(
        n.mode, n.payload::json, priority => n.priority, version => n.version, max_attempts => n.max_attempts,
        available_at => case when n.delay > 0 then now() + make_interval(secs => n.delay) end, expires_at => n.expires_at,
        tags => n.tags, lane_key => n.lane_key, needs_approval => n.needs_approval, key => n.key, key_seconds => n.key_seconds,
        allow_unknown => true)
    from json_to_recordset(tasks) as n (
        parent bigint, token uuid, mode text, payload text, priority integer, version integer, max_attempts integer,
        delay double precision, expires_at timestamptz, tags text[], lane_key text, needs_approval boolean, key text,
        key_seconds double precision)
    where (of_task is null or n.parent = of_task)
      and exists (select from stoker.outcomes o
                  where o.lo = n.parent and o.token = n.token and o.xmin = pg_current_xact_id()::xid)
$$;
comment on function stoker.follow is 'enqueue what follows on tasks, or on one of them, whose outcome was written in this transaction';

create function stoker.enqueue_following(tasks json) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    one bigint;
    refused bigint := 0;
begin
    begin
        perform stoker.follow(tasks, null);
        return 0;
    exception when data_exception or program_limit_exceeded or integrity_constraint_violation then
    end;
    for one in select distinct (n ->> 'parent')::bigint from json_array_elements(tasks) n order by 1 loop
        begin
            perform stoker.follow(tasks, one);
        exception when data_exception or program_limit_exceeded or integrity_constraint_violation then
            refused := refused + 1;
            with o as (
                delete from stoker.outcomes where lo = one and hi = one returning *
            ), f as (
                insert into stoker.failed (id, attempts, fire, error_kind, error)
                select one, attempt, fire, 'follow-up refused', left('the database refused a follow-up: ' || sqlerrm, 4000) from o
            ), a as (
                insert into stoker.attempts (id, attempt, token, fire, worker, verdict, error_kind, seconds)
                select one, attempt, token, fire, worker, 'failed', 'follow-up refused', seconds from o
            )
            update stoker.workers w set done = w.done - 1, failed = w.failed + 1 from o where w.worker = o.worker;
        end;
    end loop;
    return refused;
end
$$;
comment on function stoker.enqueue_following is 'what follows on tasks, all of one task or nothing: then it is failed; how many are';

revoke execute on function stoker.follow, stoker.enqueue_following, stoker.unreadable, stoker.check_task, stoker.take_key, stoker.enqueue from public;
