"""The section of config.toml that belongs to this room: [hygiene]."""

from stoker.sql.section import Section
from stoker.sql.settings import LastingDuration


class HygieneSettings(Section):
    """When a fire counts as stranded, and whether ghosts are ended."""

    fire_lease_seconds: LastingDuration = 30.0
    reap_ghosts: bool = True
