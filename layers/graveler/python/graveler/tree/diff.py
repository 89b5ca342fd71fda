"""Two-way difference: the changes that turn one tree into another.

Walks two metaranges in step; ranges with equal IDs are skipped unopened, the others are compared record by record, by key and
identity. Addresses and times do not count: the same bytes stored twice are no difference.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graveler.tree.common_run import common_run, equal_contents
from graveler.tree.cursor import Cursor
from graveler.tree.expected_ranges import differing, expect_next
from graveler.tree.record import identity
from graveler.tree.store import ENOUGH
from graveler.tree.stretches import cut_out, stretches, worth_sharing
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from graveler.tree.read_ahead import ReadAhead
    from graveler.tree.runtime import Crew

Difference = tuple[bytes, bytes | None, bytes | None]
"""A key with its packed bytes on the left and on the right; None is "absent"."""


def diff(
    old: Tree, new: Tree, start: bytes = b"", end: bytes | None = None, most: int | None = None
) -> Iterator[Difference]:
    """Yield the differences with ``start <= key < end``, in key order. Opens the ranges that differ, and no others; streaming.

    Begins directly at ``start``: opens nothing before it, and reads at most one unnecessary block of the range that ``start``
    lies in. Pass ``most`` to take no more than that many differences: then no thread works ahead on what comes behind them.
    """
    with old.store.reading_ahead() as read_ahead:
        yield from _diff(old, new, start, end, most, read_ahead)


def _diff(
    old: Tree, new: Tree, start: bytes, end: bytes | None, most: int | None, read_ahead: "ReadAhead | None"
) -> Iterator[Difference]:
    coming = differing(old, new, start, end)
    a, b = Cursor(old, start), Cursor(new, start)
    sharing = old.store.workers > 1
    yielded = 0
    while True:
        # Both stand before the same key, also where ``start`` lies inside a range: nothing before it was skipped unopened.
        if a.unopened and b.unopened:
            if run := equal_ids(a, b):
                a.skip_ranges(run)
                b.skip_ranges(run)
                continue
            expect_next(read_ahead, coming)
        if sharing and a.at_start and worth_sharing((a, b)) and _much_left(most, yielded, (a, b)):
            if (crew := old.store.crew()) is not None:
                yield from _diff_in_parallel(crew, a, b, end)
                return
            sharing = False
        inside = end is None or not a.unopened or a.info.first < end
        if inside and (run := equal_blocks(a, b)):
            a.skip_blocks(run)
            b.skip_blocks(run)
            continue
        if inside and a.load_different(b):
            continue
        key_a, key_b = a.key, b.key
        smallest = key_a if key_b is None or (key_a is not None and key_a < key_b) else key_b
        if smallest is None or (end is not None and smallest >= end):
            return
        if key_a == key_b:
            a.load()
            b.load()
            both = min(len(a.keys) - a.position, len(b.keys) - b.position)
            keys = a.keys[a.position : a.position + both]
            if keys == b.keys[b.position : b.position + both]:
                for key, x, y in zip(
                    keys,
                    a.packed[a.position : a.position + both],
                    b.packed[b.position : b.position + both],
                    strict=True,
                ):
                    if x != y and identity(x) != identity(y):
                        if end is not None and key >= end:
                            return
                        yield key, x, y
                        yielded += 1
                a.advance(both)
                b.advance(both)
                continue
            same = common_records(a, b)
            if not same:
                x, y = a.packed[a.position], b.packed[b.position]
                if identity(x) != identity(y):
                    yield smallest, x, y
                    yielded += 1
                same = 1
            a.advance(same)
            b.advance(same)
        elif smallest == key_a:
            a.load()
            yield smallest, a.packed[a.position], None
            yielded += 1
            a.advance(1)
        else:
            b.load()
            yield smallest, None, b.packed[b.position]
            yielded += 1
            b.advance(1)


def _much_left(most: int | None, yielded: int, cursors: tuple[Cursor, Cursor]) -> bool:
    """Return whether the differences still wanted of ``most`` need enough reading that sharing it pays, assuming that the rest is
    as dense as what was read until now."""
    return most is None or (most - yielded) * sum(cursor.records_read for cursor in cursors) >= ENOUGH * yielded


def _diff_in_parallel(crew: "Crew", a: Cursor, b: Cursor, end: bytes | None) -> Iterator[Difference]:
    """Yield the differences behind a common cut, each stretch from one worker. Holds those of some stretches."""
    tasks = (
        (cut_out(a.tree, of_a), cut_out(b.tree, of_b), end)
        for of_a, of_b in stretches((a.tree, b.tree), (a.number, b.number))
        if end is None or of_a[0] == len(a.tree) or a.tree.info(of_a[0]).first < end
    )
    for differences in crew.run(_diff_stretch, tasks):
        yield from differences


def _diff_stretch(old: Tree, new: Tree, end: bytes | None) -> list[Difference]:
    """Return the differences of one stretch, in a worker."""
    return list(diff(old, new, end=end))


def equal_ids(a: Cursor, b: Cursor) -> int:
    """Return the number of consecutive ranges ahead of both with equal IDs; 0 if one is open. Cost:
    :func:`graveler.tree.common_run.equal_contents`."""
    if not (a.unopened and b.unopened):
        return 0
    return equal_contents(a.tree, a.number, b.tree, b.number)


def equal_blocks(a: Cursor, b: Cursor) -> int:
    """Return the number of consecutive blocks ahead of both that are the same in the files, so that their records can be skipped.

    Opens both ranges where they begin with the same key, and not before. Some µs a block, for 160 records or so.
    """
    if not (a.at_block and b.at_block) or a.unopened != b.unopened or (a.unopened and a.info.first != b.info.first):
        return 0
    return a.same_blocks(b)


def common_records(a: Cursor, b: Cursor) -> int:
    """Return the number of records from here on that are the same to the byte in both blocks."""
    longest = min(len(a.keys) - a.position, len(b.keys) - b.position)
    return common_run(a.keys, a.packed, a.position, b.keys, b.packed, b.position, longest)
