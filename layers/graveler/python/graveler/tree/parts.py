"""A merge, or changes to be applied, cut at keys. Each interval of keys is worked on by itself, anywhere and at any time, and
joining the results makes the tree that one call would have made (law F1), wherever the cuts are.

Only descriptions of ranges decide where to cut: :func:`merge_points` and :func:`apply_points` return how much work lies behind
which keys, :func:`cut` makes parts of similar work of that.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final

import msgspec

from graveler.model import MergeStrategy, SplitParameters
from graveler.tree.apply import Change, Interval, apply
from graveler.tree.common_run import aligned
from graveler.tree.merge import MergeResult, StrategyOf, merge
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import TreeWriter

_PATIENCE: Final = 1.5
"""Factor by which a part may exceed its share of the work, to end where all trees have a cut."""


class Load(msgspec.Struct, frozen=True):
    """An amount to read: ``ranges``, their ``records`` (and changes), their logical size in ``bytes``."""

    records: int = 0
    ranges: int = 0
    bytes: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.records + other.records, self.ranges + other.ranges, self.bytes + other.bytes)


class Point(msgspec.Struct, frozen=True):
    """The ``load`` to read for the keys up to ``key``, inclusive, and after those of the point before. ``common``: all trees have
    a cut there, so that a part that ends with it splits no range."""

    key: bytes
    load: Load
    common: bool = True


class Piece(msgspec.Struct, frozen=True):
    """One part: an interval of keys, and the load to read there."""

    interval: Interval
    load: Load


def merge_points(base: Tree, source: Tree, destination: Tree) -> list[Point]:
    """Return where a merge has to read, in key order. Opens nothing; some µs for each range that differs.

    Nothing is read where two of the three trees have the same ranges, nor is a range of one tree where the others have none.
    """
    trees = base, source, destination
    intervals = _different(base, source)
    for side in (base, source):
        intervals = _intersection(intervals, _different(side, destination))
    # A range of one tree may reach over several intervals, since their bounds are cuts of two trees only.
    ranges = sorted(
        {
            (tree.info(number).first, tree.info(number).last, t, number)
            for t, tree in enumerate(trees)
            for interval in intervals
            for number in _ranges_in(tree, interval)
        }
    )
    points: list[Point] = []
    for group in _overlapping(ranges):
        if len({t for _, _, t, _ in group}) == 1:
            continue
        ends = sorted((last, t, number) for _, last, t, number in group)
        for key, members in groupby(ends, key=itemgetter(0)):
            load, count = Load(), 0
            for _, t, number in members:
                info = trees[t].info(number)
                load, count = load + Load(info.count, 1, info.size), count + 1
            points.append(Point(key, load, count == len(trees)))
    return points


def apply_points(tree: Tree, changes: Iterable[tuple[bytes, int]]) -> list[Point]:
    """Return where changes have to be applied, in key order. ``changes`` are ascending keys, each with the number of changes that
    it stands for. Opens nothing."""
    points: list[Point] = []
    number = -1
    for key, weight in changes:
        position = bisect_left(tree.lasts, key)
        if position == len(tree):
            points.append(Point(key, Load(weight)))
        elif position == number:
            before = points.pop()
            points.append(Point(before.key, before.load + Load(weight)))
        else:
            info = tree.info(position)
            points.append(Point(info.last, Load(info.count + weight, 1, info.size)))
        number = position
    return points


def cut(points: Sequence[Point], parts: int, smallest: int = 1, after: bytes | None = None) -> list[Piece]:
    """Return at most ``parts`` intervals of similar work that cover all keys behind ``after``; only the last has less than
    ``smallest`` records to read. The keys of a point stay together."""
    total = total_load(points)
    share = max(-(-total.records // max(parts, 1)), smallest, 1)
    pieces: list[Piece] = []
    load = Load()
    for number, point in enumerate(points, 1):
        load += point.load
        enough = load.records >= share * (1 if point.common else _PATIENCE)
        if enough and len(pieces) + 1 < parts and number < len(points):
            pieces.append(Piece((after, point.key), load))
            after, load = point.key, Load()
    pieces.append(Piece((after, None), load))
    return pieces


def cut_behind(upto: bytes, points: Sequence[Point], parts: int, smallest: int = 1) -> list[Piece]:
    """Return one part of all keys up to ``upto``, and behind it the parts of :func:`cut`."""
    number = bisect_right(points, upto, key=attrgetter("key"))
    done = Piece((None, upto), total_load(points[:number]))
    return [done, *cut(points[number:], max(parts - 1, 1), smallest, upto)]


def cut_at(points: Sequence[Point], keys: Sequence[bytes]) -> list[Piece]:
    """Return the parts that end with these ascending keys, and the rest: for work that was cut before, on an older head."""
    pieces: list[Piece] = []
    after: bytes | None = None
    index = 0
    for key in (*keys, None):
        load = Load()
        while index < len(points) and (key is None or points[index].key <= key):
            load += points[index].load
            index += 1
        pieces.append(Piece((after, key), load))
        after = key
    return pieces


def total_load(points: Iterable[Point]) -> Load:
    """Return the sum of the points' loads."""
    total = Load()
    for point in points:
        total += point.load
    return total


def merge_part(
    base: Tree,
    source: Tree,
    destination: Tree,
    interval: Interval,
    split: SplitParameters,
    strategy: MergeStrategy | StrategyOf = MergeStrategy.NONE,
) -> MergeResult:
    """Run :func:`graveler.tree.merge.merge` on the keys of an interval. Cost: as there, and :func:`clip` of each tree."""
    return merge(
        clip(base, interval, split), clip(source, interval, split), clip(destination, interval, split), split, strategy
    )


def apply_part(
    tree: Tree, changes: Callable[[Interval], Iterable[Change]], interval: Interval, split: SplitParameters
) -> Tree:
    """Run :func:`graveler.tree.apply.apply` in an interval; ``changes`` is called for the changes in it. Cost: as there, and
    :func:`clip`."""
    return apply(clip(tree, interval, split), changes(interval), split)


def clip(tree: Tree, interval: Interval, split: SplitParameters) -> Tree:
    """Return the canonical tree of the records of ``tree`` in an interval. Opens nothing where the interval's bounds are cuts of
    the tree, or lie between two ranges; otherwise some ranges at each bound are read and rewritten, and are garbage
    afterwards."""
    after, upto = interval
    begin = 0 if after is None else bisect_right(tree.lasts, after)
    stop = len(tree) if upto is None else bisect_right(tree.lasts, upto)
    begins_inside = after is not None and begin < len(tree) and tree.info(begin).first <= after
    ends_inside = upto is not None and stop < len(tree) and tree.info(stop).first <= upto
    if begins_inside or ends_inside:
        writer = TreeWriter(tree.store, split, existing=(tree,))
        writer.copy(tree, after, upto)
        return writer.finish()
    return Tree(tree.store, tree.lasts[begin:stop], tree.packed[begin:stop])


def join_parts(store: TreeStore, split: SplitParameters, parts: Iterable[Tree], existing: Sequence[Tree] = ()) -> Tree:
    """Return the tree of several parts over adjacent, ascending intervals. Opens under two ranges a seam on average; ranges of
    ``existing`` trees are not written again."""
    writer = TreeWriter(store, split, existing=existing)
    for part in parts:
        writer.take(part)
    return writer.finish()


def changed_intervals(pairs: Iterable[tuple[Tree, Tree]]) -> list[Interval]:
    """Return the intervals where the two trees of any pair differ, in ascending order; no two of them touch. Opens nothing."""
    intervals: list[Interval] = []
    different = [interval for before, after in pairs for interval in _different(before, after)]
    for after, upto in sorted(different, key=lambda interval: interval[0] or b""):  # no key is empty
        last = intervals[-1][1] if intervals else None
        if intervals and (after is None or last is None or after <= last):
            intervals[-1] = (intervals[-1][0], None if upto is None or last is None else max(upto, last))
        else:
            intervals.append((after, upto))
    return intervals


def load_in(trees: Iterable[Tree], intervals: Sequence[Interval]) -> Load:
    """Return the load of trees in intervals, which do not touch, by whole ranges. Opens nothing."""
    total = Load()
    for tree in trees:
        for number in {number for interval in intervals for number in _ranges_in(tree, interval)}:
            info = tree.info(number)
            total += Load(info.count, 1, info.size)
    return total


def with_replaced_intervals(
    old: Tree,
    intervals: Sequence[Interval],
    make: Callable[[Interval], Tree],
    split: SplitParameters,
    existing: Sequence[Tree] = (),
) -> Tree:
    """Return ``old`` with ``intervals``, which ascend and do not touch, replaced: ``make`` returns the tree of each. Opens what
    ``make`` does, and under four ranges for each interval on average."""
    writer = TreeWriter(old.store, split, existing=(old, *existing))
    done: bytes | None = None
    for after, upto in intervals:
        if after is not None:
            writer.copy(old, done, after)
        writer.take(make((after, upto)))
        done = upto
        if upto is None:
            return writer.finish()
    writer.copy(old, done, None)
    return writer.finish()


def digest(trees: Sequence[Tree], interval: Interval) -> bytes:
    """Return a digest of the trees' contents in an interval, and of its bounds: an equal digest means the same work. Opens
    nothing."""
    hashed = sha256()
    after, upto = interval
    for bound in interval:
        hashed.update(b"\0" if bound is None else b"\1" + len(bound).to_bytes(4) + bound)
    for tree in trees:
        begin = 0 if after is None else bisect_right(tree.lasts, after)
        stop = len(tree) if upto is None else min(bisect_left(tree.lasts, upto) + 1, len(tree))
        hashed.update(max(stop - begin, 0).to_bytes(8))
        for last, packed in zip(tree.lasts[begin:stop], tree.packed[begin:stop], strict=True):
            hashed.update(len(last).to_bytes(4) + last + len(packed).to_bytes(4) + packed)
    return hashed.digest()


def _different(tree: Tree, other: Tree) -> list[Interval]:
    return [interval for interval, same in aligned(tree, other) if not same]


def _intersection(intervals: Sequence[Interval], other_intervals: Sequence[Interval]) -> list[Interval]:
    """Return the intersection of two ascending lists of intervals; None is no bound."""
    common: list[Interval] = []
    i = j = 0
    while i < len(intervals) and j < len(other_intervals):
        (after, upto), (other_after, other_upto) = intervals[i], other_intervals[j]
        begin = after if other_after is None or (after is not None and after > other_after) else other_after
        end = upto if other_upto is None or (upto is not None and upto < other_upto) else other_upto
        if begin is None or end is None or begin < end:
            common.append((begin, end))
        if end == upto:
            i += 1
        if end == other_upto:
            j += 1
    return common


def _ranges_in(tree: Tree, interval: Interval) -> range:
    """Return the numbers of the ranges that overlap an interval."""
    after, upto = interval
    begin = 0 if after is None else bisect_right(tree.lasts, after)
    if upto is None:
        return range(begin, len(tree))
    stop = bisect_left(tree.lasts, upto)
    return range(begin, stop + 1 if stop < len(tree) and tree.info(stop).first <= upto else stop)


_Range = tuple[bytes, bytes, int, int]
"""First and last key, number of the tree, number of the range."""


def _overlapping(ranges: Iterable[_Range]) -> Iterator[list[_Range]]:
    """Yield ranges, which come in order of their first keys, in groups that do not overlap each other."""
    group: list[_Range] = []
    end = b""
    for bounds in ranges:
        if group and bounds[0] > end:
            yield group
            group = []
        group.append(bounds)
        end = max(end, bounds[1]) if len(group) > 1 else bounds[1]
    if group:
        yield group
