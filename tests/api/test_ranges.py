"""The header ``Range`` asks for what RFC 9110 says it does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.api.ranges import span

DATA = bytes(range(23))


@given(st.integers(0, 40), st.integers(0, 40) | st.none())
def test_a_range_is_the_slice_it_names(first: int, last: int | None) -> None:
    asked = span(f"bytes={first}-{'' if last is None else last}", len(DATA))
    if last is not None and last < first:
        assert asked is None  # malformed: to be ignored
        return
    assert asked is not None
    expected = DATA[first : None if last is None else last + 1]
    assert DATA[asked.start : asked.start + asked.length] == expected
    assert asked.length == len(expected)
    if expected:
        assert asked.content_range == f"bytes {first}-{first + len(expected) - 1}/{len(DATA)}"
    else:
        assert asked.content_range == f"bytes */{len(DATA)}"


@given(st.integers(0, 40))
def test_a_suffix_is_the_end_of_the_object(length: int) -> None:
    asked = span(f"bytes=-{length}", len(DATA))
    assert asked is not None
    assert DATA[asked.start : asked.start + asked.length] == (DATA[-length:] if length else b"")


@pytest.mark.parametrize("size", [0, 1])
def test_of_an_empty_object_no_range_can_be_had(size: int) -> None:
    asked = span("bytes=0-0", size)
    assert asked is not None
    assert asked.length == size


@given(st.text() | st.from_regex(r"bytes=[\d\-, ]*"))
def test_whatever_a_client_sends_is_a_range_or_none(header: str) -> None:
    asked = span(header, 10)
    assert asked is None or 0 <= asked.length <= 10


@pytest.mark.parametrize(
    "header", [None, "", "bytes=", "bytes=-", "bytes=0-1,3-4", "items=0-1", "bytes=1-0", "bytes=٣-٤"]
)
def test_what_is_no_single_range_asks_for_the_whole(header: str | None) -> None:
    assert span(header, 10) is None
