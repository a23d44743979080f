"""What config.toml names is made ready: its sections, and the server that stoker runs, which may come up later."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.postgres import temporary_folder
from tests.waiting import wait_until

from stoker.sql import embedded
from stoker.sql.migrate import migrate
from stoker.watchdog.config import WatchdogConfigError, load

CLI = [sys.executable, "-P", "-m", "stoker.watchdog.cli"]


@pytest.mark.parametrize("name", ["watchdog", "database"])
@pytest.mark.parametrize(("value", "kind"), [("5", "a whole number"), ('["a"]', "a list"), ('"x"', "text")])
def test_a_section_that_is_no_table_is_said(tmp_path: Path, name: str, value: str, kind: str) -> None:
    """What was expected, and where."""
    (tmp_path / "config.toml").write_text(f"{name} = {value}\n")
    with pytest.raises(WatchdogConfigError) as error:
        load(tmp_path / "config.toml", {})
    assert str(error.value) == f"{tmp_path / 'config.toml'}: {name}: expected a table, [{name}], got {kind}"


def test_a_server_that_comes_up_after_the_watchdog_is_found() -> None:
    """Until then it cannot check, and asks no other server that happens to be there."""
    named = ("PG", "DATABASE_URL", "STOKER_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(named)}
    with temporary_folder() as folder:
        (folder / "config.toml").write_text('[watchdog]\nevery = "100ms"\n')
        with (folder / "said").open("w") as said:
            child = subprocess.Popen(CLI, cwd=folder, env=environment, stderr=said)
        try:
            wait_until(lambda: "cannot check: no server runs in" in (folder / "said").read_text(), 30)
            url = embedded.ensure(folder / ".stoker", embedded.Options(settings={"fsync": "off"}))
            migrate(url, "stoker")
            with psycopg.connect(url, autocommit=True) as connection:
                beats = "select from stoker.heartbeats where component = 'watchdog'"
                wait_until(lambda: connection.execute(beats).rowcount, 30)
            child.terminate()
            assert child.wait(30) == 143
        finally:
            child.kill()
            child.wait()
            embedded.stop(folder / ".stoker")
