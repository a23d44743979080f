"""Durations and sizes: what is read is what is written back, and nothing without its unit is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.sql.units import (
    LARGEST_BYTES,
    LONGEST_SECONDS,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@given(st.floats(min_value=0, max_value=LONGEST_SECONDS, allow_subnormal=True))
def test_every_duration_is_read_back_exactly(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(min_value=0, max_value=LARGEST_BYTES))
def test_every_size_is_read_back_exactly(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.text(alphabet="0123456789.dhmskKMGiB -+e_٣", max_size=12))
def test_any_text_is_either_read_or_refused_without_being_quoted(text: str) -> None:
    for parse, form in ((parse_duration, format_duration), (parse_size, format_size)):
        try:
            value = parse(text)
        except ValueError as error:
            assert "write for example" in str(error) or "at most" in str(error) or "less than" in str(error)  # noqa: PT017
        else:
            assert parse(form(value)) == value


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("0s", 0.0, "0s"),
        ("250ms", 0.25, "250ms"),
        ("1.5s", 1.5, "1s500ms"),
        ("90s", 90.0, "1m30s"),
        ("15m", 900.0, "15m"),
        ("1h30m", 5400.0, "1h30m"),
        ("48h", 172_800.0, "2d"),
        ("1d2h3m4s5ms", 93_784.005, "1d2h3m4s5ms"),
    ],
)
def test_a_duration_is_read_in_seconds_and_written_in_its_shortest_form(text: str, seconds: float, canonical: str) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == canonical


@pytest.mark.parametrize(
    ("text", "size", "canonical"),
    [
        ("0B", 0, "0B"),
        ("512B", 512, "512B"),
        ("64KiB", 65_536, "64KiB"),
        ("1024KiB", 1 << 20, "1MiB"),
        ("2GiB", 2 << 30, "2GiB"),
    ],
)
def test_a_size_is_read_in_bytes_and_written_with_its_largest_unit(text: str, size: int, canonical: str) -> None:
    assert parse_size(text) == size
    assert format_size(size) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "15",
        "0",
        "1.5",
        "m",
        "15 m",
        " 15m",
        "15m\n",
        "15M",
        "15min",
        "-1s",
        "1m1h",
        "1s1s",
        "1e3s",
        "٣s",
        "inf",
        "nan",
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r'^not a duration: write for example "15m", "1h30m" or "250ms"$'):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "64", "0", "64kb", "64KB", "1.5MiB", "1 MiB", "-1B", "1MiB\n", "٣B", "1" * 5000 + "B"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r'^not a size: write for example "64KiB", "1MiB" or "512B"$'):
        parse_size(text)


@pytest.mark.parametrize("value", [15, 1.5, None, True, ["15m"], b"15m"])
def test_what_is_no_text_is_refused_like_a_bare_number(value: object) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not a size"):
        parse_size(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["36501d", "9" * 400 + "d"])
def test_a_duration_beyond_a_century_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at most 36500d"):
        parse_duration(text)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), LONGEST_SECONDS + 1])
def test_a_number_that_is_no_duration_is_not_written(seconds: float) -> None:
    with pytest.raises(ValueError, match="lies between"):
        format_duration(seconds)


@pytest.mark.parametrize("size", [-1, LARGEST_BYTES + 1])
def test_a_number_that_is_no_size_is_not_written(size: int) -> None:
    with pytest.raises(ValueError, match="lies between"):
        format_size(size)
