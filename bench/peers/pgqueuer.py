"""PgQueuer: asyncpg on one connection and uvloop, as its command line runs it; batches of 500; ``pgq autovac`` applied.

Documented in its docs/guides/performance-tuning.md: a larger ``batch_size`` for short jobs, one direct asyncpg connection
for the manager, ``pgq autovac`` after installation. Of 10, 25, 50, 100, 250, 500 and 1,000, batches of 500 were the quickest
with two workers, and none was quicker with one. Durability stays ``durable``, its default: unlogged tables lose tasks.
"""

from bench.peers.peer import Peer

PEER = Peer(
    name="pgqueuer",
    program="run_pgqueuer.py",
    tasks=30_000,
    empty="truncate pgqueuer, pgqueuer_log, pgqueuer_statistics",
    unfinished="select count(*) from pgqueuer",
)
