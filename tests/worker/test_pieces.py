"""JSON cut into its parts without reading it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.worker.pieces import UnreadableError, pieces, salvage

VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=8
)


@given(st.lists(VALUES, min_size=1), st.sampled_from([None, 1]), st.booleans())
def test_each_part_is_its_own_text(values: list[object], indent: int | None, ascii_only: bool) -> None:
    """Whatever stands in texts, and however it is laid out."""
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values]
    assert list(pieces(" , ".join(texts))) == texts


@pytest.mark.parametrize("bad", ["[" * 100_000 + "]" * 100_000, "9" * 5000])
def test_one_unreadable_payload_leaves_the_others_readable(bad: str) -> None:
    """R64: PostgreSQL takes it, Python does not."""
    frame = f'[7, [[1, 3, 1]], [], [{{"a": "],["}}, {bad}, "b"]]'.encode()
    with pytest.raises((ValueError, RecursionError)):
        json.loads(frame)
    number, spans, passed, (first, broken, last) = salvage(frame)
    assert (number, spans, passed, first, last) == (7, [[1, 3, 1]], [], {"a": "],["}, "b")
    assert isinstance(broken, UnreadableError)
    assert len(str(broken)) < 300
