"""What is missing, in words: pure, from heartbeats and from what workers said of their handlers."""

from dataclasses import replace
from datetime import UTC, datetime

from stoker.orchestrator.readiness import Beat, Broken, Readiness, Wanted, judge, troubles
from stoker.orchestrator.tell import CLOCK, DUE, FIRE

AT = datetime(2026, 5, 1, 7, 0, tzinfo=UTC)
RUN = Beat(CLOCK, "one:17", AT, 5.0, 60.0, is_late=False, modes=["mail", "resize"])
CRON = replace(RUN, component=FIRE, instance="one:main")
LOOP = Beat("loop digest", "one:17", AT, 5.0, 240.0, is_late=False)
WANT = Wanted(["mail", "resize"], loops=["digest"])


def late(beat: Beat) -> Beat:
    return replace(beat, is_late=True)


def test_nothing_is_missing_when_somebody_starts_every_mode_and_keeps_every_loop() -> None:
    assert judge([RUN, LOOP], [], WANT) == []
    assert judge([CRON, LOOP], [], WANT) == []


def test_nobody_who_starts_fires_is_named_with_the_last_that_was_heard_of() -> None:
    assert judge([LOOP], [], WANT) == ["no stoker run or cron beat so far: nothing starts fires"]
    assert judge([late(RUN), LOOP], [], WANT) == [
        "no stoker run or cron beat since 2026-05-01 07:00:00 (one:17): nothing starts fires"
    ]


def test_schedules_need_one_who_knows_due_times() -> None:
    """A plain stoker fire from cron looks at no due time."""
    want = replace(WANT, schedules=["day"])
    assert judge([CRON, LOOP], [], want) == ["schedules day: no stoker run, and no stoker fire --due from cron, so far"]
    assert judge([replace(CRON, component=DUE), LOOP], [], want) == []


def test_two_hosts_cover_together_what_neither_does_alone() -> None:
    mail, resize = replace(RUN, modes=["mail"]), replace(RUN, instance="two:9", modes=["resize"])
    assert judge([mail, resize, LOOP], [], WANT) == []
    (missing,) = judge([mail, late(resize), LOOP], [], WANT)
    assert missing.startswith("mode resize: nobody living starts it")


def test_a_handler_that_could_not_be_used_is_named_with_its_fire() -> None:
    broken = [Broken("mail", 12, "ModuleNotFoundError: No module named 'smtp'"), Broken("resize", 9, None)]
    assert judge([RUN, LOOP], broken, replace(WANT, programs=frozenset({"resize"}))) == [
        "mode mail: its handler could not be imported in fire 12: ModuleNotFoundError: No module named 'smtp'",
        "mode resize: its program could not be started in fire 9",
    ]


def test_a_loop_that_nobody_keeps_is_named() -> None:
    assert judge([RUN], [], WANT) == ["loop digest: no stoker run has kept it so far"]
    assert judge([RUN, late(LOOP)], [], WANT) == ["loop digest: no stoker run has kept it since 2026-05-01 07:00:00 (one:17)"]


def test_of_those_who_are_gone_only_the_last_is_shown_and_only_if_none_lives() -> None:
    """A standing process that is started again leaves a row each time."""
    gone = [late(replace(RUN, instance=f"one:{n}")) for n in range(3)]
    assert Readiness([], [], [RUN, *gone]).shown() == [RUN]
    assert Readiness([], [], gone).shown() == [gone[0]]


def test_what_stands_and_is_not_well_is_named() -> None:
    """A loop that nobody keeps, one that keeps failing, a sweep that was killed; none that ended in order or was followed."""
    failing = replace(LOOP, failures=3, error="ValueError: no")
    assert troubles([RUN, failing], WANT) == ["loop digest: failed 3 times in a row (one:17), last: ValueError: no"]
    assert troubles([RUN, late(failing)], WANT) == ["loop digest: no stoker run has kept it since 2026-05-01 07:00:00 (one:17)"]
    sweep = replace(LOOP, component="sweep", instance="one:18")
    words = "sweep: not heard of since 2026-05-01 07:00:00 (one:18); it was to be within 240 s"
    assert troubles([LOOP, late(sweep)], WANT) == [words]
    assert troubles([LOOP, late(sweep), replace(sweep, instance="two:1")], WANT) == []
    assert troubles([LOOP, replace(late(sweep), expected_seconds=0.0), late(CRON), late(RUN)], WANT) == []
