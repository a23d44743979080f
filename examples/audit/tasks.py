"""Prints the audit's tasks as JSON lines: one a file for fixity, one a .py file for syntax.

    python tasks.py RECORDED [FOLDER]

RECORDED holds the results of earlier fires, as ``stoker tasks results --mode fixity`` prints them. The default folder is
the standard library of this Python. The files in broken/ beside this script, which do not compile, are always checked.
"""

import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SKIPPED = {"__pycache__", "site-packages", ".git", ".stoker", ".venv", "node_modules"}


def main() -> None:
    """Print every task."""
    recorded = _recorded(Path(sys.argv[1]))
    named = sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] else sysconfig.get_path("stdlib")
    folder = Path(named).resolve()
    if not folder.is_dir():
        sys.exit(f"tasks.py: no folder {named}")
    sys.stderr.write(f"Auditing {folder}, and the three files of the example that do not compile.\n")
    present = list(_files(folder))
    known = set(present)
    gone = [path for path in recorded if path not in known and Path(path).is_relative_to(folder)]
    for path in [*present, *gone]:
        _print("fixity", {"path": path, "was": recorded.get(path)})
    broken = sorted(str(path) for path in (Path(__file__).resolve().parent / "broken").glob("*.py"))
    for path in dict.fromkeys([*(path for path in present if path.endswith(".py")), *broken]):
        _print("syntax", {"path": path})


def _recorded(lines: Path) -> dict[str, dict[str, Any]]:
    """By path, what the newest result says; files that were gone already are forgotten."""
    found: dict[str, dict[str, Any]] = {}
    with lines.open(encoding="utf-8") as file:
        for line in file:
            said = json.loads(line)
            result, path = said["result"], said["payload"]["path"]
            if result["status"] == "gone":
                found.pop(path, None)
            else:
                found[path] = {"sha256": result["sha256"], "size": result["size"]}
    return found


def _files(folder: Path) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and not path.is_symlink() and _is_text(str(path)):
                yield str(path)


def _is_text(path: str) -> bool:
    """Whether the path itself can be written as JSON text; names that are not UTF-8 are left out."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _print(mode: str, payload: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"mode": mode, "payload": payload}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
