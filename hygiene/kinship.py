"""Who descends from whom, and how one of them is signalled without ever hitting somebody else."""

import os
import signal
from collections.abc import Callable, Collection, Iterable, Mapping

from stoker.hygiene.identity import Stat, look, proc_is_ours


def table() -> dict[int, Stat]:
    """Every process that can be seen, by pid, zombies too; empty where that cannot be told."""
    try:
        names = os.listdir("/proc") if proc_is_ours() else []  # noqa: PTH208 - quicker than paths
    except OSError:
        return {}
    seen = ((int(name), look(int(name))) for name in names if name.isdigit())
    return {pid: stat for pid, stat in seen if stat is not None}


def descendants(root: int) -> list[int]:
    """Every living process below ``root``; empty where that cannot be told."""
    processes = table()
    return [pid for pid in below([root], processes) if processes[pid].is_living]


def below(roots: Iterable[int], processes: Mapping[int, Stat], spared: Collection[int] = ()) -> list[int]:
    """What descends from ``roots`` in a table, zombies too; nothing of ``spared``, nor what is below them."""
    children: dict[int, list[int]] = {}
    for pid, stat in processes.items():
        children.setdefault(stat.parent, []).append(pid)
    found, stack = list[int](), list(roots)
    while stack:
        for pid in children.pop(stack.pop(), ()):
            if pid not in spared:
                stack.append(pid)
                found.append(pid)
    return found


def descends(pid: int, ancestor: int, spared: Collection[int]) -> bool:
    """Whether the line from ``pid`` up to ``ancestor`` stands now, link by link, and passes none of ``spared``.

    False also when a link has just ended: where it leads by now is seen at the next look.
    """
    while pid != ancestor:
        stat = None if pid in spared else look(pid)
        if stat is None or pid <= 1:
            return False
        pid = stat.parent
    return True


def line_of_descent() -> set[int]:
    """This process and its ancestors, and the first process of all."""
    line, pid = {1}, os.getpid()
    while pid and pid not in line:
        line.add(pid)
        stat = look(pid)
        pid = stat.parent if stat else 0
    return line


def send(pid: int, number: int, still: Callable[[], bool]) -> bool:
    """Signal the process that has ``pid`` if it is ``still`` the one that is meant; False when it is not, or not ours.

    The question is asked after a pidfd was opened: whoever gets the pid later is out of reach. Never signals the first
    process, a process group, or the caller.
    """
    if pid <= 1 or pid == os.getpid():
        return False
    try:
        return _send_by_descriptor(pid, number, still)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):  # no pidfds in this system, kernel or sandbox, or no descriptor left
        return still() and _send_plainly(pid, number)


def _send_by_descriptor(pid: int, number: int, still: Callable[[], bool]) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        if not still():
            return False
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
    return True


def _send_plainly(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True
