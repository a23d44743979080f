"""The models that payloads must fit: found by name, asked of JSON text, and silent about what a payload holds."""

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

from stoker.sql.new_task import EnqueueError
from stoker.sql.payload import PayloadError

_MOST_WRONGS, _LONGEST_STEP, _MOST_TRIES = 5, 60, 200
# Their words hold the value, or a part of it, or are those of the model's author, which may.
_TALKATIVE = ("value_error", "assertion_error", "union_tag_invalid", "json_invalid")
_TALKATIVE_KINDS = ("uuid_", "url_")
_REMEDY = "name a class that derives from pydantic.BaseModel, a dataclass, or a TypedDict of typing_extensions"
Hide = Callable[[str], str]
"""What is told of a key that is the payload's own and not its model's."""


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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever an import raises means the same: it cannot be used
        words = next(iter(str(error).splitlines()), "")
        looked = f"It is looked for in {folder} and in the environment."
        raise ModelError(f"{name} cannot be used as a model: {type(error).__name__}: {words[:200]}. {looked}") from None
    finally:
        sys.path.remove(folder)
    if what := _no_model(found):
        raise ModelError(f"{name} cannot be used as a model: it is {what}; {_REMEDY}.")
    return found


def withheld(_: str) -> str:
    """Tell nothing of a payload's own keys."""
    return "*"


def fit(model: Any, text: str | bytes, hide: Hide = withheld) -> Any:
    """The instance of ``model`` that JSON ``text`` describes; raises PayloadError with the paths of what does not fit."""
    from pydantic import ValidationError  # a tenth of a second, for who names a model

    adapter = _adapter(model)
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        wrongs = [f"{_path(model, one['loc'], hide)}: {_words(one['type'], one['msg'])}" for one in found[:_MOST_WRONGS]]
        more = f"; and {len(found) - _MOST_WRONGS} more" if len(found) > _MOST_WRONGS else ""
        raise PayloadError("; ".join(wrongs) + more) from None
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - a model's own check may raise anything: it lets this payload not in
        kind = type(error)
    way = _way_to_break(adapter, json.loads(text), kind)
    raise PayloadError(f"{_path(model, way, hide)}: the model's own check broke ({kind.__name__[:_LONGEST_STEP]})")


def _no_model(found: Any) -> str:
    """What stands there instead of a model; empty: it is one."""
    from pydantic.errors import PydanticUserError

    if inspect.ismodule(found) or (callable(found) and not isinstance(found, type) and not hasattr(found, "__origin__")):
        return "a module" if inspect.ismodule(found) else "a function"
    try:
        _adapter(found)
    except (PydanticUserError, TypeError, NameError):
        return "a class that pydantic cannot check" if isinstance(found, type) else f"{type(found).__name__} and no class"
    return ""


@cache
def _adapter(model: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def _way_to_break(adapter: Any, value: Any, kind: type[BaseException]) -> tuple[int | str, ...]:
    """The way to the part whose check breaks: by itself in what is around it, it still does."""
    tries = iter(range(_MOST_TRIES))

    def breaks(part: Any, wrap: Callable[[Any], Any]) -> bool:
        return next(tries, None) is not None and _breaks(adapter, wrap(part), kind)

    def search(part: Any, wrap: Callable[[Any], Any]) -> tuple[int | str, ...]:
        if not isinstance(part, dict | list) or breaks(type(part)(), wrap):
            return ()
        for step, child in _children(part):

            def around(inner: Any, step: int | str = step) -> Any:
                return wrap({step: inner} if isinstance(step, str) else [inner])

            if breaks(child, around):
                return (step, *search(child, around))
        return ()

    return search(value, lambda part: part)


def _children(part: dict[str, Any] | list[Any]) -> Iterator[tuple[int | str, Any]]:
    return iter(part.items()) if isinstance(part, dict) else iter(enumerate(part))


def _breaks(adapter: Any, value: Any, kind: type[BaseException]) -> bool:
    from pydantic import ValidationError

    try:
        adapter.validate_json(json.dumps(value))
    except ValidationError:
        return False
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - as in fit
        return type(error) is kind
    return False


def _path(model: Any, where: tuple[int | str, ...], hide: Hide) -> str:
    own = _own_names(model)
    steps = [step if isinstance(step, int) or step in own else hide(step) for step in where]
    return ".".join(["payload", *("".join(c if c.isprintable() else "?" for c in str(step))[:_LONGEST_STEP] for step in steps)])


@cache
def _own_names(model: Any) -> frozenset[str]:
    """The names that are the model's: its fields, those of what it holds, and the classes among which a union chooses."""
    from pydantic.errors import PydanticUserError

    try:
        stack, names = [_adapter(model).json_schema()], set[str]()
    except (PydanticUserError, TypeError, ValueError):
        return frozenset(getattr(model, "__annotations__", ()))
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            names |= {*one.get("properties", ()), *one.get("$defs", ())}
            stack += one.values()
        elif isinstance(one, list):
            stack += one
    return frozenset(names)


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
