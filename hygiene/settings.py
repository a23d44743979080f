"""The section of config.toml that belongs to this room: [hygiene]."""

from stoker.sql.section import Section
from stoker.sql.settings import LastingDuration, LastingDurationOrNone


class HygieneSettings(Section):
    """When a fire counts as stranded, whether ghosts are ended, and how long what is over is kept."""

    fire_lease_seconds: LastingDuration = 30.0
    reap_ghosts: bool = True
    keep_seconds: LastingDurationOrNone = 30 * 86_400.0
