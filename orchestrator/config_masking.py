"""A database URL with its secrets masked. What is not surely harmless is masked, so that a new one cannot leak."""

import re

MASK = "***"
_HARMLESS = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "application_name", "connect_timeout", "sslmode"}
    | {"target_session_attrs", "options"}
)
_PARTS = re.compile(r"(?P<scheme>\w+://)(?P<login>.*@)?(?P<place>[^?#@]*)(?P<query>\?.*)?", re.DOTALL)
_TARGET = re.compile(r"(https?://)(?:[^/?#]*@)?([^/?#@]*)")
_WORD = re.compile(r"\s*([a-z_]+)\s*=\s*((?:[^\s'\\]|\\.)+|'(?:[^'\\]|\\.)*')(?=\s|$)")


def masked_target(url: str) -> str:
    """Where a message is POSTed to: its host alone, since the rest of such a URL is often all that keeps others from it."""
    parts = _TARGET.match(url)
    return f"{parts[1]}{parts[2]}/{MASK}" if parts else MASK if url else ""


def masked_url(url: str) -> str:
    """``url``, or libpq's "key=value" form of it, fit to be shown."""
    if not url:
        return ""
    return _masked_words(url) if "://" not in url.partition("=")[0] else _masked_parts(url)


def _masked_parts(url: str) -> str:
    parts = _PARTS.fullmatch(url)
    if parts is None:
        return MASK
    user, colon, _ = (parts["login"] or "").removesuffix("@").partition(":")
    login = f"{user}{f':{MASK}' if colon else ''}@" if parts["login"] else ""
    query = "&".join(_masked_pair(pair) for pair in (parts["query"] or "")[1:].split("&"))
    return f"{parts['scheme']}{login}{parts['place']}" + (f"?{query}" if query else "")


def _masked_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    return f"{name}={value if name in _HARMLESS else MASK}" if equals else (MASK if pair else "")


def _masked_words(words: str) -> str:
    shown, end = [], 0
    while match := _WORD.match(words, end):
        shown.append(f"{match[1]}={match[2] if match[1] in _HARMLESS else MASK}")
        end = match.end()
    return " ".join(shown) if not words[end:].strip() else MASK
