"""How ids are laid out. No span, queued or done, crosses a partition's border."""

PARTITION_IDS = 10_000_000
"""Ids in one partition of the tables that grow."""
