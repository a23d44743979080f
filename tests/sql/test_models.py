"""P9: what is a model, what becomes of a payload that does not fit, and what is told of it."""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.sql.models import ModelError, find_model, fit
from stoker.sql.payload import PayloadError
from stoker.worker.redact import key_shown

SECRET = "s3cr3t-value"
MODELS = """
import functools, sys
from dataclasses import dataclass
from typing_extensions import TypedDict
from pydantic import BaseModel, ConfigDict, field_validator, model_validator


class Part(BaseModel):
    size: int

    @field_validator("size")
    @classmethod
    def looked_up(cls, size):
        return {1: 1, 2: 2}[size]


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str = ""
    parts: list[Part] = []
    named: dict[str, Part] = {}

    @field_validator("path")
    @classmethod
    def leaves(cls, path):
        if path == "leave":
            sys.exit(path)
        return path


class Whole(BaseModel):
    path: str = ""

    @model_validator(mode="before")
    @classmethod
    def looks(cls, values):
        values["missing"]
        return values


@dataclass
class Plain:
    path: str


class Typed(TypedDict):
    path: str


class Other:
    def __init__(self, path):
        self.path = path


def function(path: str):
    return path


bound = functools.partial(function, "a")
NUMBER = 7
Either = Part | Order
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    """A folder with a module of models of its own."""
    (tmp_path / "own_models.py").write_text(MODELS)
    (tmp_path / "leaving_models.py").write_text("import sys\nsys.exit('bye')\n")
    yield str(tmp_path)
    for name in ("own_models", "leaving_models"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["Order", "Plain", "Typed", "Either"])
def test_what_pydantic_can_check_is_a_model(folder: str, name: str) -> None:
    assert find_model(f"own_models:{name}", folder)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_models:function", "it is a function; name a class that derives from pydantic.BaseModel"),
        ("own_models:bound", "it is a function; "),
        ("own_models:Part.looked_up", "it is a function; "),
        ("own_models:sys", "it is a module; "),
        ("own_models:Other", "it is a class that pydantic cannot check; "),
        ("own_models:NUMBER", "it is int and no class; "),
        ("leaving_models:Order", "SystemExit: bye"),
    ],
)
def test_what_is_no_model_is_refused_with_what_to_do(folder: str, name: str, words: str) -> None:
    """And ends nobody's process."""
    with pytest.raises(ModelError) as refused:
        find_model(name, folder)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"{name} cannot be used as a model: ")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("Order", '{"parts": [{"size": 1}, {"size": 9}]}', "payload.parts.1.size: the model's own check broke (KeyError)"),
        ("Order", '{"path": "leave", "parts": []}', "payload.path: the model's own check broke (SystemExit)"),
        ("Order", '{"named": {"a": {"size": 9}}}', "payload.named.*.size: the model's own check broke (KeyError)"),
        ("Whole", '{"path": "a"}', "payload: the model's own check broke (KeyError)"),
    ],
)
def test_a_check_that_breaks_refuses_the_payload_with_its_path(folder: str, name: str, text: str, words: str) -> None:
    """Whatever it raises, also what would end the process."""
    with pytest.raises(PayloadError) as refused:
        fit(find_model(f"own_models:{name}", folder), text)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("policy", "key", "shown"),
    [
        ("full", SECRET, SECRET),
        ("redacted", "colour", "colour"),
        ("redacted", "password=hunter2", "password=[redacted]"),
        ("withheld", "colour", "*"),
        ("full", "k" * 500, "k" * 60),
    ],
)
def test_a_key_that_the_model_does_not_know_is_told_as_its_mode_says(folder: str, policy: str, key: str, shown: str) -> None:
    """Bounded; the model's own names always, values never."""
    order = find_model("own_models:Order", folder)
    with pytest.raises(PayloadError) as refused:
        fit(
            order,
            f'{{"{key}": "{SECRET}-x", "parts": [{{"size": "{SECRET}-x"}}]}}',
            functools.partial(key_shown, policy=policy),
        )
    assert f"payload.{shown}: Extra inputs are not permitted" in str(refused.value)
    assert "payload.parts.0.size: Input should be a valid integer" in str(refused.value)
    assert f"{SECRET}-x" not in str(refused.value)
