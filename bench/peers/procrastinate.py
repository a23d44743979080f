"""Procrastinate: the asynchronous psycopg connector with a connection for each of ten concurrent jobs.

Documented in its docs/howto/production/concurrency.md: asynchronous tasks and ``concurrency``, with a pool that is not
smaller. Of 1, 4, 10 and 25, ten was as quick as any. Finished jobs stay, its default: deleting them was not quicker.
"""

from bench.peers.peer import Peer

PEER = Peer(
    name="procrastinate",
    program="run_procrastinate.py",
    tasks=1_000,
    empty="truncate procrastinate_jobs cascade",
    unfinished="select count(*) from procrastinate_jobs where status in ('todo', 'doing')",
)
