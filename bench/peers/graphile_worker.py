"""graphile-worker: the preset that its own performance figures are taken with.

Documented at worker.graphile.org/docs/performance: 24 concurrent jobs, 25 connections, a local queue of 500, completions
batched without delay. Finished jobs are deleted, as always there. Its log of every success is silenced.
"""

from bench.peers.peer import Peer

PEER = Peer(
    name="graphile-worker",
    program="run_graphile_worker.mjs",
    tasks=80_000,
    empty="truncate graphile_worker._private_jobs",
    unfinished="select count(*) from graphile_worker._private_jobs",
)
