-- What people do to tasks: each function moves one task, or leaves it, and writes the event in the same transaction.
-- Each gives back where the task was and what it became; null when it was left as it is. The first commit wins: a row is
-- taken by whoever deletes it, and who finds nothing looks again where the task stands now.

alter table stoker.failed alter column fire drop not null;
comment on column stoker.failed.fire is 'null: a person refused it';
create index cancelled_by_fire on stoker.cancelled (fire) where fire is not null;

create function stoker.written_once() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'an event is written once and never changed';
end
$$;
create trigger events_written_once before update on stoker.events for each row execute function stoker.written_once();

create function stoker.tell(task bigint, action text, actor text, reason text, detail json default null) returns void
language sql set search_path = pg_catalog, pg_temp as $$
    insert into stoker.events (actor, action, task, mode, reason, detail)
    values (actor, action, task, (select t.mode from stoker.tasks t where t.id = tell.task), reason, detail)
$$;
comment on function stoker.tell is 'write down who did what to a task, and why';

create function stoker.stands(task bigint) returns text
language sql volatile set search_path = pg_catalog, pg_temp as $$
    select coalesce((select q.status from stoker.task_queue q where q.id = task), 'missing')
$$;
comment on function stoker.stands is 'the state of a task as of now, also inside a longer statement';

create function stoker.take_spanned(task bigint, out place text, out spent integer, out not_before timestamptz)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    t record;
    s record;
begin
    select mode, version, priority into t from stoker.tasks where id = task;
    if not found then
        return;
    end if;
    -- Looked at first, locked only if it holds the task: a neighbour's span must stay free for those who claim.
    select span, hi into s from stoker.ready
    where mode = t.mode and version = t.version and priority = t.priority and lo <= task order by lo desc limit 1;
    if found and s.hi >= task then
        select span, lo, hi, ready_since, attempts, expires_at, lane_key into s from stoker.ready
        where span = s.span and lo <= task and hi >= task for update;
        if not found then
            return;
        end if;
        place := 'ready';
        spent := s.attempts;
        if s.lo = s.hi then
            delete from stoker.ready where span = s.span;
        elsif s.lo = task then
            update stoker.ready set lo = task + 1 where span = s.span;
        else
            update stoker.ready set hi = task - 1 where span = s.span;
            insert into stoker.ready (mode, version, priority, lo, hi, ready_since, attempts, expires_at, lane_key)
            select t.mode, t.version, t.priority, task + 1, s.hi, s.ready_since, s.attempts, s.expires_at, s.lane_key where s.hi > task;
        end if;
        return;
    end if;
    select span, hi into s from stoker.later where lo <= task order by lo desc limit 1;
    if found and s.hi >= task then
        select span, lo, hi, attempts, available_at, expires_at, lane_key into s from stoker.later
        where span = s.span and lo <= task and hi >= task for update;
        if not found then
            return;
        end if;
        place := 'later';
        spent := s.attempts;
        not_before := s.available_at;
        if s.lo = s.hi then
            delete from stoker.later where span = s.span;
        elsif s.lo = task then
            update stoker.later set lo = task + 1 where span = s.span;
        else
            update stoker.later set hi = task - 1 where span = s.span;
            insert into stoker.later (mode, version, priority, lo, hi, attempts, available_at, expires_at, lane_key)
            select t.mode, t.version, t.priority, task + 1, s.hi, s.attempts, s.available_at, s.expires_at, s.lane_key where s.hi > task;
        end if;
    end if;
end
$$;
comment on function stoker.take_spanned is 'take a task that is claimable, or will be, out of its span; place is null when it is neither, or moved at this moment';

create function stoker.take_queued(task bigint, out place text, out spent integer, out not_before timestamptz)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    select q.place, q.spent, q.not_before into place, spent, not_before from stoker.take_spanned(task) q;
    if place is null then
        delete from stoker.in_line where id = task returning 'in_line', 0, available_at into place, spent, not_before;
    end if;
end
$$;
comment on function stoker.take_queued is 'take a queued task out of its place; place is null when it was not queued, or moved at this moment';

create function stoker.take_out(task bigint, out place text, out spent integer, out not_before timestamptz)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    select q.place, q.spent, q.not_before into place, spent, not_before from stoker.take_queued(task) q;
    if place is null then
        delete from stoker.held where id = task returning 'held', attempts, available_at into place, spent, not_before;
    end if;
end
$$;
comment on function stoker.take_out is 'take a task that waits out of where it stands, ids of a span around it stay; place is null when it waits nowhere';

create function stoker.lock_key(mode text, key text, task bigint) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    holder bigint;
begin
    loop
        select k.id into holder from stoker.keys k where k.mode = lock_key.mode and k.key = lock_key.key for update;
        if found then
            return holder;
        end if;
        insert into stoker.keys (mode, key, id) values (lock_key.mode, lock_key.key, task) on conflict do nothing;
        if found then
            return task;
        end if;
    end loop;
end
$$;
comment on function stoker.lock_key is 'who has the key, which is locked from now on; the task itself when nobody has it';

-- The key is locked before the task, as by those who enqueue. The task is locked before it is asked whether its payload was
-- erased; erasing locks the same row first.
create function stoker.reopen(task bigint) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    its record;
    holder bigint;
begin
    select mode, key into its from stoker.tasks where id = task and stoker.stands(id) in ('failed', 'cancelled');
    if not found then
        return false;
    end if;
    if its.key is not null then
        holder := stoker.lock_key(its.mode, its.key, task);
        if holder <> task and stoker.finished_at(holder) is null then
            return false;
        end if;
    end if;
    perform from stoker.failed where id = task for update;
    if not found then
        perform from stoker.cancelled where id = task for update;
        if not found then
            delete from stoker.keys k where k.mode = its.mode and k.key = its.key and k.id = task
               and not exists (select from stoker.tasks where id = task);
            return false;
        end if;
    end if;
    perform from stoker.tasks where id = task and erased_at is null;
    if not found then
        return false;
    end if;
    update stoker.keys k set id = task where k.mode = its.mode and k.key = its.key and k.id <> task;
    delete from stoker.failed where id = task;
    delete from stoker.cancelled where id = task;
    delete from stoker.cancel_requests where id = task;
    if exists (select from stoker.tasks where id = task and needs_approval)
       and not exists (select from stoker.events e where e.task = reopen.task and e.action = 'approve') then
        insert into stoker.held (id, kind, expires_at) select t.id, 'approval', t.expires_at from stoker.tasks t where t.id = task;
    else
        perform stoker.place(task, 0, null);
    end if;
    return true;
end
$$;
comment on function stoker.reopen is 'queue a failed or cancelled task again, with all its attempts, or hold it for the approval it never had; false when it is neither';

create function stoker.retry_task(task bigint, actor text, reason text, out was text, out became text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    was := stoker.stands(task);
    if was not in ('failed', 'cancelled') then
        return;
    end if;
    if stoker.reopen(task) then
        became := stoker.stands(task);
        perform stoker.tell(task, 'retry', actor, reason, json_build_object('was', was, 'became', became));
    elsif exists (select from stoker.tasks where id = task and erased_at is not null) then
        was := 'erased';
    elsif exists (select from stoker.tasks t join stoker.keys k on k.mode = t.mode and k.key = t.key
                  where t.id = task and k.id <> task) then
        was := 'replaced';
    else
        was := stoker.stands(task);
    end if;
end
$$;
comment on function stoker.retry_task is 'failed or cancelled -> queued, with all its attempts; held, if it was never approved';

create function stoker.cancel_task(task bigint, actor text, reason text, out was text, out became text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    o record;
    is_claimed boolean;
begin
    for look in 1 .. 20 loop
        select case q.place when 'held' then 'held' else 'queued' end as stood, q.spent into o
        from stoker.take_out(task) q where q.place is not null;
        if not found then
            delete from stoker.unknown where id = task returning 'unknown' as stood, attempts as spent into o;
        end if;
        if found then
            was := o.stood;
            became := 'cancelled';
            insert into stoker.cancelled (id, attempts, actor, reason) values (task, o.spent, actor, reason);
            delete from stoker.cancel_requests where id = task;
            perform stoker.tell(task, 'cancel', actor, reason, json_build_object('was', was));
            return;
        end if;
        -- Its claim is locked first: a settlement that was quicker is waited for, one that comes after sees the request.
        perform from stoker.claims c
        where exists (select from unnest(c.los, c.his) as s (lo, hi) where task between s.lo and s.hi) for share;
        is_claimed := found;
        was := stoker.stands(task);
        exit when was = 'in_progress' and is_claimed;
        if was not in ('queued', 'held', 'unknown', 'in_progress') then
            delete from stoker.cancel_requests where id = task;
            return;
        end if;
    end loop;
    became := 'requested';
    insert into stoker.cancel_requests (id, actor, reason) values (task, actor, reason) on conflict do nothing;
    if found then
        perform stoker.tell(task, 'cancel', actor, reason, json_build_object('was', was, 'became', became));
    end if;
end
$$;
comment on function stoker.cancel_task is 'what stands anywhere but with a worker -> cancelled at once; in progress: requested, called again it looks again';

create function stoker.release_task(
    task bigint, actor text, reason text, verdict text, forced boolean, out was text, out became text
)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    u record;
    r record;
begin
    if verdict not in ('done', 'failed', 'queued') or verdict is null then
        raise exception 'a task is released as done, failed or queued' using errcode = 'invalid_parameter_value';
    end if;
    delete from stoker.unknown where id = task and (forced or dead_by <= now()) returning * into u;
    if not found then
        was := stoker.stands(task);
        if was = 'unknown' then
            was := 'too early';
        end if;
        return;
    end if;
    was := 'unknown';
    became := verdict;
    delete from stoker.cancel_requests where id = task returning * into r;
    if verdict = 'done' then
        insert into stoker.outcomes (lo, hi, fire, worker, token, attempt, seconds)
        values (task, task, u.fire, u.worker, u.token, u.attempts, 0);
    elsif verdict = 'failed' then
        insert into stoker.failed (id, attempts, fire, error_kind, error) values (task, u.attempts, u.fire, u.error_kind, reason);
    elsif r.id is not null then
        became := 'cancelled';
        insert into stoker.cancelled (id, attempts, fire, actor, reason) values (task, u.attempts, u.fire, r.actor, r.reason);
    else
        perform stoker.place(task, u.attempts, null);
    end if;
    perform stoker.tell(task, 'release', actor, reason, json_build_object('as', verdict, 'became', became, 'forced', forced));
end
$$;
comment on function stoker.release_task is 'unknown -> what a person says that happened; not before its old runner is certainly dead, unless forced';

create function stoker.approve_task(task bigint, actor text, reason text, refused boolean, out was text, out became text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    h record;
begin
    delete from stoker.held where id = task and kind = 'approval' returning * into h;
    if not found then
        was := stoker.stands(task);
        return;
    end if;
    was := 'held';
    if refused then
        became := 'failed';
        insert into stoker.failed (id, attempts, fire, error_kind, error) values (task, h.attempts, null, 'refused', reason);
    else
        became := 'queued';
        perform stoker.place(task, h.attempts, h.available_at);
    end if;
    perform stoker.tell(task, case when refused then 'refuse' else 'approve' end, actor, reason);
end
$$;
comment on function stoker.approve_task is 'held for approval -> queued, or failed when it is refused';

create function stoker.hold_task(task bigint, actor text, reason text, out was text, out became text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    o record;
begin
    for look in 1 .. 20 loop
        select * into o from stoker.take_queued(task) q where q.place is not null;
        if found then
            was := 'queued';
            became := 'held';
            insert into stoker.held (id, attempts, kind, question, available_at, expires_at)
            select task, o.spent, 'operator', left(reason, 4000), o.not_before, t.expires_at from stoker.tasks t where t.id = task;
            perform stoker.tell(task, 'hold', actor, reason);
            return;
        end if;
        was := stoker.stands(task);
        exit when was <> 'queued';
    end loop;
end
$$;
comment on function stoker.hold_task is 'queued -> held until a person resumes it; the front of a line keeps its place';

create function stoker.resume_task(task bigint, actor text, reason text, answer text, out was text, out became text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    h record;
begin
    delete from stoker.held where id = task and kind <> 'approval' returning * into h;
    if not found then
        was := stoker.stands(task);
        return;
    end if;
    was := 'held';
    became := 'queued';
    if answer is not null then
        insert into stoker.steps (id, name, attempt, result) values (task, 'answer', h.attempts, to_json(answer))
        on conflict (id, name) do update set result = excluded.result, finished_at = now();
    end if;
    perform stoker.place(task, h.attempts, h.available_at);
    perform stoker.tell(task, 'resume', actor, reason, json_build_object('kind', h.kind, 'answered', answer is not null));
end
$$;
comment on function stoker.resume_task is 'held for any reason but approval -> queued; the answer is kept where the handler finds it';

create function stoker.erase_task(task bigint, actor text, reason text, forced boolean, out was text, out became text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    c record;
begin
    was := stoker.stands(task);
    if was in ('queued', 'held', 'unknown', 'in_progress') and forced then
        select * into c from stoker.cancel_task(task, actor, reason);
        if c.became is distinct from 'cancelled' then
            was := c.was;
            became := c.became;
            return;
        end if;
    end if;
    perform from stoker.failed where id = task for update;
    perform from stoker.cancelled where id = task for update;
    if stoker.stands(task) not in ('done', 'failed', 'cancelled', 'expired') then
        was := stoker.stands(task);
        return;
    end if;
    update stoker.tasks set payload = 'null', sealed = null, key_id = null, erased_at = coalesce(erased_at, now()) where id = task;
    update stoker.outcomes set result = null where lo = task and hi = task;
    update stoker.attempts set error = null where id = task;
    update stoker.failed set error = null where id = task;
    update stoker.cancelled set reason = null where id = task;
    delete from stoker.cancel_requests where id = task;
    delete from stoker.outputs where id = task;
    delete from stoker.steps where id = task;
    delete from stoker.progress where id = task;
    -- A note quotes one example of each kind of error.
    update stoker.notes n
    set facts = (n.facts::jsonb || jsonb_build_object('failures', (
            select jsonb_agg(case when f #>> '{example,task}' = task::text then jsonb_set(f, '{example,error}', 'null') else f end
                             order by place)
            from jsonb_array_elements(n.facts::jsonb -> 'failures') with ordinality as e (f, place))))::json
    where n.fire in (select a.fire from stoker.attempts a where a.id = task)
      and exists (select from json_array_elements(n.facts -> 'failures') as e (f) where f #>> '{example,task}' = task::text);
    became := 'erased';
    perform stoker.tell(task, 'erase', actor, reason);
end
$$;
comment on function stoker.erase_task is 'take out what a finished task says, and what was said of it; the fact, its key, tags, label and events stay';

revoke execute on function stoker.take_out, stoker.take_spanned, stoker.lock_key, stoker.reopen, stoker.written_once, stoker.tell, stoker.stands, stoker.take_queued, stoker.retry_task, stoker.cancel_task,
    stoker.release_task, stoker.approve_task, stoker.hold_task, stoker.resume_task, stoker.erase_task from public;
