"""Whether two trees differ somewhere, answered from range IDs where they tell."""

from bisect import bisect_left

from graveler.tree.diff import diff
from graveler.tree.tree import Tree


def differ(left: Tree, right: Tree, start: bytes = b"", end: bytes | None = None) -> bool:
    """Do they hold different records with ``start <= key < end``?

    Opens nothing if the ranges that cover the interval are the same on both sides; else some of those that differ.
    """
    if _cover(left, start, end) == _cover(right, start, end):
        return False
    return next(diff(left, right, start, end), None) is not None


def _cover(tree: Tree, start: bytes, end: bytes | None) -> list[bytes]:
    """IDs of the ranges that may hold keys of the interval."""
    first = bisect_left(tree.lasts, start)
    stop = len(tree) if end is None else min(bisect_left(tree.lasts, end) + 1, len(tree))
    return [tree.range_id(number) for number in range(first, stop)]
