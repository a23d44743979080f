"""A bar on a terminal while many tasks are read and put in; elsewhere nothing."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

Tell = Callable[[int], object]


def lines_told(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of ``file``, with a bar over its bytes; its end is known only of a file."""
    try:
        total = os.fstat(file.fileno()).st_size or None
    except OSError:
        total = None
    with bar("reading", total) as tell:
        for line in file:
            tell(len(line))
            yield line


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Tell]:
    """Whoever is told how much more has been done draws it, on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda more: progress.advance(task, more)
