"""The models that payloads must fit: found by name, asked of JSON text, and silent about what a payload holds."""

import importlib
import sys
from functools import cache
from typing import Any, get_args

from stoker.sql.new_task import EnqueueError
from stoker.sql.payload import PayloadError

_MOST_WRONGS, _LONGEST_STEP = 5, 60
# Their words hold the value, or a part of it, or are those of the model's author, which may.
_TALKATIVE = ("value_error", "assertion_error", "union_tag_invalid", "json_invalid")
_TALKATIVE_KINDS = ("uuid_", "url_")


class ModelError(EnqueueError):
    """A mode's model cannot be imported, or is none. The text says why and where it was looked for."""


def find_model(name: str, folder: str) -> Any:
    """What stands behind "package.module:Name", beside config.toml (in ``folder``) or in the environment.

    A pydantic model, or whatever else pydantic can check: a dataclass, a TypedDict. Raises ModelError.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        _adapter(found)
    except Exception as error:  # noqa: BLE001 - whatever an import raises means the same: it cannot be used
        words = next(iter(str(error).splitlines()), "")
        looked = f"It is looked for in {folder} and in the environment."
        raise ModelError(f"{name} cannot be used as a model: {type(error).__name__}: {words[:200]}. {looked}") from None
    finally:
        sys.path.remove(folder)
    return found


def fit(model: Any, text: str | bytes) -> Any:
    """The instance of ``model`` that JSON ``text`` describes; raises PayloadError with the paths of what does not fit."""
    from pydantic import ValidationError  # a tenth of a second, for who names a model

    try:
        return _adapter(model).validate_json(text)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        wrongs = [f"{_path(one['loc'])}: {_words(one['type'], one['msg'])}" for one in found[:_MOST_WRONGS]]
        more = f"; and {len(found) - _MOST_WRONGS} more" if len(found) > _MOST_WRONGS else ""
        raise PayloadError("; ".join(wrongs) + more) from None


@cache
def _adapter(model: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def _path(where: tuple[int | str, ...]) -> str:
    return ".".join(["payload", *("".join(c if c.isprintable() else "?" for c in str(step))[:_LONGEST_STEP] for step in where)])


def _words(kind: str, words: str) -> str:
    """pydantic's words, where they are of the model alone."""
    if kind in ("value_error", "assertion_error"):
        return "the model's own check refuses it"
    return words if kind in _quiet_kinds() else f"is not acceptable ({kind[:_LONGEST_STEP]})"


@cache
def _quiet_kinds() -> frozenset[str]:
    from pydantic_core.core_schema import ErrorType

    kinds = get_args(ErrorType)
    return frozenset(kind for kind in kinds if kind not in _TALKATIVE and not kind.startswith(_TALKATIVE_KINDS))
