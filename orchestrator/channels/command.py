"""A program that gets the message as JSON on standard input; it is ended, with all that it started, when its time is over."""

import json
import os
import subprocess
import threading
from pathlib import Path

from stoker.hygiene.process import Child, describe_exit, kill_tree_now, spawn
from stoker.orchestrator.message import Message, NotSentError
from stoker.orchestrator.notify_settings import NotifySettings
from stoker.worker.capture import Tail
from stoker.worker.redact import LOOKED_AT, bounded, last_line

_PLAIN = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")
_NEVER = (65, 78)
_SAID_LENGTH = 200
_LINGER_SECONDS = 1.0  # a process that got away may hold the pipe open; nobody waits for it


def send(settings: NotifySettings, folder: Path, message: Message, seconds: float) -> None:
    """Run it beside config.toml, without a shell. Once it was started, a failure may have told somebody all the same."""
    known = {name: os.environ[name] for name in (*_PLAIN, *settings.env) if name in os.environ}
    program = settings.command[0]
    argv = [str(folder / program) if os.sep in program else program, *settings.command[1:]]
    try:
        child = spawn(
            argv,
            env={**known, "STOKER_DELIVERY_ID": message.delivery_id},
            cwd=str(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            die_with_parent=True,
        )
    except OSError as error:
        raise NotSentError(f"{program} cannot be started: {error.strerror}") from None
    said = _run(child, json.dumps(message.as_json(), default=str).encode(), seconds, program)
    code = child.returncode
    if code != 0:
        given = {name: known[name] for name in settings.env if name in known}
        last = bounded(last_line(said, "redacted", None, given), _SAID_LENGTH)
        words = f"{program} ended with {describe_exit(code)}" + (f": {last}" if last else "")
        raise NotSentError(words, permanent=code in _NEVER, in_doubt=True)


def _run(child: Child, text: bytes, seconds: float, program: str) -> str:
    """Hand it the message, take the end of what it says on standard error, and leave nothing of it behind."""
    said = Tail(LOOKED_AT)
    hand, ear = child.stdin, child.stderr
    assert hand is not None
    assert ear is not None

    def give() -> None:
        try:
            with hand:
                hand.write(text)
        except OSError:
            """It does not want to know; its exit status decides."""

    def hear() -> None:
        while part := os.read(ear.fileno(), 65536):
            said.add(part)

    threads = [threading.Thread(target=work, daemon=True) for work in (give, hear)]
    for thread in threads:
        thread.start()
    try:
        child.popen.wait(seconds)
    except subprocess.TimeoutExpired:
        raise NotSentError(f"{program} took longer than {seconds:.1f} s, and was ended", in_doubt=True) from None
    finally:
        kill_tree_now(child)
        child.close()
        for thread in threads:
            thread.join(_LINGER_SECONDS)
        if not threads[1].is_alive():
            ear.close()
    return said.whole_lines()
