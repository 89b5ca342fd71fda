"""Listings from pages: what comes, in which order, and when each page is requested."""

from itertools import chain, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import UnavailableError
from graveler.model import Page
from graveler.values.paging import Pages, items


class Source:
    """Pages of numbers, which counts how often one is requested."""

    def __init__(self, *sizes: int) -> None:
        self.numbers = list(range(sum(sizes)))
        self.requests = 0
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        self._bounds = list(zip([0, *ends], ends, strict=False))

    def __call__(self, after: str) -> Page[int]:
        self.requests += 1
        number = int(after or "0")
        first, last = self._bounds[number]
        following = str(number + 1) if number + 1 < len(self._bounds) else None
        return Page(tuple(self.numbers[first:last]), following)


def test_a_page_is_requested_when_it_is_reached() -> None:
    source = Source(2, 2)
    found = items(source)
    assert source.requests == 0
    assert [next(found), next(found)] == [0, 1]
    assert source.requests == 1
    assert list(found) == [2, 3]
    assert source.requests == 2


def test_a_limit_requests_no_page_behind_it() -> None:
    source = Source(2, 2, 2)
    assert list(items(source, 4)) == [0, 1, 2, 3]
    assert source.requests == 2
    assert list(items(source, 0)) == []
    assert source.requests == 2


def test_an_error_ends_a_listing() -> None:
    def fails(after: str) -> Page[int]:
        if after:
            raise UnavailableError("gone")
        return Page((1, 2), "2")

    pages = Pages(fails)
    found = chain.from_iterable(pages)
    with pytest.raises(UnavailableError):
        pages.following(3)
    assert list(islice(found, 2)) == [1, 2], "looking ahead failed, and took nothing"
    with pytest.raises(UnavailableError):
        next(found)
    assert list(found) == []
    assert pages.following(1) == (), "what is shown is what a loop would get"


@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    limit=st.none() | st.integers(0, 12),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=8),
)
def test_looking_ahead_takes_nothing(sizes: list[int], limit: int | None, steps: list[tuple[bool, int]]) -> None:
    source = Source(*sizes)
    pages = Pages(source, limit)
    found = chain.from_iterable(pages)
    expected = source.numbers[:limit]
    for looks, amount in steps:
        if looks:
            assert list(pages.following(amount)) == expected[:amount]
        else:
            assert list(islice(found, amount)) == expected[:amount]
            expected = expected[amount:]
    assert list(found) == expected
    assert pages.following(1) == ()
    assert source.requests <= len(sizes)
