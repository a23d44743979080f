"""The command line as a real process: what it says of wrong input, and its exit code."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.end_to_end.project import COMMAND, Project

MODES = """
[limits]
max_pool = 2
[queue]
payload_limit = "1KiB"
[modes.quick]
handler = "jobs:quick"
[modes.failing]
handler = "jobs:failing"
max_attempts = 1
[modes.gated]
handler = "jobs:gated"
"""

COMMANDS = [
    [], ["init"], ["status"], ["plan"], ["enqueue"], ["fire"], ["sweep"], ["note"], ["config"], ["doctor"], ["logs"],
    ["migrate"], ["tasks"], ["tasks", "ls"], ["tasks", "show"], ["tasks", "results"], ["fires"], ["fires", "ls"],
    ["fires", "show"], ["db"], ["db", "start"], ["db", "stop"], ["db", "url"], ["db", "psql"], ["explain"], ["events"],
    ["pause"], ["unpause"], ["tasks", "retry"], ["tasks", "cancel"], ["tasks", "release"], ["tasks", "approve"],
    ["tasks", "hold"], ["tasks", "resume"], ["tasks", "erase"],
]  # fmt: skip
EXAMPLES = {
    "enqueue": 'stoker enqueue resize \'{"path": "a.png"}\'',
    "fire": "stoker fire --reason",
    "sweep": "stoker sweep",
    "note": "stoker note 12 --json",
    "logs": "stoker logs 17",
    "tasks ls": "stoker tasks ls --state failed",
    "tasks results": "stoker tasks results --mode",
    "tasks show": "stoker tasks show --mode resize --key order-4711",
    "tasks retry": "stoker tasks retry --mode resize --kind TimeoutError --dry-run",
    "tasks cancel": "stoker tasks cancel 17",
    "tasks release": "stoker tasks release 17 --as done",
    "tasks approve": "stoker tasks approve 17 --refuse",
    "explain": "stoker explain 17",
    "events": "stoker events --task 17",
    "pause": "stoker pause resize --reason",
}


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with three modes."""
    project.write(MODES)
    return project


def refused(done: "subprocess.CompletedProcess[str]", *words: str, code: int = 2) -> None:
    """It ended with ``code``, said ``words`` on standard error, nothing on standard output, and showed no traceback."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_no_configuration_says_how_to_get_one(shop: Project) -> None:
    (shop.folder / "config.toml").unlink()
    refused(shop.run("status"), "there is no config.toml in", "stoker init writes one")
    refused(shop.run("--config", "other.toml", "status"), "other.toml cannot be used", "there is no such file")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nmax_pol = 2", ["config.toml", "limits.max_pol: unknown key", "did you mean max_pool?"]),
        ("[limits]\nlease = '1s'", ["limits.lease: unknown key", "it belongs in [worker]"]),
        ("[limits]\nwall_clock = '5 minutes'", ["limits.wall_clock", "not a duration", '"15m"']),
        ("[limits]\nwall_clock = 5", ["limits.wall_clock", "expected a duration", "got a whole number"]),
        ("[modes.x]\nmax_attempts = 1", ["modes.x", "exactly one of", "has neither"]),
        ("[limits", ["is not TOML"]),
        ("[worker]\nlease = '10s'\nrenew_every = '5s'", ["worker", "at least three times"]),
    ],
)
def test_a_wrong_configuration_is_named_by_key_with_what_was_meant(shop: Project, text: str, words: list[str]) -> None:
    """R30, R81: file, path, remedy; and no value of another key, such as the database's URL."""
    shop.write(text)
    for command in (["status"], ["fire"], ["enqueue", "quick", "1"]):
        done = shop.run(*command)
        refused(done, *words)
        assert "postgresql://" not in done.stderr
    assert shop.query("select count(*) from stoker.fires") == [(0,)]


def test_doctor_names_a_handler_that_does_not_import(shop: Project) -> None:
    shop.write(MODES + '[modes.away]\nhandler = "no_such_module:f"\n[modes.wrong]\nhandler = "jobs:HERE"\n')
    done = shop.run("doctor")
    assert (done.returncode, done.stderr) == (2, "")
    lines = {line.split()[2]: line for line in done.stdout.splitlines() if " mode " in line}
    assert lines["quick:"].startswith("ok       mode quick: jobs:quick imports")
    assert "FAILED" in lines["away:"]
    assert "no_such_module:f " in lines["away:"]
    assert "ModuleNotFoundError: No module named 'no_such_module'" in lines["away:"]
    assert str(shop.folder) in lines["away:"]
    assert "FAILED" in lines["wrong:"]
    found = {one["check"]: one["ok"] for one in json.loads(shop.run("doctor", "--json").stdout)}
    assert (found["mode quick"], found["mode away"], found["database"]) == (True, False, True)


@pytest.mark.parametrize(
    "url", ["postgresql://bob:Canary%2F1@127.0.0.1:1/x", "host=127.0.0.1 port=1 user=bob password=Canary1"]
)
def test_a_database_that_is_down_is_said_in_bounded_time_without_its_password(shop: Project, url: str) -> None:
    for command in (["fire"], ["migrate"]):
        done = shop.run(*command, STOKER_DATABASE_URL=url, STOKER_DATABASE_CONNECT_TIMEOUT="1s", timeout=30)
        refused(done, "Connection refused", code=75)
        assert "Canary" not in done.stderr
    doctor = shop.run("doctor", STOKER_DATABASE_URL=url, STOKER_DATABASE_CONNECT_TIMEOUT="1s")
    assert doctor.returncode == 2
    assert "Check [database] url" in doctor.stdout
    assert "Canary" not in doctor.stdout + doctor.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob:Canary%zz@localhost/x",
        "postgresql://bob:x@Canary@localhost:1/x",
        "postgresql://bob:x/Canary@localhost:1/x",
        "host=localhost port=1 password=my Canary",
        "host=localhost port=1 password='Canary",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(shop: Project, url: str) -> None:
    """R30: a password with a character that had to be escaped breaks the URL; no part of it is printed."""
    for command in ("status", "migrate", "doctor"):
        done = shop.run(command, STOKER_DATABASE_URL=url, STOKER_DATABASE_CONNECT_TIMEOUT="1s")
        assert done.returncode in (2, 75)
        assert "Canary" not in done.stdout + done.stderr


def test_another_schema_version_says_what_to_install_or_run(shop: Project) -> None:
    """R58: no schema, or an older one: migrate; a newer one: the newer stoker. Nothing is touched."""
    refused(shop.run("status", STOKER_DATABASE_SCHEMA="elsewhere"), "'elsewhere' has no stoker in it. Run: stoker migrate")
    shop.query("update stoker.migrations set number = number + 1000 returning 1")
    for command in (["fire"], ["enqueue", "quick", "1"]):
        refused(shop.run(*command), "newer than this stoker", "Install the newer stoker")
    shop.query("update stoker.migrations set number = -number returning 1")
    refused(shop.run("fire"), "Run: stoker migrate")
    assert shop.query("select (select count(*) from stoker.fires) + (select count(*) from stoker.tasks)") == [(0,)]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("nope", "payload is not JSON: Expecting value at line 1 column 1"),
        ("{'a': 1}", "payload is not JSON"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ("1e400", "beyond the range of a double"),
        (r'"a\u0000b"', "holds a NUL character"),
        (r'"\ud800"', "holds a lone surrogate"),
        ('"' + "x" * 1100 + '"', "payload is 1,102 bytes, above the limit of 1,024"),
        ("[" * 300 + "]" * 300, "nested deeper than 200 levels"),
    ],
)
def test_a_payload_that_cannot_be_kept_is_refused_at_the_door(shop: Project, payload: str, words: str) -> None:
    """R32, R64: with the reason, without the payload, and nothing is enqueued."""
    done = shop.run("enqueue", "quick", payload)
    refused(done, words)
    assert payload not in done.stderr
    assert shop.query("select count(*) from stoker.tasks") == [(0,)]


def test_a_single_payload_has_no_line_number(shop: Project) -> None:
    """Nobody gave lines, so a message does not speak of one."""
    for mode, payload in {"nobody": "1", "quick": r'"\ud800"'}.items():
        assert "line" not in shop.run("enqueue", mode, payload).stderr


def test_a_broken_line_is_named_by_its_number_and_nothing_is_enqueued(shop: Project) -> None:
    lines = ['{"mode": "quick", "payload": 1}', ""]
    broken = {
        "{broken": "line 3: the line is not JSON",
        '{"payload": 1}': "line 3: expected an object such as",
        '{"mode": "nobody", "payload": 1}': "line 3: unknown mode 'nobody'; configured: failing, gated, quick",
        '{"mode": "quick", "payload": 1, "prio": 2}': 'line 3: unknown key "prio"; known: available_at, delay',
        '{"mode": "quick", "priority": "high"}': "line 3: priority must be a whole number",
        '{"mode": "quick", "delay": "5"}': "line 3: not a duration",
        '{"mode": "quick", "available_at": "tomorrow"}': "line 3: available_at is not an ISO 8601 time",
        '{"mode": "quick", "available_at": "2026-12-01T07:00:00"}': "line 3: available_at has no offset",
    }
    for line, words in broken.items():
        refused(shop.run("enqueue", "--jsonl", "-", stdin="\n".join([*lines, line, lines[0]])), words)
    refused(shop.run("enqueue", "--jsonl", "absent.jsonl"), "absent.jsonl: No such file or directory")
    assert shop.query("select count(*) from stoker.tasks") == [(0,)]


def test_lines_of_payloads_keep_what_the_command_line_says_of_them(shop: Project) -> None:
    """R81: with a mode given, priority, delay, attempts and the mode's own payload version hold for every line."""
    shop.write(MODES + '[modes.newer]\nhandler = "jobs:quick"\nversion = 3\n')
    options = ["--priority", "-5", "--max-attempts", "2", "--delay", "1h"]
    assert shop.run("enqueue", "newer", "1", *options).returncode == 0
    assert shop.run("enqueue", "newer", "--jsonl", "-", *options, stdin="1\n").returncode == 0
    one, line = shop.query(
        "select priority, max_attempts, version, available_at > now() + interval '1 minute' from stoker.task_queue order by id"
    )
    assert line == one == (-5, 2, 3, True)


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_at_the_end_of_time_does_not_stop_every_fire(shop: Project, at: str) -> None:
    """P4: it is refused, or the note can be written with it queued."""
    shop.run("enqueue", "quick", "1", "--at", at)
    for command in (["status"], ["tasks", "ls"], ["fire"]):
        done = shop.run(*command)
        assert done.returncode == 0, done.stderr
    assert shop.query("select count(*) from stoker.notes") == [(1,)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"], ["fire", "--bogus"], ["enqueue"], ["enqueue", "quick"], ["enqueue", "nobody", "1"],
        ["enqueue", "quick", "1", "--priority", "high"], ["enqueue", "quick", "1", "--priority", "9999999999"],
        ["enqueue", "quick", "1", "--delay", "5"], ["enqueue", "quick", "1", "--at", "tomorrow"],
        ["enqueue", "quick", "1", "--jsonl", "-"], ["fire", "--mode", "nobody"], ["plan", "--mode", "nobody"],
        ["note", "99"], ["note"], ["logs", "99"], ["logs", "x"], ["tasks", "show", "99"], ["fires", "show", "99"],
        ["tasks", "ls", "--state", "nowhere"], ["tasks", "results"], ["init"], ["db", "url"],
        ["tasks", "show", "9" * 30], ["tasks", "ls", "--limit", "9" * 30],
    ],
)  # fmt: skip
def test_a_wrong_command_is_a_usage_error(shop: Project, arguments: list[str]) -> None:
    done = shop.run(*arguments)
    refused(done)
    assert done.stderr.strip()


def test_exit_codes_tell_whether_tasks_failed_or_the_fire_was_refused(shop: Project) -> None:
    shop.write(MODES.replace("[limits]", "[limits]\nfires_per_day = 3"))
    shop.enqueue("failing", 1)
    assert shop.run("fire", "--exit-code").returncode == 10
    shop.enqueue("failing", 1)
    assert shop.run("fire").returncode == 0
    shop.enqueue("quick", 1)
    assert shop.run("fire", "--exit-code").returncode == 0
    refusal = shop.run("fire", "--exit-code")
    assert (refusal.returncode, refusal.stdout.split(":")[0]) == (11, "fire 4 refused")
    assert "the daily cap is reached: 3 " in refusal.stdout
    assert shop.run("fire").returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_fire_with_its_note_and_its_own_exit_code(shop: Project, number: signal.Signals, code: int) -> None:
    """R23: the running task ends, the fire is closed as interrupted."""
    shop.enqueue("gated", 1, 2, 3)
    fire = shop.start("fire")
    shop.wait_for_starts(2)
    fire.send_signal(number)
    shop.open_gate()
    assert fire.wait(timeout=30) == code
    assert shop.facts()["ended"] == "interrupted"
    assert shop.query("select count(*) from stoker.claims") == [(0,)]
    assert not shop.tagged()


def test_the_version_is_printed(shop: Project) -> None:
    done = shop.run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0] == "stoker"
    assert done.stdout.split()[1][0].isdigit()


def test_every_command_explains_itself_without_a_configuration(tmp_path: Path) -> None:
    """--help and -h work in an empty folder, name every option, and the main commands show an example."""
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "200", "NO_COLOR": "1", "HOME": str(tmp_path)}
    running = {
        " ".join(command): subprocess.Popen(
            [*COMMAND, *command, "--help"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in COMMANDS
    }
    for name, process in running.items():
        said, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert f"{name} [OPTIONS]" in said
        assert "\x1b" not in said
        assert EXAMPLES.get(name, "") in said
    assert not [name for name in EXAMPLES if name not in running]


def test_migrate_previews_the_sql_that_it_would_run(shop: Project) -> None:
    """The preview names the configured schema, changes nothing, and run by hand it does what migrate does."""
    name = 'my "schema'
    preview = shop.run("migrate", "--sql", STOKER_DATABASE_SCHEMA=name)
    assert preview.returncode == 0
    assert 'create table "my ""schema".tasks (' in preview.stdout
    assert "stoker." not in preview.stdout
    assert shop.query("select 1 from pg_namespace where nspname like 'my%%'") == []
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute(preview.stdout.encode())
    assert shop.run("migrate", STOKER_DATABASE_SCHEMA=name).stdout == 'schema my "schema is up to date\n'
    assert shop.run("migrate", "--sql", STOKER_DATABASE_SCHEMA=name).stdout.strip() == ""
    assert shop.run("status", STOKER_DATABASE_SCHEMA=name).returncode == 0


def test_migrate_says_what_it_applied_and_does_nothing_the_second_time(shop: Project) -> None:
    first, second = (shop.run("migrate", STOKER_DATABASE_SCHEMA="new") for _ in range(2))
    assert "applied 0001_first.sql" in first.stdout
    assert second.stdout == "schema new is up to date\n"


@pytest.mark.parametrize("url", ["postgresql://bob:Canary%2F1@db/x?sslpassword=Canary2", "host=db password='Canary \\'3'"])
def test_config_shows_every_value_with_its_source_and_no_password(shop: Project, url: str) -> None:
    done = shop.run("config", STOKER_DATABASE_URL=url, STOKER_LIMITS_TASK_CAP="7")
    assert done.returncode == 0
    assert "Canary" not in done.stdout + done.stderr
    shown = json.loads(done.stdout)
    assert "db" in shown["database"]["url"]["value"]
    assert shown["limits"]["task_cap"] == {"value": 7, "source": "environment"}
    assert shown["limits"]["max_pool"] == {"value": 2, "source": "file"}
    assert shown["worker"]["lease"] == {"value": "30s", "source": "default"}
    assert shown["modes"]["quick"]["handler"]["source"] == "file"


def test_the_checklist_proves_six_points_and_the_seventh_not_yet(shop: Project) -> None:
    done = shop.run("doctor", "--checklist", "--json", timeout=20)
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert [one["check"][0] for one in found] == list("1234567")
    assert [one["ok"] for one in found] == [True] * 6 + [False]
    last = shop.run("doctor", "--checklist", timeout=20).stdout.splitlines()[-1]
    assert last.startswith("not yet  7 ")
    assert shop.query("select nspname from pg_namespace where nspname like 'stoker\\_%'") == []


def test_a_reader_that_has_gone_is_no_traceback(shop: Project) -> None:
    """Standard output is a closed pipe, or none at all."""
    shop.enqueue("quick", *range(2000))
    for command in (["tasks", "ls"], ["tasks", "ls", "--limit", "2000", "--json"], ["config"], ["note"], ["fire"]):
        for closed in (_to_a_closed_pipe, _to_nothing):
            errors = closed(shop, *command)
            assert "Traceback" not in errors
            assert "Exception ignored" not in errors
            assert "BrokenPipe" not in errors


def _to_a_closed_pipe(project: Project, *command: str) -> str:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, *command], cwd=project.folder, env=project.environment(), stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)
    return done.stderr.decode()


def _to_nothing(project: Project, *command: str) -> str:
    script = 'exec "$0" "$@" >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", script, *COMMAND, *command],
        cwd=project.folder,
        env=project.environment(),
        stderr=subprocess.PIPE,
        timeout=60,
    )
    return done.stderr.decode()


def test_the_first_steps_of_a_newcomer_work(shop: Project, tmp_path: Path) -> None:
    """init, enqueue, fire, as init itself says; nothing that is there is overwritten."""
    home = tmp_path / "new"
    environment = shop.environment(DATABASE_URL=shop.url)

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*COMMAND, *arguments], cwd=home, env=environment, capture_output=True, text=True, timeout=60)

    home.mkdir()
    assert "next: stoker enqueue hello" in run("init").stdout
    again = run("init")
    assert (again.returncode, "is there already; nothing was written" in again.stderr) == (2, True)
    assert run("enqueue", "hello", '{"name": "world"}').returncode == 0
    assert "1 done, 0 failed" in run("fire").stdout
    assert json.loads(run("tasks", "results", "--mode", "hello").stdout)["result"] == {"greeting": "Hello, world!"}


def test_output_is_utf_8_in_any_locale(shop: Project) -> None:
    """A payload with other letters comes out as it went in, also under LC_ALL=C and from a pipe."""
    word = "Grüße, 世界 🔥"
    line = json.dumps({"mode": "quick", "payload": word}, ensure_ascii=False)
    (shop.folder / "lines").write_bytes(line.encode())
    assert shop.run("enqueue", "--jsonl", "lines", LC_ALL="C").returncode == 0
    done = subprocess.run(
        [sys.executable, *COMMAND[1:], "tasks", "show", "1", "--json"],
        cwd=shop.folder,
        env=shop.environment(LC_ALL="C"),
        capture_output=True,
        timeout=60,
    )
    assert json.loads(done.stdout.decode())["payload"] == word
