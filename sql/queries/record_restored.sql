-- What was done after a restore, and by whom. For a copy beside the original, :is_copy gives it an identity of its own.
-- Who was heard of before is of another life; what was due meanwhile is late from now on.
with me as (
    update stoker.installation
    set id = case when :is_copy then gen_random_uuid() else id end, tasks = 'stoker.tasks'::regclass, gate_opened_at = now()
), seen as (
    delete from stoker.hosts
), heard as (
    delete from stoker.heartbeats
)
insert into stoker.events (actor, action, detail) values (:actor, 'restored', :detail)
