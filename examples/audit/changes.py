"""Says what a fire of the audit found changed: python changes.py RESULTS, as ``stoker tasks results --last`` printed them."""

import json
import sys
from pathlib import Path

_SHOWN = 20


def main() -> None:
    """Print the files that are new, changed or gone, or that nothing changed."""
    found: dict[str, list[str]] = {"changed": [], "gone": [], "new": [], "same": []}
    with Path(sys.argv[1]).open(encoding="utf-8") as lines:
        for line in lines:
            said = json.loads(line)
            found[said["label"]].append(said["payload"]["path"])
    same = found.pop("same")
    for status, paths in found.items():
        for path in paths[:_SHOWN] if same else []:
            print(f"{status}: {path}")
        if len(paths) > _SHOWN or (paths and not same):
            print(f"{status}: {len(paths):,} files in all")
    if same and not any(found.values()):
        print(f"Nothing changed in {len(same):,} files.")


if __name__ == "__main__":
    main()
