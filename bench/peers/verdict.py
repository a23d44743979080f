"""From rates to ratios: stoker's rate divided by a peer's of the same round, and the median of the rounds."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

Rates = Mapping[int, Sequence[float]]
"""Tasks a second, one a round, by number of workers."""


def each_round(ours: Rates, theirs: Rates) -> dict[int, list[float]]:
    """By number of workers, how many times as quick we were in each round; a peer that was not measured is not there."""
    return {
        workers: [a / b for a, b in zip(ours[workers], theirs[workers], strict=True)] for workers in ours if theirs[workers]
    }


def ratios(ours: Rates, theirs: Rates) -> dict[int, float]:
    """By number of workers, the median of the rounds."""
    return {workers: median(each) for workers, each in each_round(ours, theirs).items()}


def worst(ours: Rates, peers: Iterable[Rates]) -> float | None:
    """The least ratio to any of the peers with any number of workers: to the best peer, where we do worst. None: no peer."""
    return min((ratio for theirs in peers for ratio in ratios(ours, theirs).values()), default=None)


def best(peers: Mapping[str, Rates]) -> dict[int, str]:
    """By number of workers, the quickest peer by its median."""
    numbers = sorted({workers for rates in peers.values() for workers, taken in rates.items() if taken})
    return {
        workers: max((name for name in peers if peers[name].get(workers)), key=lambda name: median(peers[name][workers]))
        for workers in numbers
    }
