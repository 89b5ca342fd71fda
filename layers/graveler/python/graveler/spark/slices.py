"""Parts of trees for tasks: computed on the driver from descriptions of ranges alone, picklable, self-contained."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.spark.locations import Files, task_store
from graveler.tree.common_run import aligned
from graveler.tree.key_range import KeyRange
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree

TASK_ROWS: Final = 250_000
"""Approximate number of records per task, or somewhat more: a second's work."""


KeyRanges: TypeAlias = tuple[KeyRange, ...]
"""The union of key ranges, which are ascending, disjoint and not adjacent. None of them is empty."""


def either(*some: KeyRange) -> KeyRanges:
    """Return the union of key ranges."""
    joined: list[KeyRange] = []
    for keys in sorted((keys for keys in some if not keys.empty), key=lambda keys: keys.start):
        last = joined[-1] if joined else None
        if last is None or (last.end is not None and last.end < keys.start):
            joined.append(keys)
        elif last.end is not None and (keys.end is None or last.end < keys.end):
            joined[-1] = KeyRange(last.start, keys.end)
    return tuple(joined)


def both(ours: KeyRanges, other: KeyRanges) -> KeyRanges:
    """Return the intersection."""
    common: list[KeyRange] = []
    our_index = theirs = 0
    while our_index < len(ours) and theirs < len(other):
        our_keys, right = ours[our_index], other[theirs]
        if not (our_keys & right).empty:
            common.append(our_keys & right)
        if right.end is None or (our_keys.end is not None and our_keys.end <= right.end):
            our_index += 1
        else:
            theirs += 1
    return tuple(common)


class Slice(Struct, frozen=True):
    """Ranges of a tree, and the keys between which their records count."""

    tree: Tree
    keys: KeyRange


class TwoSlices(Struct, frozen=True):
    """Ranges of two trees between the same keys, ready to be compared."""

    left: Tree
    right: Tree
    keys: KeyRange


def slices(repository: Files, tree: Tree, keys: KeyRanges, rows: int = TASK_ROWS) -> list[Slice]:
    """Return the parts that together hold all of those keys of a tree: ``rows`` records each, or somewhat more. Tasks open only
    ranges that may hold such keys, and read everything in them between the first key and the last. No request; some µs for each
    of the ``keys``. :class:`graveler.errors.InvalidError` for no rows."""
    _check_rows(rows)
    store = task_store(repository)
    tree_slices: list[Slice] = []
    numbers = _numbers(tree, keys)
    some: list[int] = []
    count = 0
    for number in numbers:
        some.append(number)
        count += tree.info(number).count
        if count >= rows or number == numbers[-1]:
            tree_slices.append(Slice(_part(store, tree, some), KeyRange(keys[0].start, keys[-1].end)))
            some, count = [], 0
    return tree_slices


def _numbers(tree: Tree, keys: KeyRanges) -> list[int]:
    """Return the ranges of a tree that may hold such keys, ascending."""
    numbers: list[int] = []
    for key_range in keys:
        lowest = numbers[-1] + 1 if numbers else 0
        numbers += [number for number in key_range.numbers(tree) if number >= lowest]
    return numbers


def pairs(repository: Files, base: Tree, right: Tree, keys: KeyRange, rows: int = TASK_ROWS) -> list[TwoSlices]:
    """Return the parts to compare to find all differences of two trees between those keys: ``rows`` records each, or somewhat
    more.

    Identical ranges are skipped. No request; some µs per range that differs.
    """
    _check_rows(rows)
    store = task_store(repository)
    slice_pairs: list[TwoSlices] = []
    for bounds in _cut(base, right, keys, rows):
        ours, theirs = bounds.numbers(base), bounds.numbers(right)
        if ours or theirs:
            slice_pairs.append(TwoSlices(_part(store, base, ours), _part(store, right, theirs), bounds))
    return slice_pairs


def _cut(base: Tree, right: Tree, keys: KeyRange, rows: int) -> Iterator[KeyRange]:
    """Yield where they differ, split at ends of ranges into intervals with about that much to compare."""
    for (after, upto), same in aligned(base, right):
        interval = KeyRange(b"" if after is None else after + b"\0", None if upto is None else upto + b"\0") & keys
        if same or interval.empty:
            continue
        start, count = interval.start, 0
        for last, records in _ends(base, right, interval):
            count += records
            if count >= rows:
                yield KeyRange(start, last + b"\0")
                start, count = last + b"\0", 0
        rest = KeyRange(start, interval.end)
        if not rest.empty:
            yield rest


def _ends(base: Tree, right: Tree, interval: KeyRange) -> list[tuple[bytes, int]]:
    """Return the last keys in an interval, ascending, and the number of records in the ranges that end there."""
    ends: dict[bytes, int] = {}
    for tree in (base, right):
        for number in interval.numbers(tree):
            last = tree.lasts[number]
            if interval.end is None or last < interval.end:
                ends[last] = ends.get(last, 0) + tree.info(number).count
    return sorted(ends.items())


def _check_rows(rows: int) -> None:
    if rows < 1:
        raise InvalidError(f"a task of {rows} rows would read nothing; use at least 1")


def _part(store: TreeStore, tree: Tree, numbers: Sequence[int]) -> Tree:
    return Tree(store, [tree.lasts[number] for number in numbers], [tree.packed[number] for number in numbers])
