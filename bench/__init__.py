"""The benches: each starts a PostgreSQL of its own, measures, prints a table and one JSON line last, and cleans up.

    python -m bench.start     an empty fire; the first task; a pool of twelve
    python -m bench.memory    what one worker holds in memory
    python -m bench.drain     no-op tasks beside the floor, in turn, and where a task's time goes
    python -m bench.kinds     tasks enqueued singly, tasks that take time, async, programs beside xargs
    python -m bench.peers     the same beside other queues on PostgreSQL, which it installs
    python -m bench.enqueue   putting tasks in, one by one and in bulk, beside a bare COPY
    python -m bench.tuning    what each choice of the hot path is worth
    python -m bench.growth    claims, the view and a fire with ten million queued, a pinned horizon, a long history
    python -m bench.pickup    how soon a task enqueued alone starts, while a worker lingers
    python -m bench.barrier   from the last settlement to the note
    python -m bench.migration how long migrations hold up producers and claims, with five million queued
    python -m bench.year      a virtual year under the watchdog: misses found, how soon, false pages

- ``server``: the folder, the server in it, and the stoker command as a real process;
- ``backlog``: tasks loaded in bulk, and how fast they went;
- ``floor``: what a bare loop of psycopg reaches with the same guarantees;
- ``visitor``: a worker's visits to the database, without a runner;
- ``proc``: processor time and memory of other processes, from /proc;
- ``virtual``: a clock that can be set, and what happens by it;
- ``report``: the table, the JSON line, and ``--save``;
- ``handlers/``: the configuration and the handlers that are measured; ``statements/``: the floor's SQL, and the yardstick.

A bench gives facts about one machine at one hour. Only ratios within one run carry to another.
"""
