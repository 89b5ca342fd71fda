"""The amount of difference between two trees: numbers of objects and of bytes, without opening what the metaranges tell.

Ranges with equal IDs are skipped; a range that lies where the other tree has nothing is counted by its description. Only ranges
that overlap others are opened and compared.
"""

from collections.abc import Callable, Iterator

from graveler.model import Totals
from graveler.tree.cursor import Cursor
from graveler.tree.diff import common_records, equal_ids
from graveler.tree.listing import prefix_end
from graveler.tree.record import identity, object_size
from graveler.tree.tree import Tree

Group = Callable[[bytes], bytes]
"""Returns the group that a key counts for. Groups must be intervals of keys: a prefix of the key, or nothing."""


class TotalsCounter:
    """A sum of differences."""

    def __init__(self) -> None:
        self.added = self.added_bytes = self.removed = self.removed_bytes = 0
        self.changed = self.changed_bytes_before = self.changed_bytes_after = 0

    def add(self, before: bytes | None, after: bytes | None) -> None:
        """Count one difference by the packed bytes on both sides; None is "absent"."""
        if before is None and after is not None:
            self.added += 1
            self.added_bytes += object_size(after)
        elif after is None and before is not None:
            self.removed += 1
            self.removed_bytes += object_size(before)
        elif before is not None and after is not None:
            self.changed += 1
            self.changed_bytes_before += object_size(before)
            self.changed_bytes_after += object_size(after)

    def totals(self) -> Totals:
        """Return what was counted."""
        return Totals(
            self.added,
            self.added_bytes,
            self.removed,
            self.removed_bytes,
            self.changed,
            self.changed_bytes_before,
            self.changed_bytes_after,
        )


class Allowance:
    """The number of steps that a sum may take: differences, or ranges that count as a whole. None is no limit. ``is_spent``: it
    would have taken one more."""

    def __init__(self, steps: int | None = None) -> None:
        self._steps = steps
        self.is_spent = False

    def take(self) -> bool:
        """Return whether one more step may be taken, and count it."""
        if self._steps is None:
            return True
        self._steps -= 1
        self.is_spent = self._steps < 0
        return not self.is_spent


def whole(_: bytes) -> bytes:
    """Put all keys in one group."""
    return b""


def by_delimiter(prefix: bytes, delimiter: bytes) -> Group:
    """Return a group for each common prefix behind ``prefix``, as a listing rolls keys up; a key without the delimiter is its
    own."""

    def group(key: bytes) -> bytes:
        position = key.find(delimiter, len(prefix))
        return key if position < 0 else key[: position + len(delimiter)]

    return group


def summarize(
    old: Tree,
    new: Tree,
    prefix: bytes = b"",
    group: Group = whole,
    start: bytes = b"",
    allowance: Allowance | None = None,
) -> Iterator[tuple[bytes, Totals]]:
    """Yield, for each group that differs below ``prefix`` from ``start`` on, in key order, how much turns ``old`` into ``new``.
    Once the ``allowance`` is spent, the last group may be incomplete.

    Cost: the ranges that differ and overlap others, or reach over a group's bound; streaming.
    """
    begin = max(prefix, start)
    return _summed(Cursor(old, begin), Cursor(new, begin), prefix_end(prefix), group, allowance)


def total_between(old: Tree, new: Tree, start: bytes = b"", end: bytes | None = None) -> Totals:
    """Return how much turns ``old`` into ``new`` between two keys, ``start <= key < end`` (None: no bound). Cost: as
    :func:`summarize`."""
    return sum((totals for _, totals in _summed(Cursor(old, start), Cursor(new, start), end, whole)), Totals())


def measure(tree: Tree, prefix: bytes = b"", group: Group = whole) -> Iterator[tuple[bytes, Totals]]:
    """Yield for each group below ``prefix`` how many objects and bytes a tree has (as "added"). Cost: as :func:`summarize`."""
    return summarize(Tree(tree.store), tree, prefix, group)


def _summed(
    a: Cursor, b: Cursor, end: bytes | None, group: Group, allowance: Allowance | None = None
) -> Iterator[tuple[bytes, Totals]]:
    current: bytes | None = None
    counter = TotalsCounter()
    for key, before, after, count, total in _differences(a, b, end, group):
        if allowance is not None and not allowance.take():
            break
        key_group = group(key)
        if key_group != current:
            if current is not None:
                yield current, counter.totals()
            current, counter = key_group, TotalsCounter()
        if count == 0:
            counter.add(before, after)
        elif before is None:
            counter.added += count
            counter.added_bytes += total
        else:
            counter.removed += count
            counter.removed_bytes += total
    if current is not None:
        yield current, counter.totals()


def _differences(
    a: Cursor, b: Cursor, end: bytes | None, group: Group
) -> Iterator[tuple[bytes, bytes | None, bytes | None, int, int]]:
    """Yield single differences (count 0), or whole ranges of one side (``count`` records of ``total`` bytes)."""
    while True:
        if run := equal_ids(a, b):
            a.skip_ranges(run)
            b.skip_ranges(run)
            continue
        key_a, key_b = a.key, b.key
        smallest = key_a if key_b is None or (key_a is not None and key_a < key_b) else key_b
        if smallest is None or (end is not None and smallest >= end):
            return
        cursor, other_key = (a, key_b) if smallest == key_a else (b, key_a)
        if key_a != key_b and _stands_alone(cursor, other_key, end, group):
            info = cursor.info
            yield smallest, b"" if cursor is a else None, None if cursor is a else b"", info.count, info.total
            cursor.skip_ranges(1)
            continue
        x = y = None
        if key_a == smallest:
            a.load()
            x = a.packed[a.position]
        if key_b == smallest:
            b.load()
            y = b.packed[b.position]
        same = common_records(a, b) if x is not None and y is not None else 0
        if not same and (x is None or y is None or identity(x) != identity(y)):
            yield smallest, x, y, 0, 0
        if x is not None:
            a.advance(same or 1)
        if y is not None:
            b.advance(same or 1)


def _stands_alone(cursor: Cursor, other_key: bytes | None, end: bytes | None, group: Group) -> bool:
    """Return whether the description of the range ahead suffices to count it: it overlaps nothing of the other tree, and is in
    one group."""
    if not cursor.at_start:
        return False
    info = cursor.info
    return (
        (other_key is None or info.last < other_key)
        and (end is None or info.last < end)
        and group(info.first) == group(info.last)
    )
