"""The section [hygiene] of config.toml."""

from stoker.sql.settings import PositiveDuration, Section, key


class HygieneSettings(Section):
    """When a fire counts as stranded, and whether ghosts are ended."""

    fire_lease_seconds: PositiveDuration = key("fire_lease", "30s")
    reap_ghosts: bool = True
