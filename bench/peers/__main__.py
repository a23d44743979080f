"""Stoker and its peers, draining no-op tasks from the same server in turn.

For peers, a task enqueued alone and one of a bulk call make the same row, so one figure stands for both. For stoker they
differ: a bulk call makes spans of 1,000 tasks, a call a task makes a span of one each.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.peers import graphile_worker, ours, pg_boss, pgqueuer, procrastinate, theirs
from bench.peers.install import FOLDER, MissingError, command, version
from bench.peers.peer import Peer
from bench.peers.verdict import Rates, best, each_round, ratios, worst
from bench.report import arguments, machine, progress, publish, table
from bench.server import BenchError, Site, opened

PEERS = {one.PEER.name: one.PEER for one in (pgqueuer, procrastinate, graphile_worker, pg_boss)}
POOLS = (1, 2)
ROUNDS = 5
_BUDGET_SECONDS = 540.0  # with what starts and ends the server: below ten minutes

Taken = dict[str, dict[int, list[float]]]


def main() -> None:
    """Install what is not there, measure in turn, publish."""
    parser = arguments("No-op tasks beside other job queues on PostgreSQL.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds; default {ROUNDS}")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where peers are installed; default bench/.peers")
    parser.add_argument("--only", nargs="+", choices=sorted(PEERS), default=list(PEERS), help="some peers, not all")
    options = parser.parse_args()
    commands, missing = _installed([PEERS[name] for name in options.only], options.folder.resolve())
    over_at = time.monotonic() + _BUDGET_SECONDS
    with opened() as site:
        where = machine(site.settings())
        memory = _warm_up(site, commands, missing)
        taken = _rounds(site, commands, missing, options.rounds, over_at)
    publish("peers", where, [_table(taken, memory, missing)], _figures(taken, memory, missing), save=options.save)


def _installed(peers: list[Peer], folder: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """What starts each peer, and why some cannot be had."""
    commands: dict[str, list[str]] = {}
    missing = {name: "left out" for name in PEERS if PEERS[name] not in peers}
    for peer in peers:
        try:
            commands[peer.name] = command(peer, folder)
        except MissingError as error:
            missing[peer.name] = str(error)
            progress(f"without {peer.name}: {error}")
    return commands, missing


def _warm_up(site: Site, commands: dict[str, list[str]], missing: dict[str, str]) -> dict[str, float]:
    """One drain each, not counted; MB of a worker by name."""
    progress("warm-up, and memory")
    ours.enqueue_singly(site)
    mine = ours.memory(site)
    found = dict.fromkeys(ours.TASKS, mine)
    for name in list(commands):
        peer = PEERS[name]

        def look(peer: Peer = peer) -> float:
            peer.install(site, commands[peer.name])
            return theirs.memory(site, peer, commands[peer.name])

        _kept(found, name, look, commands, missing)
    return found


def _rounds(site: Site, commands: dict[str, list[str]], missing: dict[str, str], rounds: int, over_at: float) -> Taken:
    """Every system with every number of workers, in turn, for as many rounds as there is time for."""
    taken: Taken = {name: {workers: [] for workers in POOLS} for name in (*ours.TASKS, *commands)}
    longest = 0.0
    for number in range(1, rounds + 1):
        began = time.monotonic()
        if number > 1 and began + longest > over_at:
            progress("no time for more rounds")
            break
        progress(f"round {number} of {rounds}")
        for workers in POOLS:
            for kind in ours.TASKS:
                taken[kind][workers].append(ours.drain(site, kind, workers))
            for name in list(commands):
                one: dict[str, float] = {}

                def rate(name: str = name, workers: int = workers) -> float:
                    return theirs.drain(site, PEERS[name], commands[name], workers)

                _kept(one, name, rate, commands, missing)
                taken[name][workers] += one.values()
        longest = max(longest, time.monotonic() - began)
    return {name: rates for name, rates in taken.items() if name not in missing}


def _kept(
    found: dict[str, float],
    name: str,
    measure: Callable[[], float],
    commands: dict[str, list[str]],
    missing: dict[str, str],
) -> None:
    """Measure a peer; one that fails is not asked again, and the others go on."""
    try:
        found[name] = measure()
    except BenchError as error:
        del commands[name]
        missing[name] = _short(str(error))
        progress(f"without {name} from here on: {error}")


def _short(text: str) -> str:
    """The line that says most of a program's last words."""
    return next((line for line in text.splitlines() if "rror" in line), text)[:160]


def _table(taken: Taken, memory: dict[str, float], missing: dict[str, str]) -> str:
    rounds = len(taken[ours.BULK][POOLS[0]])
    head = [
        f"no-op tasks a second, median of {rounds}",
        *_pools("{} worker(s)"),
        *_pools("ratio in bulk, {}"),
        *_pools("ratio singly, {}"),
    ]
    rows = []
    for name, rates in taken.items():
        label = name if name in ours.TASKS else f"{name} {version(PEERS[name])}"
        figures = [f"{statistics.median(rates[workers]):,.0f}" for workers in POOLS]
        against = [
            "" if name in ours.TASKS else _ranged(each_round(taken[kind], rates)[workers])
            for kind in ours.TASKS
            for workers in POOLS
        ]
        rows.append((label, *figures, *against, f"{memory[name]:.0f}"))
    blank = [""] * (3 * len(POOLS) + 1)
    rows += [(f"{name}: not measured: {reason}", *blank) for name, reason in missing.items()]
    return table([*head, "MB a worker"], rows)


def _ranged(each: Sequence[float]) -> str:
    return f"{statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})"


def _pools(text: str) -> list[str]:
    return [text.format(workers) for workers in POOLS]


def _figures(taken: Taken, memory: dict[str, float], missing: dict[str, str]) -> dict[str, Any]:
    peers: dict[str, Rates] = {name: rates for name, rates in taken.items() if name not in ours.TASKS}
    known = {name: rates for name, rates in peers.items() if name == "pgqueuer"}
    return {
        "ratio_to_best_peer": _rounded(worst(taken[ours.BULK], peers.values())),
        "ratio_to_best_peer_single": _rounded(worst(taken[ours.SINGLY], peers.values())),
        "ratio_to_pgqueuer": _rounded(worst(taken[ours.BULK], known.values())),
        "ratio_over": list(peers),
        "best_peer": {str(workers): name for workers, name in best(peers).items()},
        "rounds": len(taken[ours.BULK][POOLS[0]]),
        "missing": missing,
        "stoker": {
            "bulk": _told(taken[ours.BULK]),
            "single": _told(taken[ours.SINGLY]),
            "worker_pss_mb": round(memory[ours.BULK], 1),
        },
        "peers": {
            name: {
                "version": version(PEERS[name]),
                "tasks_per_second": _told(rates),
                "ratio": {str(workers): round(ratio, 3) for workers, ratio in ratios(taken[ours.BULK], rates).items()},
                "ratio_single": {str(workers): round(ratio, 3) for workers, ratio in ratios(taken[ours.SINGLY], rates).items()},
                "worker_pss_mb": round(memory[name], 1),
            }
            for name, rates in peers.items()
        },
    }


def _told(rates: Rates) -> dict[str, int]:
    return {str(workers): round(statistics.median(each)) for workers, each in rates.items()}


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)


if __name__ == "__main__":
    main()
