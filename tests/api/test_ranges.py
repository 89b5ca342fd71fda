"""The header ``Range`` has the meaning of RFC 9110."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.api.ranges import requested, span

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


@pytest.mark.parametrize(
    "header", ["bytes=2-4", "Bytes=2-4", " bytes = 2 - 4 ", "bytes=02-4", "bytes=2-0000000000000000000000004"]
)
def test_a_range_may_be_spelled_in_several_ways(header: str) -> None:
    asked = span(header, 10)
    assert asked is not None
    assert (asked.start, asked.length) == (2, 3)


def test_numbers_of_thousands_of_digits_are_just_large() -> None:
    nines = "9" * 5000
    asked = [span(header, 10) for header in (f"bytes=3-{nines}", f"bytes=-{nines}", f"bytes={nines}-")]
    assert [one and one.content_range for one in asked] == ["bytes 3-9/10", "bytes 0-9/10", "bytes */10"]


@given(st.text(), st.text(alphabet='abc"W/, '))
def test_with_a_condition_a_range_counts_for_that_object_only(etag: str, condition: str) -> None:
    asked = requested({"range": "bytes=1-", "if-range": condition}, etag, 3)
    assert (asked is not None) == (not condition or condition.strip() == f'"{etag}"')


PATTERN = re.compile(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*", re.ASCII | re.IGNORECASE)


@given(
    st.text(alphabet="bytesBYTES=-0123 \t\n\x0b\x85\u0661,")
    | st.from_regex(r"\s{0,2}bytes\s?=\s?\d{0,2}\s?-\s?\d{0,2}\s?")
)
def test_a_header_is_a_range_if_it_looks_like_one(header: str) -> None:
    """This pattern says what one looks like. Matching it takes time that grows with the square of a header's length."""
    found = PATTERN.fullmatch(header)
    first, last = found.groups() if found else ("", "")
    is_one = bool(first or last) and not (first and last and int(last) < int(first))
    assert (span(header, 10) is not None) == is_one


@given(st.text() | st.from_regex(r"bytes=[\d\-, ]*"))
def test_whatever_a_client_sends_is_a_range_or_none(header: str) -> None:
    asked = span(header, 10)
    assert asked is None or 0 <= asked.length <= 10


@pytest.mark.parametrize(
    "header",
    [None, "", "bytes=", "bytes=-", "bytes=0-1,3-4", "items=0-1", "bytes=1-0", "bytes=٣-٤", "bytes=a-b", "0-1"],
)
def test_what_is_no_single_range_asks_for_the_whole(header: str | None) -> None:
    assert span(header, 10) is None
