"""Users' code, found by its name. What most handlers are is told without the modules that know every kind."""

import contextlib
import importlib
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.worker.task import Task

_AWAITED = 0x80 | 0x100  # inspect.CO_COROUTINE, inspect.CO_ITERABLE_COROUTINE


def find(name: str, folder: str) -> Any:
    """What "package.module:attribute" names, beside config.toml or in the environment; it may import from there later too."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, attribute = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def call(function: Callable[[], Any]) -> Any:
    """What it returns, awaited if it is to be."""
    result = function()
    if hasattr(result, "__await__"):
        import asyncio

        return asyncio.run(_awaited(result))
    return result


def find_handler(name: str, folder: str) -> "Callable[[Task[Any]], Any]":
    """The function behind "package.module:function"."""
    found = find(name, folder)
    if not callable(found):
        raise TypeError(f"{name} is not callable")
    handler: Callable[[Task[Any]], Any] = found
    if not (_is_plain(handler) and handler.__code__.co_argcount == 1 and not handler.__code__.co_kwonlyargcount):
        import inspect  # 10 ms, for what is no plain function of one argument

        with contextlib.suppress(ValueError):
            inspect.signature(handler).bind(object())
    return handler


def is_async(handler: Any) -> bool:
    """Whether what it returns is to be awaited."""
    if _is_plain(handler):
        return bool(handler.__code__.co_flags & _AWAITED)
    import inspect

    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


async def _awaited(result: Any) -> Any:
    return await result


def _is_plain(handler: Any) -> bool:
    """Whether it is a function as it was written, as most handlers are."""
    return type(handler) is types.FunctionType and not hasattr(handler, "__wrapped__") and not hasattr(handler, "__signature__")
