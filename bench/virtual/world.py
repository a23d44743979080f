"""Lets an almanac happen on a real server, by the shipped code, one moment after the other.

Cron calls ``stoker fire --due`` every minute for each schedule; of its calls only those are made at which something is due, or
at which the call before found no database. A fire is admitted and closed as it is by ``stoker fire``, without workers: time is
what it takes. The watchdog looks every thirty seconds; of its looks only those are left out before which nothing has happened
for ten minutes, but for one an hour.
"""

import heapq
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from json import loads
from pathlib import Path
from typing import Any

from bench.virtual import almanac as written
from bench.virtual.almanac import Almanac, Break, Miss
from bench.virtual.clock import Clock, VirtualDatabase, seconds
from stoker.hygiene.close import NORMAL, Seen, Terms, close_fire
from stoker.hygiene.restored import installation_of
from stoker.orchestrator.admission import Interlocks, Request, admit
from stoker.orchestrator.slots import rule_of, upcoming
from stoker.sql.database import DatabaseUnreachableError
from stoker.sql.retention import prune
from stoker.watchdog.channels import Pager
from stoker.watchdog.settings import WatchdogSettings
from stoker.watchdog.watch import Watch

_LOCKS = Interlocks(None, 0.0, 12, 25, 900.0, written.FIRE_DEADLINE.total_seconds(), "UTC")
_EVERY = timedelta(seconds=30)
_MINUTE = timedelta(minutes=1)
_DAY_SECONDS = 86_400.0
_SETTLED = (timedelta(), seconds(30), seconds(90), timedelta(minutes=7))


@dataclass(frozen=True, slots=True)
class Told:
    """A page that arrived."""

    at: datetime
    action: str
    cause: str


@dataclass(slots=True)
class World:
    """``stop`` and ``start`` are the server's; ``told`` is what arrived at the webhook, in order."""

    url: str
    folder: Path
    almanac: Almanac
    clock: Clock
    stop: Callable[[], object]
    start: Callable[[], object]
    dice: random.Random
    told: list[Told] = field(default_factory=list)
    looks: int = 0
    fires: int = 0
    overdue: dict[Miss, datetime] = field(default_factory=dict)
    _queue: list[tuple[datetime, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)
    _grid: set[int] = field(default_factory=set)
    _dead: set[str] = field(default_factory=set)
    _turns: dict[str, int] = field(default_factory=dict)
    _is_up: bool = True
    _database: Any = None
    _watch: Any = None
    _settings: Any = None
    _phase: timedelta = timedelta()
    _installation: str = ""

    def run(self) -> None:
        """From its start to its end."""
        with _webhook(self) as webhook:
            self._settings = WatchdogSettings.of({"webhook": webhook, "every": f"{_EVERY.seconds}s", "pages_per_hour": 1000})
            self._database = VirtualDatabase(self.url, self.clock)
            self._installation = installation_of(self._database)
            self._new_watch()
            for name in self.almanac.edits:
                self._dead.add(name)
                self._revive(name)
            for one in self.almanac.breaks:
                self._plan_break(one)
            for miss in self.almanac.misses:
                self._plan_miss(miss)
            self._background()
            while self._queue and self._queue[0][0] < self.almanac.end:
                self.clock.now, _, act = heapq.heappop(self._queue)
                act()
            self._watch.close()
            self._database.close()

    def _at(self, moment: datetime, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (moment, next(self._numbers), act))

    # What cron does.

    def _revive(self, name: str) -> None:
        self._dead.discard(name)
        self._turns[name] = turn = self._turns.get(name, 0) + 1
        self._at(self.clock.now + seconds(self.dice.uniform(1, 60)), lambda: self._come(name, turn))

    def _come(self, name: str, turn: int) -> None:
        """One call of cron; after it the next one that has something to do."""
        if name in self._dead or self._turns[name] != turn:
            return
        again = self._is_up and self._fire(name)
        now, schedule = self.clock.now, self.almanac.at(name, self.clock.now)
        due = next(upcoming(rule_of(schedule), now))
        following = min(due + seconds(self.dice.uniform(1, 5)), now + _MINUTE if again or not self._is_up else due + _MINUTE)
        self._at(following, lambda: self._come(name, turn))
        self._look_after(now, due, due + seconds(schedule.grace_seconds))

    def _fire(self, name: str) -> bool:
        """Whether to call again in a minute: several slots may be due by the policy."""
        schedule = self.almanac.at(name, self.clock.now)
        request = Request(
            str(uuid.uuid4()), schedule.lane, f"schedule {name}", _LOCKS, _DAY_SECONDS, {}, None, schedule=schedule
        )
        found = admit(self._database, request)
        if found.fire and found.refusal is None:
            self.fires += 1
            lasts = seconds(self.dice.uniform(2, 300) if self.dice.random() < 0.97 else self.dice.uniform(300, 3000))
            for miss in self.almanac.misses:
                if miss.kind == written.HANGS and miss.schedule == name and miss.due == found.due_at:
                    self.overdue[miss] = self.clock.now + written.FIRE_DEADLINE
                    self._look_until_told(self.overdue[miss], miss)
                    lasts = miss.end - self.clock.now
            self._at(self.clock.now + lasts, lambda: self._end(found.fire))
        return schedule.most_missed > 1 and not found.idle

    def _end(self, fire: int) -> None:
        """The fire writes its note, as soon as there is a database."""
        if not self._is_up:
            self._at(self.clock.now + seconds(5), lambda: self._end(fire))
            return
        if not close_fire(self._database, Seen(fire), Terms(NORMAL, self._installation, reap_ghosts=False)):
            raise AssertionError(f"fire {fire} was closed by somebody else")
        self._look_after(self.clock.now)

    # What the watchdog does.

    def _new_watch(self) -> None:
        """A watchdog that was started anew looks at other seconds."""
        if self._watch is not None:
            self._watch.close()
        self._phase = _EVERY * self.dice.random()
        self._grid.clear()
        own = VirtualDatabase(self.url, self.clock)
        pager = Pager(self._settings, self.folder)
        self._watch = Watch(own, self._settings, pager, self.folder / "watchdog.json", clock=self.clock.seconds)

    def _look_after(self, *moments: datetime) -> None:
        """The first look after each."""
        for moment in moments:
            number = (moment - self.almanac.start - self._phase) // _EVERY + 1
            if number not in self._grid:
                self._grid.add(number)
                at = self.almanac.start + self._phase + number * _EVERY
                self._at(at, lambda watch=self._watch: self._look(watch))  # type: ignore[misc]

    def _look(self, watch: Watch) -> None:
        if watch is not self._watch:
            return
        self.looks += 1
        look = watch.look()
        if look.failures:
            raise AssertionError(f"a page did not go out: {look.failures}")
        if not self._is_up:
            self._look_after(self.clock.now)

    def _look_until_told(self, moment: datetime, miss: Miss) -> None:
        """Every look from a moment on, until the miss was told or is over."""

        def again() -> None:
            if self.clock.now < miss.end and not any(told.cause == miss.cause and told.at >= moment for told in self.told):
                self._look_after(self.clock.now)
                self._at(self.clock.now + _EVERY, again)

        self._at(moment, again)

    def _background(self) -> None:
        """Once an hour something looks, and once a day what is old is taken out."""
        if self._is_up and self.clock.now.hour == 0:
            prune(self._database, 30 * _DAY_SECONDS)
        self._look_after(self.clock.now)
        self._at(self.clock.now + timedelta(hours=1), self._background)

    # What happens to them.

    def _plan_break(self, one: Break) -> None:
        begin: Callable[[], Any]
        end: Callable[[], Any]
        match one.kind:
            case written.DEPLOY:
                begin, end = self._kill, self._deployed
            case written.PAUSE:
                keys = {"schedule": one.schedule, "actor": "ann"}
                begin = lambda: self._database.run("pause_schedule", **keys, reason="the supplier is closed")  # noqa: E731
                end = lambda: self._database.run("resume_schedule", **keys, reason="")  # noqa: E731
            case written.GATE:
                begin, end = self._close_gate, self._open_gate
            case written.REPAIRS:
                begin, end = self._shut_down, self._live
                self._at(one.end + seconds(self.dice.uniform(70, 300)), self._open_gate)
            case _:
                begin, end = self._lose_database, self._find_database
        self._span(one.start, one.end, begin, end)

    def _plan_miss(self, miss: Miss) -> None:
        match miss.kind:
            case written.HANGS:
                self._at(miss.end, lambda: self._look_after(*(miss.end + later for later in _SETTLED)))
                return
            case written.HOST:
                self._span(miss.start, miss.end, self._kill, self._live)
            case written.DARK:
                self._span(miss.start, miss.end, self._lose_database, self._find_database)
            case _:
                self._span(miss.start, miss.end, lambda: self._dead.add(miss.schedule), lambda: self._revive(miss.schedule))
        if miss.kind == written.BUSY:
            self._span(miss.base - seconds(30), miss.base + seconds(30), self._lose_database, self._find_database)
        self._look_until_told(miss.base, miss)

    def _span(self, start: datetime, end: datetime, begin: Callable[[], Any], finish: Callable[[], Any]) -> None:
        def do(act: Callable[[], Any]) -> None:
            act()
            self._look_after(*(self.clock.now + later for later in _SETTLED))

        self._at(start, lambda: do(begin))
        self._at(end, lambda: do(finish))

    def _kill(self) -> None:
        self._dead.update(self.almanac.edits)

    def _live(self) -> None:
        for name in self.almanac.edits:
            self._revive(name)

    def _deployed(self) -> None:
        self._live()
        self._new_watch()

    def _shut_down(self) -> None:
        self._close_gate()
        self._kill()

    def _close_gate(self) -> None:
        self._database.run("close_gate", actor="ann", reason="repairs")

    def _open_gate(self) -> None:
        self._database.run("open_gate", actor="ann", reason="")
        self._look_after(*(self.clock.now + later for later in _SETTLED))

    def _lose_database(self) -> None:
        self._is_up = False
        self.stop()

    def _find_database(self) -> None:
        self.start()
        self._is_up = True
        while True:
            try:
                self._database.run("clock")
                return
            except DatabaseUnreachableError:
                continue


@contextmanager
def _webhook(world: World) -> Iterator[str]:
    """A server on loopback that writes down what it is told, and when."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = loads(self.rfile.read(int(self.headers["Content-Length"])))
            world.told.append(Told(world.clock.now, said["action"], said["cause"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
