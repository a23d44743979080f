"""Why a task is not running now: each reason in plain words, from the facts alone."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.orchestrator.explain import Facts, explain

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUEUED = Facts(
    id=7, mode="m", status="queued", version=1, attempts=0, max_attempts=None, created_at=NOON, available_at=NOON,
    expires_at=None, due_in=-1.0, is_late=None, claimed_by=None, claimed_at=None, cancel_asked_at=None, finished_at=None,
    fire=None, error_kind=None, error_detail=None, held_for=None, question=None, is_in_line=False, lane_key=None,
    suspect=False, erased_at=None, front=None, paused_by=None, paused_at=None, paused_because=None, dead_by=None,
    is_early=None, held_at=None, cancelled_by=None, held_by=None, fires=[], configured_version=1, max_pool=4, task_cap=25,
)  # fmt: skip
AT = "2026-03-01 12:00:00 UTC"
END: dict[str, Any] = {"finished_at": NOON, "attempts": 2, "fire": 5}
RUN: dict[str, Any] = {"status": "in_progress", "claimed_by": "w", "claimed_at": NOON}

CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "is queued, and nothing of its own keeps it from starting."),
    ({}, "No fire is active: it waits for the next one (stoker fire)."),
    ({"fires": [3, 4]}, "Active fire(s): 3, 4; what their workers do not reach waits for the next fire."),
    ({"due_in": 60.0}, f"is queued. It is not due until {AT}."),
    ({"is_in_line": True, "lane_key": "k", "front": 3}, "It stands in line 'k' behind task 3, which must end first."),
    ({"is_in_line": True, "lane_key": "k"}, "behind another, which must end first."),
    (
        {"paused_by": "ann", "paused_at": NOON, "paused_because": "full"},
        f"Its mode is paused by ann since {AT}: full (stoker unpause m).",
    ),
    ({"configured_version": None}, "Its mode is not configured here"),
    ({"version": 3}, "Its payload has version 3, newer than the configured 1"),
    ({"is_late": True, "expires_at": NOON}, f"Its time to be started passed at {AT}"),
    ({"max_pool": 0}, "The limits let no worker start it"),
    ({"task_cap": 0}, "The limits let no worker start it"),
    ({"suspect": True}, "it is claimed alone."),
    ({"attempts": 2, "max_attempts": 3}, "Attempts spent: 2 of 3."),
    (RUN, f"is being run by worker w since {AT}."),
    ({**RUN, "cancel_asked_at": NOON}, f"It was asked to be cancelled at {AT}."),
    ({"status": "held", "held_for": "approval", "held_at": NOON}, f"waits for approval since {AT}: stoker tasks approve 7"),
    ({"status": "held", "held_for": "question", "question": "Blue?"}, "with a question: Blue? To go on: stoker tasks resume 7"),
    ({"status": "held", "held_for": "operator", "held_by": "ann", "question": "wait"}, "is held by ann: wait. To go on"),
    ({"status": "held", "held_for": "restored"}, "is held (restored). To go on: stoker tasks resume 7."),
    ({"status": "unknown", "error_kind": "lost", "is_early": True, "dead_by": NOON}, f"may be alive until {AT}."),
    ({"status": "unknown", "error_kind": "lost"}, "Find out what happened, then: stoker tasks release 7 --as"),
    ({"status": "done", **END}, f"is done since {AT} in fire 5, at attempt 2."),
    ({"status": "failed", "error_kind": "E", "error_detail": "words", **END}, f"{AT} in fire 5 after 2 attempt(s), E: words."),
    ({"status": "cancelled", "cancelled_by": "ann", "error_detail": "old", **END}, f"was cancelled by ann at {AT}: old."),
    ({"status": "expired", "expires_at": NOON, **END}, f"expired at {AT}: it was not started before {AT}."),
    ({"status": "done", "erased_at": NOON, **END}, f"What it said was erased at {AT}."),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), CASES, ids=[words[:40] for _, words in CASES])
def test_every_reason_has_its_words(changes: dict[str, Any], words: str) -> None:
    text = explain(replace(QUEUED, **changes))
    assert words in text
    assert text.startswith("Task 7 of mode m ")
    assert "\n" not in text
    assert "None" not in text


def test_all_reasons_that_hold_are_told() -> None:
    """Whoever removes one must not be surprised by the next."""
    text = explain(replace(QUEUED, version=2, due_in=9.0, paused_by="ann", paused_at=NOON, paused_because="full"))
    assert all(words in text for words in ("newer than", "paused by ann", "not due until"))
    assert "nothing of its own" not in text


def test_what_ended_is_not_offered_what_it_cannot_have() -> None:
    """A task whose payload was erased cannot be tried again."""
    failed = replace(QUEUED, status="failed", error_kind="E", **END)
    assert "stoker tasks retry 7" in explain(failed)
    assert "retry" not in explain(replace(failed, erased_at=NOON))
