"""A line of a program that is too long to be kept: whether it was one that means something, found out while it goes by."""

import re

_OPENS = frozenset(b"{[")
_LONGEST_KEY = 64
_IN_TEXT = re.compile(rb"[\"\\]")
_AT_TOP = re.compile(rb"[\"{}\[\],]")
_BELOW = re.compile(rb"[\"{}\[\]]")


class LongLine:
    """Reads a JSON object piece by piece, wherever it is cut, and keeps its own ``keys``, none of what is in it."""

    def __init__(self, beginning: bytes) -> None:
        self.keys: set[bytes] = set()
        self._is_object = beginning.startswith(b"{")
        self._depth = 0
        self._is_text = self._is_escaped = self._is_key = self._key_is_next = False
        self._key = b""
        self.hear(beginning)

    def hear(self, data: bytes) -> None:
        """Take the next piece."""
        at, end = 0, len(data) if self._is_object else 0
        while at < end:
            at = self._text(data, at) if self._is_text else self._structure(data, at)

    def _structure(self, data: bytes, at: int) -> int:
        found = (_AT_TOP if self._depth == 1 else _BELOW).search(data, at)
        if not found:
            return len(data)
        sign = data[found.start()]
        if sign == ord('"'):
            self._is_text, self._key = True, b""
            self._is_key = self._key_is_next
        elif sign != ord(","):
            self._depth += 1 if sign in _OPENS else -1
        self._key_is_next = sign == ord(",") or (sign == ord("{") and self._depth == 1)
        return found.end()

    def _text(self, data: bytes, at: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            return at + 1
        found = _IN_TEXT.search(data, at)
        stop = found.start() if found else len(data)
        if self._is_key:
            self._key = (self._key + data[at:stop])[:_LONGEST_KEY]
        if not found:
            return stop
        self._is_escaped = data[stop] == ord("\\")
        self._is_text = self._is_escaped
        if self._is_key and not self._is_text:
            self.keys.add(self._key)
            self._is_key = False
        return stop + 1
