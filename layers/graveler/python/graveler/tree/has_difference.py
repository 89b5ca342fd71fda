"""Checks for a difference between two trees, answered from range IDs where possible."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from graveler.tree.common_run import aligned, equal_contents
from graveler.tree.diff import diff
from graveler.tree.key_range import KeyRange
from graveler.tree.tree import Tree

_FEW: Final = 2
"""So many key ranges are looked at by themselves, without aligning all ranges of the trees."""
_READ_ON: Final = 50
"""After so many differences outside all key ranges, the comparison begins anew at the next one."""


def differ(old: Tree, new: Tree, start: bytes = b"", end: bytes | None = None) -> bool:
    """Return whether the trees hold different records with ``start <= key < end``.

    Opens nothing if the ranges that cover the interval are the same on both sides; otherwise some of those that differ.
    """
    if not covers_differ(old, new, start, end):
        return False
    return next(diff(old, new, start, end), None) is not None


def differ_anywhere(old: Tree, new: Tree, key_ranges: Sequence[KeyRange]) -> bool:
    """Return whether the trees differ in any of the key ranges. Opens as :func:`where_equal`, up to the first that does."""
    return next(_different(old, new, key_ranges), None) is not None


def where_equal(old: Tree, new: Tree, key_ranges: Sequence[KeyRange]) -> list[bool]:
    """Return for each key range whether the trees are equal there. One comparison of the trees serves all of them: it opens those
    of the ranges that differ which a key range overlaps, and reads on from one key range to the next. 10 µs a key range there."""
    different = set(_different(old, new, key_ranges))
    return [number not in different for number in range(len(key_ranges))]


def _different(old: Tree, new: Tree, key_ranges: Sequence[KeyRange]) -> Iterator[int]:
    """Yield the numbers of the key ranges in which the trees differ."""
    if not _differ_between(old, new, key_ranges):
        return
    if len(key_ranges) <= _FEW:
        yield from (number for number, keys in enumerate(key_ranges) if differ(old, new, keys.start, keys.end))
        return
    order = sorted(
        (number for number, keys in enumerate(key_ranges) if not keys.empty), key=lambda n: key_ranges[n].start
    )
    begin = 0
    pending: list[int] = []
    """Key ranges that began in an earlier interval, and are equal so far."""
    for (after, upto), same in aligned(old, new):
        end = len(order) if upto is None else bisect_right(order, upto, begin, key=lambda n: key_ranges[n].start)
        pending = [n for n in pending if (stop := key_ranges[n].end) is None or after is None or stop > after]
        members = pending + order[begin:end]
        begin = end
        if members and not same:
            interval = KeyRange(b"" if after is None else after + b"\0", None if upto is None else upto + b"\0")
            different = set()
            for number in _different_in(old, new, interval, members, key_ranges):
                different.add(number)
                yield number
            members = [number for number in members if number not in different]
        pending = members
        if begin == len(order) and not pending:
            return


def _different_in(
    old: Tree, new: Tree, interval: KeyRange, members: Sequence[int], key_ranges: Sequence[KeyRange]
) -> Iterator[int]:
    """Yield those of the members, which come in order of their starts, that differ in an interval."""
    ends = [key_ranges[number].end for number in members]
    upto = (interval & KeyRange(b"", None if None in ends else max(filter(None, ends)))).end
    rest = deque(members)
    while rest:
        outside = 0
        for key, _, _ in diff(old, new, max(interval.start, key_ranges[rest[0]].start), upto):
            outside += 1
            while rest and key_ranges[rest[0]].start <= key:  # of these the first difference decides
                number = rest.popleft()
                end = key_ranges[number].end
                if end is None or key < end:
                    outside = 0
                    yield number
            if not rest:
                return
            if outside > _READ_ON:
                break
        else:
            return


def _differ_between(old: Tree, new: Tree, key_ranges: Sequence[KeyRange]) -> bool:
    """Return whether a range differs between the beginning of the first key range and the end of the last. Opens nothing."""
    start = min((keys.start for keys in key_ranges), default=b"")
    ends = [keys.end for keys in key_ranges if keys.end is not None]
    end = max(ends) if ends and len(ends) == len(key_ranges) else None
    return covers_differ(old, new, start, end)


def covers_differ(old: Tree, new: Tree, start: bytes, end: bytes | None) -> bool:
    """Return whether the ranges that may hold keys of an interval differ in number or contents. Opens nothing."""
    begin, stop = _cover(old, start, end)
    other_begin, other_stop = _cover(new, start, end)
    length = stop - begin
    return length != other_stop - other_begin or equal_contents(old, begin, new, other_begin, length) < length


def _cover(tree: Tree, start: bytes, end: bytes | None) -> tuple[int, int]:
    """Return the numbers of the ranges that may hold keys of the interval: the first, and the one behind the last."""
    return bisect_left(tree.lasts, start), len(tree) if end is None else min(
        bisect_left(tree.lasts, end) + 1, len(tree)
    )
