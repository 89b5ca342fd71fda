"""A range names the bytes that it says, or none; what is no range is ignored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.server.ranges import UnsatisfiableError, requested_range

SIZES = st.integers(min_value=0, max_value=1000)


@given(size=SIZES, first=st.integers(0, 1100), last=st.none() | st.integers(0, 1100))
def test_a_range_is_a_slice(size: int, first: int, last: int | None) -> None:
    data = bytes(n % 251 for n in range(size))
    header = f"bytes={first}-{'' if last is None else last}"
    expected = data[first:] if last is None else data[first : last + 1]
    if last is not None and last < first:
        assert requested_range(header, size) is None
    elif not expected:
        with pytest.raises(UnsatisfiableError):
            requested_range(header, size)
    else:
        found = requested_range(header, size)
        assert found is not None
        assert data[found[0] : found[0] + found[1]] == expected
        assert found[1] == len(expected)


@given(size=SIZES, length=st.integers(0, 1100))
def test_a_suffix_is_the_end(size: int, length: int) -> None:
    if not min(size, length):
        with pytest.raises(UnsatisfiableError):
            requested_range(f"bytes=-{length}", size)
    else:
        assert requested_range(f"bytes=-{length}", size) == (size - min(size, length), min(size, length))


@given(header=st.text(max_size=30), size=SIZES)
def test_any_text_is_a_range_within_the_object_or_nothing(header: str, size: int) -> None:
    try:
        found = requested_range(header, size)
    except UnsatisfiableError:
        return
    assert found is None or (found[0] >= 0 and found[1] > 0 and found[0] + found[1] <= size)


@pytest.mark.parametrize("header", [None, "", "bytes=-", "bytes=0-1,3-4", "items=0-1", "bytes=a-b", "bytes=٣-٤", "0-1"])
def test_what_is_no_single_range_of_bytes_is_ignored(header: str | None) -> None:
    assert requested_range(header, 10) is None


def test_numbers_of_thousands_of_digits_are_just_large() -> None:
    nines = "9" * 5000
    assert requested_range(f"bytes=3-{nines}", 10) == (3, 7)
    assert requested_range(f"bytes=-{nines}", 10) == (0, 10)
    with pytest.raises(UnsatisfiableError):
        requested_range(f"bytes={nines}-", 10)
