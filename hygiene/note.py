"""The facts of a note, gathered inside the transaction that closes the fire. Rendering is the orchestrator's."""

from typing import Any

from stoker.hygiene.outbox import is_stuck, undelivered, undelivered_words
from stoker.sql.database import Transaction
from stoker.sql.units import format_duration

VERSION = 1
_HELD = {
    "approval": "to be approved",
    "question": "with a question",
    "operator": "held by a person",
    "restored": "held after a restore",
}
_LOST = "lost"
_COUNTS = ("workers", "done", "failed", "retried", "unknown", "held", "cancelled", "expired", "left", "not_due", "behind")


def gather(tx: Transaction, fire: int, ended: str, extra: dict[str, Any]) -> dict[str, Any]:
    """The facts of a closed ``fire``, as JSON values; every count is a sum over rows of this database."""
    ((_, lane, key, reason, opened_at, closing_at, closed_at, code_version, plan, sweep),) = tx.run("closed_fire", fire=fire)
    workers = tx.run("fire_workers", fire=fire)
    repaired = dict(sweep or {})
    loops = repaired.pop("loops", [])
    facts: dict[str, Any] = {
        "version": VERSION,
        "fire": fire,
        "lane": lane,
        "key": str(key),
        "reason": reason,
        "ended": ended,
        "opened_at": opened_at.isoformat(),
        "closing_at": closing_at.isoformat(),
        "closed_at": closed_at.isoformat(),
        "seconds": round((closed_at - opened_at).total_seconds(), 3),
        "code_version": code_version,
        "modes": _modes(tx, fire, plan),
        "hygiene": repaired,
        "loops": loops,
        "failures": _failures(tx, fire),
        "held": [dict(zip(("mode", "kind", "count", "task"), row, strict=True)) for row in tx.run("held_counts")],
        "paused": _paused(tx),
        "workers": _workers(workers, extra.get("stillborn", [])),
        "plan": plan,
        "undelivered": undelivered(tx),
        "watchdog": next(({"age": round(age), "expected": each} for age, each in tx.run("watchdog_age")), None),
    }
    facts["needs"] = _needs(tx, facts, extra.get("unserved", []))
    return facts


def verdict_line(facts: dict[str, Any]) -> str:
    """One line that says how it went."""
    names = ("done", "failed", "retried", "unknown", "held", "cancelled", "expired", "left")
    total = {name: sum(mode.get(name, 0) for mode in facts["modes"]) for name in names}
    stopped = {one["mode"] for one in facts.get("paused", [])}
    waiting = sum(mode["left"] for mode in facts["modes"] if mode["mode"] not in stopped)
    if not any(total.values()) and not facts["workers"]["launched"]:
        words = "nothing to do"
    else:
        words = f"{total['done']:,} done, {total['failed']:,} failed"
        words += "".join(f", {total[n]:,} {n}" for n in names[2:] if total[n])
    if waiting and not total["done"] and not total["failed"]:
        words = f"hollow: {waiting:,} waiting, none done"
    ends = {
        "normal": "",
        "reaped": "; reaped: its orchestrator died",
        "restored": "; restored from a dump",
        "interrupted": "; interrupted",
        "deadline": "; ended at its deadline",
    }
    lost = len(facts["workers"]["lost"])
    words += f"; {lost} worker{'s' if lost != 1 else ''} lost" if lost else ""
    return f"{words}{ends.get(facts['ended'], '')}, in {facts['seconds']:.1f} s"


def _modes(tx: Transaction, fire: int, plan: dict[str, Any] | None) -> list[dict[str, Any]]:
    modes: dict[str, dict[str, Any]] = {}

    def of(mode: str) -> dict[str, Any]:
        return modes.setdefault(mode, {"mode": mode, **dict.fromkeys(_COUNTS, 0), "seconds": 0.0, "tally": {}})

    for share in (plan or {}).get("shares", []):
        of(share["mode"])
    for mode, workers, done, failed, retried, seconds, respawns in tx.run("fire_modes", fire=fire):
        of(mode).update(
            workers=workers, done=done, failed=failed, retried=retried, seconds=round(seconds, 3), respawns=respawns
        )
    for mode, label, count in tx.run("fire_tallies", fire=fire):
        of(mode)["tally"][label] = count
    for mode, ready, later, due, _, _ in tx.run("queue_counts"):
        of(mode).update(left=ready + due, not_due=later - due)
    for mode, count in tx.run("fire_unknown", fire=fire):
        of(mode)["unknown"] = count
    for mode, count in tx.run("line_counts"):
        of(mode)["behind"] = count
    for mode, _, count, _ in tx.run("held_counts"):
        of(mode)["held"] += count
    for mode, count in tx.run("fire_cancelled", fire=fire):
        of(mode)["cancelled"] = count
    for mode, count in tx.run("expired_since"):
        of(mode)["expired"] = count
    return sorted(modes.values(), key=lambda mode: str(mode["mode"]))


def _paused(tx: Transaction) -> list[dict[str, Any]]:
    return [
        {"mode": mode, "by": by, "reason": reason, "since": since.isoformat()}
        for mode, by, reason, since in tx.run("list_paused")
    ]


def _failures(tx: Transaction, fire: int) -> list[dict[str, Any]]:
    return [
        {
            "mode": mode,
            "kind": kind,
            "count": count,
            "failed": failed,
            "retried": retried,
            "unknown": unknown,
            "example": {"task": task, "attempt": attempt, "error": error},
        }
        for mode, kind, count, failed, retried, unknown, task, attempt, error in tx.run("fire_failures", fire=fire)
    ]


def _workers(rows: list[tuple[Any, ...]], stillborn: list[dict[str, Any]]) -> dict[str, Any]:
    exits: dict[str, int] = {}
    for row in rows:
        exits[row[6] or "?"] = exits.get(row[6] or "?", 0) + 1
    lost = [
        {
            "worker": str(row[0]),
            "mode": row[1],
            "ordinal": row[2],
            "how": row[7] or "no sign of life",
            "host": row[14].get("host"),
        }
        for row in rows
        if row[6] == _LOST
    ]
    lost += [{**one, "how": f"{one['how']} before it registered", "host": None} for one in stillborn]
    return {
        "launched": len(rows) + len(stillborn),
        "exits": exits,
        "lost": lost,
        "respawns": sum(row[11] for row in rows),
        "broken": sorted({f"{row[1]}: {row[7]}" for row in rows if row[6] == "broken"}),
        "db_retries": sum(row[15] for row in rows),
        "peak_memory_bytes": max((row[12] or 0 for row in rows), default=0),
    }


def _needs(tx: Transaction, facts: dict[str, Any], unserved: list[Any]) -> list[dict[str, Any]]:
    """What a person must do or know, most urgent first."""
    needs = [
        {"what": "handler cannot run", "text": f"{text}. Repair that; its tasks are untouched."}
        for text in facts["workers"]["broken"]
    ]
    if facts["hygiene"].get("needs_owner"):
        text = "Tasks to come have no partition of their own; only the tables' owner may make one. As that owner: stoker sweep"
        needs.append({"what": "partitions", "text": text})
    watchdog = facts["watchdog"]
    if watchdog and watchdog["age"] > watchdog["expected"]:
        since = format_duration(watchdog["age"])
        needs.append({"what": "watchdog silent", "text": f"The watchdog last looked {since} ago. Is stoker-watchdog running?"})
    for mode, count, task in tx.run("unknown_counts"):
        text = f"{count} side effect(s) of {mode} with unknown outcome, first task {task}. See: stoker tasks ls --state unknown"
        needs.append({"what": "unknown outcome", "text": text})
    for one in facts["held"]:
        words = f"{one['count']:,} of {one['mode']} {_HELD[one['kind']]}, first task {one['task']}"
        needs.append({"what": "held", "text": f"{words}. See: stoker tasks ls --state held --mode {one['mode']}"})
    for one in facts["paused"]:
        words = f"{one['mode']} is paused by {one['by']} since {one['since'][:16]}: {one['reason']}"
        needs.append({"what": "paused", "text": f"{words}. To go on: stoker unpause {one['mode']}"})
    needs += [
        {"what": "not delivered", "text": f"{undelivered_words(one)}. See: stoker outbox"}
        for one in facts["undelivered"]
        if is_stuck(one)
    ]
    for mode in facts["modes"]:
        if mode["failed"]:
            name = mode["mode"]
            where = f"stoker tasks ls --mode {name} --state failed --fire {facts['fire']}"
            text = f"{mode['failed']:,} of {name} failed for good. See: {where}"
            needs.append({"what": "failed for good", "text": text})
    for mode, version, count in unserved:
        text = f"{count} task(s) of mode {mode} (payload version {version}) that no configured mode runs. "
        text += "Configure the mode, or deploy the code that knows this version."
        needs.append({"what": "not served", "text": text})
    return needs
