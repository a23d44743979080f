"""Processor time and memory of other processes, from Linux's /proc. Processes that are gone read as None."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: the proportional share (PSS: pages divided by who maps them), and what is the process's alone."""

    proportional: int
    private: int


def cpu_seconds(pid: int) -> float | None:
    """User and system time of one process, all its threads, in ticks of usually 10 ms."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND if fields else None


def run_seconds(pid: int) -> float:
    """User and system time of a process of one thread that sleeps now, in nanoseconds' grain."""
    return int((_PROC / str(pid) / "schedstat").read_text().split()[0]) / 1e9


def memory(pid: int) -> Memory | None:
    """What a process holds now."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return None
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return Memory(sizes["Pss"], sizes["Private_Clean"] + sizes["Private_Dirty"]) if "Pss" in sizes else None


def children(pid: int) -> list[int]:
    """The processes whose parent is ``pid``."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields and int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none for a zombie."""
    with suppress(OSError):
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return [] if fields[0] in ("Z", "X") else fields
    return []
