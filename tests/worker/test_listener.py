"""What the program of a command mode says."""

import os

import pytest

from stoker.worker.listener import Listener


def heard(words: bytes, result_limit: int = 100) -> Listener:
    """A listener that has read ``words`` from a standard output."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    listener = Listener(output_limit=200, result_limit=result_limit)
    for start in range(0, len(words), 1 << 14):
        os.write(writer, words[start : start + (1 << 14)])
        listener.drain_some(reader, True)
    os.close(writer)
    listener.drain_some(reader, True)
    os.close(reader)
    listener.end()
    return listener


@pytest.mark.parametrize("depth", [b"[" * 100_000 + b"]" * 100_000, b"[" * 100_000])
def test_deep_nesting_harms_nobody(depth: bytes) -> None:
    """R64: as a result it is refused with a reason, as words it is kept."""
    assert heard(b'{"log": ' + depth + b"}\n").complaint is None
    kind, _ = heard(b'{"result": ' + depth + b"}\n", result_limit=10**6).complaint or ("", "")
    assert kind in ("result not JSON", "")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (b'{ "result": "' + b"x" * 5000 + b'"}\n', "result too large"),
        (b'{"a": 1, "result": "' + b"x" * 5000 + b'"}', "result too large"),
        (b'{"a": {"x": "' + b'\\"' * 20_000 + b'"}, "result": 1}', "result too large"),
        (b'{"a": [' + b"[1, {}]," * 20_000 + b'2], "result": 1}\nwords\n', "result too large"),
        (b'{"hold": "' + b"x" * 50_000 + b'"}\n', "question too large"),
        (b'{"result": 1', "result not JSON"),
        (b"{'result': 1}\n", "result not JSON"),
        (b'{"result": "a\0b"}\n', "result not JSON"),
        (b'{"result": "a\\u0000b"}\n', "result not JSON"),
        (b'{"result": "\\ud800"}\n', "result not JSON"),
        (b'{"result": "\xff"}\n', "result not JSON"),
        (b'{"result": 1}\n{"result": oops\n', "result not JSON"),
        (b'{"result": ' + b"1" * 5000 + b"}\n", "result not JSON"),
        (b'{"result": NaN}\n', "result not JSON"),
    ],
)
def test_a_result_that_cannot_be_kept_is_said_to_be_one(words: bytes, kind: str) -> None:
    """A task is never done with its result silently lost."""
    complaint = heard(words).complaint
    assert complaint is not None
    assert complaint[0] == kind
    assert "payload" not in complaint[1]


def test_the_last_result_stands_and_other_lines_are_words() -> None:
    """JSON lines without a result, and broken ones, are kept for the logs."""
    listener = heard(b'hello\n{"result": 1}\n{"percent": 0.5}\n{"result": oops\n{"result": {"s": "new"}}\n')
    assert listener.complaint is None
    assert listener.result == '{"s":"new"}'
    assert listener.label("s") == "new"
    assert listener.text() == 'hello\n{"percent": 0.5}\n{"result": oops\n'
    assert heard(b'{"result": NaN}\n{"result": 7}\n').complaint is None


@pytest.mark.parametrize(
    "words",
    [
        b'{"log": {"result": "' + b"x" * 50_000 + b'"}, "a": ["result", "hold"], "b": "result"}\n',
        b'{"log": "' + b'\\", \\"result\\": 1' * 5000 + b'"}\n',
        b'[{"result": "' + b"x" * 50_000 + b'"}]\n',
        b'see {"result": "' + b"x" * 50_000 + b'"}\n',
    ],
)
def test_a_long_line_that_is_no_result_is_words(words: bytes) -> None:
    """Its end is kept, nothing is complained of, and what follows it is heard."""
    listener = heard(words + b'{"result": 1}\n')
    assert (listener.complaint, listener.result) == (None, "1")
    assert (listener.text() or "").endswith(words[-100:].decode())
    assert heard(words).complaint is None


def test_no_part_of_a_long_line_is_taken_for_a_line() -> None:
    """Also where a read ends right before it."""
    listener = heard(b'"' + b"x" * ((1 << 14) - 1) + b'{"result": 1}\n')
    assert (listener.result, listener.complaint) == (None, None)


def test_a_mark_of_byte_order_and_indentation_are_passed_over() -> None:
    """Some programs begin with one; words keep theirs."""
    listener = heard(b'\xef\xbb\xbf{"result": 1}\r\n   two\n')
    assert (listener.result, listener.text()) == ("1", "   two\n")


def test_a_program_asks_for_a_snooze_or_for_a_person() -> None:
    """One key, and of the right kind; else it is words."""
    listener = heard(b'{"snooze": 2.5}\n{"hold": "which?"}\n')
    assert (listener.snooze, listener.question, listener.text()) == (2.5, "which?", None)
    words = b'{"snooze": -1}\n{"snooze": true}\n{"hold": ""}\n{"hold": "x", "level": 1}\n{"progress": 1.5}\n'
    listener = heard(words)
    assert (listener.snooze, listener.question, listener.text()) == (None, None, words.decode())


def test_a_program_says_how_far_it_is() -> None:
    """With or without words."""
    said: list[tuple[float, str]] = []
    listener = Listener(200, 100, lambda fraction, text: said.append((fraction, text)))
    listener._take_line(b'{"progress": 0.4, "text": "nearly"}\n')
    listener._take_line(b'{"progress": 1}\n')
    assert said == [(0.4, "nearly"), (1.0, "")]
    assert listener.text() is None
