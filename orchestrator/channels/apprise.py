"""One of the services that Apprise knows, by its URL; the library is an extra, imported when it is used."""

from pathlib import Path

from stoker.orchestrator.channels.secret import read_secret
from stoker.orchestrator.message import Message, NotSentError
from stoker.orchestrator.notify_settings import NotifySettings


def send(settings: NotifySettings, folder: Path, message: Message, _seconds: float) -> None:
    """Notify by the one URL in url_file. Apprise says yes or no, so that a no leaves everything in doubt."""
    try:
        import apprise
    except ImportError:
        raise NotSentError("apprise is not installed here: pip install 'stoker[apprise]'") from None
    url = read_secret(folder, settings.url_file)
    service = None if len(url.split()) != 1 else apprise.Apprise.instantiate(url)
    if service is None:
        raise NotSentError(f"{settings.url_file} does not hold one URL that Apprise knows", permanent=True)
    if not service.notify(title=message.subject, body=message.text, body_format=apprise.NotifyFormat.MARKDOWN):
        raise NotSentError("Apprise could not send it; it does not say why", in_doubt=True)
