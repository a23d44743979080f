-- The floor's worker, of no fire: a claim is made only by a worker that stands here and is not fenced.
insert into stoker.workers (worker, fire, mode, ordinal, owner, lease_until)
values (%(worker)s, 0, 'floor', 1, '{}', now() + interval '30 seconds')
