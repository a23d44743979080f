"""A note's facts as Markdown. Whatever came from outside is made inert: no markup, no control characters, bounded."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from stoker.sql.units import format_duration

_HARMLESS = re.compile(r"(?:[A-Za-z0-9 .,;%()='+-]|(?<=[A-Za-z0-9])_(?=[A-Za-z0-9])|:(?!//)|/)*")
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"})
_CELL_LIMIT = 200
_RARE = ("retried", "unknown", "held", "cancelled", "expired", "left", "not_due", "behind")


def markdown(facts: dict[str, Any]) -> str:
    """The note a person reads: verdict first, then what each mode did, what was repaired, what failed, what is needed."""
    from stoker.hygiene.note import verdict_line

    parts = [f"# Fire {facts['fire']}: {verdict_line(facts)}", _when(facts)]
    parts += _section("What needs a person", [f"- {inert(need['text'], 400)}" for need in facts["needs"]])
    parts += _section("Modes", _modes(facts["modes"], facts["plan"]))
    parts += _section("Failures", _failures(facts["failures"]))
    parts += _section("Workers", _workers(facts["workers"]))
    parts += _section("What hygiene repaired", _hygiene(facts["hygiene"]))
    parts += _section("Loops", _loops(facts.get("loops", [])))
    return "\n\n".join(part for part in parts if part) + "\n"


def inert(value: object, limit: int = _CELL_LIMIT) -> str:
    """``value`` as one line that no reader of Markdown takes for markup; what might be some stands in a code span."""
    text = "".join(" " if unicodedata.category(c) in _INVISIBLE else c for c in str(value))
    text = " ".join(text.split())
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if _HARMLESS.fullmatch(text) and "www." not in text.lower():
        return text
    return "`" + text.replace("`", "'").replace("|", "¦") + "`"


def _when(facts: dict[str, Any]) -> str:
    why = f", because: {inert(facts['reason'])}" if facts["reason"] else ""
    code = f", code {inert(facts['code_version'])}" if facts["code_version"] else ""
    watchdog = _watchdog(facts["watchdog"]) if facts.get("watchdog") else ""
    times = f"opened {facts['opened_at'][:19]}, closed {facts['closed_at'][:19]} UTC"
    return f"Lane {inert(facts['lane'])}, {times}{code}{why}.{watchdog}"


def _watchdog(seen: dict[str, float]) -> str:
    late = "" if seen["age"] <= seen["expected"] else ", which is too long: does stoker-watchdog run?"
    return f" The watchdog looked {format_duration(max(seen['age'], 0))} before{late or '.'}"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "\n".join(lines)] if lines else []


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Rows as a table whose columns are aligned for those who read the text itself."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(_pad(row[i], widths[i], i) for i in range(len(row))) + " |" for row in cells]
    rule = "| " + " | ".join("-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)) + " |"
    return [lines[0], rule, *lines[1:]] if len(cells) > 1 else []


def _pad(text: str, width: int, column: int) -> str:
    return text.ljust(width) if column == 0 else text.rjust(width)


def _modes(modes: list[dict[str, Any]], plan: dict[str, Any] | None) -> list[str]:
    """Modes that had anything to do; columns that are zero throughout are left out."""
    busy = [mode for mode in modes if any(mode.get(name, 0) for name in ("workers", "done", "failed", *_RARE))]
    columns = ["done", "failed", *(name for name in _RARE if any(mode.get(name, 0) for mode in busy)), "workers"]
    rows = [(inert(m["mode"]), *(f"{m.get(name, 0):,}" for name in columns), f"{m['seconds']:.1f} s") for m in busy]
    lines = _table(("mode", *(name.replace("_", " ") for name in columns), "time"), rows)
    remarks = [
        f"- {inert(mode['mode'])}: " + ", ".join(f"{count:,} {inert(label)}" for label, count in sorted(mode["tally"].items()))
        for mode in busy
        if mode["tally"]
    ]
    remarks += [remark for mode in busy if (remark := _why_left(mode, plan))]
    return [*lines, "", *remarks] if remarks else lines


def _why_left(mode: dict[str, Any], plan: dict[str, Any] | None) -> str:
    """Why tasks were left, as far as the plan tells."""
    share = next((s for s in (plan or {}).get("shares", []) if s["mode"] == mode["mode"]), None)
    if not mode["left"] or share is None or not share["wanted"]:
        return ""
    can_take = "without a task cap" if share["can_take"] is None else f"for at most {share['can_take']:,} tasks"
    bound = "" if share["ceiling"] == "backlog" else f"; {share['ceiling']} bound it"
    return f"- {inert(mode['mode'])}: {mode['left']:,} left; {share['workers']} of {share['wanted']} workers {can_take}{bound}"


def _failures(failures: list[dict[str, Any]]) -> list[str]:
    lines = []
    for group in failures:
        example = group["example"]
        ends = ", ".join(f"{group[name]} {name}" for name in ("failed", "retried", "unknown") if group[name])
        lines.append(
            f"- {inert(group['mode'])}: {inert(group['kind'])}, {group['count']:,} ({ends}). Task {example['task']},"
            f" attempt {example['attempt']}: {inert(example['error'] or 'no text', 400)}"
        )
    return lines


def _workers(workers: dict[str, Any]) -> list[str]:
    if not workers["launched"]:
        return []
    exits = ", ".join(f"{count} {inert(reason)}" for reason, count in sorted(workers["exits"].items()))
    lines = [f"- {workers['launched']} launched; left because: {exits}."]
    if workers.get("db_retries"):
        lines.append(f"- {workers['db_retries']} database statement(s) were tried again.")
    if workers["respawns"]:
        lines.append(f"- {workers['respawns']} runner(s) started again.")
    lines += [
        f"- lost: worker {lost['worker']} (number {lost['ordinal']}, {inert(lost['mode'])}): {inert(lost['how'])}"
        for lost in workers["lost"]
    ]
    return lines


def _hygiene(swept: dict[str, Any]) -> list[str]:
    lines = []
    if swept.get("fires_closed"):
        lines.append("- closed stranded fires: " + ", ".join(str(fire) for fire in swept["fires_closed"]))
    for one in swept.get("workers_released", []):
        freed = ", ".join(
            f"{one[name]} {name}" for name in ("unstarted", "charged", "suspect", "failed", "unknown") if one[name]
        )
        lines.append(
            f"- released worker {one['worker']} of fire {one['fire']} ({inert(one['reason'])}): {freed or 'nothing held'}"
        )
    lines += [
        f"- {swept[name]:,} task(s) {words}"
        for name, words in (("expired", "expired"), ("cancelled", "cancelled as asked for"))
        if swept.get(name)
    ]
    if swept.get("ghosts"):
        lines.append(f"- ended {len(swept['ghosts'])} ghost process(es): {inert(', '.join(swept['ghosts']), 300)}")
    return lines


def _loops(loops: list[dict[str, Any]]) -> list[str]:
    """A line for each that was done in this fire."""
    return [
        f"- {inert(one['name'])}: {_came_of(one)}, in {one['seconds']:.1f} s"
        for one in sorted(loops, key=lambda one: str(one["name"]))
    ]


def _came_of(loop: dict[str, Any]) -> str:
    if loop["error"]:
        return f"failed, {inert(loop['error'], 300)}"
    return "done" if loop["count"] is None else f"{loop['count']:,} done"
