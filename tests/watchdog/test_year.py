"""Weeks of virtual time on a real server: no due time is missed in silence, and nobody is told in vain."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
from bench.virtual.almanac import changes_of_clocks, draw
from bench.year import judge, live
from tests.postgres import Cluster

SPRING = datetime(2027, 3, 22, tzinfo=UTC)


def test_every_planted_miss_is_told_within_two_looks_and_nothing_else_is(
    database: str, cluster: Cluster, tmp_path: Path
) -> None:
    """P7, P8, R05, R28, F8: five zones over their changes of clocks, deploys, pauses, gates, losses of the database."""
    almanac = draw(SPRING, days=16, planted=20, seed=3)
    assert changes_of_clocks(almanac) == 3
    world = live(database, tmp_path, almanac, 3, cluster.stop, cluster.start)
    verdict = judge(world)
    assert (verdict.lost, verdict.false_pages, verdict.unresolved) == ([], [], [])
    assert len(verdict.delays) == 20
    assert max(verdict.delays.values()) <= 90
    assert (verdict.losses_told, verdict.losses) == (1, 1)
    with psycopg.connect(cluster.url(database.partition("@/")[2].partition("?")[0])) as connection:
        accounted = connection.execute("select state, count(*) from stoker.slots group by state").fetchall()
        real = connection.execute(
            "select (select count(*) from stoker.slots where decided_at > %(end)s or decided_at < %(start)s)"
            " + (select count(*) from stoker.incidents where opened_at > %(end)s or opened_at < %(start)s)",
            {"start": almanac.start, "end": almanac.end},
        ).fetchall()
    assert {state for state, _ in accounted} == {"ran", "skipped", "missed"}
    assert real == [(0,)], "something was stamped by another clock than the one that was set"
