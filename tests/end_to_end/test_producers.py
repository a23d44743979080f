"""Producers at the command line: every option, models at the door and in the handler, versions that meet, and the import."""

import json
import os
import pty
import subprocess
from typing import Any

import psycopg
import pytest
from tests.end_to_end.project import COMMAND, Project

CONFIG = """
[limits]
fires_per_day = "none"
[queue]
payload_limit = "1KiB"
[modes.quick]
handler = "jobs:quick"
version = 2
backoff_base = "0s"
[modes.plain]
handler = "jobs:plain"
[modes.resize]
handler = "jobs:resize"
model = "models:Resize"
[modes.resize_async]
handler = "jobs:resize_async"
model = "models:Resize"
concurrency = 4
"""
MODELS = """
from pydantic import BaseModel, field_validator


class Resize(BaseModel):
    path: str
    width: int = 100

    @field_validator("path")
    @classmethod
    def relative(cls, path):
        if path.startswith("/"):
            raise ValueError(f"{path} is absolute")
        return path
"""
JOBS = """

def resize(task):
    return {"width": task.payload.width, "kind": type(task.payload).__name__}


async def resize_async(task):
    return {"width": task.payload.width, "kind": type(task.payload).__name__}
"""


@pytest.fixture
def shop(project: Project) -> Project:
    """A shop that resizes."""
    project.write(CONFIG, JOBS)
    (project.folder / "models.py").write_text(MODELS)
    return project


def stands(shop: Project) -> list[tuple[Any, ...]]:
    return shop.query("select id, status, error_kind, error_detail from stoker.task_queue order by id")


def test_every_option_reaches_the_row(shop: Project) -> None:
    """Times by the database's clock."""
    ids = shop.json(
        "enqueue", "quick", "1", "--priority", "-3", "--delay", "1h", "--expires-in", "2h", "--max-attempts", "7", "--version",
        "1", "--key", "k", "--key-for", "1d", "--lane-key", "l", "--tag", "a b", "--tag", "c,d",
    )["ids"]  # fmt: skip
    row = shop.query(
        "select priority, version, max_attempts, key, lane_key, tags, status,"
        " round(extract(epoch from expires_at - created_at)), round(extract(epoch from available_at - created_at))"
        " from stoker.task_queue where id = %s", *ids,
    )  # fmt: skip
    assert row == [(-3, 1, 7, "k", "l", ["a b", "c,d"], "queued", 7200, 3600)]
    assert shop.query("select seconds from stoker.keys") == [(86400.0,)]
    shop.json("enqueue", "quick", "1", "--needs-approval", "--expires-at", "2999-01-01T00:00:00Z")
    assert shop.query("select held_for, version from stoker.task_queue where status = 'held'") == [("approval", 2)]


def test_duplicates_are_told(shop: Project) -> None:
    """One by one and in bulk, in words and as JSON; the key of a failed task is opened again when asked."""
    assert shop.json("enqueue", "quick", "1", "--key", "k") == {"enqueued": 1, "ids": [1], "duplicates": []}
    assert shop.json("enqueue", "quick", "1", "--key", "k") == {"enqueued": 0, "ids": [1], "duplicates": [0]}
    assert shop.run("enqueue", "quick", "1", "--key", "k").stdout == (
        "enqueued 0 task(s); 1 had a task already\ntask 1 has this key\n"
    )
    lines = "".join(json.dumps({"mode": "quick", "payload": n, "key": f"k{n}" if n else "k"}) + "\n" for n in range(3))
    done = shop.run("enqueue", "--jsonl", "-", stdin=lines)
    assert done.stdout == "enqueued 2 task(s); 1 had a task already\n"
    assert done.stderr == ""
    assert shop.query("select distinct version from stoker.tasks") == [(2,)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["quick", "1", "--key", "x" * 201], "key must be 1 to 200 characters"),
        (["quick", "1", "--key-for", "1d"], "--key-for needs --key"),
        (["quick", "1", "--retry-terminal"], "retry_terminal needs a key"),
        (["quick", "1", "--tag", ""], "a tag must be"),
        (["quick", "1", "--expires-in", "1h", "--expires-at", "2999-01-01T00:00:00Z"], "--expires-at or --expires-in"),
        (["quick", "1", "--expires-at", "soon"], "--expires-at is not an ISO 8601 time"),
        (["quick", "--jsonl", "-", "--key", "k"], "a key is one task's"),
        (["--jsonl", "-", "--tag", "x"], "each line says its own"),
        (["quik", "1"], "unknown mode 'quik'; did you mean quick?"),
        (["quick", "1", "--version", "0"], "version must be a whole number from 1"),
    ],
)
def test_what_does_not_belong_together_is_refused(shop: Project, arguments: list[str], words: str) -> None:
    """With what to do, and nothing is enqueued."""
    done = shop.run("enqueue", *arguments, stdin="1\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "line 1" not in done.stderr
    assert shop.query("select count(*) from stoker.tasks") == [(0,)]


def test_a_bar_is_drawn_on_a_terminal_only(shop: Project) -> None:
    """On standard error, and without colours when they are not wanted."""
    (shop.folder / "lines").write_text("1\n" * 3000)
    main, terminal = pty.openpty()
    command = [*COMMAND, "enqueue", "quick", "--jsonl", "lines"]
    environment = shop.environment(TERM="xterm-256color", NO_COLOR="1")
    with os.fdopen(terminal, "wb") as end:
        done = subprocess.run(command, cwd=shop.folder, env=environment, stderr=end, stdout=subprocess.PIPE, check=True)
    drawn = os.read(main, 1 << 20).decode()
    os.close(main)
    assert done.stdout == b"enqueued 3,000 task(s)\n"
    assert "enqueueing" in drawn
    assert "\x1b[3" not in drawn


SECRET = "s3cr3t-value"


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"path": "a", "width": SECRET}, "payload.width: Input should be a valid integer"),
        ({"width": 1}, "payload.path: Field required"),
        (SECRET, "payload: Input should be an object"),
        ({"path": f"/{SECRET}"}, "payload.path: the model's own check refuses it"),
    ],
)
def test_a_payload_that_does_not_fit_its_model_is_refused_at_the_door(shop: Project, payload: Any, words: str) -> None:
    """P9: with the path and never the value; in bulk with the line."""
    done = shop.run("enqueue", "resize", json.dumps(payload))
    assert done.returncode == 2
    assert words in done.stderr
    lines = "\n".join(json.dumps({"mode": "resize", "payload": one}) for one in ({"path": "a"}, payload, {"path": "b"}))
    bulk = shop.run("enqueue", "--jsonl", "-", stdin=lines)
    assert f"line 2: {words}" in bulk.stderr
    assert SECRET not in done.stderr + bulk.stderr
    assert shop.query("select count(*) from stoker.tasks") == [(0,)]


def test_a_model_that_cannot_be_imported_is_named(shop: Project) -> None:
    """By enqueue, by doctor, and by the fire."""
    (shop.folder / "models.py").write_text("import no_such_thing")
    done = shop.run("enqueue", "resize", "{}")
    assert done.returncode == 2
    assert "modes.resize.model: models:Resize cannot be used as a model: ModuleNotFoundError" in done.stderr
    assert shop.run("enqueue", "quick", "1").returncode == 0
    assert "models:Resize cannot be used as a model" in shop.run("doctor").stdout


def test_a_function_in_the_place_of_a_model_is_refused_with_where_it_is_named(shop: Project) -> None:
    """By enqueue before anything is put in, and by doctor; a check that breaks ends no producer."""
    (shop.folder / "models.py").write_text("def Resize(path: str):\n    return path\n")
    lines = (shop.folder / "config.toml").read_text().splitlines()
    at = lines.index('model = "models:Resize"') + 1
    words = "modes.resize.model: models:Resize cannot be used as a model: it is a function; name a class that derives from"
    done = shop.run("enqueue", "resize", '{"path": "a"}')
    assert (done.returncode, words in done.stderr) == (2, True)
    assert f"It is named in config.toml, line {at} (modes.resize.model)." in done.stderr
    assert words in shop.run("doctor").stdout
    (shop.folder / "models.py").write_text(
        MODELS.replace('raise ValueError(f"{path} is absolute")', "raise SystemExit(0)")
        + "\n    model_config = {'extra': 'forbid'}\n"
    )
    done = shop.run("enqueue", "resize", f'{{"path": "/{SECRET}"}}')
    assert (done.returncode, SECRET in done.stderr) == (2, False)
    assert "payload.path: the model's own check broke (SystemExit)" in done.stderr
    done = shop.run("enqueue", "resize", f'{{"path": "a", "token={SECRET}": 1}}')
    assert (done.returncode, SECRET in done.stderr) == (2, False)
    assert "payload.token=[redacted]: Extra inputs are not permitted" in done.stderr
    assert shop.query("select count(*) from stoker.tasks") == [(0,)]


@pytest.mark.parametrize("mode", ["resize", "resize_async"])
def test_a_handler_gets_an_instance_and_what_does_not_fit_fails_for_good(shop: Project, mode: str) -> None:
    """What another program has put in: one attempt, with the path, without the value. What is stored is what was given."""
    shop.enqueue(mode, {"path": "a", "width": "7"})
    shop.query("select stoker.enqueue(%s, %s::json)", mode, json.dumps({"path": "b", "width": SECRET}))
    shop.run("fire")
    results = shop.query("select payload, result from stoker.task_queue where id = 1")
    assert results == [({"path": "a", "width": "7"}, {"width": 7, "kind": "Resize"})]
    ((task, status, kind, error),) = stands(shop)[1:]
    assert (task, status, kind) == (2, "failed", "payload not valid")
    assert error.startswith("payload.width: Input should be a valid integer")
    assert SECRET not in error
    assert shop.query("select attempts from stoker.failed") == [(1,)]


def test_newer_payloads_wait_for_newer_workers_and_cost_nothing(shop: Project) -> None:
    """R58, P11: in both directions; status, plan, note and doctor say so."""
    new = CONFIG.replace("version = 2", "version = 3")
    shop.write(new, JOBS)
    shop.enqueue("quick", "new")
    shop.write(CONFIG, JOBS)
    shop.enqueue("quick", "old")
    shop.run("fire")
    assert [(task, status) for task, status, *_ in stands(shop)] == [(1, "queued"), (2, "done")]
    assert shop.query("select attempts, status from stoker.task_queue where id = 1") == [(0, "queued")]
    assert shop.query("select count(*) from stoker.attempts") == [(0,)]
    words = "1 task(s) of quick wait: payload version 3, this configuration knows 2"
    assert words in shop.run("status").stdout
    assert shop.json("status")["unserved"] == [{"mode": "quick", "version": 3, "tasks": 1, "known": 2}]
    assert words in shop.run("doctor").stdout
    assert "quick" in shop.run("note").stdout
    shop.write(new, JOBS)
    shop.enqueue("quick", "newer still")
    shop.query("select stoker.enqueue('quick', '\"older\"', version => 1)")
    shop.run("fire")
    assert {status for _, status, *_ in stands(shop)} == {"done"}
    assert shop.query("select distinct attempt from stoker.outcomes") == [(1,)]
    assert shop.json("status")["unserved"] == []


def test_the_configuration_is_remembered_for_producers_in_sql(shop: Project) -> None:
    """By migrate, enqueue and every fire, refused ones too."""
    shop.query("with gone as (delete from stoker.modes) select 1")
    for command in (["migrate"], ["enqueue", "quick", "1"], ["fire"]):
        assert shop.run(*command).returncode == 0
        rows = shop.query("delete from stoker.modes returning mode, version")
        assert sorted(rows) == [("plain", 1), ("quick", 2), ("resize", 1), ("resize_async", 1)]
    assert shop.query("select payload_limit from stoker.installation") == [(1024,)]
    shop.run("migrate")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="unknown mode 'quik'"):
        shop.query("select stoker.enqueue('quik', '1')")


TABLE = """
create table public."Old Jobs" (
    "Id" bigint primary key, kind text, state text, args jsonb, "text" text, prio int, run_at timestamptz, local_at timestamp,
    tries int, labels text[], empty text,
    odd numeric default 1.5, even numeric default 2.0, never timestamptz default 'infinity',
    far timestamptz default '9998-12-31T23:30-05:00')
"""
MAPPING = """
table = "Old Jobs"
id = "Id"
where = "state = 'waiting'"
mode_column = "kind"
payload_column = "args"
priority_column = "prio"
available_at_column = "run_at"
max_attempts_column = "tries"
tags_column = "labels"
"""


def fill(shop: Project, count: int) -> None:
    with psycopg.connect(shop.url, autocommit=True) as connection:
        connection.execute(TABLE)
        connection.execute(
            "insert into public.\"Old Jobs\" select n, 'quick', case when n %% 10 = 0 then 'done' else 'waiting' end,"
            " json_build_object('n', n), '[1]', n %% 3, now() + interval '1 h', now(), 4, array['old']"
            " from generate_series(1, %s) as n",
            (count,),
        )


def take(shop: Project, mapping: str, *options: str) -> subprocess.CompletedProcess[str]:
    (shop.folder / "mapping.toml").write_text(mapping)
    return shop.run("import", "--from-table", "mapping.toml", *options)


def test_a_table_is_imported_once_however_often(shop: Project) -> None:
    """In batches of ten thousand; a second run adds what is new and nothing else."""
    fill(shop, 25_000)
    dry = json.loads(take(shop, MAPPING, "--dry-run", "--json").stdout)
    assert (dry["rows"], len(dry["first"]), dry["first"][0]["payload"]) == (22_500, 5, {"n": 1})
    assert "22,500 row(s) of public.Old Jobs" in take(shop, MAPPING, "--dry-run").stdout
    assert shop.query("select count(*) from stoker.tasks") == [(0,)]
    assert json.loads(take(shop, MAPPING, "--json").stdout) == {"rows": 22_500, "enqueued": 22_500, "duplicates": 0}
    assert json.loads(take(shop, MAPPING, "--json").stdout) == {"rows": 22_500, "enqueued": 0, "duplicates": 22_500}
    row = shop.query(
        "select payload, priority, version, max_attempts, tags, status, available_at > now() from stoker.task_queue"
        " where key = 'import:public.Old Jobs:2'"
    )
    assert row == [({"n": 2}, 2, 2, 4, ["old"], "queued", True)]


def test_a_row_that_is_no_task_is_named_and_what_came_before_stays(shop: Project) -> None:
    """By its id; the batch that holds it is not enqueued, the batches before it are."""
    fill(shop, 12_000)
    shop.query("""update public."Old Jobs" set args = to_jsonb(repeat('x', 2000)) where "Id" = 11999 returning 1""")
    done = take(shop, MAPPING)
    assert done.returncode == 2
    assert "row '11999' of public.Old Jobs: payload is 2,002 bytes, above the limit of 1,024. 10,000 rows" in done.stderr
    assert shop.query("select count(*) from stoker.tasks") == [(10_000,)]
    shop.query("""update public."Old Jobs" set args = '1' where "Id" = 11999 returning 1""")
    assert "enqueued 800 task(s); 10,000 were there already" in take(shop, MAPPING).stdout


OTHER = MAPPING.replace('payload_column = "args"', 'payload_columns = ["Id", "args"]').replace(
    'available_at_column = "run_at"', 'available_at_column = "local_at"\ntimezone = "UTC"'
)


def test_a_payload_may_be_made_of_columns_and_a_time_without_offset_be_read_in_a_zone(shop: Project) -> None:
    """And a column of text may hold JSON."""
    fill(shop, 2)
    assert take(shop, OTHER).returncode == 0
    assert shop.query("select payload from stoker.tasks order by id") == [
        ({"Id": 1, "args": {"n": 1}},), ({"Id": 2, "args": {"n": 2}},),
    ]  # fmt: skip
    shop.query("with k as (delete from stoker.keys) select 1")
    text = MAPPING.replace('payload_column = "args"', 'payload_column = "text"\npayload_is_text = true')
    assert take(shop, text).returncode == 0
    assert shop.query("select payload from stoker.tasks where id > 2") == [([1],), ([1],)]


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        (MAPPING.replace("Old", "New"), 'cannot be read as the mapping says: relation "public.New Jobs" does not exist'),
        (MAPPING.replace('"Id"', '"id"'), 'column "id" does not exist'),
        (MAPPING + 'mode = "quick"', "give mode or mode_column, not both"),
        (MAPPING + "nonsense = 1", "nonsense: unknown key. It may have: name, url"),
        (MAPPING.replace("kind", "state"), "row '1' of public.Old Jobs: unknown mode 'waiting'"),
        (MAPPING.replace("run_at", "local_at"), "row '1' of public.Old Jobs: available_at has no offset"),
        (
            MAPPING.replace("state = 'waiting'", 'true); delete from public.\\"Old Jobs\\"; select (true'),
            'where: ")" closes what it did not open',
        ),
        (MAPPING.replace("state = 'waiting'", "1=1) union select (1=1"), 'where: ")" closes what it did not open'),
        (MAPPING.replace("state = 'waiting'", "true; commit"), 'where: ";" ends the statement'),
        (
            MAPPING.replace("state = 'waiting'", "nextval('stoker.task_ids') > 0"),
            "cannot execute nextval() in a read-only transaction",
        ),
        (MAPPING.replace('"prio"', '"run_at"'), "row '1' of public.Old Jobs: run_at is no whole number"),
        (MAPPING.replace('"tries"', '"odd"'), "row '1' of public.Old Jobs: odd is no whole number"),
        (MAPPING.replace('"prio"', '"odd"'), "row '1' of public.Old Jobs: odd is no whole number"),
        (MAPPING.replace("run_at", "never"), "row '1' of public.Old Jobs: never is no time of the years 2 to 9998"),
        (MAPPING.replace("run_at", "far"), "row '1' of public.Old Jobs: available_at is beyond the years 2 to 9998"),
        (MAPPING.replace('"Id"', '"state"'), "row 'waiting' of public.Old Jobs: another row has the same state"),
        (MAPPING.replace('"Id"', '"empty"'), "a row of public.Old Jobs has no empty"),
        (MAPPING.replace("labels", "tries"), "row '1' of public.Old Jobs: tries is neither text nor an array of texts"),
        (MAPPING + 'url_file = "absent"', "url_file absent cannot be read"),
        ("table =", "is not TOML"),
    ],
)
def test_a_wrong_mapping_is_refused_in_words(shop: Project, mapping: str, words: str) -> None:
    """And nothing is changed on either side."""
    fill(shop, 2)
    done = take(shop, mapping)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert shop.query("""select count(*), (select count(*) from public."Old Jobs") from stoker.tasks""") == [(0, 2)]


def test_a_table_imported_under_two_names_is_two_sources(shop: Project) -> None:
    """And each of them once; numbers may be of any kind that are whole."""
    fill(shop, 3)
    for name, count in (("first", 3), ("second", 3), ("first", 0)):
        found = json.loads(take(shop, MAPPING.replace('"prio"', '"even"') + f'name = "{name}"\n', "--json").stdout)
        assert (found["enqueued"], found["rows"]) == (count, 3)
    keys = shop.query("select k.key, priority from stoker.keys k join stoker.tasks using (id) order by k.key")
    assert keys == [(f"import:{name}:{n}", 2) for name in ("first", "second") for n in (1, 2, 3)]


def test_a_mode_that_nobody_knows_and_a_limit_below_nothing_are_refused(shop: Project) -> None:
    """Rather than shown as if there were none."""
    for command in (["tasks", "ls", "--mode", "quik"], ["tasks", "results", "--mode", "quik"]):
        done = shop.run(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert "no mode 'quik' is configured, and no task has it; configured: quick, plain" in done.stderr
    assert shop.run("tasks", "ls", "--mode", "plain").returncode == 0
    for words in ("tasks ls", "fires ls", "events", "slots", "outbox ls"):
        done = shop.run(*words.split(), "--limit", "-1")
        assert (done.returncode, "--limit" in done.stderr) == (2, True), done.stderr
    shop.query("select stoker.enqueue('elsewhere', '1', allow_unknown => true)")
    assert "elsewhere" in shop.run("tasks", "ls", "--mode", "elsewhere").stdout


@pytest.mark.parametrize(
    "variables", [{"PGDATESTYLE": "German"}, {"PGCLIENTENCODING": "LATIN1"}, {"PGCLIENTENCODING": "SQL_ASCII"}]
)
def test_the_environments_ways_of_writing_do_not_reach_the_database(shop: Project, variables: dict[str, str]) -> None:
    """What libpq takes from the environment for people is not for a program."""
    words = '{"name": "\u00fc\u20ac"}'
    assert shop.run("enqueue", "quick", words, "--delay", "1h", **variables).returncode == 0
    for command in (["tasks", "ls"], ["status"], ["fire"], ["tasks", "show", "1"]):
        done = shop.run(*command, **variables)
        assert (done.returncode, "b'" in done.stdout) == (0, False)
    assert "\u00fc\u20ac" in done.stdout
