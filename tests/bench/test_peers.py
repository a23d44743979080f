"""Beside the peers: how samples become a rate, and rates ratios."""

import pytest
from bench.peers.__main__ import PEERS
from bench.peers.install import is_new_enough, pins, version
from bench.peers.sampler import steady_rate
from bench.peers.verdict import best, ratios, worst
from bench.server import BenchError


def test_a_rate_is_that_of_the_middle_of_the_backlog() -> None:
    """A second of starting, 800 tasks in 4 s, and a slow end: neither the start nor the end counts."""
    samples = [(0.0, 0), (1.0, 0), (1.5, 100), (3.5, 500), (5.5, 900), (9.0, 1000)]
    assert steady_rate(samples, 1000) == pytest.approx(200)


def test_a_rate_is_read_between_samples() -> None:
    """No sample stands at 10 or at 90 %."""
    assert steady_rate([(0.0, 0), (10.0, 500), (20.0, 1000)], 1000) == pytest.approx(50)


def test_a_drain_that_no_sample_saw_has_no_rate() -> None:
    """Done before the second look."""
    with pytest.raises(BenchError):
        steady_rate([(0.0, 1000)], 1000)


def test_a_ratio_is_taken_within_a_round() -> None:
    """A busy hour slows both: the third round's rates are of another machine, its ratio is not."""
    ours, theirs = {1: [100.0, 120.0, 10.0]}, {1: [50.0, 40.0, 5.0]}
    assert ratios(ours, theirs) == {1: 2.0}


def test_the_best_peer_counts_where_we_do_worst() -> None:
    """One peer is best with one worker, the other with two; the least ratio of all is told."""
    ours = {1: [100.0], 2: [150.0]}
    peers = {"a": {1: [50.0], 2: [60.0]}, "b": {1: [25.0], 2: [100.0]}}
    assert worst(ours, peers.values()) == 1.5
    assert best(peers) == {1: "a", 2: "b"}


def test_without_peers_there_is_no_ratio() -> None:
    """Nothing could be installed: that is no win."""
    assert worst({1: [100.0]}, []) is None
    assert best({}) == {}


def test_an_old_node_is_not_taken() -> None:
    """The peers ask for 22.18."""
    assert [is_new_enough(text) for text in ("v20.20.2\n", "v22.9.0\n", "v22.18.0\n", "v24.1.0\n", "")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_every_peer_is_pinned() -> None:
    """Another version is another peer."""
    assert all(version(peer)[0].isdigit() for peer in PEERS.values())
    assert all("==" in pin or "@" in pin for by_installer in pins().values() for each in by_installer.values() for pin in each)
