"""The ranges that a walk is going to open, as far as metaranges tell, for fetching ahead. Opens nothing.

They come in about the order in which they are wanted. One that turns out not to be wanted costs a request; one that is missing
here is fetched when it is opened.
"""

from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from graveler.tree.common_run import equal_contents
from graveler.tree.listing import prefix_end
from graveler.tree.range_info import RangeInfo
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.tree.read_ahead import ReadAhead

_SAID_AT_ONCE = 32
Span = tuple[bytes, bytes]
"""The keys from the first one to the last one, both included."""


def expect_next(read_ahead: "ReadAhead | None", ranges: Iterator[RangeInfo]) -> None:
    """Announce the next ranges, if it is time."""
    if read_ahead is not None and read_ahead.wants_more():
        read_ahead.expect(islice(ranges, _SAID_AT_ONCE))


def differing(old: Tree, new: Tree, start: bytes, end: bytes | None) -> Iterator[RangeInfo]:
    """Yield the ranges between these keys that the two trees do not have in common. 1 µs each, and :func:`equal_contents` of the
    others."""
    i, j = bisect_left(old.lasts, start), bisect_left(new.lasts, start)
    while i < len(old) or j < len(new):
        if run := equal_contents(old, i, new, j):
            i, j = i + run, j + run
            continue
        of_left = j >= len(new) or (i < len(old) and old.lasts[i] <= new.lasts[j])
        if of_left and i < len(old) and j < len(new) and old.lasts[i] == new.lasts[j]:
            if _is_behind(old, i, end):
                return
            yield old.info(i)
            yield new.info(j)
            i, j = i + 1, j + 1
            continue
        tree, number = (old, i) if of_left else (new, j)
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
        first_key, last_key = max(ours[0], theirs[0]), min(ours[1], theirs[1])
        if first_key <= last_key:
            yield from _within((base, source, destination), (first_key, last_key))
        if ours[1] <= theirs[1]:
            ours = next(of_source, None)
        else:
            theirs = next(of_destination, None)


def _changed(base: Tree, side: Tree) -> Iterator[Span]:
    """Yield the spans where ranges of the two differ, in order; spans of the same tree may touch and overlap."""
    i = j = 0
    while i < len(base) or j < len(side):
        if run := equal_contents(base, i, side, j):
            i, j = i + run, j + run
        elif i < len(base) and j < len(side) and base.lasts[i] == side.lasts[j]:
            yield min(base.info(i).first, side.info(j).first), base.lasts[i]
            i, j = i + 1, j + 1
        elif j == len(side) or (i < len(base) and base.lasts[i] < side.lasts[j]):
            yield base.info(i).first, base.lasts[i]
            i += 1
        else:
            yield side.info(j).first, side.lasts[j]
            j += 1


def _within(trees: tuple[Tree, ...], span: Span) -> Iterator[RangeInfo]:
    first_key, last_key = span
    overlapping = [_overlapping(tree, number, first_key, last_key) for number, tree in enumerate(trees)]
    yield from (info for _, _, info in merge(*overlapping))


def _overlapping(
    tree: Tree, tree_number: int, first_key: bytes, last_key: bytes
) -> Iterator[tuple[bytes, int, RangeInfo]]:
    for number in range(bisect_left(tree.lasts, first_key), len(tree)):
        info = tree.info(number)
        if info.first > last_key:
            return
        yield info.last, tree_number, info


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
        position = info.last.find(delimiter, len(prefix)) if delimiter and info.last.startswith(prefix) else -1
        if position < 0:
            results += 1 if delimiter or info.first < start else info.count
            number += 1
            continue
        results += 1
        beyond = prefix_end(info.last[: position + len(delimiter)])
        if beyond is None:
            return
        number = max(number + 1, bisect_left(tree.lasts, beyond))
