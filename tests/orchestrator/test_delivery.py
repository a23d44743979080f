"""The outbox on a real database, with real HTTP and SMTP receivers: nothing lost, nothing told twice without need (R11)."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.sinks import DROP, HANG, TRICKLE, Sink, http_sink, smtp_sink
from tests.sql.factory import open_fire
from tests.waiting import wait_until

from stoker.hygiene.close import REAPED, Seen, Terms, close_fire, close_stranded
from stoker.hygiene.identity import mine
from stoker.hygiene.restored import RestoredError
from stoker.orchestrator.config import Config, load
from stoker.orchestrator.delivery import Delivery
from stoker.sql.database import Database, DatabaseUnreachableError
from stoker.sql.target import Target

TERMS = Terms("normal", str(uuid.uuid4()), reap_ghosts=False)
Connection = psycopg.Connection[Any]
Configure = Callable[..., Config]


@pytest.fixture
def sink() -> Iterator[Sink]:
    with http_sink() as made:
        yield made


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as made:
        yield made


@pytest.fixture
def stoker(database: str) -> Iterator[Database]:
    made = Database(Target(database), patience_seconds=5.0)
    yield made
    made.close()


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """A configuration with these channels, and keys of [delivery]."""

    def configured(channels: dict[str, dict[str, Any]], **delivery: Any) -> Config:
        text = "[delivery]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in delivery.items())
        for name, keys in channels.items():
            text += f"[notify.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        (tmp_path / "config.toml").write_text(text)
        (tmp_path / "config.toml").chmod(0o600)
        return load(tmp_path / "config.toml", {}, {})

    return configured


def hook(sink: Sink, **keys: Any) -> dict[str, Any]:
    return {"kind": "webhook", "url": sink.url, "timeout": "5s", **keys}


def close_one(stoker: Database, config: Config, *, ended: str = "normal", lane: str | None = None) -> int:
    """A fire under this configuration that reaches its note; its number."""
    fire = open_fire(stoker, lane or uuid.uuid4().hex)
    stoker.run("say_channels", fire=fire, channels=json.dumps({name: one.send for name, one in config.notify.items()}))
    assert close_fire(stoker, Seen(fire), Terms(ended, TERMS.installation, reap_ghosts=False))
    return fire


def deliver(stoker: Database, config: Config, **environ: str) -> int:
    return Delivery(stoker, config, environ).work(30)


def rest(connection: Connection, seconds: float = 10_000) -> None:
    """So much time passes for what waits."""
    for column in ("retry_at", "claimed_until"):
        connection.execute(f"update stoker.channels set {column} = {column} - make_interval(secs => {seconds})".encode())
    connection.execute(f"update stoker.outbox set created_at = created_at - make_interval(secs => {seconds})".encode())


def states(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("select channel, state, attempts from stoker.outbox order by message").fetchall()


def test_a_note_is_posted_to_each_channel_that_wants_it_in_the_transaction_that_closes(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """P4: one row a channel, also when hygiene closes a stranded fire; "problems" gets no note of plain success."""
    config = configure({"all": hook(sink), "bad": hook(sink, send="problems")})
    close_one(stoker, config)
    assert states(connection) == [("all", "queued", 0)]
    stranded = close_one_stranded(stoker, connection, config)
    rows = connection.execute("select channel from stoker.outbox where fire = %s order by channel", (stranded,)).fetchall()
    assert rows == [("all",), ("bad",)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("insert into stoker.outbox (kind, channel, fire) values ('note', 'all', %s)", (stranded,))


def close_one_stranded(stoker: Database, connection: Connection, config: Config) -> int:
    fire = open_fire(stoker, "stranded")
    stoker.run("say_channels", fire=fire, channels=json.dumps({name: one.send for name, one in config.notify.items()}))
    gone = json.dumps({**asdict(mine()), "start_ticks": 1})
    connection.execute("update stoker.fires set owner = %s where fire = %s", (gone, fire))
    assert close_stranded(stoker, Terms(REAPED, TERMS.installation, reap_ghosts=False)) == [fire]
    return fire


def test_a_closing_that_fails_posts_nothing(stoker: Database, connection: Connection, configure: Configure, sink: Sink) -> None:
    """P4: note and messages are there together, or neither is."""
    config = configure({"all": hook(sink)})
    connection.execute(
        "create function stoker.fail() returns trigger language plpgsql as $$ begin raise 'no'; end $$;"
        "create trigger fail before insert on stoker.outbox execute function stoker.fail()"
    )
    with pytest.raises(psycopg.errors.RaiseException):
        close_one(stoker, config)
    assert connection.execute("select count(*) from stoker.notes").fetchall() == [(0,)]
    assert connection.execute("select state from stoker.fires").fetchall() == [("closing",)]


def test_what_is_sent_is_the_note_with_its_facts(stoker: Database, configure: Configure, sink: Sink) -> None:
    config = configure({"ops": hook(sink)})
    fire = close_one(stoker, config)
    assert deliver(stoker, config) == 1
    (told,) = sink.told
    body = json.loads(told.body)
    assert (body["kind"], body["fire"], body["delivery_id"]) == ("note", fire, told.delivery)
    assert body["subject"] == f"[stoker] Fire {fire}: " + body["text"].partition(": ")[2].partition("\n")[0]
    assert body["note"]["fire"] == fire
    assert deliver(stoker, config) == 0
    assert len(sink.told) == 1


def test_a_sink_that_is_down_for_a_while_gets_no_flood_and_loses_nothing(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """R11: 500 again and again, ten fires meanwhile; then two messages at most tell them all, each told once."""
    config, sink.usual = configure({"ops": hook(sink)}), 500
    fires = []
    for _ in range(10):
        fires.append(close_one(stoker, config))
        deliver(stoker, config)
        rest(connection, 61)
    tries = len(sink.told)
    assert tries <= 10
    sink.usual = 200
    for _ in range(3):
        rest(connection)
        deliver(stoker, config)
    received = [json.loads(one.body) for one in sink.told[tries:]]
    assert len(received) <= 2
    assert sorted(fire for one in received for fire in one.get("fires", [one.get("fire")])) == fires
    assert {state for _, state, _ in states(connection)} == {"delivered"}
    assert connection.execute("select count(*) from stoker.notes").fetchall() == [(10,)]


def test_every_try_of_a_message_has_the_same_delivery_id(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """R11: whatever went wrong, so that its receiver can know it again."""
    config, sink.answers = configure({"ops": hook(sink)}), [500, 429, DROP, 503]
    close_one(stoker, config)
    for _ in range(5):
        deliver(stoker, config)
        rest(connection)
    assert len(sink.told) == 5
    assert len(set(sink.deliveries)) == 1
    assert len({json.loads(one.body)["delivery_id"] for one in sink.told}) == 1
    assert states(connection) == [("ops", "delivered", 5)]


def test_an_answer_that_got_lost_costs_one_repetition_and_no_more(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """R11: accepted, then dropped: told once more, under the same id; never made part of a digest, which has another."""
    config, sink.answers = configure({"ops": hook(sink)}), [DROP]
    first = close_one(stoker, config)
    deliver(stoker, config)
    assert connection.execute("select in_doubt from stoker.outbox").fetchall() == [(True,)]
    others = [close_one(stoker, config) for _ in range(3)]
    rest(connection)
    deliver(stoker, config)
    assert deliver(stoker, config) == 0
    bodies = [json.loads(one.body) for one in sink.told]
    assert [one["kind"] for one in bodies] == ["note", "note", "digest"]
    assert bodies[0]["delivery_id"] == bodies[1]["delivery_id"]
    assert bodies[2]["fires"] == others
    assert bodies[1]["fire"] == first


def test_who_is_killed_between_accept_and_record_leaves_one_repetition(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R11: while its lease lasts nobody sends; then the same message goes out once more, as itself and not in a digest."""
    config = configure({"ops": hook(sink)})
    close_one(stoker, config)

    def dying(name: str, /, **parameters: Any) -> Any:
        if name.startswith("record_"):
            raise DatabaseUnreachableError("killed")
        return Database.run(stoker, name, **parameters)

    with monkeypatch.context() as patch:
        patch.setattr(stoker, "run", dying)
        deliver(stoker, config)
    assert len(sink.told) == 1
    others = [close_one(stoker, config) for _ in range(2)]
    assert deliver(stoker, config) == 0
    assert len(sink.told) == 1
    rest(connection)
    assert deliver(stoker, config) == 2
    assert deliver(stoker, config) == 0
    assert [json.loads(one.body).get("fires") for one in sink.told] == [None, None, others]
    assert sink.deliveries[0] == sink.deliveries[1]


def test_two_deliverers_never_send_one_twice(database: str, configure: Configure, stoker: Database, sink: Sink) -> None:
    """R11: eight at once, twenty fires by two channels: each message once, and one at a time."""
    config = configure({"a": hook(sink), "b": hook(sink)})
    fires = [close_one(stoker, config) for _ in range(20)]
    own = [Database(Target(database)) for _ in range(8)]
    begin = threading.Barrier(8)

    def work(database: Database) -> None:
        begin.wait()
        for _ in range(5):
            deliver(database, config)

    threads = [threading.Thread(target=work, args=(one,)) for one in own]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in own:
        one.close()
    assert len(sink.deliveries) == len(set(sink.deliveries)) == 40
    assert sorted(json.loads(one.body)["fire"] for one in sink.told) == sorted(2 * fires)


@pytest.mark.parametrize("answer", [400, 401, 404, 410, 422, 301, 307])
def test_what_cannot_be_repaired_by_trying_again_is_dead_at_once(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink, answer: int
) -> None:
    """R11: 4xx but for 408 and 429; a redirect is not followed. The next message has its own chance, without a rest."""
    config, sink.answers, sink.headers = configure({"ops": hook(sink)}), [answer], {"Location": sink.url}
    close_one(stoker, config)
    deliver(stoker, config)
    close_one(stoker, config)
    deliver(stoker, config)
    assert [state for _, state, _ in states(connection)] == ["dead", "delivered"]
    assert len(sink.told) == 2
    ((error,),) = connection.execute("select last_error from stoker.outbox where state = 'dead'").fetchall()
    assert error.startswith(f"the answer was {answer}")


@pytest.mark.parametrize("answer", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_after_a_rest(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink, answer: int
) -> None:
    """The rest grows, and is as long as the other side asks for at least; after so many tries the message is dead."""
    config = configure({"ops": hook(sink)}, max_attempts=3, backoff_base="10s", backoff_cap="30s")
    sink.usual, sink.headers = answer, {"Retry-After": "77"}
    close_one(stoker, config)
    for _ in range(2):
        deliver(stoker, config)
        deliver(stoker, config)
        ((left,),) = connection.execute("select extract(epoch from retry_at - now())::float8 from stoker.channels").fetchall()
        assert 60 < left <= 77
        rest(connection)
    deliver(stoker, config)
    assert states(connection) == [("ops", "dead", 3)]
    assert len(sink.told) == 3


@pytest.mark.parametrize("bad", [HANG, TRICKLE, DROP, 500])
def test_a_channel_that_fails_or_hangs_holds_back_nobody_else(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink, bad: int | str
) -> None:
    """R11: the other channel's notes go out while it hangs, and it gets no second message meanwhile."""
    with http_sink() as ill:
        ill.usual = bad
        config = configure({"ill": hook(ill, timeout="1m"), "well": hook(sink)})
        standing = Delivery(stoker, config, {})
        for count in (1, 2, 3):
            close_one(stoker, config)
            standing.work(0.0)
            wait_until(lambda count=count: len(sink.told) == count, 20, "the well one is told")  # type: ignore[misc]
            standing._threads["well"].join()
            assert standing._threads["ill"].is_alive() or bad in (DROP, 500)
        ill.release.set()
        standing.wait(20)
        assert {state for channel, state, _ in states(connection) if channel == "ill"} == {"queued"}
        assert len(ill.told) == 1


@pytest.mark.parametrize("bad", [HANG, TRICKLE])
def test_a_try_is_cut_off_in_its_time_whatever_trickles(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink, bad: str
) -> None:
    """R11: a receiver that says a byte now and then is no better than one that says nothing."""
    sink.usual = bad
    config = configure({"ops": hook(sink, timeout="1s")})
    close_one(stoker, config)
    began = time.monotonic()
    assert deliver(stoker, config) == 0
    assert time.monotonic() - began < 15
    ((in_doubt, error),) = connection.execute("select in_doubt, last_error from stoker.outbox").fetchall()
    assert (in_doubt, error) == (True, "no answer within 1.0 s")


def test_a_fire_is_over_in_time_whatever_hangs(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """R11: a try is cut short when the wait is over, and recorded as in doubt; another fire does not wait for its lease."""
    from stoker.orchestrator.delivery import deliver_note

    sink.usual = HANG
    config = configure({"ops": hook(sink, timeout="10m")}, fire_wait="1s")
    fire = close_one(stoker, config)
    began = time.monotonic()
    assert not deliver_note(stoker, config, {}, fire)
    assert time.monotonic() - began < 5
    recorded = "select from stoker.outbox where last_error is not null"
    wait_until(lambda: connection.execute(recorded).rowcount == 1, 10, "the try is recorded")
    ((in_doubt, error),) = connection.execute("select in_doubt, last_error from stoker.outbox").fetchall()
    assert (in_doubt, error) == (True, "no answer within 1.0 s")
    assert connection.execute("select token from stoker.channels").fetchall() == [(None,)]


def test_a_database_that_is_away_after_the_note_is_no_failure_of_the_fire(configure: Configure, sink: Sink) -> None:
    """The note is written; that it was not delivered is the answer."""
    from stoker.orchestrator.delivery import deliver_note

    away = Database(Target("host=127.0.0.1 port=1 dbname=x"), patience_seconds=0.01)
    assert not deliver_note(away, configure({"ops": hook(sink)}), {}, 1)


def test_nothing_of_a_dump_goes_out_before_anybody_said_that_it_is_one(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """What it takes for waiting was perhaps sent since it was made, by the original."""
    config = configure({"ops": hook(sink)})
    close_one(stoker, config)
    connection.execute("update stoker.installation set tasks = 1")
    with pytest.raises(RestoredError):
        deliver(stoker, config)
    assert sink.told == []


def test_a_closed_gate_lets_nothing_out(stoker: Database, configure: Configure, sink: Sink) -> None:
    """Neither the gate in the database nor that of this host; opened, everything goes."""
    config = configure({"ops": hook(sink)})
    close_one(stoker, config)
    stoker.run("close_gate", actor="test", reason="test")
    assert deliver(stoker, config) == 0
    stoker.run("open_gate", actor="test", reason=None)
    assert deliver(stoker, config, STOKER_ENABLED="false") == 0
    assert sink.told == []
    assert deliver(stoker, config) == 1


def test_one_message_that_always_fails_does_not_keep_the_others_for_ever(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """After four failures the others have their turn first."""
    config, sink.answers = configure({"ops": hook(sink)}), [DROP] * 4
    close_one(stoker, config)
    deliver(stoker, config)
    second = close_one(stoker, config)
    for _ in range(3):
        rest(connection, 100)
        deliver(stoker, config)
    sink.answers = [200, DROP]
    rest(connection, 100)
    deliver(stoker, config)
    assert json.loads(sink.told[4].body)["fire"] == second
    assert [state for _, state, _ in states(connection)] == ["queued", "delivered"]


def test_a_note_that_cannot_be_rendered_is_dead_and_harms_no_other(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    config = configure({"ops": hook(sink)})
    first, second = close_one(stoker, config), close_one(stoker, config)
    connection.execute("update stoker.notes set facts = '{}' where fire = %s", (first,))
    deliver(stoker, config)
    deliver(stoker, config)
    assert [json.loads(one.body)["fire"] for one in sink.told] == [second]
    assert states(connection) == [("ops", "dead", 1), ("ops", "delivered", 1)]


def test_a_channel_that_is_not_configured_here_keeps_its_messages(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """P11: another host may have it; nothing is tried, nothing is lost."""
    fire = close_one(stoker, configure({"elsewhere": hook(sink), "ops": hook(sink)}))
    assert deliver(stoker, configure({"ops": hook(sink)})) == 1
    assert stoker.run("undelivered_of", fire=fire) == [("elsewhere", "queued", None)]


def test_a_late_answer_is_recorded_though_the_channel_was_taken_over(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """What was received is delivered; a refusal that comes too late changes nothing."""
    config = configure({"ops": hook(sink)})
    close_one(stoker, config)
    ((message, *_),) = connection.execute("select message from stoker.outbox").fetchall()
    facts = {"channel": "ops", "message": message, "token": str(uuid.uuid4())}
    assert stoker.run("record_refused", **facts, state="dead", rest=None, in_doubt=False, error="late") == []
    assert states(connection) == [("ops", "queued", 0)]
    assert stoker.run("record_sent", **facts, remark=None) == [(message,)]
    assert deliver(stoker, config) == 0
    assert sink.told == []


def test_an_unreachable_receiver_is_not_in_doubt(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """Nothing was sent, so it may become part of a digest; the error says why, without the URL."""
    config = configure({"ops": {"kind": "webhook", "url": "http://127.0.0.1:1/secret-path-4711"}})
    close_one(stoker, config)
    deliver(stoker, config)
    ((in_doubt, error),) = connection.execute("select in_doubt, last_error from stoker.outbox").fetchall()
    assert (in_doubt, error) == (False, "cannot connect: Connection refused")


def test_the_digest_of_many_is_one_short_message(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """R11: it names them, up to fifty, and counts the rest; all become delivered with it."""
    config = configure({"ops": hook(sink)})
    for _ in range(60):
        close_one(stoker, config)
    rest(connection)
    assert deliver(stoker, config) == 1
    (told,) = sink.told
    body = json.loads(told.body)
    assert body["kind"] == "digest"
    assert body["subject"] == "[stoker] 60 notes that could not be sent in time"
    assert (len(body["fires"]), body["total"]) == (50, 60)
    assert "and 10 more" in body["text"]
    assert len(body["text"]) < 10_000
    assert {state for _, state, _ in states(connection)} == {"delivered"}


def test_ten_thousand_notes_that_waited_are_one_short_message(
    stoker: Database, connection: Connection, configure: Configure
) -> None:
    """R11: by mail too; nothing of it grows with their number."""
    with smtp_sink() as box:
        mail = {"kind": "mail", "mail_to": ["a@example.org"], "mail_from": "b@example.org", "smtp_host": "127.0.0.1"}
        config = configure({"post": {**mail, "smtp_port": box.port, "smtp_security": "none"}})
        fire = close_one(stoker, config, lane="日本語 <b>")
        news = {
            "fires": ", 'key', gen_random_uuid()",
            "notes": "",
            "outbox": ", 'message', n + 9, 'delivery_id', gen_random_uuid()",
        }
        for table, own in news.items():
            connection.execute(
                f"insert into stoker.{table} overriding system value"
                f" select (jsonb_populate_record(t, jsonb_build_object('fire', n{own}))).*"
                f" from stoker.{table} t, generate_series(2, 10000) n where t.fire = {fire}".encode()
            )
        rest(connection)
        assert deliver(stoker, config) == 1
    (told,) = box.mails
    assert told["Subject"] == "[stoker] 10000 notes that could not be sent in time"
    body = told.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert len(body) < 10_000
    assert "日本語" in body.decode()
    assert {state for _, state, _ in states(connection)} == {"delivered"}


def test_a_note_of_five_megabytes_goes_its_way(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink, tmp_path: Path
) -> None:
    """By every kind of channel, within its time; and it keeps nobody else."""
    with smtp_sink() as box:
        mail = {"kind": "mail", "mail_to": ["a@example.org"], "mail_from": "b@example.org", "smtp_host": "127.0.0.1"}
        channels = {
            "hook": hook(sink),
            "post": {**mail, "smtp_port": box.port, "smtp_security": "none"},
            "disk": {"kind": "file", "folder": "notes"},
            "program": {"kind": "command", "command": ["/bin/sh", "-c", "wc -c > size"]},
        }
        config = configure(channels)
        fire = close_one(stoker, config)
        many = [{"what": "failed for good", "text": f"{n} " + "ü" * 500} for n in range(5000)]
        facts = "jsonb_set(facts::jsonb, '{needs}', %s)::json"
        connection.execute(f"update stoker.notes set facts = {facts} where fire = %s".encode(), (json.dumps(many), fire))
        small = close_one(stoker, config)
        assert deliver(stoker, config) == 8
    assert [json.loads(one.body)["fire"] for one in sink.told] == [fire, small]
    assert len(sink.told[0].body) > 5_000_000
    assert len(box.mails) == 2
    assert int((tmp_path / "size").read_text()) < 1_000_000
    assert (tmp_path / "notes" / f"fire-{fire}.md").stat().st_size > 2_000_000


def test_a_digest_that_fails_takes_in_what_comes_later_and_is_one_again(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """A note that went into one digest and then another is told once."""
    config, sink.usual = configure({"ops": hook(sink)}), 500
    fires = []
    for _ in range(3):
        fires += [close_one(stoker, config), close_one(stoker, config)]
        rest(connection)
        deliver(stoker, config)
    sink.usual = 200
    rest(connection)
    before = len(sink.told)
    assert deliver(stoker, config) == 1
    assert json.loads(sink.told[before].body)["fires"] == fires
    assert {state for _, state, _ in states(connection) if state != "collapsed"} == {"delivered"}
    assert all(stoker.run("undelivered_of", fire=fire) == [] for fire in fires)


def test_no_transaction_is_open_while_something_is_sent(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """P10: the lease is a row, not a lock."""
    sink.usual = HANG
    config = configure({"ops": hook(sink)})
    close_one(stoker, config)
    standing = Delivery(stoker, config, {})
    standing.work(0.0)
    wait_until(lambda: len(sink.told) == 1, 5, "the sink is told")
    rows = connection.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and xact_start is not null"
        " and pid <> pg_backend_pid()"
    ).fetchall()
    assert rows == [(0,)]
    sink.release.set()
    standing.wait(20)


def test_the_note_says_what_could_not_be_delivered(
    stoker: Database, connection: Connection, configure: Configure, sink: Sink
) -> None:
    """So that a channel that is broken is told of by those that are not."""
    config, sink.usual = configure({"ops": hook(sink)}), 404
    close_one(stoker, config)
    deliver(stoker, config)
    fire = close_one(stoker, config)
    ((facts,),) = connection.execute("select facts from stoker.notes where fire = %s", (fire,)).fetchall()
    assert [(one["channel"], one["dead"], one["waiting"]) for one in facts["undelivered"]] == [("ops", 1, 0)]
    (need,) = facts["needs"]
    assert need["text"] == "Messages by ops: 1 could not be delivered; last: the answer was 404. See: stoker outbox"


def test_mail_has_an_id_made_of_the_delivery_id(
    stoker: Database, connection: Connection, configure: Configure, tmp_path: Path
) -> None:
    """The same at every try; dropped after the text was taken it is in doubt, and told once more."""
    with smtp_sink() as box:
        box.answers = ["451 not now", DROP]
        box.refused = {"c@example.org": "550 no such user"}
        mail = {"kind": "mail", "mail_to": ["Ops <a@example.org>", "c@example.org"], "mail_from": "Stoker <b@example.org>"}
        smtp = {"smtp_host": "127.0.0.1", "smtp_port": box.port, "smtp_security": "none"}
        config = configure({"ops": mail | smtp})
        close_one(stoker, config)
        doubts = []
        for _ in range(3):
            deliver(stoker, config)
            doubts += connection.execute("select in_doubt, last_error from stoker.outbox").fetchall()
            rest(connection)
    assert doubts == [
        (False, "the mail server answered 451: not now"),
        (True, "the mail server did not answer: SMTPServerDisconnected"),
        (False, "refused for c@example.org"),
    ]
    ((delivery,),) = connection.execute("select delivery_id::text from stoker.outbox").fetchall()
    assert box.ids == [f"<{delivery}.stoker@example.org>"] * 2
    assert str(box.mails[0]["Subject"]).startswith("[stoker] Fire ")
    assert box.mails[0]["Auto-Submitted"] == "auto-generated"


def test_a_mail_that_is_refused_for_good_is_dead(stoker: Database, connection: Connection, configure: Configure) -> None:
    with smtp_sink() as box:
        box.answers = ["554 rejected: password=CanaryPw1"]
        mail = {"kind": "mail", "mail_to": ["a@example.org"], "mail_from": "b@example.org", "smtp_host": "127.0.0.1"}
        config = configure({"ops": mail | {"smtp_port": box.port, "smtp_security": "none"}})
        close_one(stoker, config)
        deliver(stoker, config)
    ((state, error),) = connection.execute("select state, last_error from stoker.outbox").fetchall()
    assert (state, error) == ("dead", "the mail server answered 554: rejected: password=[redacted]")


def test_mail_never_goes_on_in_clear(stoker: Database, connection: Connection, configure: Configure) -> None:
    """A server that offers no STARTTLS, or somebody between that takes the offer out, gets nothing."""
    with smtp_sink() as box:
        mail = {"kind": "mail", "mail_to": ["a@example.org"], "mail_from": "b@example.org", "smtp_host": "127.0.0.1"}
        config = configure({"ops": mail | {"smtp_port": box.port}})
        close_one(stoker, config)
        deliver(stoker, config)
        assert box.mails == []
    ((state, error),) = connection.execute("select state, last_error from stoker.outbox").fetchall()
    assert (state, error) == ("queued", "the mail server cannot do it: STARTTLS extension not supported by server.")
