"""One sweep, as the configuration wants it."""

from typing import Any

from stoker.hygiene.close import REAPED, Terms
from stoker.hygiene.restored import installation_of
from stoker.hygiene.sweep import sweep
from stoker.orchestrator.config import Config
from stoker.sql.database import Database


def sweep_now(config: Config, database: Database) -> dict[str, Any]:
    """Sweep once; what it repaired, as JSON values."""
    installation = installation_of(database)
    terms = Terms(
        REAPED,
        installation,
        fire_lease=config.hygiene.fire_lease_seconds,
        worker_lease=config.worker.lease_seconds,
        reap_ghosts=config.hygiene.reap_ghosts,
    )
    return sweep(database, terms, installation=installation, keep_seconds=config.hygiene.keep_seconds).facts()
