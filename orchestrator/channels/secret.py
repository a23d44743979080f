"""Secrets of channels: read from their files at each try, so that a new one needs no restart."""

from pathlib import Path

from stoker.orchestrator.message import NotSentError

_LONGEST = 64 << 10


def read_secret(folder: Path, name: str) -> str:
    """What the file holds, without white space around it. Raises NotSentError, which names the file and no more."""
    try:
        with (folder / Path(name).expanduser()).open("rb") as file:
            text = file.read(_LONGEST + 1).decode().strip()
    except OSError as error:
        raise NotSentError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotSentError(f"{name} is not UTF-8") from None
    if not text or len(text) > _LONGEST:
        raise NotSentError(f"{name} is empty or too long")
    return text
