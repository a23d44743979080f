"""From a plan to the orders of each worker; and what else a fire takes from the configuration."""

import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from stoker.orchestrator.config import Config
from stoker.orchestrator.decide import Ceilings, Plan
from stoker.sql.target import Target
from stoker.worker.orders import BASE_ENVIRONMENT, ModeOrders, Orders


def muster(
    config: Config, target: Target, environ: Mapping[str, str], plan: Plan, fire: int, installation: str
) -> list[Orders]:
    """One worker's orders each, modes taking turns, so that a mode with many workers starves nobody at the start."""
    turns = sorted((turn, share.mode) for share in plan.shares for turn in range(share.workers))
    seconds = {share.mode: share.seconds_each for share in plan.shares}
    return [
        _orders(config, target, _mode_orders(config, mode, environ, seconds[mode]), fire, ordinal, installation)
        for ordinal, (_, mode) in enumerate(turns, start=1)
    ]


def ceilings(config: Config) -> Ceilings:
    """What bounds a plan."""
    return Ceilings(config.limits.max_pool, config.plan.drain_target_seconds)


def code_version(config: Config) -> str | None:
    """The version of the user's code: as configured, else the git commit beside config.toml, else None."""
    return config.code.version or _git_commit(str(config.folder))


def tighter(*limits: float | None) -> float | None:
    """The smallest of some limits, where None is none."""
    given = [limit for limit in limits if limit is not None]
    return min(given) if given else None


def _orders(config: Config, target: Target, mode: ModeOrders, fire: int, ordinal: int, installation: str) -> Orders:
    worker, settings = config.worker, config.modes[mode.name]
    cap = tighter(settings.task_cap, config.limits.task_cap)
    return Orders(
        worker=str(uuid.uuid4()),
        fire=fire,
        ordinal=ordinal,
        installation=installation,
        folder=str(config.folder),
        mode=mode,
        target=target,
        task_cap=None if cap is None else max(int(cap), 0),
        wall_clock=tighter(settings.wall_clock_seconds, config.limits.wall_clock_seconds),
        lease=worker.lease_seconds,
        renew_every=worker.renew_every_seconds,
        grace=worker.grace_seconds,
        batch_time=worker.batch_time_seconds,
        batch_limit=worker.batch_limit,
        max_respawns=worker.max_respawns,
        linger=worker.linger_seconds,
        output_limit=worker.output_limit_bytes,
        result_limit=worker.result_limit_bytes,
        payload_limit=config.queue.payload_limit_bytes,
        modes={name: of.version for name, of in config.modes.items()},
    )


def _mode_orders(config: Config, name: str, environ: Mapping[str, str], expected: float | None) -> ModeOrders:
    mode = config.modes[name]
    names = (*BASE_ENVIRONMENT, *mode.env)
    return ModeOrders(
        name=name,
        handler=mode.handler,
        health=mode.health,
        model=mode.model,
        command=tuple(mode.command),
        version=mode.version,
        max_attempts=mode.max_attempts,
        timeout=mode.timeout_seconds,
        side_effect=mode.side_effect,
        errors=mode.errors,
        label=mode.label,
        backoff_base=mode.backoff_base_seconds,
        backoff_factor=mode.backoff_factor,
        backoff_cap=mode.backoff_cap_seconds,
        concurrency=mode.concurrency,
        expected_seconds=expected,
        retry_on=mode.retry_on,
        fail_on=mode.fail_on,
        steps=mode.steps,
        environment={name: environ[name] for name in names if name in environ},
    )


@cache
def _git_commit(folder: str) -> str | None:
    """The commit checked out in ``folder``, read from .git without starting git; None when there is none."""
    for place in (Path(folder), *Path(folder).parents):
        head = place / ".git" / "HEAD"
        try:
            text = head.read_text("utf-8").strip()
            if not text.startswith("ref: "):
                return text[:12] or None
            ref = place / ".git" / text[5:]
            return ref.read_text("utf-8").strip()[:12] if ref.exists() else _packed(place, text[5:])
        except OSError:
            continue
    return None


def _packed(place: Path, ref: str) -> str | None:
    lines = (place / ".git" / "packed-refs").read_text("utf-8").splitlines()
    return next((line.split()[0][:12] for line in lines if line.endswith(" " + ref)), None)
