"""The door that a configuration describes: for the commands, and for producers in Python.

with psycopg.connect(url) as connection:
    enqueue(connection, NewTask("resize", {"path": "a.png"}), load_door())
"""

import os
from functools import partial
from pathlib import Path

from stoker.orchestrator.config import Config, load
from stoker.orchestrator.config_lines import place_of
from stoker.sql.enqueue import Door
from stoker.sql.models import find_model
from stoker.sql.new_task import EnqueueError
from stoker.worker.redact import key_shown


def load_door(path: Path | None = None) -> Door:
    """The door of a config.toml: ``path``, or the nearest one upwards. Raises ConfigError, and EnqueueError for a model."""
    return door_of(load(path, os.environ, {}))


def door_of(config: Config, *, only: str | None = None, allow_unknown: bool = False) -> Door:
    """What ``config`` lets in; with ``only`` no more models are imported than that mode's. Raises EnqueueError."""
    named = {name: mode.model for name, mode in config.modes.items() if mode.model and only in (None, name)}
    models = {}
    for name, model in named.items():
        try:
            models[name] = find_model(model, str(config.folder))
        except EnqueueError as error:
            where = place_of(config.path, "modes", name, "model")
            raise EnqueueError(f"modes.{name}.model: {error} It is named in {where}.") from None
    return Door(
        config.database.schema_name,
        config.queue.payload_limit_bytes,
        None if allow_unknown else frozenset(config.modes),
        config.queue.span_length,
        models,
        {name: partial(key_shown, policy=config.modes[name].errors) for name in models},
    )
