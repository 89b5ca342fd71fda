"""Three-way merge of trees, by the table

===========  ======================================
s = d        d
s = b        d
d = b        s
otherwise    conflict; or s, or d, by the strategy
===========  ======================================

for base ``b``, source ``s`` and destination ``d`` of each key, where "absent" is a value too and equal means equal identity *of
the same key*. At the level of ranges the same table holds over aligned intervals: where one side left the base's ranges as they
were, the other side's are taken by reference, so changes in different places open nothing but seams.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from graveler.model import MergeStrategy, SplitParameters
from graveler.tree.cursor import Cursor
from graveler.tree.diff import Difference, common_records, diff, equal_blocks, equal_ids
from graveler.tree.expected_ranges import contested, expect_next
from graveler.tree.patch import Change, patch_work, worth_copying
from graveler.tree.record import identity, same_identity
from graveler.tree.stretches import cut_out, stretches, worth_sharing
from graveler.tree.tree import Tree
from graveler.tree.writer import Progress, Stop, TreeWriter

if TYPE_CHECKING:
    from graveler.tree.read_ahead import ReadAhead
    from graveler.tree.runtime import Crew


class TreeConflict(msgspec.Struct, frozen=True):
    """A key that both sides changed differently, with its packed bytes in all three trees; None is "absent"."""

    key: bytes
    base: bytes | None
    source: bytes | None
    destination: bytes | None


class MergeResult(msgspec.Struct, frozen=True):
    """The merged tree, or all conflicts that prevent it, in key order."""

    tree: Tree | None
    conflicts: tuple[TreeConflict, ...] = ()


class _Side(Enum):
    SOURCE = 1
    DESTINATION = 2


StrategyOf = Callable[[bytes], MergeStrategy]
"""Returns the strategy for a key."""


def merge(
    base: Tree,
    source: Tree,
    destination: Tree,
    split: SplitParameters,
    strategy: MergeStrategy | StrategyOf = MergeStrategy.NONE,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> MergeResult:
    """Merge what ``source`` changed since ``base`` into ``destination``.

    Cost: reads the ranges that both sides changed, and seams; writes the ranges that are new. Finds all conflicts; with any, the
    result has no tree. The metarange is not written yet. :class:`StoppedError` at the end of a range, or of a worker's share,
    once ``stop`` returns True, as long as no conflict was found. ``progress`` is called at the end of ranges.
    """
    writer = TreeWriter(destination.store, split, existing=(destination, source), stop=stop, progress=progress)
    conflicts = tuple(_Merge(base, source, destination, split, strategy, writer).run())
    return MergeResult(None, conflicts) if conflicts else MergeResult(writer.finish())


def _merge_stretch(
    trees: list[Tree], split: SplitParameters, strategy: MergeStrategy | StrategyOf
) -> tuple[list[bytes], list[bytes], tuple[TreeConflict, ...]]:
    """Merge one stretch, in a worker."""
    base, source, destination = trees
    result = merge(base, source, destination, split, strategy)
    return ([], [], result.conflicts) if result.tree is None else (result.tree.lasts, result.tree.packed, ())


def preview(
    base: Tree,
    source: Tree,
    destination: Tree,
    strategy: MergeStrategy | StrategyOf = MergeStrategy.NONE,
    start: bytes = b"",
    end: bytes | None = None,
) -> Iterator[Difference | TreeConflict]:
    """Yield what :func:`merge` would change in ``destination``, and the conflicts it would find, together in key order:
    those with ``start <= key < end``.

    Writes nothing. Cost: reads the ranges in which ``source`` differs from ``base``, and those of ``destination`` there.
    """
    strategy_of = _strategy_of(strategy)
    for key, b, s in diff(base, source, start, end):
        d = destination.get(key)
        side = _decide(b, s, d)
        if side is None and (chosen := strategy_of(key)) is MergeStrategy.NONE:
            yield TreeConflict(key, b, s, d)
        elif side is _Side.SOURCE or (side is None and chosen is MergeStrategy.SOURCE_WINS):
            yield key, d, s


def _strategy_of(strategy: MergeStrategy | StrategyOf) -> StrategyOf:
    if isinstance(strategy, MergeStrategy):
        fixed = strategy
        return lambda _: fixed
    return strategy


class _Merge:
    """The walk over the three trees. ``writer`` gets the result; after the first conflict nothing more is written."""

    def __init__(
        self,
        base: Tree,
        source: Tree,
        destination: Tree,
        split: SplitParameters,
        strategy: MergeStrategy | StrategyOf,
        writer: TreeWriter,
    ) -> None:
        self.base, self.source, self.destination = Cursor(base), Cursor(source), Cursor(destination)
        self.split = split
        self.strategy = strategy
        self.strategy_of = _strategy_of(strategy)
        self.writer: TreeWriter | None = writer

    def run(self) -> Iterator[TreeConflict]:
        with self.destination.tree.store.reading_ahead() as read_ahead:
            yield from self._run(read_ahead)

    def _run(self, read_ahead: "ReadAhead | None") -> Iterator[TreeConflict]:
        base, source, destination = self.base, self.source, self.destination
        sharing = destination.tree.store.workers > 1
        coming = contested(base.tree, source.tree, destination.tree)
        while True:
            if self._whole_ranges():
                self._stop_if_asked()
                continue
            if sharing and source.at_start and worth_sharing((base, source, destination)):
                crew = destination.tree.store.crew()
                if crew is not None and crew.can(self.strategy):
                    yield from self._in_parallel(crew)
                    return
                sharing = False
            expect_next(read_ahead, coming)
            if self._patched():
                self._stop_if_asked()
                continue
            if self._whole_blocks():
                continue
            keys = [key for key in (base.key, source.key, destination.key) if key is not None]
            if not keys:
                return
            conflict = self._records(min(keys))
            if conflict is not None:
                self.writer = None
                yield conflict

    def _in_parallel(self, crew: "Crew") -> Iterator[TreeConflict]:
        """Merge what comes behind a common cut, each stretch in one worker; a join makes the parts one tree (law F1)."""
        cursors = self.base, self.source, self.destination
        trees = [cursor.tree for cursor in cursors]
        tasks = (
            ([cut_out(tree, part) for tree, part in zip(trees, stretch, strict=True)], self.split, self.strategy)
            for stretch in stretches(trees, [cursor.number for cursor in cursors])
        )
        for lasts, packed, conflicts in crew.run(_merge_stretch, tasks):
            if conflicts:
                self.writer = None
            if self.writer is not None:
                self.writer.take(Tree(self.destination.tree.store, lasts, packed))
                self.writer.stop_if_asked()
            yield from conflicts

    def _stop_if_asked(self) -> None:
        if self.writer is not None:
            self.writer.stop_if_asked()

    def _whole_ranges(self) -> bool:
        """Decide what can be decided without opening anything; return False if nothing can."""
        b, s, d = self.base, self.source, self.destination
        if s.at_start and d.at_start and (run := equal_ids(s, d)):
            last = _end_of_run(s, d, run)
            self._take(d, d.number + run)
            s.skip_ranges(run)
            if last is None:
                b.skip_rest()
            else:
                b.skip_upto(last)
            return True
        for cursor, other in ((s, d), (d, s)):
            if b.at_start and cursor.at_start and (run := equal_ids(b, cursor)):
                last = _end_of_run(b, cursor, run)
                b.skip_ranges(run)
                cursor.skip_ranges(run)
                self._take_upto(other, last)
                return True
        for cursor, rest in ((s, (b, d)), (d, (b, s)), (b, (s, d))):
            if cursor.at_start:
                next_keys = [key for other in rest if (key := other.key) is not None]
                if not next_keys or cursor.info.last < min(next_keys):
                    stop = bisect_left(cursor.tree.lasts, min(next_keys)) if next_keys else len(cursor.tree)
                    if cursor is b:
                        cursor.skip_ranges(stop - cursor.number)
                    else:
                        self._take(cursor, stop)
                    return True
        return False

    def _patched(self) -> bool:
        """Merge the range ahead by changing a few records of one side's, so that blocks of its file are copied: those that the
        other side changed, which is the side with fewer changed blocks. Returns False where that is impossible or does not pay.
        Leaves conflicts to :meth:`_records`."""
        b, s, d = self.base, self.source, self.destination
        if self.writer is None or not (b.at_start and s.at_start and d.at_start):
            return False
        if len({cursor.tree.lasts[cursor.number - 1] if cursor.number else b"" for cursor in (b, s, d)}) > 1:
            return False
        blocks, of_source, of_destination = set(b.checksums()), s.checksums(), d.checksums()
        changed_by_source, changed_by_destination = (
            sum(checksum not in blocks for checksum in checksums) for checksums in (of_source, of_destination)
        )
        if changed_by_source <= changed_by_destination:
            return worth_copying(changed_by_source, len(of_destination)) and self._patched_with(s, d)
        return worth_copying(changed_by_destination, len(of_source)) and self._patched_with(d, s)

    def _patched_with(self, changed: Cursor, patched: Cursor) -> bool:
        """Append the range of ``patched`` ahead with what the other side, ``changed``, changed in it."""
        b, of_source = self.base, changed is self.source
        start = patched.tree.lasts[patched.number - 1] + b"\0" if patched.number else b""
        last = patched.info.last
        differences = list(diff(b.tree, changed.tree, start, last + b"\0"))
        in_patched = patched.tree.get_many([key for key, _, _ in differences])
        changes: list[Change] = []
        for (key, before, after), packed in zip(differences, in_patched, strict=True):
            source, destination = (after, packed) if of_source else (packed, after)
            side = self._choose(key, before, source, destination)
            if side is None:
                return False
            if (side is _Side.SOURCE) is of_source:
                if packed != after and packed is not None and after is not None and same_identity(packed, after):
                    return False  # a change would leave the record as it is, with another address or time
                changes.append((key, after))
        if self.writer is None or not self.writer.patch(patched.tree, patched.number, changes):
            return False
        patched.records_read += patch_work(patched.info.count, len(changes))
        patched.skip_ranges(1)
        b.skip_upto(last)
        changed.skip_upto(last)
        return True

    def _choose(self, key: bytes, base: bytes | None, source: bytes | None, destination: bytes | None) -> _Side | None:
        """Return the side whose record the result has, strategy included; None is a conflict."""
        side = _decide(base, source, destination)
        if side is None and (strategy := self.strategy_of(key)) is not MergeStrategy.NONE:
            return _Side.SOURCE if strategy is MergeStrategy.SOURCE_WINS else _Side.DESTINATION
        return side

    def _whole_blocks(self) -> bool:
        """Decide what can be decided by comparing blocks as they are in the files, by the same table; return False if nothing
        can."""
        b, s, d = self.base, self.source, self.destination
        if run := equal_blocks(s, d):
            of_base = min(run, equal_blocks(b, s))
            last = min(s.bound((of_base or run) - 1), d.bound((of_base or run) - 1))
            s.skip_blocks(of_base or run)
            self._take_upto(d, last)
            if of_base:
                b.skip_blocks(of_base)
            else:
                b.skip_upto(last)
            return True
        for cursor, other in ((s, d), (d, s)):
            if run := equal_blocks(b, cursor):
                last = min(b.bound(run - 1), cursor.bound(run - 1))
                b.skip_blocks(run)
                cursor.skip_blocks(run)
                self._take_upto(other, last)
                return True
        return False

    def _take(self, cursor: Cursor, stop: int) -> None:
        """Take whole ranges, by reference."""
        if self.writer is not None:
            self.writer.take(cursor.tree, cursor.number, stop)
        cursor.skip_ranges(stop - cursor.number)

    def _take_upto(self, cursor: Cursor, last: bytes | None) -> None:
        """Take everything that one side has up to ``last``, inclusive (None: to the end); reads only a range that reaches over
        it."""
        if self.writer is None:
            if last is None:
                cursor.skip_rest()
            else:
                cursor.skip_upto(last)
            return
        lasts = cursor.tree.lasts
        while (key := cursor.key) is not None and (last is None or key <= last):
            if cursor.at_start:
                stop = len(lasts) if last is None else bisect_right(lasts, last)
                if stop > cursor.number:
                    self._take(cursor, stop)
                    continue
            cursor.load()
            end = len(cursor.keys) if last is None else bisect_right(cursor.keys, last, cursor.position)
            self.writer.add(cursor.keys[cursor.position : end], cursor.packed[cursor.position : end], cursor.ids(end))
            cursor.advance(end - cursor.position)

    def _records(self, key: bytes) -> TreeConflict | None:
        """Decide the records at ``key``, and those after it that are the same in all three."""
        sides: list[bytes | None] = []
        for cursor in (self.base, self.source, self.destination):
            if cursor.key == key:
                cursor.load()
                sides.append(cursor.packed[cursor.position])
            else:
                sides.append(None)
        b, s, d = sides
        if b is not None and s is not None and d is not None:
            run = self._common_run()
            if run:
                cursor = self.destination
                if self.writer is not None:
                    end = cursor.position + run
                    self.writer.add(
                        cursor.keys[cursor.position : end], cursor.packed[cursor.position : end], cursor.ids(end)
                    )
                for cursor in (self.base, self.source, self.destination):
                    cursor.advance(run)
                return None
        side = self._choose(key, b, s, d)
        conflict = TreeConflict(key, b, s, d) if side is None else None
        result = s if side is _Side.SOURCE else d
        if result is not None and self.writer is not None and conflict is None:
            self.writer.add([key], [result])
        for cursor, packed in ((self.base, b), (self.source, s), (self.destination, d)):
            if packed is not None:
                cursor.advance(1)
        return conflict

    def _common_run(self) -> int:
        """Return the number of records from here on that are the same to the byte in all three blocks."""
        run = common_records(self.base, self.destination)
        return min(run, common_records(self.source, self.destination)) if run else 0


def _end_of_run(cursor: Cursor, other: Cursor, run: int) -> bytes | None:
    """Return the last key of equal ranges ahead of both; None if both trees end with it, so that everything behind belongs to the
    third."""
    if cursor.number + run == len(cursor.tree) and other.number + run == len(other.tree):
        return None
    return cursor.tree.lasts[cursor.number + run - 1]


def _decide(base: bytes | None, source: bytes | None, destination: bytes | None) -> _Side | None:
    """Return the side whose record the result has; None is a conflict."""
    b, s, d = (None if packed is None else identity(packed) for packed in (base, source, destination))
    if s in (d, b):
        return _Side.DESTINATION
    if d == b:
        return _Side.SOURCE
    return None
