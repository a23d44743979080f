"""What the pages about the queue show is run, block by block, as a reader would, on a real database."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.end_to_end.project import Project

from stoker.hygiene.signature import sign

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("queue-*.md"))
_BLOCK = re.compile(r"^```(python|sql|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CONFIG = """
[limits]
fires_per_day = "none"
[modes.hello]
handler = "jobs:plain"
[modes.mail]
handler = "jobs:plain"
[modes.resize]
handler = "jobs:plain"
model = "models:Resize"
"""
MODELS = "from pydantic import BaseModel\n\n\nclass Resize(BaseModel):\n    path: str\n    width: int = 100\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(page: Path, database: str, tmp_path: Path) -> None:
    """In the order of the page, in one folder, against one database."""
    project = Project(tmp_path, database)
    project.write(CONFIG)
    (tmp_path / "models.py").write_text(MODELS)
    blocks = _BLOCK.findall(page.read_text("utf-8"))
    assert blocks, f"{page.name} shows nothing"
    project.enqueue("hello", 1, 2, 3)
    try:
        for kind, text in blocks:
            if kind == "sql":
                with psycopg.connect(database, autocommit=True) as connection:
                    connection.execute(text.encode())
                continue
            command = [sys.executable, "-c", text] if kind == "python" else ["sh", "-e", "-c", text]
            done = subprocess.run(
                command, cwd=tmp_path, env=environment(project), capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}{done.stderr}"
    finally:
        project.end()


def test_the_page_about_testing_runs(database: str) -> None:
    """Its blocks are one program; ``url`` is a test database."""
    blocks = _BLOCK.findall((DOCS / "testing.md").read_text("utf-8"))
    assert len(blocks) == 2
    exec("\n".join(text for _, text in blocks), {"url": database})


def test_the_page_about_delivery_checks_what_is_signed() -> None:
    """T13: both ways of its receivers take what was signed, and refuse what was changed, is old, or of another key."""
    helper, plain = (text for kind, text in _BLOCK.findall((DOCS / "delivery.md").read_text("utf-8")))
    names: dict[str, Any] = {}
    exec(helper + plain, names)
    body = b'{"delivery_id": "7"}'
    signed = {"Stoker-Delivery": "7", **sign(["new", "old"], body, time.time())}
    old = {"Stoker-Delivery": "7", **sign(["new"], body, time.time() - 400)}
    for headers, came, secrets, is_right in (
        (signed, body, ["new"], True),
        (signed, body, ["old"], True),
        (signed, body, ["other"], False),
        (signed, body + b" ", ["new"], False),
        (old, body, ["new"], False),
    ):
        assert names["is_right"](headers, came, secrets) is is_right
        assert names["receive"](headers, came, secrets) == (200 if is_right else 401)
    assert names["receive"]({**signed, "Stoker-Delivery": "8"}, body, ["new"]) == 200
    assert names["done"] == {"7"}  # a replay under another name in the header, which is not signed, is known


def environment(project: Project) -> dict[str, str]:
    """``stoker`` is the one beside this Python; the database is told as a reader's own program is told it."""
    beside = str(Path(sys.executable).parent)
    return project.environment(PATH=f"{beside}{os.pathsep}{os.environ['PATH']}", DATABASE_URL=project.url)


def test_the_pages_are_there() -> None:
    """Nothing above is true only because there was nothing to look at."""
    assert "queue-producers" in {page.stem for page in PAGES}
