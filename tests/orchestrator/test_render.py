"""A note as Markdown: what came from outside is inert."""

import pytest

from stoker.orchestrator.render import inert

HOSTILE = [
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](https://evil.example/track.png)",
    "a | b | c",
    "```\nfence",
    "`code` and ``more``",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "@everyone look",
    "# heading",
    "*bold* _it_ ~~s~~",
    "line\nbreak\r\n- item",
    "https://evil.example",
    "zero\u200bwidth",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stands_on_one_line_and_its_markup_in_a_code_span(text: str) -> None:
    """T11: no markup, no control or direction character, no table cell, no second line."""
    shown = inert(text)
    if shown.startswith("`"):
        assert shown.endswith("`")
        assert "`" not in shown[1:-1]
    else:
        assert not set(shown) & set("`<>[]*#@!~")
        assert "://" not in shown
    assert not set(shown) & set("\n\r|\x1b\u202e\u200b")


@pytest.mark.parametrize("text", ["SyntaxError", "worker lost (SIGKILL)", "invalid syntax (a_b.py, line 3)", "exit status 7"])
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    """A note is read by people: no escapes where none are needed."""
    assert inert(text) == text


def test_text_is_bounded() -> None:
    """Ten megabytes become two hundred characters."""
    assert len(inert("x" * 10**7)) <= 202
