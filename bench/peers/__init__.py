"""Stoker beside its peers: no-op tasks drained by job queues on PostgreSQL, from one server, in turn.

    python -m bench.peers [--folder DIR] [--rounds N] [--only NAME ...] [--save]

- ``pins.toml``: the versions; ``install``: each peer into a folder of its own, when it is first needed;
- ``pgqueuer``, ``procrastinate``, ``graphile_worker``, ``pg_boss``: one module a peer: how it is configured, and where that
  is documented; ``programs/``: what runs in the peer's own environment, with nothing of stoker's;
- ``peer``: what a peer is, its database, its load; ``crew``: its worker processes;
- ``ours``: the same for stoker; ``sampler``: one yardstick for all of them; ``verdict``: ratios and tables.
"""
