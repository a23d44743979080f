"""When leases may be judged. The database is the clock; this watches whether that clock is to be believed."""

import socket
import time

from stoker.hygiene.identity import mine
from stoker.sql.database import Database

_LEAP_SECONDS = 5.0


def leases_are_judged(database: Database, lease_seconds: float) -> bool:
    """False for one lease after the server started or its clock leapt: until then every living owner can renew.

    A leap is seen by the offset between the database's clock and the time since this host's boot, which nobody sets:
    each pass compares it with the offset that any earlier pass on this boot has noted.
    """
    ((before, now),) = database.run("see_host", boot_id=mine().boot_id, host=socket.gethostname(), since_boot=_since_boot())
    if before is not None and abs(now - before) > _LEAP_SECONDS:
        database.run("note_leap")
    ((judged,),) = database.run("judge_leases", lease=lease_seconds)
    return bool(judged)


def _since_boot() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
