"""What the program of a command mode says, a line of JSON each: its result, how far it is, what it asks for; and words."""

import json
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from stoker.sql.payload import PayloadError, decode, encode
from stoker.worker.capture import Tail
from stoker.worker.redact import LOOKED_AT, bounded

if TYPE_CHECKING:
    from stoker.worker.long_line import LongLine

_CHUNK = 1 << 16
_BLANK = b"\xef\xbb\xbf \t\r"  # a mark of byte order, which some programs begin with, is one
_LIKE_A_RESULT = re.compile(rb"\{\s*[\"']result[\"']\s*:")
LONGEST_SECONDS = 10 * 366 * 86_400


class Listener:
    """What a program says: results on standard output, words on either."""

    def __init__(self, output_limit: int, result_limit: int, progress: Callable[[float, str], None] = lambda *_: None) -> None:
        self._tail = Tail(output_limit)
        self._errors = Tail(LOOKED_AT)
        self._line = b""
        self._long: LongLine | None = None
        self._result_limit = result_limit
        self.result: str | None = None
        self.complaint: tuple[str, str] | None = None
        self.snooze: float | None = None
        self.question: str | None = None
        self._progress = progress

    async def hear(self, descriptor: int, is_output: bool) -> None:
        """Read one stream until its end."""
        while True:
            await anyio.wait_readable(descriptor)
            if not self._read(descriptor, is_output):
                return

    def drain_some(self, descriptor: int, is_output: bool) -> None:
        """Read what is there now."""
        while self._read(descriptor, is_output):
            continue

    def end(self) -> None:
        """Nothing more comes."""
        if self._long:
            self._end_long(self._long)
        if self._line:
            self._take_line(self._line)
            self._line = b""

    def _read(self, descriptor: int, is_output: bool) -> bool:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if is_output:
            self._sort(data)
        else:
            self._tail.add(data)
            self._errors.add(data)
        return bool(data)

    def _sort(self, data: bytes) -> None:
        if self._long:
            more, newline, data = data.partition(b"\n")
            self._long.hear(more)
            self._tail.add(more + newline)
            if newline:
                self._end_long(self._long)
        *lines, rest = (self._line + data).split(b"\n")
        for line in lines:
            self._take_line(line + b"\n")
        self._line = rest
        if len(rest) > self._result_limit + 1024:
            from stoker.worker.long_line import LongLine  # for one program in a thousand

            self._tail.add(rest)
            self._long, self._line = LongLine(rest.lstrip(_BLANK)), b""

    def _end_long(self, line: "LongLine") -> None:
        """A line is over of which nothing was kept but its end; what it meant must not be lost without a word."""
        limit = f"above the limit of {self._result_limit:,} bytes (result_limit)"
        if b"result" in line.keys:
            self.complaint = "result too large", f"the line of the result is {limit}"
        elif b"hold" in line.keys:
            self.complaint = "question too large", f"the question to a person is {limit}"
        self._long = None

    def _take_line(self, line: bytes) -> None:
        said = line.lstrip(_BLANK)
        if not said.startswith(b"{") or not self._is_result(said):
            self._tail.add(line)

    def _is_result(self, line: bytes) -> bool:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError) as error:
            return self._complain_of(line, error)
        if not isinstance(said, dict) or "result" not in said:
            return isinstance(said, dict) and self._is_wish(said)
        try:
            self.result = encode(decode(line.decode(), "result")["result"], self._result_limit, "result")
            self.complaint = None
        except (PayloadError, UnicodeDecodeError) as error:
            kind = "result too large" if "above the limit" in str(error) else "result not JSON"
            self.complaint = kind, str(error)
        return True

    def _complain_of(self, line: bytes, error: Exception) -> bool:
        """Whether the line was meant to be a result; one that is no JSON at all is kept among the words, to be looked at."""
        if not _LIKE_A_RESULT.match(line):
            return False
        if isinstance(error, json.JSONDecodeError):
            self.complaint = "result not JSON", f"the line of the result is not JSON: {error.msg} at column {error.colno}"
            return False
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "a number too long, or nested too deep"
        self.complaint = "result not JSON", f"result is no JSON that can be read: {why}"
        return True

    def _is_wish(self, said: dict[str, Any]) -> bool:
        """Whether it is exactly one of the other lines that mean something; anything else is words."""
        match said:
            case {"snooze": int() | float() as seconds} if len(said) == 1 and not isinstance(seconds, bool):
                self.snooze = float(seconds) if 0 <= seconds <= LONGEST_SECONDS else None
                return self.snooze is not None
            case {"hold": str(question)} if len(said) == 1 and question:
                self.question = bounded(question)
                return True
            case {"progress": int() | float() as fraction, **more} if not isinstance(fraction, bool) and 0 <= fraction <= 1:
                text = more.get("text", "")
                if more.keys() <= {"text"} and isinstance(text, str):
                    self._progress(float(fraction), text)
                    return True
        return False

    def label(self, name: str) -> str | None:
        """The word in the result by which the note tallies."""
        value = json.loads(self.result) if name and self.result else None
        found = value.get(name) if isinstance(value, dict) else None
        return str(found)[:63] if found is not None else None

    def text(self) -> str | None:
        """All words, bounded; None when there were none."""
        return self._tail.text() or None

    def errors(self) -> str:
        """The end of standard error, in whole lines."""
        return self._errors.whole_lines()
