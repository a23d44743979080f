"""Procrastinate: asynchronous jobs, ten at a time, with a connection for each.

Documented in its docs/howto/concurrency.md and in ``App.run_worker_async``: ``concurrency`` for asynchronous jobs. Of 1, 4,
10 and 25, ten was as quick as any. Finished jobs stay, its default: deleting them (``delete_jobs``) was not quicker.
"""

from bench.peers.peer import Peer

PEER = Peer(
    name="procrastinate",
    program="run_procrastinate.py",
    tasks=1_000,
    empty="truncate procrastinate_jobs cascade",
    unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
)
