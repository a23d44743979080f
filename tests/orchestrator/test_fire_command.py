"""The short way to a fire takes what the full command line would take, and nothing else."""

import pytest
import typer.main

from stoker.orchestrator.commands import app
from stoker.orchestrator.fire_command import BEFORE, FLAGS, VALUES, Options, read


def options_of(command: object) -> dict[str, tuple[str, bool]]:
    """Every option but those for help and version: its parameter, and whether it is a flag."""
    return {
        name: (parameter.name, parameter.is_flag)
        for parameter in command.params  # type: ignore[attr-defined]
        for name in (*parameter.opts, *parameter.secondary_opts)
        if parameter.name not in ("help", "version")
    }


def test_both_know_the_same_options_with_the_same_defaults() -> None:
    """An option that is added to one and not to the other fails here."""
    group = typer.main.get_command(app)
    fire = group.commands["fire"]  # type: ignore[attr-defined]
    names = {"modes": "mode"}
    mine = {name: (names.get(at, at), False) for name, at in VALUES.items()} | {name: (at, True) for name, at in FLAGS.items()}
    assert options_of(fire) == mine
    assert options_of(group) == {name: (at, False) for name, at in BEFORE.items()}
    defaults = {parameter.name: parameter.default for parameter in fire.params if parameter.name in vars(Options())}
    assert defaults == {name: getattr(Options(), name) for name in defaults}
    assert len(defaults) == 6


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["fire"], Options()),
        (["-c", "x.toml", "fire", "--json"], Options(config="x.toml", as_json=True)),
        (["fire", "-m", "a", "--mode", "b", "--lane", "l"], Options(modes=("a", "b"), lane="l")),
        (["fire", "--reason", "a b", "--exit-code", "--json"], Options(reason="a b", exit_code=True, as_json=True)),
        (["--config", "a", "fire", "--lane", ""], Options(config="a", lane="")),
    ],
)  # fmt: skip
def test_the_plain_form_is_read(words: list[str], options: Options) -> None:
    assert read(words) == options


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["plan"],
        ["note", "fire"],
        ["enqueue", "fire", "{}"],
        ["fire", "--help"],
        ["fire", "-h"],
        ["--version", "fire"],
        ["fire", "again"],
        ["fire", "--lane"],
        ["fire", "--lane", "--json"],
        ["fire", "--lane", "a", "--lane", "b"],
        ["fire", "--lane=a"],
        ["fire", "--reas", "x"],
        ["fire", "-mresize"],
        ["fire", "--", "x"],
        ["-c", "fire"],
        ["-c", "fire", "fire"],
        ["fire", "--config", "x"],
    ],
)
def test_everything_else_is_left_to_the_full_command_line(words: list[str]) -> None:
    """Help, mistakes, other spellings: it says what is meant."""
    assert read(words) is None
