"""The resynchronising writer: makes a canonical tree of records and of whole ranges of older trees.

A cut depends only on what follows the cut before it. So when a cut of the new tree falls on one of an old tree's cuts, the two
are *in step*: old ranges behind it are taken by reference, unopened, as long as nothing changes in them. When it does not, the
writer keeps reading into the next old range until it does; closing a range only because a reusable one begins would make the tree
depend on its history. ``docs/format.md`` has the argument, ``tests/tree`` the proof by exhaustion.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, islice
from operator import ge
from typing import Final

from xxhash import xxh64_intdigest

from graveler.errors import InvalidError
from graveler.model import SplitParameters
from graveler.tree.assembler import fit_one_block, table_file
from graveler.tree.patch import Change, Patch
from graveler.tree.range_info import RangeInfo
from graveler.tree.range_name import chunk_digests, suffix
from graveler.tree.range_notes import ID_BYTES, RangeNote
from graveler.tree.record import IDENTITY_OVERHEAD, record_ids, total_object_size
from graveler.tree.split import SEED, cuts_after, slack, slack_window, validate_split
from graveler.tree.sstable import layout_of
from graveler.tree.store import RANGES, TreeStore
from graveler.tree.tail import Label
from graveler.tree.tree import MAX_TOTAL, Tree

Stop = Callable[[], bool]
"""Returns True if the building of a tree should stop."""

Progress = Callable[[int, int], None]
"""Called with the number of objects, and of their bytes, that a tree has more than at the last call."""

BATCH: Final = 4096
"""Number of records to which single ones are batched."""


class StoppedError(Exception):
    """The building of a tree was stopped. ``tree`` holds the part that was built, whole durable ranges: all keys up to ``upto``,
    inclusive (None: nothing yet). Only for the verbs that hand work over."""

    def __init__(self, tree: Tree, upto: bytes | None) -> None:
        super().__init__("building a tree was stopped")
        self.tree, self.upto = tree, upto


class TreeWriter:
    """Builds one tree from left to right: :meth:`add` records and :meth:`take` ranges in ascending key order, then
    :meth:`finish`.

    Holds the records of one range in memory (at most ``max_size`` of logical size). ``existing`` are trees whose ranges are
    already stored: a range equal to one of these is not written again. Range files are durable when it has finished. With
    ``stop``, :meth:`add` and :meth:`take` raise :class:`StoppedError` at the end of a range once it returns True.
    """

    def __init__(
        self,
        store: TreeStore,
        split: SplitParameters,
        existing: Iterable[Tree] = (),
        stop: Stop | None = None,
        progress: Progress | None = None,
    ) -> None:
        validate_split(split)
        self._store = store
        self._split = split
        self._keys: list[bytes] = []
        self._packed: list[bytes] = []
        self._ids = bytearray()
        self._size = 0
        self._before_window = (0, 0)
        """Number and size of records that surely come before those that :func:`graveler.tree.split.slack` looks at."""
        self._existing = tuple(existing)
        self._tree = Tree(store, made_of=self._existing)
        self._tail_open = False
        """True if the last range taken ended with its tree's data and not by the rule: the next record reopens it."""
        self._stop = stop
        self._progress = progress
        self._ranges_reported = 0
        self._writes = store.writes()

    @property
    def at_cut(self) -> bool:
        """True if the next record begins a range."""
        return not self._keys and not self._tail_open

    def add(
        self, keys: Sequence[bytes], packed: Sequence[bytes], ids: bytes | None = None, *, inside_range: bool = False
    ) -> None:
        """Append records in ascending order; :class:`InvalidError` if they are not, at the latest when their range ends.

        ``ids`` are their record IDs if the caller knows them; otherwise they are computed, which is most of the work. With
        ``inside_range``, the caller asserts that all keys since the last cut are those of a canonical tree with the same split
        parameters since one of its cuts, and none of its ranges ends among them: so no cut has to be looked for.
        """
        if not keys:
            return
        if self._tail_open:
            self._reopen()
        self._ids += record_ids(keys, packed) if ids is None else ids
        if self._size <= self._split.min_size - slack_window(self._split):
            self._before_window = len(self._keys), self._size
        size = self._size + sum(map(len, keys)) + IDENTITY_OVERHEAD * len(keys)
        if inside_range or size < self._split.min_size:
            self._keys += keys
            self._packed += packed
            self._size = size
            return
        done = 0
        for number in self._cuts(keys):
            self._keys += keys[done:number]
            self._packed += packed[done:number]
            done = number
            rest = self._ids[len(self._keys) * ID_BYTES :]
            del self._ids[len(self._keys) * ID_BYTES :]
            self._cut()
            self._ids = rest
            self.stop_if_asked()
        self._keys += keys[done:]
        self._packed += packed[done:]

    def _cuts(self, keys: Sequence[bytes]) -> Iterator[int]:
        """Yield the number of keys after which each range ends. Leaves in ``_size`` what comes after the last cut."""
        split = self._split
        smallest, largest, raggedness = split.min_size, split.max_size, split.raggedness
        size = self._size
        for number, key in enumerate(keys, 1):
            size += len(key) + IDENTITY_OVERHEAD
            if size >= smallest and (size >= largest or xxh64_intdigest(key, SEED) % raggedness == 0):
                self._size = size
                yield number
                size = 0
        self._size = size

    def take(self, tree: Tree, start: int = 0, stop: int | None = None) -> None:
        """Append the ranges ``start`` to ``stop`` of a canonical tree with the same split parameters: by reference where the cuts
        are in step, and otherwise record by record until they are."""
        stop = len(tree) if stop is None else stop
        if start >= stop:
            return
        if self._tail_open:
            self._reopen()
        while self._keys and start < stop:
            for keys, packed, ids in tree.parts(start):
                self.add(keys, packed, ids)
            start += 1
        if start < stop:
            if self._tree.lasts and tree.info(start).first <= self._tree.lasts[-1]:
                raise _not_in_order(self._tree.lasts[-1], tree.info(start).first)
            self._tree.lasts += tree.lasts[start:stop]
            self._tree.packed += tree.packed[start:stop]
            info = tree.info(stop - 1)
            self._tail_open = not cuts_after(self._split, info.size, info.last)

    def copy(self, tree: Tree, after: bytes | None = None, upto: bytes | None = None) -> None:
        """Append the records of a canonical tree with ``after < key <= upto`` (None: no bound). Ranges that lie inside are taken
        as in :meth:`take`; only the two that reach over a bound are read."""
        if after is not None and upto is not None and after >= upto:
            return
        lasts = tree.lasts
        number = 0 if after is None else bisect_right(lasts, after)
        end = len(tree) if upto is None else bisect_right(lasts, upto)
        if after is not None and number < len(tree) and tree.info(number).first <= after:
            self._copy_part(tree, number, after, upto)
            number += 1
        if number < end:
            self.take(tree, number, end)
            number = end
        if upto is not None and number == end < len(tree) and tree.info(number).first <= upto:
            self._copy_part(tree, number, after, upto)

    def patch(self, tree: Tree, number: int, changes: Sequence[Change]) -> bool:
        """Append range ``number`` of a canonical tree with these ascending changes, which belong to it, by copying the unchanged
        blocks of its file. Returns False, and does nothing, where that is impossible or does not pay: then add the records.

        Cost: one range read and one written; time follows the changes, but for 50 ns a record of the range.
        """
        if self._tail_open or self._keys:
            return False
        patch = Patch.of(tree, number, changes, self._split)
        if patch is None:
            return False
        info = patch.info
        if self._tree.lasts and info.first <= self._tree.lasts[-1]:
            raise _not_in_order(self._tree.lasts[-1], info.first)
        description = info.pack()
        if description != tree.packed[number] and not self._is_known(info.last, description):
            data, index, note = patch.assemble()
            self._writes.put(RANGES, info.name, data)
            self._store.keep_open(info.name, data, index)  # a range that changes often changes again
            self._store.notes.put(info.id, info.suffix, note)
        self._tree.lasts.append(info.last)
        self._tree.packed.append(description)
        self._tail_open = not cuts_after(self._split, info.size, info.last)
        return True

    def stop_if_asked(self, reached: bytes | None = None) -> None:
        """Raise :class:`StoppedError` if ``stop`` returns True. The caller has appended all keys up to ``reached`` (None:
        unknown). Records of a range that has not ended yet are dropped: they were not put."""
        if self._progress is not None:
            self._report_progress(self._progress)
        if self._stop is None or not self._stop():
            return
        tree = self._tree
        if not self.at_cut:
            reached = None
        if self._tail_open:  # the rule has not ended it
            del tree.lasts[-1:], tree.packed[-1:]
        self._writes.settle()
        tree.cut_by = self._split
        raise StoppedError(tree, reached or (tree.lasts[-1] if tree.lasts else None))

    def finish(self, *, settle: bool = True) -> Tree:
        """Return the tree of everything appended. Its metarange is not written yet (:meth:`Tree.save`); without ``settle``, its
        last ranges may not be either, so that the caller that saves the tree next waits only once."""
        if self._keys:
            self._cut()
        if self._progress is not None:
            self._report_progress(self._progress)
        if settle:
            self._writes.settle()
        else:
            self._tree.unsettled = self._writes
        self._tree.cut_by = self._split
        return self._tree

    def _report_progress(self, progress: Progress) -> None:
        """Report the ranges since the last call. One that was taken back as records since then is reported once."""
        infos = [self._tree.info(number) for number in range(self._ranges_reported, len(self._tree))]
        if infos:
            progress(sum(info.count for info in infos), sum(info.total for info in infos))
            self._ranges_reported = len(self._tree)

    def _copy_part(self, tree: Tree, number: int, after: bytes | None, upto: bytes | None) -> None:
        for keys, packed, ids in tree.parts(number, b"" if after is None else after + b"\0"):
            if upto is not None and keys[-1] > upto:
                end = bisect_right(keys, upto)
                self.add(keys[:end], packed[:end], None if ids is None else ids[: end * ID_BYTES])
                return
            self.add(keys, packed, ids)

    def _reopen(self) -> None:
        """Take the last range back as records, since it continues."""
        self._tail_open = False
        self._writes.settle()  # it may be one of our own
        last, description = self._tree.lasts.pop(), self._tree.packed.pop()
        for keys, packed, ids in Tree(self._store, [last], [description]).parts(0):
            self.add(keys, packed, ids)

    def _cut(self) -> None:
        """End the range here."""
        keys, packed = self._keys, self._packed
        if (self._tree.lasts and keys[0] <= self._tree.lasts[-1]) or any(map(ge, keys, islice(keys, 1, None))):
            raise _not_in_order(keys[0], keys[-1])
        ids = bytes(self._ids)
        digests = chunk_digests(ids, packed)
        info = RangeInfo(
            last=keys[-1],
            id=sha256(ids).digest(),
            first=keys[0],
            count=len(keys),
            size=self._size,
            total=min(total_object_size(packed), MAX_TOTAL),
            suffix=suffix(digests),
        )
        description = info.pack()
        if not self._is_known(info.last, description):
            data = table_file(keys, packed, Label.of(RANGES, info.name), self._store.scratch)
            self._writes.put(RANGES, info.name, data)
            # A changed single-block file has no blocks to copy, and hashing its few records is as fast as reading a note.
            if self._store.notes.kept and not fit_one_block(keys, packed):
                layout, counts = layout_of(data, keys)
                room = slack(self._split, keys, *self._before_window)
                self._store.notes.put(info.id, info.suffix, RangeNote(ids, digests, layout, counts, self._split, room))
        self._tree.lasts.append(info.last)
        self._tree.packed.append(description)
        self._keys, self._packed, self._ids, self._size = [], [], bytearray(), 0
        self._before_window = (0, 0)

    def _is_known(self, last: bytes, description: bytes) -> bool:
        for tree in self._existing:
            number = bisect_left(tree.lasts, last)
            if number < len(tree) and tree.packed[number] == description:
                return True
        return False


def _not_in_order(key: bytes, other: bytes) -> InvalidError:
    return InvalidError(f"records are not in ascending order of their keys, between {key!r} and {other!r}")


def build(store: TreeStore, split: SplitParameters, records: Iterable[tuple[bytes, bytes]]) -> Tree:
    """Return the tree of records in ascending order of their keys. Streaming: one range in memory. 2.0 µs a record."""
    writer = TreeWriter(store, split)
    for keys, packed in batches(records):
        writer.add(keys, packed)
    return writer.finish()


def join(store: TreeStore, split: SplitParameters, trees: Iterable[Tree]) -> Tree:
    """Return the tree of several canonical trees over adjacent, ascending key intervals. Opens under two ranges a seam on
    average."""
    writer = TreeWriter(store, split)
    for tree in trees:
        writer.take(tree)
    return writer.finish()


def batches(records: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Yield records as lists of keys and packed bytes, some thousand at a time. 45 ns a record."""
    source = iter(records)
    while batch := list(chain.from_iterable(islice(source, BATCH))):
        yield batch[::2], batch[1::2]
