"""What a bench says: where it ran, a Markdown table, and one JSON line last; ``--save`` keeps it in results/."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.server import TOP

RESULTS = Path(__file__).parent / "results"


def arguments(description: str) -> argparse.ArgumentParser:
    """A bench's command line, with what all of them take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--save", action="store_true", help="also write bench/results/<bench>-<date>.json")
    return parser


def progress(text: str) -> None:
    """Say on standard error what is going on."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; the first column is text, the others are figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def machine(settings: dict[str, str]) -> dict[str, Any]:
    """Where this ran. ``load`` is the average of the last minute: a busy machine gives poor figures."""
    return {
        "commit": _commit(),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _model(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "postgresql": settings["server_version"],
        "settings": {name: value for name, value in settings.items() if name != "server_version"},
    }


def publish(bench: str, where: dict[str, Any], tables: Sequence[str], figures: dict[str, Any], *, save: bool) -> None:
    """Print everything, the figures as the last line; keep it if asked to."""
    now = datetime.now(UTC)
    settings = ", ".join(f"{name} {value}" for name, value in where["settings"].items())
    print(
        f"## bench.{bench}, {now:%Y-%m-%d}\n\n{where['cores']} cores ({where['cpu']}), load {where['load']} at the start;"
        f" Python {where['python']}, PostgreSQL {where['postgresql']} ({settings}); commit {where['commit']}\n"
    )
    print("\n\n".join(tables) + "\n")
    if save:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{bench}-{now:%Y-%m-%d}.json"
        kept = {"bench": bench, "at": now.isoformat(timespec="seconds"), **where, "figures": figures, "tables": list(tables)}
        path.write_text(json.dumps(kept, indent=2) + "\n")
        progress(f"saved {path.relative_to(TOP)}")
    print(json.dumps(figures), flush=True)


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str | None:
    try:
        done = subprocess.run(
            ["git", "-c", f"safe.directory={TOP}", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=TOP,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() or None
