"""The three pipes of one program: its payload goes in, what it says comes out. Our ends never block."""

import os
from dataclasses import dataclass, field

import anyio


@dataclass(slots=True)
class Pipes:
    """``output`` and ``errors`` are our reading ends; -1: closed."""

    payload: bytes
    output: int = -1
    errors: int = -1
    _input: int = -1
    _theirs: list[int] = field(default_factory=list)

    def open(self) -> list[int]:
        """The program's ends: standard input, output and error."""
        stdin, self._input = os.pipe()
        self._theirs.append(stdin)
        self.output, stdout = os.pipe()
        self._theirs.append(stdout)
        self.errors, stderr = os.pipe()
        self._theirs.append(stderr)
        for descriptor in (self._input, self.output, self.errors):
            os.set_blocking(descriptor, False)
        return self._theirs

    def close_theirs(self) -> None:
        """The program has its own copies of its ends."""
        while self._theirs:
            os.close(self._theirs.pop())

    def give_some(self) -> bool:
        """Write what there is room for; whether that was all."""
        while self.payload:
            try:
                self.payload = self.payload[os.write(self._input, self.payload) :]
            except BlockingIOError:
                return False
            except BrokenPipeError:
                break
        self._close_input()
        return True

    async def give(self) -> None:
        """Write the rest, as the program reads it."""
        while self._input >= 0 and not self.give_some():
            await anyio.wait_writable(self._input)

    def close(self) -> None:
        """Let them go."""
        self._close_input()
        for descriptor in (self.output, self.errors):
            if descriptor >= 0:
                os.close(descriptor)
        self.output = self.errors = -1

    def _close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1
