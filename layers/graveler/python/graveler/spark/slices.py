"""Parts of trees for tasks: computed on the driver from descriptions of ranges alone, picklable, self-contained."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.spark.locations import Files, task_store
from graveler.tree.apply import aligned
from graveler.tree.key_range import KeyRange
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree

TASK_ROWS: Final = 250_000
"""Approximate number of records per task, or somewhat more: a second's work."""


KeyRanges: TypeAlias = tuple[KeyRange, ...]
"""The union of key ranges, which are ascending, disjoint and not adjacent. None of them is empty."""


def either(*some: KeyRange) -> KeyRanges:
    """Return the union of key ranges."""
    found: list[KeyRange] = []
    for one in sorted((one for one in some if not one.empty), key=lambda one: one.start):
        last = found[-1] if found else None
        if last is None or (last.end is not None and last.end < one.start):
            found.append(one)
        elif last.end is not None and (one.end is None or last.end < one.end):
            found[-1] = KeyRange(last.start, one.end)
    return tuple(found)


def both(one: KeyRanges, other: KeyRanges) -> KeyRanges:
    """Return the intersection."""
    found: list[KeyRange] = []
    mine = theirs = 0
    while mine < len(one) and theirs < len(other):
        left, right = one[mine], other[theirs]
        if not (left & right).empty:
            found.append(left & right)
        if right.end is None or (left.end is not None and left.end <= right.end):
            mine += 1
        else:
            theirs += 1
    return tuple(found)


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
    found: list[Slice] = []
    numbers = _numbers(tree, keys)
    some: list[int] = []
    count = 0
    for number in numbers:
        some.append(number)
        count += tree.info(number).count
        if count >= rows or number == numbers[-1]:
            found.append(Slice(_part(store, tree, some), KeyRange(keys[0].start, keys[-1].end)))
            some, count = [], 0
    return found


def _numbers(tree: Tree, keys: KeyRanges) -> list[int]:
    """Return the ranges of a tree that may hold such keys, ascending."""
    found: list[int] = []
    for one in keys:
        behind = found[-1] + 1 if found else 0
        found += [number for number in one.numbers(tree) if number >= behind]
    return found


def pairs(repository: Files, left: Tree, right: Tree, keys: KeyRange, rows: int = TASK_ROWS) -> list[TwoSlices]:
    """Return the parts to compare to find all differences of two trees between those keys: ``rows`` records each, or somewhat
    more.

    Identical ranges are skipped. No request; some µs per range that differs.
    """
    _check_rows(rows)
    store = task_store(repository)
    found: list[TwoSlices] = []
    for bounds in _cut(left, right, keys, rows):
        ours, theirs = bounds.numbers(left), bounds.numbers(right)
        if ours or theirs:
            found.append(TwoSlices(_part(store, left, ours), _part(store, right, theirs), bounds))
    return found


def _cut(left: Tree, right: Tree, keys: KeyRange, rows: int) -> Iterator[KeyRange]:
    """Yield where they differ, split at ends of ranges into intervals with about that much to compare."""
    for (after, upto), same in aligned(left, right):
        interval = KeyRange(b"" if after is None else after + b"\0", None if upto is None else upto + b"\0") & keys
        if same or interval.empty:
            continue
        start, count = interval.start, 0
        for last, records in _ends(left, right, interval):
            count += records
            if count >= rows:
                yield KeyRange(start, last + b"\0")
                start, count = last + b"\0", 0
        rest = KeyRange(start, interval.end)
        if not rest.empty:
            yield rest


def _ends(left: Tree, right: Tree, interval: KeyRange) -> list[tuple[bytes, int]]:
    """Return the last keys in an interval, ascending, and the number of records in the ranges that end there."""
    ends: dict[bytes, int] = {}
    for tree in (left, right):
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
