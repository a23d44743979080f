-- What was done after a restore, and by whom. For a copy beside the original, :is_copy gives it an identity of its own.
with me as (
    update stoker.installation
    set id = case when :is_copy then gen_random_uuid() else id end, tasks = 'stoker.tasks'::regclass
), seen as (
    delete from stoker.hosts
)
insert into stoker.events (actor, action, detail) values (:actor, 'restored', :detail)
