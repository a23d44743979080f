"""A POST of the message as JSON, signed if there is a secret; the same delivery id at every try."""

import json
from pathlib import Path

from stoker.hygiene.signature import DELIVERY, sign
from stoker.orchestrator.channels.post import post
from stoker.orchestrator.channels.secret import read_secret
from stoker.orchestrator.message import Message
from stoker.orchestrator.notify_settings import NotifySettings


def send(settings: NotifySettings, folder: Path, message: Message, seconds: float) -> None:
    """POST it to the owner's URL, which may lead anywhere."""
    url = read_secret(folder, settings.url_file) if settings.url_file else settings.url
    body = json.dumps(message.as_json(), default=str).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "stoker", DELIVERY: message.delivery_id}
    secrets = [read_secret(folder, name) for name in (settings.secret_file, settings.old_secret_file) if name]
    if secrets:
        headers |= sign(secrets, body, message.seconds)
    post(url, body, headers, seconds=seconds, public_only=False)
