-- Enqueue what follows on tasks that are done, in the transaction that settled them; how many of these the database refused.
select stoker.enqueue_following(:tasks::json)
