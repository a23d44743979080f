"""What a real database shows to a look, and what is found in it."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.watchdog.scenes import Connection, open_causes, watch


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as made:
        yield made


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
