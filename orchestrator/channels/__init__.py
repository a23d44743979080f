"""The kinds of channels. Each module has ``send(settings, folder, message, seconds)``: one try, bounded in time.

It returns a remark, mostly none, or raises NotSentError. Only the kind that is used is imported.

file.py     a file a message, in a folder
command.py  a program that gets the message as JSON on standard input
webhook.py  a signed POST; post.py the request, outside.py which addresses a stranger may name
mail.py     SMTP
apprise.py  a hundred other services, by a library that is an extra
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from stoker.orchestrator.message import Message
from stoker.orchestrator.notify_settings import NotifySettings

Send = Callable[[NotifySettings, Path, Message, float], str | None]


def sender(kind: str) -> Send:
    """What sends by channels of this kind."""
    send: Send = import_module(f"stoker.orchestrator.channels.{kind}").send
    return send
