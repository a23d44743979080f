"""What a section of config.toml is made of: keys with their kinds, checked one by one, all that is wrong said at once.

Built on annotations alone, because every command reads its configuration before it does anything: what a library for this
imports and builds takes a third of the time of a fire that finds nothing to do (docs/performance.md).
"""

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, dataclass_transform, get_args, get_origin

Where = tuple[str | int, ...]

_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list | tuple, "a list"),
    (dict, "a table"),
    (datetime.date | datetime.time, "a date or time"),
)


class SectionError(Exception):
    """What is wrong with a section: where in it, and what, without the values."""

    def __init__(self, wrongs: list[tuple[Where, str]]) -> None:
        self.wrongs = wrongs
        super().__init__(wrongs)


class ElementError(ValueError):
    """An element of a list is wrong; ``place`` says which."""

    def __init__(self, place: int, wrong: str) -> None:
        self.place = place
        super().__init__(wrong)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value is read from the notation of the file, and written in it. What is wrong is raised as ValueError.

    In ``Annotated`` several may stand one after the other; the first that writes is asked to write.
    """

    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section: the attribute that holds it, the type of that, and how it is read and written."""

    attribute: str
    holds: Any
    kinds: tuple[Kind, ...]

    def read(self, value: object) -> Any:
        """The value for the program; raises ValueError."""
        for kind in self.kinds:
            value = kind.read(value)
        return value

    def write(self, value: Any) -> Any:
        """The value in the notation of the file."""
        return next((kind.write(value) for kind in self.kinds if kind.write), value)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Section:
    """One section: frozen, exact about types, without room for unknown keys, silent about its values.

    An attribute is a key; what begins with an underscore is a fact that the file does not give.
    """

    keys: ClassVar[dict[str, Key]] = {}

    def __init_subclass__(cls) -> None:
        names = {name: hint for name, hint in cls.__annotations__.items() if not name.startswith("_")}
        cls.keys = {key_of(name): _key(name, hint) for name, hint in names.items()}

    def __init__(self, **values: Any) -> None:
        for key in self.keys.values():
            object.__setattr__(self, key.attribute, values.pop(key.attribute, getattr(type(self), key.attribute)))
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    @classmethod
    def of(cls, given: Mapping[str, Any], **facts: Any) -> Self:
        """The section with these keys, as the file gives them, and the facts. Raises SectionError with all that is wrong."""
        values: dict[str, Any] = {}
        wrongs: list[tuple[Where, str]] = [((name,), "unknown key") for name in given if name not in cls.keys]
        for name, key in cls.keys.items():
            try:
                if name in given:
                    values[key.attribute] = key.read(given[name])
            except ElementError as error:
                wrongs.append(((name, error.place), str(error)))
            except ValueError as error:
                wrongs.append(((name,), str(error)))
        section = cls(**values)
        for name, fact in facts.items():
            object.__setattr__(section, f"_{name}", fact)
        try:
            if not wrongs:
                section.check()
        except ValueError as error:
            wrongs.append(((), str(error)))
        if wrongs:
            raise SectionError(wrongs) from None
        return section

    def check(self) -> None:
        """What must hold between the keys; raises ValueError."""

    def as_written(self) -> dict[str, Any]:
        """Every key with its value in the notation of the file, secrets in clear."""
        return {name: key.write(getattr(self, key.attribute)) for name, key in self.keys.items()}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


def key_of(attribute: str) -> str:
    """The key in the file of an attribute, whose name may end in its unit, or in what keeps it from being a word taken."""
    return attribute.removesuffix("_seconds").removesuffix("_bytes").removesuffix("_name")


def kind_of(value: object) -> str:
    """What sort of value this is, in the words of the file; safe to print, whatever the value."""
    return next((kind for types, kind in _KINDS if isinstance(value, types)), "something else")


def read_text(value: object) -> str:
    """A text as it is."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {kind_of(value)}")
    return value


def read_truth(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {kind_of(value)}")
    return value


def read_whole(value: object) -> int:
    """A whole number; true and false are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"expected a whole number, got {kind_of(value)}")
    return value


def read_number(value: object) -> float:
    """A finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"expected a number, got {kind_of(value)}")
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return float(value)


_PLAIN: dict[Any, Kind] = {str: Kind(read_text), bool: Kind(read_truth), int: Kind(read_whole), float: Kind(read_number)}


def _key(attribute: str, hint: Any) -> Key:
    """Of ``Annotated``: its type and its kinds; of a plain type, or a choice: what it says itself."""
    if kinds := getattr(hint, "__metadata__", ()):
        return Key(attribute, hint.__origin__, kinds)
    if get_origin(hint) is Literal:
        return Key(attribute, str, (Kind(read_text), Kind(_one_of(get_args(hint)))))
    return Key(attribute, hint, (_PLAIN[hint],))


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in choices:
            *some, last = map(repr, choices)
            raise ValueError(f"expected {', '.join(some)} or {last}, got another text")
        return value

    return read
