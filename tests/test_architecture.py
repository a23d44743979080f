"""The law of the rooms: who may import whom, who owns which library, who starts processes, what a process may load."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARROWS = {
    "sql": set[str](),
    "hygiene": {"sql"},
    "worker": {"hygiene", "sql"},
    "watchdog": {"hygiene", "sql"},
    "orchestrator": {"worker", "hygiene", "sql", "watchdog"},
}
# A library, and where alone it may be imported: a room, or a part of one.
OWNERS: dict[str, str | tuple[str, ...]] = {
    "psycopg": "sql/",
    "psycopg_pool": "sql/",
    "tenacity": "sql/",
    "apscheduler": "orchestrator/schedule",
    "typer": "orchestrator/",
    "rich": "orchestrator/",
    "apprise": ("orchestrator/channels/apprise", "watchdog/channels"),
    "multiprocessing": "nowhere",
}
# How a process can be started, and who may: the one door, the template behind it, the server that must outlive everybody, and
# the watchdog's pages, which go out by the standard library alone when nothing else works.
STARTS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {"fork", "forkpty", "system", "popen", "startfile"},
    "pty": {"fork", "spawn"},
    "anyio": {"open_process", "run_process"},
    "anyio.to_process": {"run_sync"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}
STARTS_BY_PREFIX = ("exec", "spawn", "posix_spawn")
STARTERS = ("hygiene/process.py", "hygiene/template.py", "sql/embedded/", "watchdog/channels.py")
# psql takes the place of the command line that was asked for it.
BECOMES = {("orchestrator/cli_database.py", "os.execv")}
LONGEST = 300


@dataclass(frozen=True)
class Source:
    """One module of a room."""

    name: str
    text: str

    @property
    def room(self) -> str:
        return self.name.split("/")[0]

    @property
    def module(self) -> str:
        return "stoker." + self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text)

    def imports(self) -> Iterator[str]:
        """Every name imported, lazily or not, in full: the module, and for ``from`` also what is taken from it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}:{node.lineno}: a relative import"
                yield node.module or ""
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    def dotted(self) -> Iterator[str]:
        """Every ``name.attribute`` and every name taken ``from`` a module, as ``module.name``."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute):
                yield ast.unparse(node)
        yield from self.imports()


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def sources() -> list[Source]:
    paths = [path for room in ARROWS for path in sorted((ROOT / room).rglob("*.py"))]
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


SOURCES = sources()
EACH = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)


def test_every_room_is_there() -> None:
    """Nothing below is true only because there was nothing to look at."""
    assert {source.room for source in SOURCES} == set(ARROWS)
    assert len(SOURCES) > 40


@EACH
def test_imports_follow_the_arrows(source: Source) -> None:
    """orchestrator > worker, watchdog > hygiene > sql; lazy imports count; rooms are imported in full, never bare."""
    for name in source.imports():
        first, *rest = name.split(".")
        assert first not in ARROWS, f"{source.name} imports the bare {name}"
        if first == "stoker" and rest:
            assert rest[0] in ARROWS[source.room] | {source.room}, f"{source.name} imports {name}"


@EACH
def test_a_library_is_imported_only_by_its_owner(source: Source) -> None:
    """psycopg and tenacity live in sql; what draws lives in the orchestrator."""
    for name in source.imports():
        owner = OWNERS.get(name.split(".")[0])
        assert owner is None or source.name.startswith(owner), f"{source.name} imports {name}"


def test_the_states_import_nothing() -> None:
    """Anyone may read them."""
    (states,) = [source for source in SOURCES if source.name == "sql/states.py"]
    assert list(states.imports()) == []


@EACH
def test_processes_are_started_only_through_the_one_door(source: Source) -> None:
    """Whoever starts a process must know how to end it; hygiene/process.py does."""
    if source.name.startswith(STARTERS):
        return
    for name in source.dotted():
        module, _, function = name.rpartition(".")
        starts = function in STARTS.get(module, ()) or (module == "os" and function.startswith(STARTS_BY_PREFIX))
        assert not starts or (source.name, name) in BECOMES, f"{source.name} starts a process: {name}"


@pytest.mark.parametrize(("at", "name"), sorted(BECOMES))
def test_an_exception_that_nobody_needs_is_gone(at: str, name: str) -> None:
    """The list above does not outlive its reason."""
    (source,) = [source for source in SOURCES if source.name == at]
    assert name in set(source.dotted())


@EACH
def test_a_module_fits_in_one_sitting(source: Source) -> None:
    """And says at its top what it is."""
    assert len(source.text.splitlines()) <= LONGEST
    assert ast.get_docstring(source.tree)


QUERIES = sorted((ROOT / "sql" / "queries").glob("*.sql"))


def bare(text: str) -> str:
    """SQL without comments and without what stands in quotes."""
    return re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"", "''", re.sub(r"--.*", "", text))


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_a_query_is_one_statement_and_used_by_name(path: Path) -> None:
    """One file, one statement, one name, verb_object; a file that nobody loads is gone."""
    text = path.read_text("utf-8")
    assert ";" not in bare(text)
    assert bare(text).split()[0] in {"select", "with", "insert", "update", "delete", "copy", "lock", "create"}
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", path.stem)
    assert text == text.rstrip() + "\n"
    assert path.stem in words(), f"nobody loads {path.name}"


@cache
def words() -> set[object]:
    """Every constant in the rooms."""
    return {node.value for source in SOURCES for node in ast.walk(source.tree) if isinstance(node, ast.Constant)}


def test_every_query_asked_for_is_there() -> None:
    """``run``, ``rows``, ``load`` and their like name files that exist."""
    there, asked = {path.stem for path in QUERIES}, set()
    for source in SOURCES:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).rsplit(".", 1)[-1]
            place = {"run": 0, "run_once": 0, "load": 0, "rows": 1}.get(called)
            if place is not None and len(node.args) > place and isinstance(given := node.args[place], ast.Constant):
                asked.add(given.value)
    assert len(asked) > 40
    assert {name for name in asked if isinstance(name, str)} <= there


# Loads a module and then, again and again, every module of stoker that what is loaded imports anywhere, lazily or not.
LOADER = """
import ast, importlib, inspect, sys
importlib.import_module(sys.argv[1])
seen = set()
while missing := {name for name in sys.modules if name.startswith("stoker.")} - seen:
    for name in missing:
        seen.add(name)
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[name]) or "")):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("stoker."):
                importlib.import_module(node.module)
sys.stdout.write(" ".join(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        (
            "stoker.worker.keeper",
            {"pydantic", "typer", "click", "rich", "structlog", "apscheduler", "stoker.worker.runner", "stoker.orchestrator"},
        ),
        (
            "stoker.worker.runner",
            {"psycopg", "pydantic", "anyio", "tenacity", "typer", "rich", "structlog", "stoker.sql.database"},
        ),
        ("stoker.sql.target", {"psycopg", "pydantic"}),
    ],
)
def test_a_process_loads_no_more_than_its_budget(module: str, forbidden: set[str]) -> None:
    """A worker is started many times a fire: a keeper needs no pydantic and nothing that draws, a runner no database."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOADER, module], capture_output=True, text=True, check=True, timeout=60
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert module in loaded
    assert loaded & forbidden == set()


def test_what_is_loaded_at_the_start_of_a_keeper_is_less_still() -> None:
    """The driver is imported while the runner starts, not before."""
    text = "import stoker.worker.keeper, sys; sys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert "psycopg" not in done.stdout.split()
