"""Checks for a difference between two trees, answered from range IDs where possible."""

from bisect import bisect_left
from collections.abc import Sequence

from graveler.tree.common_run import equal_contents
from graveler.tree.diff import diff
from graveler.tree.key_range import KeyRange
from graveler.tree.tree import Tree


def differ(old: Tree, new: Tree, start: bytes = b"", end: bytes | None = None) -> bool:
    """Return whether the trees hold different records with ``start <= key < end``.

    Opens nothing if the ranges that cover the interval are the same on both sides; otherwise some of those that differ.
    """
    if not _covers_differ(old, new, start, end):
        return False
    return next(diff(old, new, start, end), None) is not None


def differ_anywhere(old: Tree, new: Tree, key_ranges: Sequence[KeyRange]) -> bool:
    """Return whether the trees differ in any of the key ranges. Opens as :func:`differ`, up to the first that does."""
    return _differ_between(old, new, key_ranges) and any(differ(old, new, keys.start, keys.end) for keys in key_ranges)


def where_equal(old: Tree, new: Tree, key_ranges: Sequence[KeyRange]) -> list[bool]:
    """Return for each key range whether the trees are equal there. Opens as :func:`differ`."""
    if not _differ_between(old, new, key_ranges):
        return [True] * len(key_ranges)
    return [not differ(old, new, keys.start, keys.end) for keys in key_ranges]


def _differ_between(old: Tree, new: Tree, key_ranges: Sequence[KeyRange]) -> bool:
    """Return whether a range differs between the beginning of the first key range and the end of the last. Opens nothing."""
    start = min((keys.start for keys in key_ranges), default=b"")
    ends = [keys.end for keys in key_ranges if keys.end is not None]
    end = max(ends) if ends and len(ends) == len(key_ranges) else None
    return _covers_differ(old, new, start, end)


def _covers_differ(old: Tree, new: Tree, start: bytes, end: bytes | None) -> bool:
    """Return whether the ranges that may hold keys of the interval differ in number or contents. Opens nothing."""
    begin, stop = _cover(old, start, end)
    other_begin, other_stop = _cover(new, start, end)
    length = stop - begin
    return length != other_stop - other_begin or equal_contents(old, begin, new, other_begin, length) < length


def _cover(tree: Tree, start: bytes, end: bytes | None) -> tuple[int, int]:
    """Return the numbers of the ranges that may hold keys of the interval: the first, and the one behind the last."""
    return bisect_left(tree.lasts, start), len(tree) if end is None else min(
        bisect_left(tree.lasts, end) + 1, len(tree)
    )
