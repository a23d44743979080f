"""pg-boss: batches of 1,000, two fetchers a process, and burst mode, so that no poll interval passes while batches are full.

Documented in its docs/api/workers.md (``batchSize``, ``localConcurrency``) and in the comments of its types
(``burstWhenBatchFull``). Batches of 100 to 5,000 with 1, 2 and 4 fetchers were tried; beyond 500 they differ less than runs
do. Finished jobs stay until its own maintenance deletes them, its default.
"""

from bench.peers.peer import Peer

PEER = Peer(
    name="pg-boss",
    program="run_pg_boss.mjs",
    tasks=60_000,
    empty="truncate pgboss.job",
    unfinished="select count(*) from pgboss.job where state < 'completed'",
)
