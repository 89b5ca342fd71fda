"""Applying sorted changes to a tree, which is what a commit does.

Reads the ranges that a change touches, and those that it takes to get in step again (``writer``); takes the others by reference.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, cast

import msgspec

from graveler.errors import InvalidError
from graveler.model import SplitParameters
from graveler.tree.common_run import common_ranges
from graveler.tree.patch import Change as Change
from graveler.tree.patch import patch_work
from graveler.tree.range_notes import ID_BYTES
from graveler.tree.record import identity, record_ids
from graveler.tree.store import ENOUGH, TASK, TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import BATCH, Stop, TreeWriter

if TYPE_CHECKING:
    from graveler.tree.read_ahead import ReadAhead
    from graveler.tree.runtime import Crew

Interval = tuple[bytes | None, bytes | None]
"""Keys with ``after < key <= upto``; None means no bound."""


_LOOKED_AT: Final = 1000
"""Number of changes to look at for the ranges that are read next: a page of staged changes."""
_FEW: Final = 4
"""If more than one in this many records of a range changes, copying its blocks is not considered."""


def apply(
    tree: Tree, changes: Iterable[Change], split: SplitParameters, stop: Stop | None = None, *, settle: bool = True
) -> Tree:
    """Return ``tree`` with ``changes``, which come in ascending order of distinct keys.

    A change to the identity that a record already has leaves the record as it was; the removal of an absent key has no effect.
    Cost: reads t ranges, writes those that come out different. The metarange is not written yet; ``settle`` as for
    :meth:`TreeWriter.finish`. :class:`StoppedError` at the end of a range, or of a worker's share, once ``stop`` returns True.
    """
    writer = TreeWriter(tree.store, split, existing=(tree,), stop=stop)
    if tree.store.workers > 1:
        shares = _shares(tree, _ascending(changes))
        gathered, records = [], 0
        while records < ENOUGH and (share := next(shares, None)) is not None:
            gathered.append(share)
            records += share.records
        shares = chain(gathered, shares)
        if records >= ENOUGH and (crew := tree.store.crew()) is not None:
            _apply_in_parallel(writer, crew, tree, shares, split)
            return writer.finish(settle=settle)
        _apply_ascending(writer, tree, chain.from_iterable(share.changes for share in shares), (None, None))
    else:
        apply_between(writer, tree, changes, (None, None))
    return writer.finish(settle=settle)


class _Share(msgspec.Struct, frozen=True):
    """The changes in an interval of keys, which follows the previous share's. ``records`` measures the work."""

    interval: Interval
    changes: list[Change]
    records: int


def _shares(tree: Tree, changes: Iterable[Change]) -> Iterator[_Share]:
    """Cut changes into shares of some :data:`TASK` records, after the last key of a range where possible."""
    after: bytes | None = None
    pending: list[Change] = []
    done = count = begin = 0
    """Work of this share's ranges before the one that the last change belongs to; records of that one, and its first change."""
    upto: bytes | None = b""
    """Last key of the range that the last change belongs to; None behind all ranges."""
    for change in changes:
        key = change[0]
        if upto is not None and (key > upto or not pending):
            done += _work(count, len(pending) - begin)
            if done >= TASK:
                yield _Share((after, upto), pending, done)
                after, pending, done = upto, [], 0
            number = bisect_left(tree.lasts, key)
            upto = None if number == len(tree) else tree.lasts[number]
            count, begin = 0 if upto is None else tree.info(number).count, len(pending)
        elif len(pending) >= TASK:  # very many in one place: accept a seam
            last = pending[-1][0]
            yield _Share((after, last), pending, done + _work(count, len(pending) - begin))
            after, pending, done, begin = last, [], 0, 0
        pending.append(change)
    if pending:
        yield _Share((after, upto), pending, done + _work(count, len(pending) - begin))


def _work(records: int, changes: int) -> int:
    """Return the work of applying so many changes to a range of so many records, or to none, in records to write."""
    return changes + patch_work(records, changes)


def _apply_in_parallel(
    writer: TreeWriter, crew: "Crew", tree: Tree, shares: Iterable[_Share], split: SplitParameters
) -> None:
    """Apply each share in one worker; a join makes the parts one tree (law F1). Holds the changes of some shares."""
    upto: bytes | None = None

    def tasks() -> Iterator[tuple[object, ...]]:
        nonlocal upto
        for share in shares:
            after, upto = share.interval
            start = 0 if after is None else bisect_right(tree.lasts, after)
            stop = len(tree) if upto is None else bisect_left(tree.lasts, upto) + 1
            part = tree.lasts[start:stop], tree.packed[start:stop]
            yield tree.store, part, share.changes, share.interval, split

    for lasts, packed in crew.run(_apply_share, tasks()):
        writer.take(Tree(tree.store, lasts, packed))
        writer.stop_if_asked()
    if upto is not None:
        writer.copy(tree, upto, None)


def _apply_share(
    store: TreeStore,
    part: tuple[list[bytes], list[bytes]],
    changes: list[Change],
    interval: Interval,
    split: SplitParameters,
) -> tuple[list[bytes], list[bytes]]:
    """Apply one share, in a worker."""
    tree = Tree(store, *part)
    writer = TreeWriter(store, split, existing=(tree,))
    _apply_ascending(writer, tree, iter(changes), interval)
    done = writer.finish()
    return done.lasts, done.packed


def reapply(
    old_head: Tree,
    old_result: Tree,
    new_head: Tree,
    changes: Callable[[Interval], Iterable[Change]],
    split: SplitParameters,
    stop: Stop | None = None,
    *,
    settle: bool = True,
) -> Tree:
    """Return what :func:`apply` would make of ``new_head``, given that it made ``old_result`` of ``old_head`` (promise C6).

    Where both heads have the same ranges, the finished ones are kept; elsewhere ``changes`` is called for the changes of an
    interval, and they are applied again. (Merging the finished tree instead would lose changes that equal the old head.) ``stop``
    and ``settle`` as for :func:`apply`; ``old_result`` must be settled.
    """
    writer = TreeWriter(new_head.store, split, existing=(new_head, old_result), stop=stop)
    for interval, same in aligned(old_head, new_head):
        if same:
            writer.copy(old_result, *interval)
        else:
            apply_between(writer, new_head, changes(interval), interval)
    return writer.finish(settle=settle)


def aligned(old: Tree, new: Tree) -> Iterator[tuple[Interval, bool]]:
    """Cut the whole key space into intervals in which both trees have exactly the same ranges, and intervals in which they do
    not. These alternate, so that one call serves a whole stretch of different ranges."""
    after: bytes | None = None
    reached: bytes | None = None
    """The last key where both have a cut; from ``after`` up to it they differ."""
    i = j = 0
    while i < len(old) and j < len(new):
        run = common_ranges(old, i, new, j)
        if run:
            if reached != after:
                yield (after, reached), False
            after, reached = reached, old.lasts[i + run - 1]
            yield (after, reached), True
            after, i, j = reached, i + run, j + run
            continue
        # Different: go on to the next key where both have a cut.
        while i < len(old) and j < len(new) and old.lasts[i] != new.lasts[j]:
            if old.lasts[i] < new.lasts[j]:
                i += 1
            else:
                j += 1
        if i < len(old) and j < len(new):
            reached, i, j = old.lasts[i], i + 1, j + 1
    same = i == len(old) and j == len(new)
    if same and reached != after:
        yield (after, reached), False
        after = reached
    yield (after, None), same


def apply_between(writer: TreeWriter, tree: Tree, changes: Iterable[Change], interval: Interval) -> None:
    """Append to ``writer`` the records of ``tree`` in ``interval`` with ``changes``, which all lie in it."""
    _apply_ascending(writer, tree, _ascending(changes), interval)


def _apply_ascending(writer: TreeWriter, tree: Tree, changes: Iterator[Change], interval: Interval) -> None:
    """Do the work of :func:`apply_between` for changes whose order was checked."""
    with tree.store.reading_ahead() as read_ahead:
        _apply(writer, tree, _PendingChanges(changes), interval, read_ahead)


def _apply(
    writer: TreeWriter, tree: Tree, source: "_PendingChanges", interval: Interval, read_ahead: "ReadAhead | None"
) -> None:
    after, upto = interval
    change = next(source, None)
    is_first = True
    while change is not None:
        if not is_first:  # make some progress before stopping
            writer.stop_if_asked(after)
        is_first = False
        if read_ahead is not None and read_ahead.wants_more():
            read_ahead.expect(tree.ranges_of([change[0], *source.next_keys(_LOOKED_AT)]))
        # A change belongs to the first range whose last key is not below it; after all of them, to the end.
        number = bisect_left(tree.lasts, change[0])
        before = tree.lasts[number - 1] if number else None
        if before is not None and (after is None or before > after):
            writer.copy(tree, after, before)
            after = before
        if number == len(tree):
            rest = chain([change], source.rest())
            while some := list(islice(rest, BATCH)):
                present = filter(itemgetter(1), some)  # None is a removal, and no record is empty
                flat = list(chain.from_iterable(cast(Iterator[tuple[bytes, bytes]], present)))
                if flat:
                    writer.add(flat[::2], flat[1::2])
                else:
                    writer.stop_if_asked()
            return
        last = tree.lasts[number] if upto is None else min(upto, tree.lasts[number])
        if after == before and last == tree.lasts[number]:
            range_changes = [change, *source.take(last, tree.info(number).count // _FEW)]
            if not source.has(last) and writer.patch(tree, number, range_changes):
                after, change = last, next(source, None)
                continue
            source.give_back(range_changes)
            change = next(source, None)
            assert change is not None
        in_step = writer.at_cut and after == before
        for keys, packed, ids in tree.parts(number, b"" if after is None else after + b"\0"):
            inside_range = in_step and keys[-1] != tree.lasts[number]
            if keys[-1] > last:
                end = bisect_left(keys, last + b"\0")
                keys, packed = keys[:end], packed[:end]
                ids = None if ids is None else ids[: end * ID_BYTES]
                if not keys:
                    break
            if change is not None and change[0] <= keys[-1]:
                change, in_step = _add_changed(writer, keys, packed, ids, change, source, inside_range=inside_range)
            else:
                writer.add(keys, packed, ids, inside_range=inside_range)
        while change is not None and change[0] <= last:
            if change[1] is not None:
                writer.add([change[0]], [change[1]])
            change = next(source, None)
        after = last
    if upto is None or after is None or after < upto:
        writer.copy(tree, after, upto)


def _add_changed(
    writer: TreeWriter,
    keys: list[bytes],
    packed: list[bytes],
    ids: bytes | None,
    change: Change | None,
    source: Iterator[Change],
    *,
    inside_range: bool,
) -> tuple[Change | None, bool]:
    """Append a block with the changes up to its last key. Returns the first change after it, and whether the keys since the last
    cut are still those of the old tree, as ``inside_range`` said they were before. Holds some thousand changes at a time, however
    many come before one old key."""
    new_keys: list[bytes] = []
    new_packed: list[bytes] = []
    new_ids: list[bytes] = []
    last, done = keys[-1], 0
    while change is not None and change[0] <= last:
        key, value = change
        position = bisect_left(keys, key, done)
        new_keys += keys[done:position]
        new_packed += packed[done:position]
        present = keys[position] == key
        inside_range = inside_range and present is (value is not None)
        ids_end = position
        if value is not None:
            new_keys.append(key)
            if present and identity(packed[position]) == identity(value):
                ids_end = position + 1
                new_packed.append(packed[position])
            else:
                new_packed.append(value)
        if ids is not None:
            new_ids.append(ids[done * ID_BYTES : ids_end * ID_BYTES])
            if value is not None and ids_end == position:
                new_ids.append(record_ids((key,), (value,)))
        done = position + 1 if present else position
        if len(new_keys) >= BATCH:
            writer.add(new_keys, new_packed, None if ids is None else b"".join(new_ids), inside_range=inside_range)
            new_keys, new_packed, new_ids = [], [], []
        change = next(source, None)
    if ids is not None:
        new_ids.append(ids[done * ID_BYTES :])
    new_keys += keys[done:]
    new_packed += packed[done:]
    writer.add(new_keys, new_packed, None if ids is None else b"".join(new_ids), inside_range=inside_range)
    return change, inside_range


class _PendingChanges(Iterator[Change]):
    """Changes that can be looked at before they are taken."""

    def __init__(self, changes: Iterator[Change]) -> None:
        self._changes = changes
        self._queued: deque[Change] = deque()

    def __next__(self) -> Change:
        return self._queued.popleft() if self._queued else next(self._changes)

    def take(self, last: bytes, most: int) -> list[Change]:
        """Take the next changes up to the key ``last``, at most ``most``."""
        batch: list[Change] = []
        while len(batch) < most and (change := next(self, None)) is not None:
            if change[0] > last:
                self._queued.appendleft(change)
                break
            batch.append(change)
        return batch

    def next_keys(self, amount: int) -> list[bytes]:
        """Return the keys of the next ``amount`` changes, or of all that are left."""
        self._queued.extend(islice(self._changes, max(0, amount - len(self._queued))))
        return [key for key, _ in islice(self._queued, amount)]

    def has(self, last: bytes) -> bool:
        """Return whether the next change belongs to a key up to ``last``."""
        if not self._queued:
            self._queued.extend(islice(self._changes, 1))
        return bool(self._queued) and self._queued[0][0] <= last

    def rest(self) -> Iterator[Change]:
        """Return all changes that are left, for a caller that takes them one by one without looking ahead."""
        return chain(self._queued, self._changes)

    def give_back(self, changes: Sequence[Change]) -> None:
        """Put changes back, to be taken again before all others."""
        self._queued.extendleft(reversed(changes))


def _ascending(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes; :class:`InvalidError` where they are not in ascending order of distinct keys."""
    previous = b""
    for change in changes:
        if change[0] <= previous:
            raise InvalidError(f"changes are not in ascending order of distinct keys: {change[0]!r} after {previous!r}")
        previous = change[0]
        yield change
