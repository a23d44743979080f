"""The section of config.toml that belongs to this room: [hygiene]."""

from stoker.sql.settings import LastingDuration, Section


class HygieneSettings(Section):
    """When a fire counts as stranded, and whether ghosts are ended."""

    fire_lease_seconds: LastingDuration = 30.0
    reap_ghosts: bool = True
