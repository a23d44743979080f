"""What the three kinds of process import until they are at work: start-up time, counted in modules, which no noise moves.

A keeper, a runner and a fire are started many times a day. What is named here was measured (docs/performance.md); a library
or a heavy part of the standard library that comes back must be a decision, not an accident.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.project import Project

DRIVER = {"psycopg", "psycopg_binary", "psycopg_c", "typing_extensions", "cython_runtime"}
# A process: the most modules it may import, the libraries it may import, and what of the standard library it may not.
FIRE = (375, {"anyio", "pydantic_core", *DRIVER}, {"difflib", "argparse"})
TEMPLATE = (340, {"anyio", *DRIVER}, {"difflib", "argparse", "tomllib", "multiprocessing"})
RUNNER = (
    60,
    set[str](),
    {
        "inspect",
        "dataclasses",
        "traceback",
        "tempfile",
        "asyncio",
        "subprocess",
        "socket",
        "threading",
        "logging",
        "uuid",
        "ctypes",
        "selectors",
        "pathlib",
    },
)

COMMAND = """
import sys
from stoker.orchestrator import cli
try:
    cli.main()
finally:
    open({path!r}, "w").write(" ".join(sys.modules))
"""


def after(code: str) -> set[str]:
    """The modules that an interpreter of its own holds after ``code``."""
    code += "\nimport sys; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@cache
def bare() -> frozenset[str]:
    """What every start of this interpreter imports, for which nobody here can do anything."""
    return frozenset(after(""))


def top(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules}


def assert_kept(modules: set[str], budget: tuple[int, set[str], set[str]]) -> None:
    """The budget is kept, and not so wide that anything would keep it."""
    most, libraries, forbidden = budget
    modules = {name for name in modules - bare() if not name.startswith(("_sysconfigdata", "_cython"))}
    assert top(modules) - set(sys.stdlib_module_names) - {"stoker"} <= libraries
    assert top(modules) & forbidden == set()
    assert 0.5 * most < len(modules) <= most


def test_a_fire_imports_what_it_needs_and_no_more(project: Project, tmp_path: Path) -> None:
    """Command to note, with a task to run: no command line library, no pydantic models, no log library without a word."""
    project.write('[log]\nlevel = "warning"\n[modes.plain]\nhandler = "jobs:plain"')
    project.enqueue("plain", 1)
    told = tmp_path / "modules"
    fire = project.start("fire", command=(sys.executable, "-P", "-c", COMMAND.format(path=str(told))))
    assert fire.wait(timeout=60) == 0
    assert project.query("select count(*) from stoker.outcomes") == [(1,)]
    found = set(told.read_text().split())
    assert_kept(found, FIRE)
    assert "stoker.orchestrator.slots" not in found, "that is for fires of schedules"


def test_the_template_of_keepers_imports_what_a_keeper_needs_and_no_more() -> None:
    """Every keeper pays for it in memory, and a fire in processor time."""
    import_all = """
import stoker.hygiene.template
stoker.hygiene.template.serve = lambda *_: None
import sys; sys.argv[1:] = ["3"]
import stoker.worker.template
stoker.worker.template.main()
"""
    found = after(import_all)
    assert {"stoker.worker.shift", "stoker.sql.database", "anyio._backends._asyncio"} <= found
    assert_kept(found, TEMPLATE)


def test_a_runner_imports_what_it_needs_and_no_more() -> None:
    """It is the one that is started for every worker, from nothing."""
    assert_kept(after("import stoker.worker.runner"), RUNNER)


@pytest.mark.parametrize("command", [["--version"], ["fire", "--help"], ["fire", "again"]])
def test_a_command_that_needs_no_database_imports_no_driver(tmp_path: Path, command: list[str]) -> None:
    """Whoever only asks waits for no driver; a command imports what it needs when it is called."""
    told = tmp_path / "modules"
    code = COMMAND.format(path=str(told))
    subprocess.run([sys.executable, "-P", "-c", code, *command], capture_output=True, check=False, timeout=60)
    found = set(told.read_text().split())
    assert "stoker.orchestrator.commands" in found
    assert top(found) & {"psycopg", "asyncio", "structlog"} == set()
