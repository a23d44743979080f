"""A user's project for a test: config.toml, jobs.py, a database, and the stoker command as a real process."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from tests.waiting import wait_until

COMMAND = (sys.executable, "-P", "-m", "stoker.orchestrator.cli")

JOBS = '''
import os, signal, subprocess, sys, time
from pathlib import Path

HERE = Path(__file__).parent


def note(task, word):
    """One line in a ledger that stoker cannot write."""
    line = f"{word} {task.mode} {task.id} {task.attempt} {os.getpid()}\\n".encode()
    ledger = os.open(HERE / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, line)
    os.close(ledger)


def quick(task):
    note(task, "start")
    return task.payload


def plain(task):
    return None


async def quick_async(task):
    note(task, "start")


def gated(task):
    """Runs until the file "gate" is there."""
    note(task, "start")
    while not (HERE / "gate").exists():
        time.sleep(0.01)
    note(task, "end")


def failing(task):
    note(task, "start")
    raise ValueError(f"cannot do {task.payload}")


def deadly(task):
    """Ends its runner in the way the payload says; any other payload is harmless."""
    note(task, "start")
    match task.payload:
        case "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        case "SIGSEGV":
            import ctypes
            ctypes.string_at(0)
        case "exit":
            os._exit(7)
        case "memory":
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            hog = []
            try:
                while True:
                    hog.append(bytearray(1 << 24))
            except MemoryError:
                os.abort()
'''


@dataclass
class Project:
    """One folder with one configuration on one database."""

    folder: Path
    url: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def write(self, config: str, jobs: str = "") -> None:
        """Put config.toml and jobs.py in place; the database's url goes in front."""
        (self.folder / "config.toml").write_text(f'[database]\nurl = "{self.url}"\n{config}')
        (self.folder / "jobs.py").write_text(JOBS + jobs)

    def run(
        self, *arguments: str, stdin: str = "", timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a stoker command to its end."""
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment(**environment),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """What a command that must succeed prints as JSON."""
        done = self.run(*arguments, "--json", stdin=stdin)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, *arguments: str, command: tuple[str, ...] = COMMAND, **environment: str) -> subprocess.Popen[bytes]:
        """Start a stoker command and leave it running."""
        with (self.folder / "stderr").open("ab") as errors, (self.folder / "stdout").open("ab") as output:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=self.folder,
                env=self.environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
        self.started.append(process)
        return process

    def enqueue(self, mode: str, *payloads: Any) -> list[int]:
        """Put tasks in through the command line; their ids."""
        lines = "".join(json.dumps(payload) + "\n" for payload in payloads)
        ids: list[int] = self.json("enqueue", mode, "--jsonl", "-", stdin=lines)["ids"]
        return ids

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows, by a connection of the test's own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode(), parameters or None).fetchall()

    def ledger(self, word: str = "start") -> list[tuple[str, int, int, int]]:
        """(mode, task, attempt, pid) of each line with ``word``."""
        with suppress(FileNotFoundError):
            lines = [line.split() for line in (self.folder / "ledger").read_text().splitlines()]
            return [(line[1], int(line[2]), int(line[3]), int(line[4])) for line in lines if line[0] == word]
        return []

    def open_gate(self) -> None:
        """Let gated tasks end."""
        (self.folder / "gate").touch()

    def close_gate(self) -> None:
        """Hold gated tasks again."""
        (self.folder / "gate").unlink(missing_ok=True)

    def wait_for_starts(self, count: int, timeout: float = 30) -> None:
        """Until ``count`` tasks have started."""
        wait_until(lambda: len(self.ledger()) >= count, timeout, f"{count} starts, seen: {self.ledger()}")

    def keepers(self) -> list[int]:
        """Pids of the living workers' keepers, as the database knows them."""
        rows = self.query("select (owner->>'pid')::int from stoker.workers where exited_at is null")
        return [pid for (pid,) in rows if is_alive(pid)]

    def tagged(self) -> list[int]:
        """Every living process that carries this installation's tag."""
        ((installation,),) = self.query("select id::text from stoker.installation")
        mark = f"STOKER_INSTALLATION={installation}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0") and is_alive(int(entry.name)):
                        found.append(int(entry.name))
        return found

    def facts(self, fire: int | None = None) -> dict[str, Any]:
        """The facts of a note."""
        found: dict[str, Any] = self.json("note", *([str(fire)] if fire else []))
        return found

    def environment(self, **more: str) -> dict[str, str]:
        """A clean environment for the command."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "COLUMNS": "200", **more}

    def end(self) -> None:
        """End what was started, by pid, and what the fires left."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        for pid in self.tagged():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
