"""From a snapshot to a plan."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.orchestrator.decide import Backlog, Ceilings, Plan, decide


def plan(*backlogs: Backlog, max_pool: int = 12) -> Plan:
    return decide(list(backlogs), Ceilings(max_pool, drain_target=60.0))


def workers(made: Plan) -> dict[str, int]:
    return {share.mode: share.workers for share in made.shares}


def test_an_empty_queue_needs_nobody() -> None:
    """No backlog, no worker, and nothing bound it."""
    made = plan(Backlog("a", 0))
    assert (made.workers, made.ceiling, made.shares[0].ceiling) == (0, "backlog", "empty")


def test_a_paused_mode_gets_nobody() -> None:
    """However much waits; the others share the pool."""
    made = plan(Backlog("a", 100, is_paused=True), Backlog("b", 1))
    assert workers(made) == {"a": 0, "b": 1}
    assert (made.shares[0].ceiling, made.shares[0].backlog) == ("paused", 100)


def test_a_measured_backlog_gets_what_drains_it_in_time() -> None:
    """600 tasks of half a second in a minute: five workers; the cap of 25 asks for 24, the pool gives 12."""
    assert workers(plan(Backlog("a", 600, 0.5, task_cap=None))) == {"a": 5}
    made = plan(Backlog("a", 600, 0.5, task_cap=25))
    assert (made.workers, made.shares[0].wanted, made.ceiling, made.can_take) == (12, 24, "max_pool", 300)


def test_a_mode_never_measured_may_be_slow_and_asks_for_a_worker_a_task() -> None:
    """Twenty tasks and a pool of four: four workers."""
    assert workers(plan(Backlog("a", 20), max_pool=4)) == {"a": 4}


def test_the_pool_is_shared_by_weight_and_oldest_first_on_ties() -> None:
    """Each mode has one worker before any has two; then weight decides."""
    made = plan(Backlog("a", 100, weight=1), Backlog("b", 100, weight=3), max_pool=8)
    assert workers(made) == {"a": 2, "b": 6}
    made = plan(Backlog("young", 100, oldest_seconds=1), Backlog("old", 100, oldest_seconds=9), max_pool=1)
    assert workers(made) == {"young": 0, "old": 1}


def test_the_ceiling_that_bound_is_named() -> None:
    """A person must see which number to raise."""
    assert plan(Backlog("a", 100, max_workers=2)).shares[0].ceiling == "max_workers"
    assert plan(Backlog("a", 100, task_cap=0)).shares[0].ceiling == "task_cap"
    assert plan(Backlog("a", 100), max_pool=0).ceiling == "max_pool"
    assert plan(Backlog("a", 100), max_pool=-3).workers == 0


def test_a_broken_mode_is_tried_with_one_worker_after_every_other() -> None:
    """A handler that cannot be used never takes the pool from those that can, however old its tasks are."""
    made = plan(Backlog("a", 100, oldest_seconds=9, is_broken=True), Backlog("b", 100), max_pool=2)
    assert workers(made) == {"a": 0, "b": 2}
    assert workers(plan(Backlog("a", 100, is_broken=True), Backlog("b", 1), max_pool=4)) == {"a": 1, "b": 1}


@given(
    st.lists(
        st.builds(
            Backlog,
            mode=st.text("abcdef", min_size=1, max_size=3),
            ready=st.integers(0, 10**9),
            seconds_each=st.none() | st.floats(0, 1e6),
            oldest_seconds=st.floats(0, 1e9),
            weight=st.floats(0.001, 1000),
            max_workers=st.none() | st.integers(-5, 50),
            task_cap=st.none() | st.integers(-5, 10**6),
        ),
        unique_by=lambda backlog: backlog.mode,
        max_size=8,
    ),
    st.integers(-3, 40),
)
def test_no_plan_exceeds_its_ceilings(backlogs: list[Backlog], max_pool: int) -> None:
    """P5: the pool and every mode's own limits hold for any input, and no worker is given where there is no task."""
    made = plan(*backlogs, max_pool=max_pool)
    assert made.workers <= max(max_pool, 0)
    for backlog, share in zip(sorted(backlogs, key=lambda b: b.mode), made.shares, strict=True):
        assert 0 <= share.workers <= backlog.ready
        assert backlog.max_workers is None or share.workers <= max(backlog.max_workers, 0)
        assert backlog.task_cap is None or backlog.task_cap > 0 or share.workers == 0
    if made.workers < max_pool:
        assert all(share.workers == share.wanted for share in made.shares)
