"""A peer's side: its backlog, drained by worker processes that all begin in the same moment."""

from collections.abc import Callable

import psycopg

from bench import proc
from bench.peers.crew import Crew, at_the_gate, dismiss, last_words, open_gate
from bench.peers.peer import Peer
from bench.peers.sampler import Sample, steady_rate, watch
from bench.server import BenchError, Site


def drain(site: Site, peer: Peer, command: list[str], workers: int) -> float:
    """Load, drain by ``workers`` processes; steady tasks a second."""
    peer.load(site, command)
    with at_the_gate(site, [*command, "work", peer.url(site)], workers) as crew:
        open_gate(crew)
        samples = _watch(site, peer, crew)
        handled = dismiss(crew)
    if sum(handled) < peer.tasks or not all(handled):
        raise BenchError(f"{peer.name}'s workers were given {handled} of {peer.tasks} tasks: {last_words(site)}")
    return steady_rate(samples, peer.tasks)


def memory(site: Site, peer: Peer, command: list[str]) -> float:
    """MB (PSS) of one worker process while it drains; the highest of some looks."""
    peer.load(site, command)
    highest = 0

    def look() -> None:
        nonlocal highest
        seen = proc.memory(crew[0].pid)
        highest = max(highest, seen.proportional if seen else 0)

    with at_the_gate(site, [*command, "work", peer.url(site)], 1) as crew:
        open_gate(crew)
        _watch(site, peer, crew, look)
        dismiss(crew)
    return highest / 1e6


def _watch(site: Site, peer: Peer, crew: Crew, look: Callable[[], None] = lambda: None) -> list[Sample]:
    def alive() -> bool:
        look()
        return all(process.poll() is None for process in crew)

    with psycopg.connect(peer.url(site), autocommit=True) as connection:
        return watch(connection, peer.unfinished, peer.tasks, lambda left: peer.tasks - left, alive)
