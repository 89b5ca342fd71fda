"""One state of the lake: a sorted list of ranges, stored in a metarange file. This module reads it.

A :class:`Tree` keeps its metarange in memory, packed (about 250 bytes a range; a range holds some 10,000 objects), and opens
ranges only to read their records. Trees that were made from one another share the descriptions that they have in common.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice, repeat
from operator import gt
from typing import TYPE_CHECKING, Final

from graveler.errors import DamagedFileError, InvalidError
from graveler.model import MetarangeID, MetarangeName, SplitParameters
from graveler.system.forks import new_lock
from graveler.tree.assembler import table_file
from graveler.tree.common_run import Run, shared_runs
from graveler.tree.metarange_file import LARGE, MANY_BLOCKS, StoredBlocks, assembled, spliced_record_ids, unpacked
from graveler.tree.metarange_lookup import END_BYTES, MetarangeLookup
from graveler.tree.range_info import ID, RangeInfo
from graveler.tree.range_name import plain_suffix
from graveler.tree.range_notes import ID_BYTES, RangeNote
from graveler.tree.sstable import Lookups, MalformedTableError, OtherFileError, Records, Table
from graveler.tree.store import METARANGES, TreeStore, expect_label, wrong_with
from graveler.tree.tail import Label, file_size

if TYPE_CHECKING:
    from graveler.tree.runtime import Writes

MAX_TOTAL: Final = (1 << 64) - 1
"""The largest sum of objects' sizes that a description can express: 16 EiB."""
_EXPECTED_AT_ONCE: Final = 32
_LOOKUPS: Final = 16
"""Metaranges of which only parts are in memory."""
_LOOKUP_BYTES: Final = 32 << 20
"""Bytes of those of them of which a copy was at hand."""
_FEW_KEYS: Final = 8
"""Up to this many keys are looked up in a closed file, a block each at most; for more keys the file is opened."""

Part = tuple[list[bytes], list[bytes], bytes | None]
"""Keys, the packed bytes of each, and their concatenated record IDs where these are known."""


class Tree:
    """One immutable state. ``lasts`` and ``packed`` describe its ranges, in key order: last keys and packed descriptions.
    ``cut_by`` are split parameters known to make this tree of its objects, or None; others may make the same one. ``unsettled``
    are pending writes of its ranges, which :meth:`settle` completes: until then the tree must be neither opened nor published.
    ``made_of`` are trees with which it may have many ranges in common, until it is saved; of those that were not saved either,
    what they were made of.

    Safe to share between threads once it is built.
    """

    __slots__ = (
        "_id",
        "_record_ids",
        "_shared",
        "_suffix",
        "cut_by",
        "lasts",
        "made_of",
        "packed",
        "store",
        "stored_blocks",
        "unsettled",
    )

    def __init__(
        self,
        store: TreeStore,
        lasts: Sequence[bytes] = (),
        packed: Sequence[bytes] = (),
        cut_by: SplitParameters | None = None,
        made_of: "tuple[Tree, ...]" = (),
    ) -> None:
        self.store = store
        self.cut_by = cut_by
        self.lasts: list[bytes] = list(lasts)
        self.packed: list[bytes] = list(packed)
        # So a tree holds none that was never saved, and a chain of such trees has one link.
        self.made_of: tuple[Tree, ...] = tuple(
            dict.fromkeys(stored for source in made_of for stored in source.made_of or (source,))
        )
        self.unsettled: Writes | None = None
        self._id: str | None = None
        self._suffix: str | None = None
        self._record_ids: bytes | None = None
        self._shared: dict[int, list[Run]] = {}
        self.stored_blocks: StoredBlocks | None = None
        """Those of its file, if it is large and was read or written."""

    def __reduce__(self) -> tuple[object, ...]:
        return Tree, (self.store, self.lasts, self.packed, self.cut_by)

    @classmethod
    def load(cls, store: TreeStore, name: MetarangeName, relative: "Tree | None" = None) -> "Tree":
        """Return the tree that a metarange file describes. One object read, none for the empty tree. 0.4 µs a range, less for
        those of a large one that ``relative`` has in the same blocks.

        :class:`DamagedFileError` if the file is missing, damaged, or holds something else than its name says: the second part of
        the name is compared with the digest of what was read, so the check does not rely on the label alone.
        """
        if not name:
            return cls(store)
        loading = _Loading(store, name, relative)
        store.read(METARANGES, name, loading)
        assert loading.tree is not None
        return loading.tree

    def save(self) -> MetarangeName:
        """Write the metarange file and return its name. One object write, none for the empty tree. Unsettled ranges are written
        at the same time; everything is durable afterwards."""
        name = self.name()
        if name:
            writes = self.unsettled or self.store.writes()
            writes.put(METARANGES, name, self.file())
            writes.settle()
            self.unsettled = None
            if len(self) >= LARGE:
                self.store.notes.put_record_ids(bytes.fromhex(self.id()), self.record_ids())
        self.made_of, self._shared = (), {}
        return name

    def settle(self) -> None:
        """Make all ranges durable."""
        if self.unsettled is not None:
            self.unsettled.settle()
            self.unsettled = None

    def file(self) -> bytes:
        """Return the bytes of the metarange file. No request. Of a large tree, blocks of a file that one of ``made_of`` has are
        copied."""
        label = Label.of(METARANGES, self.name(), self.cut_by)
        if len(self) < LARGE:
            return table_file(self.lasts, self.packed, label, self.store.scratch)
        for source in self.made_of:
            if source.stored_blocks is not None and (
                copy := assembled(self, source.stored_blocks, self._runs(source), label)
            ):
                data, self.stored_blocks = copy
                return data
        data = table_file(self.lasts, self.packed, label, self.store.scratch)
        self.stored_blocks = StoredBlocks.of(Table(data), self.lasts, self.packed)
        return data

    def name(self) -> MetarangeName:
        """Return the name of the metarange file: its ID, and a suffix that pins the descriptions. Empty for the empty tree. No
        request."""
        if not self.lasts:
            return MetarangeName("")
        if self._suffix is None:
            self._suffix = plain_suffix(self.packed).hex()
        return MetarangeName(f"{self.id()}-{self._suffix}")

    def id(self) -> MetarangeID:
        """Return the digest of the contents: of keys and identities alone (law F1). Empty for the empty tree. No request."""
        if not self.lasts:
            return MetarangeID("")
        if self._id is None:
            self._id = sha256(self.record_ids()).hexdigest()
        return MetarangeID(self._id)

    def record_ids(self) -> bytes:
        """Return the record IDs of the descriptions, which the ID digests: 32 bytes a range. No request; 1.5 µs for each that
        neither a note nor one of ``made_of`` has."""
        ids = self._known_record_ids()
        if ids is None:
            made_of = [(source, ids) for source in self.made_of if (ids := source._known_record_ids()) is not None]
            runs = self._runs(made_of[0][0]) if made_of else ()
            ids = self._record_ids = spliced_record_ids(self, made_of, runs)
        return ids

    def _runs(self, source: "Tree") -> list[Run]:
        """Return the stretches of ranges that this tree has in common with one of ``made_of``. Compared once."""
        runs = self._shared.get(id(source))
        if runs is None:
            runs = self._shared[id(source)] = list(shared_runs(self, source))
        return runs

    def _known_record_ids(self) -> bytes | None:
        if self._record_ids is None and self._id is not None and len(self) >= LARGE:
            self._record_ids = self.store.notes.record_ids(bytes.fromhex(self._id))
        return self._record_ids

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self.lasts)

    def info(self, number: int) -> RangeInfo:
        """Return the description of range ``number``."""
        return RangeInfo.unpack(self.lasts[number], self.packed[number])

    def range_id(self, number: int) -> bytes:
        """Return the ID of range ``number``, without unpacking the rest."""
        return self.packed[number][ID]

    def count(self) -> int:
        """Return the number of records. No request."""
        return sum(self.info(number).count for number in range(len(self)))

    def open(self, number: int) -> Table:
        """Return the file of range ``number``; one object read unless it is open already."""
        info = self.info(number)
        return self.store.open(info.name, info)

    def look_into(self, number: int) -> Lookups:
        """Return the file of range ``number`` for looking up single records: only its index if it was closed to make room."""
        info = self.info(number)
        return self.store.look_into(info.name, info)

    def get(self, key: bytes) -> bytes | None:
        """Return the packed bytes of ``key``, or None. Opens one range at most, and none for a key between two ranges or one that
        was looked up lately (1 µs)."""
        number = bisect_left(self.lasts, key)
        if number == len(self.lasts):
            return None
        return _get(self.store, self.lasts[number], self.packed[number], key)

    def get_many(self, keys: Sequence[bytes]) -> Iterator[bytes | None]:
        """Yield the packed bytes of each of these ascending keys, or None, in their order. Opens each range once.

        0.7 µs a key where the keys are dense, 10 µs where each lies in a block of its own.
        """
        if any(map(gt, keys, islice(keys, 1, None))):
            raise InvalidError("keys that are looked up together must be in ascending order")
        with self.store.reading_ahead() as read_ahead:
            if read_ahead is not None:
                read_ahead.expect(self.ranges_of(keys))
            yield from self._get_many(keys)

    def _get_many(self, keys: Sequence[bytes]) -> Iterator[bytes | None]:
        begin = 0
        while begin < len(keys):
            number = bisect_left(self.lasts, keys[begin])
            stop = len(keys) if number == len(self.lasts) else bisect_right(keys, self.lasts[number], begin)
            info = None if number == len(self.lasts) else self.info(number)
            below = stop if info is None else bisect_left(keys, info.first, begin, stop)
            yield from repeat(None, below - begin)
            if info is not None and below < stop:
                few = stop - below <= _FEW_KEYS
                try:
                    table = self.store.look_into(info.name, info) if few else self.open(number)
                    yield from table.get_many(keys[below:stop])
                except MalformedTableError as error:
                    raise self.damaged(number, error) from None
            begin = stop

    def ranges_of(self, keys: Sequence[bytes]) -> Iterator[RangeInfo]:
        """Yield the ranges that may hold these ascending keys. Opens nothing."""
        begin = 0
        while begin < len(keys) and (number := bisect_left(self.lasts, keys[begin])) < len(self.lasts):
            info = self.info(number)
            begin = bisect_right(keys, info.last, begin)
            if keys[begin - 1] >= info.first:
                yield info

    def blocks(self, start: bytes = b"", end: bytes | None = None) -> Iterator[Records]:
        """Yield the records with ``start <= key < end``, some hundred at a time. Opens the ranges that hold them, in their
        order."""
        for number in self._numbers(start, end):
            yield from self._blocks_of(number, start, end)

    def contents(self, start: bytes = b"", end: bytes | None = None) -> Iterator[bytes]:
        """Yield the blocks with the records of :meth:`blocks`, decompressed. The first and the last may hold others, too."""
        for number in self._numbers(start, end):
            try:
                yield from self.open(number).contents_between(start, end)
            except MalformedTableError as error:
                raise self.damaged(number, error) from None

    def _numbers(self, start: bytes, end: bytes | None) -> Iterator[int]:
        """Yield the numbers of the ranges that may hold such keys, and read ahead."""
        numbers = iter(range(bisect_left(self.lasts, start), len(self.lasts)))
        for number in islice(numbers, 1):  # many callers want no more than its first block
            if end is not None and self.info(number).first >= end:
                return
            yield number
        with self.store.reading_ahead() as read_ahead:
            for number in numbers:
                if end is not None and self.info(number).first >= end:
                    return
                if read_ahead is not None and read_ahead.wants_more():
                    read_ahead.expect(self._from(number, end))
                yield number

    def _from(self, start: int, end: bytes | None) -> Iterator[RangeInfo]:
        """Yield some ranges from ``start`` on, as long as they begin before ``end``."""
        for number in range(start, min(start + _EXPECTED_AT_ONCE, len(self))):
            info = self.info(number)
            if end is not None and info.first >= end:
                return
            yield info

    def _blocks_of(self, number: int, start: bytes, end: bytes | None) -> Iterator[Records]:
        if end is not None and self.info(number).first >= end:
            return
        for keys, packed in self.range_blocks(number, start):
            if end is not None and keys[-1] >= end:
                index = bisect_left(keys, end)
                if index:
                    yield keys[:index], packed[:index]
                return
            yield keys, packed

    def records(self, start: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records with ``start <= key < end``, one by one."""
        for keys, packed in self.blocks(start, end):
            yield from zip(keys, packed, strict=True)

    def run(self, start: bytes = b"", end: bytes | None = None) -> Iterator[Records]:
        """Yield the same as :meth:`blocks`, for a caller that may stop at any time: no range is fetched before it is needed."""
        for number in range(bisect_left(self.lasts, start), len(self.lasts)):
            if end is not None and self.info(number).first >= end:
                return
            yield from self._blocks_of(number, start, end)

    def range_blocks(self, number: int, start: bytes = b"") -> Iterator[Records]:
        """Yield the records of range ``number`` from ``start`` on, a block at a time."""
        try:
            yield from self.open(number).blocks(start)
        except MalformedTableError as error:
            raise self.damaged(number, error) from None

    def parts(self, number: int, start: bytes = b"") -> Iterator[Part]:
        """Yield the same as :meth:`range_blocks`, each block with its record IDs if they are noted, for writing the records into
        another tree."""
        note = self.note(number)
        position = -1
        for keys, packed in self.range_blocks(number, start):
            if note is None:
                yield keys, packed, None
                continue
            if position < 0:
                position = 0 if start <= self.info(number).first else self._count_before(number, keys[0], note)
            end = position + len(keys)
            yield keys, packed, note.ids[position * ID_BYTES : end * ID_BYTES]
            position = end

    def note(self, number: int) -> RangeNote | None:
        """Return the note on range ``number``, or None. 25 ns a record."""
        info = self.info(number)
        note = self.store.notes.get(info.id, info.suffix)
        return (
            note if note is not None and len(note.ids) == info.count * ID_BYTES == sum(note.counts) * ID_BYTES else None
        )

    def _count_before(self, number: int, key: bytes, note: RangeNote) -> int:
        """Return the number of records of range ``number`` before a key that it holds."""
        try:
            table = self.open(number)
            table.set_counts(note.layout, note.counts)
            block = bisect_left(table.bounds, key)
            return table.start(block) + bisect_left(table.read(block)[0], key)
        except MalformedTableError as error:
            raise self.damaged(number, error) from None

    def damaged(self, number: int, error: MalformedTableError) -> DamagedFileError:
        """Return the error to raise if range ``number`` turns out to be malformed."""
        return _damaged(self.info(number), error)


def _damaged(info: RangeInfo, error: MalformedTableError) -> DamagedFileError:
    return DamagedFileError("range", info.name, wrong_with(error), info.first, info.last)


def _get(store: TreeStore, last: bytes, description: bytes, key: bytes) -> bytes | None:
    """Return the packed bytes of ``key`` in the range with this last key and description, or None."""
    record = store.recall(description, key)
    if record is not None:
        return record
    info = RangeInfo.unpack(last, description)
    if key < info.first:
        return None
    try:
        record = store.look_into(info.name, info).get(key)
    except MalformedTableError as error:
        raise _damaged(info, error) from None
    if record is not None:
        store.remember(description, key, record)
    return record


class _Loading:
    """The expected metarange, and its tree once it is read."""

    first = last = None

    def __init__(self, store: TreeStore, name: MetarangeName, relative: Tree | None = None) -> None:
        self._store = store
        self._name = name
        self._relative = relative
        self.tree: Tree | None = None

    def check(self, table: Table) -> None:
        """See :class:`graveler.tree.store.Expected`."""
        tree = Tree(self._store, cut_by=None if table.label is None else table.label.split)
        blocks = None
        if len(table) < MANY_BLOCKS:
            for keys, packed in table.blocks():
                tree.lasts += keys
                tree.packed += packed
        else:
            relative_blocks = None if self._relative is None else self._relative.stored_blocks
            tree.lasts, tree.packed, blocks = unpacked(table, self._relative, relative_blocks)
        metarange_id, _, expected = self._name.partition("-")
        tree._suffix = plain_suffix(tree.packed).hex()
        if tree._suffix != expected:
            raise OtherFileError(f"contains another metarange: the second part of its name would be {tree._suffix}")
        if table.label is not None:  # which has that name
            tree._id = metarange_id
        if len(tree) >= LARGE:
            tree.stored_blocks = blocks or StoredBlocks.of(table, tree.lasts, tree.packed)
        self.tree = tree


class Trees:
    """Loads and saves trees. Keeps the most recently used ones, as long as they have at most ``max_ranges`` ranges together.
    Those that a large tree has in common with the large one used before it count for an eighth: it has pointers to them alone."""

    def __init__(self, store: TreeStore, max_ranges: int = 200_000) -> None:
        self._store = store
        self._max_ranges = max_ranges
        self._cached: OrderedDict[MetarangeName, Tree] = OrderedDict()
        self._ranges: dict[MetarangeName, int] = {}
        """The ranges for which each of them counts."""
        self._all_ranges = 0
        self._lookups: OrderedDict[MetarangeName, MetarangeLookup] = OrderedDict()
        self._lock = new_lock()

    def empty(self) -> Tree:
        """Return the tree without objects. No request."""
        return Tree(self._store)

    def load(self, name: MetarangeName) -> Tree:
        """Return the tree of a metarange file. One object read, none if it was used lately."""
        tree = self.loaded(name)
        if tree is None:
            with self._lock:
                relative = self._relative()
            tree = self._keep(name, Tree.load(self._store, name, relative))
        return tree

    def get(self, name: MetarangeName, key: bytes) -> bytes | None:
        """Return the packed bytes of ``key`` in the tree of a metarange file, or None. As :meth:`load` and :meth:`Tree.get`, but
        of a large file that was not loaded lately, only the end and one block are read: two object reads."""
        source: Tree | MetarangeLookup | None = self.loaded(name) or self._looked_into(name)
        with suppress(MalformedTableError):  # reading the whole file again says what is wrong with it
            source = source or (self._lookup(name) if name else None)
            if isinstance(source, MetarangeLookup) and not source.is_used_much:
                description = source.description(key)
                return None if description is None else _get(self._store, *description, key)
        return (source if isinstance(source, Tree) else self.load(name)).get(key)

    def loaded(self, name: MetarangeName) -> Tree | None:
        """Return the tree of a metarange file if it was used lately, or None. No request."""
        with self._lock:
            tree = self._cached.get(name)
            if tree is not None:
                self._cached.move_to_end(name)
            return tree

    def _looked_into(self, name: MetarangeName) -> MetarangeLookup | None:
        with self._lock:
            lookup = self._lookups.get(name)
            if lookup is not None:
                self._lookups.move_to_end(name)
            return lookup

    def _lookup(self, name: MetarangeName) -> "MetarangeLookup | Tree | None":
        """Return what looks up in a file of which the end was read: the whole tree if that was all of it. None if parts cannot be
        read. :class:`MalformedTableError`."""
        read = self._store.metarange_end(name, END_BYTES)
        if read is None:
            return None
        end, part = read
        if file_size(end) == len(end) <= END_BYTES:
            table = Table(end)
            expect_label(table, METARANGES, name)
            loading = _Loading(self._store, name)
            loading.check(table)
            assert loading.tree is not None
            return self._keep(name, loading.tree)
        lookup = MetarangeLookup(name, end, part)
        with self._lock:
            self._lookups[name] = lookup
            while len(self._lookups) > 1 and (
                len(self._lookups) > _LOOKUPS or sum(other.size for other in self._lookups.values()) > _LOOKUP_BYTES
            ):
                self._lookups.popitem(last=False)
        return lookup

    def load_many(self, names: Sequence[MetarangeName]) -> list[Tree]:
        """Return the trees of some metarange files, in their order. As :meth:`load` of each, but the reads are concurrent where
        waiting for a file costs something."""
        with self._lock:
            missing = [name for name in dict.fromkeys(names) if name and name not in self._cached]
        if len(missing) > 1 and self._store.runtime.reads_at_once > 1:
            coming = [self._store.runtime.read(self.load, name) for name in missing[1:]]
            trees = {missing[0]: self.load(missing[0])}
            trees.update(zip(missing[1:], [read.result() for read in coming], strict=True))
            return [trees.get(name) or self.load(name) for name in names]
        return [self.load(name) for name in names]

    def save(self, tree: Tree) -> MetarangeName:
        """Write the tree's metarange file. One object write, none for the empty tree."""
        name = tree.save()
        self._keep(name, tree)
        return name

    def _keep(self, name: MetarangeName, tree: Tree) -> Tree:
        with self._lock:
            if name not in self._cached:
                self._ranges[name] = _unshared(tree, self._relative())
                self._all_ranges += self._ranges[name]
                self._cached[name] = tree
                self._lookups.pop(name, None)
                while len(self._cached) > 1 and self._all_ranges > self._max_ranges:
                    dropped, _ = self._cached.popitem(last=False)
                    self._all_ranges -= self._ranges.pop(dropped)
        return tree

    def _relative(self) -> Tree | None:
        """Return the large tree that was used last, or None. Only under the lock."""
        return next((tree for tree in reversed(self._cached.values()) if tree.stored_blocks), None)


def _unshared(tree: Tree, relative: Tree | None) -> int:
    """Return the number of ranges whose descriptions take memory for this tree alone, and an eighth of the others."""
    if tree.stored_blocks is None or relative is None or relative.stored_blocks is None:
        return len(tree)
    return tree.stored_blocks.unshared(relative.stored_blocks) + len(tree) // 8
