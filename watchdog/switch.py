"""The dead man's switch elsewhere: told of each look, so that somebody hears of a watchdog that looks no more."""

import sys
import threading

from stoker.watchdog.channels import TIMEOUT_SECONDS, request
from stoker.watchdog.pages import PageError


class Switch:
    """Told by GET. That it cannot be told is its own alarm, elsewhere; one that hangs keeps no look back for long."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._telling: threading.Thread | None = None

    def tell(self, suffix: str) -> None:
        """Without a URL nothing; as long as the one before has not let go it is not asked again."""
        if not self._url:
            return
        if self._telling is None or not self._telling.is_alive():
            self._telling = threading.Thread(target=self._ask, args=(suffix,), name="ping", daemon=True)
            self._telling.start()
            self._telling.join(TIMEOUT_SECONDS)
        if self._telling.is_alive():
            _say(f"it has not answered within {TIMEOUT_SECONDS:g} s")

    def _ask(self, suffix: str) -> None:
        try:
            request(self._url + suffix, None, {})
        except (PageError, OSError) as error:
            _say(str(error))


def _say(why: str) -> None:
    sys.stderr.write(f"stoker-watchdog: the dead man's switch was not told: {why}\n")
