"""What a real database shows to a look, and what is found in it."""

import json
from dataclasses import replace
from pathlib import Path

from tests.end_to_end.project import Project
from tests.orchestrator.test_admission import ask
from tests.sql.factory import fill
from tests.waiting import wait_until
from tests.watchdog.scenes import Connection, open_causes, watch

from stoker.hygiene.close import Seen, Terms, close_fire
from stoker.hygiene.restored import quarantine
from stoker.orchestrator.admission import admit
from stoker.orchestrator.settings import ScheduleSettings
from stoker.orchestrator.slots import register
from stoker.sql.database import Database
from stoker.sql.target import Target


def post(connection: Connection, channel: str, state: str, hours: float, kind: str = "note", error: str | None = None) -> None:
    connection.execute(
        "insert into stoker.outbox (kind, channel, fire, state, created_at, last_error)"
        " values (%s, %s, (select coalesce(max(fire), 0) + 1 from stoker.outbox), %s, now() - make_interval(secs => %s), %s)",
        (kind, channel, state, hours * 3600, error),
    )


def test_notes_that_a_channel_does_not_receive_are_one_incident_a_channel(
    database: str, connection: Connection, tmp_path: Path
) -> None:
    """P4, P8, T18: given up or not; what is held, dropped or a callback's is not a note that somebody waits for."""
    for number in range(100):
        post(connection, "ops", "queued", 2 + number / 100, error=f"error {number}")
    post(connection, "mail", "dead", 2, error="the answer was 410")
    for state in ("held", "dropped", "delivered"):
        post(connection, "quiet", state, 2)
    post(connection, "young", "queued", 0.9)
    post(connection, "away", "queued", 2, kind="callback")
    dog = watch(database, tmp_path)
    findings = dog.look().findings
    assert open_causes(connection) == ["undelivered mail", "undelivered ops"]
    assert findings is not None
    assert findings[0].words == (
        "Notes do not reach channel mail: 1 were given up, the oldest for 2h. Last: the answer was 410. See: stoker outbox"
    )
    connection.execute("update stoker.outbox set state = 'delivered'")
    assert dog.look().findings == []
    off = watch(database, tmp_path, undelivered_after="none")
    post(connection, "ops", "queued", 200)
    assert off.look().findings == []
    dog.close()
    off.close()


def test_a_fire_that_does_not_end_in_time_is_told_apart_from_one_that_does_not_begin(
    database: str, connection: Connection, tmp_path: Path
) -> None:
    """P8: by the rule that its trigger registered: first it has not begun, then it has begun, then it has not ended."""
    own, dog = Database(Target(database)), watch(database, tmp_path, quiet="1ms")
    day = ScheduleSettings.of({"name": "day", "every": "1h", "missed": "latest", "finish_within": "2h"})
    register(own, day)

    def pass_hours(hours: int) -> None:
        by = f"interval '{hours} h'"
        connection.execute(f"update stoker.schedules set since = since - {by}".encode())
        connection.execute(f"update stoker.slots set due_at = due_at - {by}, last_due_at = last_due_at - {by}".encode())

    assert dog.look().findings == []
    pass_hours(1)
    connection.execute("update stoker.schedules set rule = jsonb_set(rule::jsonb, '{grace}', '0.001')::json")
    dog.look()
    assert open_causes(connection) == ["slot day"]
    fire = admit(own, replace(ask(day.lane), schedule=replace_grace(day))).fire
    dog.look()
    assert open_causes(connection) == []
    connection.execute("update stoker.schedules set paused_by = 'ann', paused_at = now(), pause_reason = 'holiday'")
    pass_hours(2)
    findings = dog.look().findings
    assert findings is not None
    assert open_causes(connection) == ["finish day"]
    assert findings[0].words.startswith(f"Fire {fire} of schedule day has not ended: it was due 2h")
    connection.execute("update stoker.fires set state = 'closed', closed_at = now()")
    dog.look()
    assert open_causes(connection) == []
    dog.close()
    own.close()


def replace_grace(day: ScheduleSettings) -> ScheduleSettings:
    return day.changed(grace_seconds=0.001)


def test_a_fire_that_starts_nobody_is_told_apart_from_fires_that_do_nothing(project: Project, tmp_path: Path) -> None:
    """P8, T18: by what each fire wrote down; 10,000 different errors are one incident, and so is one error 10,000 times."""
    modes = '[modes.bad]\nhandler = "jobs:bad"\nmax_attempts = 1\nerrors = "full"\n'
    jobs = "\ndef bad(task):\n    raise ValueError(f'error {task.payload}')\n"
    caps = 'task_cap = 2000\nfires_per_day = "none"\n'

    def look() -> list[str]:
        dog = watch(project.url, tmp_path, quiet="1ms")
        dog.look()
        dog.close()
        return [cause for (cause,) in project.query("select cause from stoker.incidents where resolved_at is null")]

    project.write(f"[limits]\n{caps}max_pool = 0\n{modes}", jobs)
    assert project.run("fire").returncode == 0
    assert look() == []
    project.enqueue("bad", *range(10_000))
    assert project.run("fire").returncode == 0
    assert look() == ["idle main"]
    assert project.run("pause", "bad", "--reason", "repairs").returncode == 0
    assert project.run("fire").returncode == 0
    assert look() == []
    assert project.run("unpause", "bad").returncode == 0
    project.write(f"[limits]\n{caps}max_pool = 2\n{modes}", jobs)
    for found in ([], [], ["hollow main"]):
        assert project.run("fire").returncode == 0
        assert look() == found
    assert project.query("select count(distinct error) from stoker.attempts") == [(10_000,)]


def test_orchestrators_that_are_killed_before_they_start_anybody_are_told(project: Project, tmp_path: Path) -> None:
    """P8, R28: each fire opens, is killed and closed by the next; its note is hygiene's, and no sign that it did anything."""
    loop = '[[loops]]\nname = "slow"\ncommand = ["sleep", "60"]\ninterval = "1h"\ntime_limit = "2m"\nat_fire = true\n'
    project.write(f'[limits]\nfires_per_day = "none"\n[modes.plain]\nhandler = "jobs:plain"\n{loop}')
    project.enqueue("plain", *range(3))
    project.query("insert into stoker.lanes (lane) values ('main') on conflict do nothing returning 1")
    project.query("update stoker.lanes set expected_seconds = 1, expected_since = now() - interval '2 h' returning 1")
    for number in range(1, 4):
        child = project.start("fire")
        opened = "select 1 from stoker.fires where state = 'open' and fire = %s"
        wait_until(lambda number=number, opened=opened: project.query(opened, number) == [(1,)], 30)
        child.kill()
        child.wait()
    assert project.run("sweep").returncode == 0
    assert project.query("select facts ->> 'ended' from stoker.notes") == [("reaped",)] * 3
    project.query("update stoker.installation set created_at = now() - interval '2 h' returning 1")
    dog = watch(project.url, tmp_path, expected_interval="1h", grace="1s")
    findings = dog.look().findings
    dog.close()
    assert [one.cause for one in findings or ()] == ["interval main", "expected main", "hollow main"]


def test_what_a_lane_that_is_not_used_again_came_to_is_over_one_day(
    database: str, connection: Connection, tmp_path: Path
) -> None:
    """P8: one fire by hand that started nobody; when its task is done by others, or a day later, but not for a schedule's."""
    stoker, dog = Database(Target(database)), watch(database, tmp_path, quiet="1ms")
    fill(connection, 1, mode="m")
    fill(connection, 1, mode="other")
    fire = admit(stoker, replace(ask("adhoc"), schedule=None)).fire
    plan = {"shares": [{"mode": "m", "backlog": 1, "ceiling": "max_pool"}]}
    stoker.run("record_plan", fire=fire, plan=json.dumps(plan), sweep=None)
    assert close_fire(stoker, Seen(fire), Terms("normal", "here", reap_ghosts=False))

    def look() -> list[str]:
        dog.look()
        return open_causes(connection)

    assert look() == ["idle adhoc"]
    connection.execute("insert into stoker.paused (mode, actor, reason) values ('m', 'ann', 'repairs')")
    assert look() == []
    connection.execute("delete from stoker.paused")
    assert look() == ["idle adhoc"]
    connection.execute("update stoker.fires set closed_at = now() - interval '27 h'")
    assert look() == []
    register(stoker, ScheduleSettings.of({"name": "weekly", "every": "168h", "lane": "adhoc"}))
    connection.execute(
        "insert into stoker.slots (schedule, due_at, last_due_at, state, fire) values ('weekly', now(), now(), 'ran', %s)",
        (fire,),
    )
    assert look() == ["idle adhoc"]
    connection.execute("delete from stoker.ready where mode = 'm'")
    assert look() == []
    dog.close()
    stoker.close()


def test_what_was_due_while_the_gate_was_closed_is_late_from_its_opening_on(
    database: str, connection: Connection, tmp_path: Path
) -> None:
    """P8: those who start fires may come back a little after it was opened."""
    stoker, dog = Database(Target(database)), watch(database, tmp_path, quiet="1ms")
    register(stoker, ScheduleSettings.of({"name": "day", "every": "1h", "grace": "10m"}))
    connection.execute("update stoker.schedules set since = since - interval '3 h'")
    dog.look()
    assert open_causes(connection) == ["slot day"]
    stoker.run("close_gate", actor="ann", reason="repairs")
    dog.look()
    assert open_causes(connection) == []
    assert stoker.run("open_gate", actor="ann", reason=None)
    dog.look()
    assert open_causes(connection) == []
    connection.execute("update stoker.installation set gate_opened_at = now() - interval '11 min'")
    dog.look()
    assert open_causes(connection) == ["slot day"]
    dog.close()
    stoker.close()


def test_a_dump_is_told_of_only_when_nobody_has_said_what_it_is_for_long_and_nothing_of_its_other_life_is(
    database: str, connection: Connection, tmp_path: Path
) -> None:
    """R28, P8: old slots, heartbeats, notes and incidents of a restored dump are no reason to wake anybody."""
    stoker, dog = Database(Target(database)), watch(database, tmp_path, grace="10m", quiet="1ms", command=["true"])
    register(stoker, ScheduleSettings.of({"name": "day", "every": "1h", "grace": "10m"}))
    stoker.run("beat", component="sweep", instance="old:1", expected=0.01)
    stoker.run("see_incident", cause="oldest m", words="of another life")
    connection.execute("update stoker.incidents set pages = 1, paged_at = now() - interval '2 days'")
    connection.execute(
        "insert into stoker.pages (incident, action, number, words) select incident, 'trigger', 1, words from stoker.incidents"
    )
    connection.execute(
        "insert into stoker.page_deliveries (page, channel, state) select page, 'command', 'taken' from stoker.pages"
    )
    post(connection, "ops", "queued", 48)
    aged = {"schedules": ["since"], "heartbeats": ["at", "began_at"], "incidents": ["seen_at", "opened_at"]}
    for table, column in ((table, column) for table, columns in aged.items() for column in columns):
        connection.execute(f"update stoker.{table} set {column} = {column} - interval '2 days'".encode())
    connection.execute("update stoker.installation set tasks = 'stoker.fires'::regclass")
    pages = "select count(*) from stoker.pages"
    assert [finding.cause for finding in dog.look().findings or ()] == ["restored"]
    assert connection.execute(pages).fetchall() == [(1,)]
    quarantine(stoker, Terms("restored", "here", reap_ghosts=False), actor="ann")
    assert dog.look().findings == []
    assert (open_causes(connection), connection.execute(pages).fetchall()) == ([], [(1,)])
    connection.execute("update stoker.installation set tasks = 'stoker.fires'::regclass")
    dog.look()
    connection.execute("update stoker.incidents set opened_at = now() - interval '11 min' where resolved_at is null")
    assert dog.look().sent == 1
    quarantine(stoker, Terms("restored", "here", reap_ghosts=False), actor="ann")
    assert dog.look().sent == 1, "that it is over is told to whom it was told"
    dog.close()
    stoker.close()
