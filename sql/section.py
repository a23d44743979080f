"""What a section of config.toml is made of: keys with their kinds, checked all at once, all that is wrong said at once.

The values are checked by pydantic's core, which is given its schema directly. pydantic's own models say the same in fewer
words, but importing and building them takes 80 ms, a third of a fire that finds nothing to do (docs/adr/0006).
"""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, dataclass_transform, get_args, get_origin

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

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


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value is checked, and how it is written in the notation of the file.

    In ``Annotated`` several may stand one after the other; the first that writes is asked to write.
    """

    schema: CoreSchema
    write: Callable[[Any], Any] | None = None


def checked(check: Callable[[Any], Any], write: Callable[[Any], Any] | None = None) -> Kind:
    """The kind that ``check`` makes of a value; what is wrong it raises as ValueError."""
    return Kind(core_schema.no_info_plain_validator_function(check), write)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section: the attribute that holds it, the type of that, and how it is checked and written."""

    attribute: str
    holds: Any
    kinds: tuple[Kind, ...]

    @property
    def schema(self) -> CoreSchema:
        """One kind after the other."""
        first, *more = (kind.schema for kind in self.kinds)
        return core_schema.chain_schema([first, *more]) if more else first

    def write(self, value: Any) -> Any:
        """The value in the notation of the file."""
        return next((kind.write(value) for kind in self.kinds if kind.write), value)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Section:
    """One section: frozen, exact about types, without room for unknown keys, silent about its values.

    An attribute is a key; what begins with an underscore is a fact that the file does not give.
    """

    keys: ClassVar[dict[str, Key]] = {}
    _built: ClassVar[SchemaValidator]

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
        try:
            values = cls._validator().validate_python(dict(given))
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)
            raise SectionError([(one["loc"], _wrong(one, _at(given, one["loc"]))) for one in found]) from None
        section = cls(**{cls.keys[name].attribute: value for name, value in values.items()})
        for name, fact in facts.items():
            object.__setattr__(section, f"_{name}", fact)
        try:
            section.check()
        except ValueError as error:
            raise SectionError([((), str(error))]) from None
        return section

    @classmethod
    def _validator(cls) -> SchemaValidator:
        if "_built" not in cls.__dict__:
            fields = {name: core_schema.typed_dict_field(key.schema, required=False) for name, key in cls.keys.items()}
            cls._built = SchemaValidator(core_schema.typed_dict_schema(fields, extra_behavior="forbid"))
        return cls._built

    def changed(self, **values: Any) -> Self:
        """The same section with other values of these attributes, which are taken as they are."""
        return type(self)(**{**{key.attribute: getattr(self, key.attribute) for key in self.keys.values()}, **values})

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


TEXT = Kind(core_schema.str_schema(strict=True))
_PLAIN: dict[Any, Kind] = {
    str: TEXT,
    bool: Kind(core_schema.bool_schema(strict=True)),
    int: Kind(core_schema.int_schema(strict=True)),
    float: Kind(core_schema.float_schema(strict=True, allow_inf_nan=False)),
}
_EXPECTED = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "float_type": "a number",
    "list_type": "a list of texts",
}


def _key(attribute: str, hint: Any) -> Key:
    """Of ``Annotated``: its type and its kinds; of a plain type, or a choice: what it says itself."""
    if kinds := getattr(hint, "__metadata__", ()):
        return Key(attribute, hint.__origin__, kinds)
    if get_origin(hint) is Literal:
        return Key(attribute, str, (Kind(core_schema.literal_schema(list(get_args(hint)))),))
    return Key(attribute, hint, (_PLAIN[hint],))


def _at(given: Any, where: Where) -> object:
    for step in where:
        given = given[step]
    return given


def _wrong(found: Any, value: object) -> str:
    """What pydantic found, in words; of the value its kind alone is told."""
    kind, facts = found["type"], found.get("ctx", {})
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {kind_of(value)}"
    match kind:
        case "value_error":
            return str(facts["error"])
        case "literal_error":
            got = "another text" if isinstance(value, str) else kind_of(value)
            return f"expected {facts['expected']}, got {got}"
        case "extra_forbidden":
            return "unknown key"
        case "greater_than_equal":
            return f"must be at least {facts['ge']:g}"
        case "greater_than":
            return f"must be more than {facts['gt']:g}"
        case "less_than_equal":
            return f"must be at most {facts['le']}"
        case "string_too_long":
            return f"must be at most {facts['max_length']} characters"
        case "finite_number":
            return "must be a finite number"
        case _:
            return f"is not acceptable ({kind})"
