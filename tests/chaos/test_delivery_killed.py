"""Deliverers killed at any moment, two at a time, by a receiver that is ill: every note is told, and by one message only."""

import json
import random
import signal
import time

from tests.end_to_end.project import Project
from tests.sinks import DROP, http_sink

CONFIG = """
[limits]
fires_per_day = "none"
[delivery]
fire_wait = "0s"
backoff_base = "1ms"
backoff_cap = "1ms"
collapse_after = "300ms"
[modes.plain]
handler = "jobs:plain"
"""
ROUNDS = 12


def test_every_note_is_told_by_one_message_whatever_is_killed(project: Project) -> None:
    """R11: a kill, or a lost answer, costs one repetition at most, under the same delivery id; nothing is lost."""
    dice = random.Random(11)
    with http_sink() as sink:
        project.write(CONFIG + f'[notify.ops]\nkind = "webhook"\nurl = "{sink.url}"\ntimeout = "2s"\n')
        for _ in range(ROUNDS):
            assert project.run("fire").returncode == 0
            sink.answers = [dice.choice([200, 500, DROP, 503]) for _ in range(3)]
            both = [project.start("deliver") for _ in range(2)]
            time.sleep(dice.uniform(0.2, 1.0))  # somewhere between its start and its end
            for process in both:
                process.send_signal(signal.SIGKILL)
                process.wait()
            moved = "update stoker.channels set claimed_until = now() - interval '1 s', retry_at = null returning 1"
            project.query(f"with moved as ({moved}) select count(*) from moved")
        sink.answers = []
        assert project.run("deliver").returncode == 0
    assert project.query("select count(*) from stoker.outbox where state <> 'delivered'") == [(0,)]
    accepted: dict[int, set[str]] = {}
    contents: dict[str, set[int]] = {}
    for one in sink.told:
        body = json.loads(one.body)
        fires = set(body.get("fires") or [body["fire"]])
        assert contents.setdefault(one.delivery, fires) == fires, "one id, one content"
        for fire in fires if one.answer in (200, DROP) else ():
            accepted.setdefault(fire, set()).add(one.delivery)
    assert sorted(accepted) == list(range(1, ROUNDS + 1))
    assert {len(ids) for ids in accepted.values()} == {1}
