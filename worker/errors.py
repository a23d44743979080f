"""What is told of an exception that a handler raised: its kind, its words, its place, and what a mode may call it."""

import os

from stoker.worker.redact import bounded

_KIND_LIMIT = 100
_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib costs a start more


def kind_of(error: BaseException) -> str:
    """The error's class, fit to be stored whatever it calls itself."""
    return bounded(type(error).__qualname__, _KIND_LIMIT)


def names_of(error: BaseException) -> set[str]:
    """What a mode may call the error: every class of it, bare and dotted."""
    return {name for cls in type(error).__mro__ for name in (cls.__name__, f"{cls.__module__}.{cls.__qualname__}")}


def text_of(error: object) -> str:
    """The error's own words; an exception class may fail to give them."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - whatever goes wrong there, the attempt failed for the error at hand
        return "(its text cannot be read)"


def traceback_of(error: BaseException) -> str:
    """The error with where it came from, as Python prints it; the end of it."""
    import traceback  # 8 ms, for who fails

    try:
        return "".join(traceback.format_exception(error)).strip()[-4000:]
    except BaseException:  # noqa: BLE001 - as above
        return text_of(error)


def place_of(error: BaseException) -> str:
    """Where the handler raised, as `` (jobs.py:12)``: the last line that is no library's; empty when it is not known."""
    import traceback  # 8 ms, for who fails

    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not one.filename.startswith(_LIBRARY) and "site-packages" not in one.filename]
    return next((f" ({os.path.basename(one.filename)}:{one.lineno})" for one in reversed(own or frames)), "")  # noqa: PTH119
