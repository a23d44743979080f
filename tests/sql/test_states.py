"""The states and their moves: one list, one page, one schema."""

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stoker.sql import states
from stoker.sql.query import load

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text("utf-8")
TASK, FIRE = (PAGE.split("\n## ")[n] for n in (1, 2))
THINGS = pytest.mark.parametrize(
    ("section", "names", "moves", "ends"),
    [
        (TASK, states.TASK_STATES, states.TASK_MOVES, states.TERMINAL),
        (FIRE, states.FIRE_STATES, states.FIRE_MOVES, {states.CLOSED, states.REFUSED}),
    ],
    ids=["task", "fire"],
)
Moves = dict[str, frozenset[str]]


def pairs(moves: Moves) -> list[tuple[str, str]]:
    return sorted((before, after) for before, afters in moves.items() for after in afters)


def rows(section: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading, without backticks."""
    lines = section[section.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


@THINGS
def test_the_diagram_draws_every_move_and_no_other(section: str, names: tuple[str, ...], moves: Moves, ends: set[str]) -> None:
    drawn = re.findall(r"^ {4}(\S+) --> (\S+)$", section, re.MULTILINE)
    assert sorted(pair for pair in drawn if "[*]" not in pair) == pairs(moves)
    assert sorted(before for before, after in drawn if after == "[*]") == sorted(ends)


@THINGS
def test_the_tables_list_every_state_and_every_move(section: str, names: tuple[str, ...], moves: Moves, ends: set[str]) -> None:
    assert [row[0] for row in rows(section, "state")] == list(names)
    assert {row[0] for row in rows(section, "state") if row[-1] == "yes"} == set(ends)
    assert sorted((row[0], row[1]) for row in rows(section, "from")) == pairs(moves)
    assert all(row[2] for row in rows(section, "from"))


@THINGS
def test_every_move_is_between_states_and_only_an_end_may_have_none(
    section: str, names: tuple[str, ...], moves: Moves, ends: set[str]
) -> None:
    assert list(moves) == list(names)
    assert {after for afters in moves.values() for after in afters} <= set(names)
    assert {name for name in names if not moves[name]} <= set(ends)
    assert not any(name in afters for name, afters in moves.items())


def test_a_done_task_is_never_reopened() -> None:
    assert not any(states.may_move(states.TASK_MOVES, states.DONE, after) for after in states.TASK_STATES)
    assert states.may_move(states.TASK_MOVES, states.QUEUED, states.IN_PROGRESS)


def test_the_database_allows_exactly_the_states_of_a_fire(connection: psycopg.Connection[Any]) -> None:
    ((rule,),) = connection.execute(
        "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'stoker.fires'::regclass and conname = %s",
        ("fires_state_check",),
    ).fetchall()
    assert re.findall(r"'(\w+)'", rule) == list(states.FIRE_STATES)


@pytest.mark.parametrize(
    ("name", "before", "after"), [("start_closing", "open", "closing"), ("close_fire", "closing", "closed")]
)
def test_a_statement_that_moves_a_fire_names_the_state_it_leaves(name: str, before: str, after: str) -> None:
    text = load(name, "stoker")
    assert f"state = '{after}'" in text.split("where")[0]
    assert f"'{before}'" in text.split("where")[1]
    assert states.may_move(states.FIRE_MOVES, before, after)


def test_the_view_knows_no_state_that_is_not_listed(connection: psycopg.Connection[Any]) -> None:
    ((text,),) = connection.execute("select pg_get_viewdef('stoker.task_queue'::regclass)").fetchall()
    shown = set(re.findall(r"THEN '(\w+)'", text))
    stored = {row[0] for row in rows(TASK, "state") if row[2] != "no table yet"}
    assert shown == stored <= set(states.TASK_STATES)
