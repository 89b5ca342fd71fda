"""The ranges that a walk is going to open, as far as metaranges tell, for fetching ahead. Opens nothing.

They come in about the order in which they are wanted. One that turns out not to be wanted costs a request; one that is missing
here is fetched when it is opened.
"""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from graveler.tree.listing import prefix_end
from graveler.tree.range_info import RangeInfo
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.tree.reads import ReadAhead

_SAID_AT_ONCE = 32
Span = tuple[bytes, bytes]
"""The keys from the first one to the last one, both included."""


def expect_next(ahead: "ReadAhead | None", ranges: Iterator[RangeInfo]) -> None:
    """Announce the next ranges, if it is time."""
    if ahead is not None and ahead.wants_more():
        ahead.expect(islice(ranges, _SAID_AT_ONCE))


def differing(left: Tree, right: Tree, start: bytes, end: bytes | None) -> Iterator[RangeInfo]:
    """Yield the ranges between these keys that the two trees do not have in common. 1 µs a range."""
    i, j = bisect_left(left.lasts, start), bisect_left(right.lasts, start)
    while i < len(left) or j < len(right):
        of_left = j >= len(right) or (i < len(left) and left.lasts[i] <= right.lasts[j])
        if of_left and i < len(left) and j < len(right) and left.lasts[i] == right.lasts[j]:
            if left.range_id(i) != right.range_id(j):
                if _is_behind(left, i, end):
                    return
                yield left.info(i)
                yield right.info(j)
            i, j = i + 1, j + 1
            continue
        tree, number = (left, i) if of_left else (right, j)
        if _is_behind(tree, number, end):
            return
        yield tree.info(number)
        i, j = (i + 1, j) if of_left else (i, j + 1)


def _is_behind(tree: Tree, number: int, end: bytes | None) -> bool:
    return end is not None and tree.info(number).first >= end


def contested(base: Tree, source: Tree, destination: Tree) -> Iterator[RangeInfo]:
    """Yield the ranges of all three trees between keys that both sides may have changed. Some µs a range that differs."""
    of_source, of_destination = _changed(base, source), _changed(base, destination)
    ours, theirs = next(of_source, None), next(of_destination, None)
    while ours is not None and theirs is not None:
        first, last = max(ours[0], theirs[0]), min(ours[1], theirs[1])
        if first <= last:
            yield from _within((base, source, destination), (first, last))
        if ours[1] <= theirs[1]:
            ours = next(of_source, None)
        else:
            theirs = next(of_destination, None)


def _changed(base: Tree, side: Tree) -> Iterator[Span]:
    """Yield the spans where ranges of the two differ, in order; spans of the same tree may touch and overlap."""
    i = j = 0
    while i < len(base) or j < len(side):
        if i < len(base) and j < len(side) and base.lasts[i] == side.lasts[j]:
            if base.range_id(i) != side.range_id(j):
                yield min(base.info(i).first, side.info(j).first), base.lasts[i]
            i, j = i + 1, j + 1
        elif j == len(side) or (i < len(base) and base.lasts[i] < side.lasts[j]):
            yield base.info(i).first, base.lasts[i]
            i += 1
        else:
            yield side.info(j).first, side.lasts[j]
            j += 1


def _within(trees: tuple[Tree, ...], span: Span) -> Iterator[RangeInfo]:
    first, last = span
    found = [_overlapping(tree, number, first, last) for number, tree in enumerate(trees)]
    yield from (info for _, _, info in merge(*found))


def _overlapping(tree: Tree, which: int, first: bytes, last: bytes) -> Iterator[tuple[bytes, int, RangeInfo]]:
    for number in range(bisect_left(tree.lasts, first), len(tree)):
        info = tree.info(number)
        if info.first > last:
            return
        yield info.last, which, info


def listed(tree: Tree, prefix: bytes, after: bytes, delimiter: bytes, amount: int) -> Iterator[RangeInfo]:
    """Yield the ranges that a page of ``amount`` results may open, as :func:`graveler.tree.listing.list_page` goes through
    them."""
    end = prefix_end(prefix)
    start = max(prefix, after + b"\0") if after else prefix
    results = 0
    number = bisect_left(tree.lasts, start)
    while number < len(tree) and results <= amount:  # one more tells whether more follows
        info = tree.info(number)
        if end is not None and info.first >= end:
            return
        yield info
        found = info.last.find(delimiter, len(prefix)) if delimiter and info.last.startswith(prefix) else -1
        if found < 0:
            results += 1 if delimiter or info.first < start else info.count
            number += 1
            continue
        results += 1
        beyond = prefix_end(info.last[: found + len(delimiter)])
        if beyond is None:
            return
        number = max(number + 1, bisect_left(tree.lasts, beyond))
