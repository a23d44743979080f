"""A message becomes a file in a folder: whole or not at all, readable by its owner alone; sent twice it is one file."""

import contextlib
import os
from pathlib import Path

from stoker.orchestrator.message import Message, NotSentError
from stoker.orchestrator.notify_settings import NotifySettings


def send(settings: NotifySettings, folder: Path, message: Message, _seconds: float) -> None:
    """Write the text as Markdown: beside its final name, then in its place."""
    place = folder / Path(settings.folder).expanduser()
    beside = place / f".{message.name}.{os.getpid()}"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(message.text)
                file.flush()
                os.fsync(descriptor)
            beside.replace(place / f"{message.name}.md")
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise NotSentError(f"{settings.folder} cannot be written: {error.strerror}") from None
