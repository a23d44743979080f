"""The examples in docs/queue-*.md and docs/testing.md work as they stand: the blocks of a page in order, as a reader would."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.end_to_end.project import Project

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [*sorted(path.name for path in DOCS.glob("queue-*.md")), "testing.md"]
BLOCK = re.compile(r"^```(python|sql|sh|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIG = '[limits]\nfires_per_day = "none"\n[modes.hello]\nhandler = "jobs:hello"\n'
HELLO = '\n\ndef hello(task):\n    return {"greeting": f"Hello, {task.payload[\'name\']}!"}\n'


@pytest.fixture
def project(database: str, tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path, database)
    made.write(CONFIG, HELLO)
    yield made
    made.end()


@pytest.mark.parametrize("page", PAGES)
def test_every_example_of_a_page_works(project: Project, page: str) -> None:
    """With three tasks queued before, so that there is something to look at."""
    project.enqueue("hello", *({"name": name} for name in ("a", "b", "c")))
    names: dict[str, Any] = {"url": project.url}
    blocks = BLOCK.findall((DOCS / page).read_text("utf-8"))
    assert blocks
    for language, text in blocks:
        if language == "python":
            exec(compile(text, f"{page}: {text.splitlines()[0]}", "exec"), names)
        elif language == "toml":
            (project.folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif language == "sql":
            with psycopg.connect(project.url, autocommit=True) as connection:
                connection.execute(text.encode())
        else:
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                assert words[0] == "stoker", line
                done = project.run(*words[1:])
                assert (done.returncode, line) == (0, line), done.stderr
    assert project.run("fire").returncode == 0
    assert project.query("select count(*) from stoker.failed") == [(0,)]


def test_the_pages_are_there() -> None:
    """One for producers, one for operators, one for tests."""
    assert PAGES == ["queue-operators.md", "queue-producers.md", "testing.md"]
