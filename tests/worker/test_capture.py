"""What tasks print, sorted by task."""

from hypothesis import given
from hypothesis import strategies as st

from stoker.worker.capture import Ear, Tail

NONCE = "0123456789abcdef"
MARK = b"\x1e" + NONCE.encode() + b" "


def ear(running: int = 9, limit: int = 1000) -> Ear:
    return Ear(NONCE, limit, lambda: running)


@given(st.lists(st.integers(1, 60), max_size=12))
def test_marks_are_found_wherever_a_read_was_cut(cuts: list[int]) -> None:
    """Each task has its own words, also when a mark is torn over several reads."""
    stream = MARK + b"1\nfirst\n" + MARK + b"0\n" + MARK + b"2\nsecond \x1e0123 words\n" + MARK + b"0\n" + b"loose"
    heard = ear()
    start = 0
    for cut in [*cuts, len(stream)]:
        heard.hear(stream[start : start + cut])
        start += cut
    heard.hear(stream[start:])
    assert heard.take(1) == "first\n"
    assert heard.take(2) == "second \x1e0123 words\n"
    assert heard.take(9) == "loose"
    assert heard.take(1) is None


def test_another_runners_mark_is_only_text() -> None:
    """A task cannot speak for another: the mark holds a secret of its runner."""
    heard = ear()
    heard.hear(b"\x1effffffffffffffff 3\nforged")
    assert heard.take(3) is None
    assert heard.take(9) == "\x1effffffffffffffff 3\nforged"


def test_output_is_bounded_and_says_what_was_cut() -> None:
    """R33, R34: the last bytes are kept, whatever they are."""
    tail = Tail(10)
    for _ in range(1000):
        tail.add(b"\xb2" * 7 + b"\0")
    assert tail.text() == "[... 7,990 bytes cut ...]\n" + "\ufffd" * 10


def test_what_was_cut_in_a_line_is_no_line() -> None:
    """Half a line may be half a secret."""
    tail = Tail(12)
    tail.add(b"first\nlast\n")
    assert tail.whole_lines() == "first\nlast\n"
    tail.add(b"more\n")
    assert tail.whole_lines() == "last\nmore\n"
    tail.add(b"x" * 100)
    assert tail.whole_lines() == ""
