-- What stands in no partition of the tasks from :lo to before :hi, which are to be dropped; what ended since stays.
with failed as (
    delete from stoker.failed where id >= :lo and id < :hi and failed_at < now() - make_interval(secs => :keep)
), cancelled as (
    delete from stoker.cancelled where id >= :lo and id < :hi and cancelled_at < now() - make_interval(secs => :keep)
), expired as (
    delete from stoker.expired where id >= :lo and id < :hi and expired_at < now() - make_interval(secs => :keep)
), steps as (
    delete from stoker.steps where id >= :lo and id < :hi
), progress as (
    delete from stoker.progress where id >= :lo and id < :hi
), requests as (
    delete from stoker.cancel_requests where id >= :lo and id < :hi
)
delete from stoker.keys where id >= :lo and id < :hi
