"""What is kept while the database is away: where it cannot be written, while it is being told, and when all die meanwhile."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.sinks import TRICKLE, http_sink
from tests.waiting import wait_until
from tests.watchdog.scenes import Sink, watch

from stoker.sql.target import Target
from stoker.watchdog import blindness
from stoker.watchdog.blindness import Blindness
from stoker.watchdog.channels import Pager
from stoker.watchdog.kept import Kept
from stoker.watchdog.settings import WatchdogSettings

NOWHERE = "host=127.0.0.1 port=1 dbname=x"
CLI = [sys.executable, "-P", "-m", "stoker.watchdog.cli"]
SLOW = ["/bin/sh", "-c", "cat > began; until [ -e go ]; do sleep 0.02; done; cat began >> told; echo >> told"]


def configure(folder: Path, database: str, **keys: Any) -> None:
    settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in keys.items())
    text = f'[database]\nurl = "{database}"\nconnect_timeout = "1s"\n[watchdog]\n{settings}\n'
    (folder / "config.toml").write_text(text)


def told(folder: Path) -> list[str]:
    return [json.loads(line)["action"] for line in (folder / "told").read_text().splitlines() if line]


def test_where_nothing_can_be_written_the_watchdog_remembers_by_itself(database: str, sink: Sink, tmp_path: Path) -> None:
    """One page, one resolution, by a process that stays; each look says that the file cannot be written."""
    (tmp_path / "file").write_text("no folder")
    now = [1000.0]
    dog = watch(NOWHERE, tmp_path / "file", clock=lambda: now[0], webhook=sink.url)
    for _ in range(4):
        assert "file/state cannot be written: " in dog.look().unkept
        now[0] += 70
    assert sink.actions == [("trigger", "database")]
    dog._database.target = Target(database)
    look = dog.look()
    assert (look.findings, look.failures, look.is_well) == ([], [], False)
    assert sink.actions[1:] == [("resolve", "database")]
    dog.close()


def test_a_file_that_cannot_be_written_is_seen_before_it_is_needed(database: str, tmp_path: Path) -> None:
    """By --once, whether the database answers or not; and an acknowledgement that cannot be kept is none."""
    (tmp_path / "file").write_text("no folder")
    for url, code in ((database, 1), (NOWHERE, 75)):
        configure(tmp_path, url)
        done = subprocess.run(
            [*CLI, "--once", "--state", "file/state"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "file/state cannot be written: " in done.stderr) == (code, True)
        assert "all is well" not in done.stdout


def test_whoever_acknowledges_while_it_is_being_told_is_not_overwritten(tmp_path: Path) -> None:
    """It is not told again."""
    now = [1000.0]
    dog = watch(NOWHERE, tmp_path, clock=lambda: now[0], command=SLOW)
    dog.look()
    now[0] += 130
    looking = threading.Thread(target=dog.look)
    looking.start()
    wait_until((tmp_path / "began").exists, 20)
    settings = WatchdogSettings.of({"webhook": "http://127.0.0.1:1/"})
    other = Blindness(tmp_path / "state", settings, Pager(settings, tmp_path))
    assert other.acknowledge("ann", "moving", now[0])
    (tmp_path / "go").touch()
    looking.join(20)
    assert (other.shown() or {})["acked"]["by"] == "ann"
    now[0] += 7300
    dog.look()
    assert told(tmp_path) == ["trigger"]
    dog.close()


def test_a_channel_that_was_being_told_when_the_watchdog_was_killed_is_told_of_the_end(database: str, tmp_path: Path) -> None:
    """Nobody knows whether the page arrived."""
    configure(tmp_path, NOWHERE, unreachable_after="1ms", every="100ms", command=SLOW)
    child = subprocess.Popen([*CLI, "--state", "state"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    wait_until((tmp_path / "began").exists, 30)
    child.kill()
    child.wait()
    (tmp_path / "go").touch()
    dog = watch(database, tmp_path, command=SLOW)
    assert dog.look().sent == 1
    assert told(tmp_path)[-1] == "resolve"
    assert dog.look().sent == 0
    dog.close()


def test_a_receiver_that_drips_keeps_no_look_back(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked again while it drips, and told of the end, since it may have taken the page."""
    monkeypatch.setattr(blindness, "TIMEOUT_SECONDS", 0.5)
    now = [1000.0]
    with http_sink() as dripping:
        dripping.usual = TRICKLE
        dog, began = watch(NOWHERE, tmp_path, clock=lambda: now[0], webhook=dripping.url), time.monotonic()
        for _ in range(3):
            failures = dog.look().failures
            now[0] += 130
        assert time.monotonic() - began < 15
        assert (failures, len(dripping.told)) == (["webhook: is still sending"], 1)
        dripping.usual = 200
        dripping.release.set()
        dog._database.target = Target(database)
        wait_until(lambda: dog.look().is_well, 20)
        assert [json.loads(one.body)["action"] for one in dripping.told] == ["trigger", "resolve"]
    dog.close()


@pytest.mark.parametrize(
    "text",
    [
        '{"since": "x"}',
        '{"since": NaN}',
        '{"since": true}',
        '{"since": 1, "told": 5}',
        '{"since": 1, "page": {"waiting": []}}',
        '{"since": 1, "acked": "ann"}',
        '{"away": [1]}',
        "[" * 100_000,
    ],
    ids=range(8),
)
def test_a_file_of_wrong_kinds_begins_anew(tmp_path: Path, sink: Sink, text: str) -> None:
    """It ends no watchdog, and keeps nobody from being told."""
    (tmp_path / "state").write_text(text)
    now = [1000.0]
    dog = watch(NOWHERE, tmp_path, clock=lambda: now[0], webhook=sink.url)
    for _ in range(3):
        assert dog.look().findings is None
        now[0] += 130
    assert sink.actions == [("trigger", "database")]
    dog.close()


def test_a_file_that_is_taken_away_while_it_is_needed_is_written_again(tmp_path: Path) -> None:
    """By who remembers."""
    kept = Kept(tmp_path / "state")
    with kept.changing() as state:
        state["since"] = 5.0
    (tmp_path / "state").unlink()
    with kept.changing() as state:
        assert state == {"since": 5.0}
    assert json.loads((tmp_path / "state").read_text()) == {"since": 5.0}


def test_two_who_change_it_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Each has it to itself while it changes it."""

    def count() -> None:
        kept = Kept(tmp_path / "state")
        for _ in range(50):
            with kept.changing() as state:
                state["pages"] = state.get("pages", 0) + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Kept(tmp_path / "state").read() == {"pages": 200}
