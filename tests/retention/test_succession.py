"""Successions of metaranges against full lists: whatever comes in and goes out, in whichever order, the ranges are the same."""

from array import array
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from itertools import accumulate
from operator import or_

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import CorruptError
from graveler.retention.packed_numbers import split_names
from graveler.retention.range_numbers import RangeNumbers
from graveler.retention.succession import Succession

SIZE = 12
"""Numbers of ranges are below this."""

RANGES = st.frozensets(st.integers(0, SIZE - 1))
STEP = st.one_of(
    st.tuples(st.just("insert"), st.lists(st.tuples(st.integers(0, 8), RANGES), min_size=1, max_size=5)),
    st.tuples(st.just("keep"), st.sets(st.integers(0, 30))),
)


def empty() -> Succession:
    return Succession(bytearray(), array("I"), array("I"))


def name_of(number: int) -> bytes:
    return number.to_bytes(48, "big")


def members(positions: Collection[int], size: int) -> bytes:
    return bytes(position in positions for position in range(size))


class Lists:
    """The same with full lists: in order, the name and the ranges of each metarange."""

    def __init__(self) -> None:
        self.succession = empty()
        self.metaranges: list[tuple[bytes, frozenset[int]]] = []
        self._count = 0

    def insert(self, additions: Sequence[tuple[int, frozenset[int]]]) -> None:
        """Insert metaranges with these ranges, each before the one at that position, or at the end."""
        groups: dict[int, list[tuple[bytes, frozenset[int]]]] = {}
        for position, ranges in additions:
            self._count += 1
            groups.setdefault(min(position, len(self.metaranges)), []).append((name_of(self._count), ranges))
        ranges_of = dict(metarange for group in groups.values() for metarange in group)

        def changes(names: Sequence[bytes], live: set[int]) -> Iterator[set[int]]:
            for name in names:
                changed = live ^ ranges_of[name]
                live ^= changed
                yield changed

        places = sorted((position, [name for name, _ in group]) for position, group in groups.items())
        self.succession.insert(places, changes)
        for position, group in sorted(groups.items(), reverse=True):
            self.metaranges[position:position] = group

    def keep(self, positions: set[int]) -> None:
        """Take out all but these."""
        existing = {position for position in positions if position < len(self.metaranges)}
        self.succession.keep(members(existing, len(self.metaranges)))
        self.metaranges = [self.metaranges[position] for position in sorted(existing)]

    def check(self, chosen: Sequence[int]) -> None:
        """Compare the whole, each metarange, a union and masks."""
        succession, metaranges = self.succession, self.metaranges
        assert split_names(succession.names) == [name for name, _ in metaranges]
        assert len(succession) == len(metaranges)
        for position, (name, ranges) in enumerate(metaranges):
            assert succession.positions()[name] == position
            assert frozenset(succession.union(members([position], len(metaranges)), SIZE)) == ranges
        positions = [position for position in chosen if position < len(metaranges)]
        wanted = frozenset[int]().union(*(metaranges[position][1] for position in positions))
        assert frozenset(succession.union(members(positions, len(metaranges)), SIZE)) == wanted
        bits = [1 << position if position in positions else 0 for position in range(len(metaranges))]
        masks = [
            reduce(or_, (bit for bit, (_, ranges) in zip(bits, metaranges, strict=True) if number in ranges), 0)
            for number in range(SIZE)
        ]
        assert succession.masks(bits, SIZE) == masks
        steps = zip([frozenset[int](), *(ranges for _, ranges in metaranges)], metaranges, strict=False)
        assert list(succession.counts) == [len(before ^ ranges) for before, (_, ranges) in steps]


@given(st.lists(STEP, max_size=8), st.lists(st.integers(0, 30), max_size=10))
def test_every_union_is_that_of_the_full_lists(
    steps: list[tuple[str, list[tuple[int, frozenset[int]]] | set[int]]], chosen: list[int]
) -> None:
    lists = Lists()
    for _, argument in steps:
        if isinstance(argument, set):
            lists.keep(argument)
        else:
            lists.insert(argument)
        lists.check(chosen)


def test_what_goes_out_adds_no_changes() -> None:
    """Every other metarange of a long history expires, again and again: never are there more changes than before."""
    lists = Lists()
    lists.insert([(0, frozenset({number % SIZE, number // 7 % SIZE})) for number in range(400)])
    while len(lists.metaranges) > 1:
        before = len(lists.succession.changes)
        lists.keep(set(range(0, len(lists.metaranges), 2)))
        assert len(lists.succession.changes) <= before
        lists.check(range(0, 400, 3))


def test_an_error_while_metaranges_are_read_changes_nothing() -> None:
    lists = Lists()
    lists.insert([(0, frozenset({1, 2})), (0, frozenset({2, 3}))])

    def broken(names: Sequence[bytes], live: set[int]) -> Iterator[set[int]]:
        yield {5}
        raise CorruptError(f"{len(names)} {len(live)}")

    with pytest.raises(CorruptError):
        lists.succession.insert([(1, [name_of(8), name_of(9)])], broken)
    lists.check([0, 1])


NUMBERS = st.frozensets(st.integers(0, 40))


@given(NUMBERS, NUMBERS, st.integers(0, 50))
def test_sets_of_numbers_are_sets(some: frozenset[int], others: frozenset[int], number: int) -> None:
    numbers, more = RangeNumbers(list(some)), RangeNumbers(list(others))
    assert list(numbers | more) == sorted(some | others)
    assert list(numbers & more) == sorted(some & others)
    assert list(numbers - more) == sorted(some - others)
    assert (len(numbers), list(numbers)) == (len(some), sorted(some))
    assert (number in numbers) == (number in some)
    assert None not in numbers
    flags = numbers.flags(number)
    assert [position for position, flag in enumerate(flags) if flag] == sorted(some)
    assert len(flags) >= number
    numbers.add(number)
    assert set(numbers) == some | {number}


def test_masks_between_all_positions() -> None:
    """Stretches of every length, over bits that differ from neighbour to neighbour."""
    lists = Lists()
    starts = accumulate([1, 2, 3, 5, 7], initial=0)
    for start in starts:
        lists.insert([(99, frozenset({start % SIZE, number % SIZE})) for number in range(start, start + 9)])
        lists.check(range(60))
