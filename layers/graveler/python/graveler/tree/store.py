"""The port through which the tree reads and writes its files, and the cache of open ones.

The files are of two kinds, addressed by name: ``ranges`` and ``metaranges``. Names pin contents, so no copy here ever becomes
stale.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from graveler.errors import DamagedFileError, GravelerError, NotFoundError
from graveler.system.forks import new_lock
from graveler.tree.lookup_cache import BlockCache, RecordCache
from graveler.tree.range_notes import MemoryNotes, Notes, RangeNotes
from graveler.tree.sstable import ClosedTable, Lookups, MalformedTableError, OtherFileError, Table, TableIndex
from graveler.tree.tail import Label

if TYPE_CHECKING:
    from collections.abc import Callable

    from graveler.tree.range_info import RangeInfo
    from graveler.tree.read_ahead import ReadAhead
    from graveler.tree.runtime import Crew, Read, Runtime, Scratch, Writes

RANGES: Final = "ranges"
METARANGES: Final = "metaranges"
ENOUGH: Final = 200_000
"""Records to process from which on it pays to use workers: half a second's work."""
TASK: Final = 50_000
"""Records of one task, or somewhat more."""
_CLOSED_BLOCKS: Final = 100_000
"""Closed files keep the positions of at most this many blocks, 200 bytes each: those of some 10 million records."""


class TreeFiles(Protocol):
    """Storage for immutable files."""

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        """Return the file's bytes; with ``fresh`` from the store itself, dropping any nearer copy. Raises
        :class:`graveler.errors.NotFoundError`."""
        ...

    def put(self, kind: str, name: str, data: bytes) -> None:
        """Make the file durable under this name, unless it exists already."""
        ...


class Parts(Protocol):
    """Reading of parts of the files."""

    def get_part(self, kind: str, name: str, start: int, length: int) -> bytes:
        """Return some of the file's bytes: fewer at its end. :class:`graveler.errors.NotFoundError`."""
        ...

    def get_end(self, kind: str, name: str, length: int) -> bytes:
        """Return the file's last bytes, at least ``length`` of them; fewer only if that is all of it.
        :class:`graveler.errors.NotFoundError`."""
        ...


class Expected(Protocol):
    """The expected contents of a file. ``first`` and ``last`` bound its keys, where they are known."""

    @property
    def first(self) -> bytes | None:
        """The file's first key."""
        ...

    @property
    def last(self) -> bytes | None:
        """The file's last key."""
        ...

    def check(self, table: Table) -> None:
        """Check that this is the expected file. :class:`OtherFileError` if not. Called once for each file that is opened."""
        ...


class TreeStore:
    """Opens and writes the tree's files. Keeps the most recently used ones open, at most ``max_open_bytes`` of them, and at most
    ``max_block_bytes`` of records found and stretches decompressed by lookups of single records, half of that for each.

    ``runtime`` does the store's work; one with worker processes is only for ``files`` whose pickled copies read and write the
    same. ``notes`` stores the notes that speed up rewriting a range; in this process's memory by default. ``on_hit`` is called,
    in any thread, whenever a file is read that is still open.

    ``parts`` reads some bytes of a file: then a lookup in a large metarange does not read all of it. ``on_disk`` says that this
    is as cheap as from a disk: then the indexes of ranges that are closed to make room stay in memory, too, so that looking up
    a record anywhere reads a block and not its file.
    """

    def __init__(
        self,
        files: TreeFiles,
        runtime: "Runtime",
        *,
        max_open_bytes: int = 128 << 20,
        max_block_bytes: int = 152 << 20,
        notes: Notes | None = None,
        on_hit: "Callable[[], None] | None" = None,
        parts: Parts | None = None,
        on_disk: bool = False,
    ) -> None:
        self.files = files
        self.runtime = runtime
        self._parts = parts
        self._on_disk = on_disk
        self._on_hit = on_hit
        self._max_open_bytes = max_open_bytes
        self._open: OrderedDict[str, Table] = OrderedDict()
        """Ranges, by name. Of metaranges there are trees."""
        self._open_bytes = 0
        self._closed: OrderedDict[str, ClosedTable] = OrderedDict()
        """Ranges, by name."""
        self._closed_blocks = 0
        self._max_block_bytes = max_block_bytes
        self._blocks = BlockCache(max_block_bytes // 2)
        self._records = RecordCache(max_block_bytes // 2)
        self._lock = new_lock()
        self._read_aheads: list[ReadAhead] = []
        self._coming: dict[str, Read[Table]] = {}
        """The ranges that are being fetched ahead, by name."""
        self._can_send: bool | None = None
        self.notes = RangeNotes(MemoryNotes() if notes is None else notes)

    def limit(self, memory: int) -> None:
        """Cache about ``memory`` bytes from now on. A byte of a file is worth more than one of a decompressed block: it saves a
        request and checksums, and stands for several."""
        self._max_block_bytes = memory // 5
        self._max_open_bytes = memory - self._max_block_bytes
        self._blocks.limit(self._max_block_bytes // 2)
        self._records.limit(self._max_block_bytes // 2)
        with self._lock:
            self._close_some()

    def __reduce__(self) -> tuple[object, ...]:
        return self._with_settings(), (self.files, self.runtime.alone())

    @property
    def workers(self) -> int:
        """Number of processes that may work for this one; 1 means none."""
        return self.runtime.workers

    def crew(self) -> "Crew | None":
        """Return the worker processes, or None. The first call starts them."""
        if self.workers <= 1:
            return None
        crew = self.runtime.crew()
        if self._can_send is None:
            self._can_send = crew.can(self)
        return crew if self._can_send else None

    def through(self, way: "Callable[[TreeFiles], TreeFiles]") -> "TreeStore":
        """Return a store of the same files, read and written through ``way``. It has caches of the same size, and shares none of
        their contents."""
        return self._with_settings()(way(self.files), self.runtime.alone())

    def _with_settings(self) -> "Callable[[TreeFiles, Runtime], TreeStore]":
        return partial(
            TreeStore,
            max_open_bytes=self._max_open_bytes,
            max_block_bytes=self._max_block_bytes,
            notes=self.notes.notes,
        )

    @property
    def scratch(self) -> "Scratch":
        """The place of RocksDB's temporary files."""
        return self.runtime.scratch

    def writes(self) -> "Writes":
        """Return a writer of many files: each put starts at once, and all are durable after ``settle``."""
        return self.runtime.writes(self.files.put)

    @contextmanager
    def reading_ahead(self) -> "Iterator[ReadAhead | None]":
        """Enter a walk that knows which ranges come next: expected ranges are fetched before they are opened. Yields None where
        waiting for a range costs next to nothing. Costs the same requests as without, and up to the runtime's ``reads_at_once``
        more where the walk ends early."""
        at_once = self.runtime.reads_at_once
        if at_once <= 1:
            yield None
            return
        from graveler.tree.read_ahead import ReadAhead

        read_ahead = ReadAhead(self._fetch_ahead, at_once)
        with self._lock:
            self._read_aheads = [*self._read_aheads, read_ahead]
        try:
            yield read_ahead
        finally:
            with self._lock:
                self._read_aheads = [other for other in self._read_aheads if other is not read_ahead]

    def _fetch_ahead(self, info: "RangeInfo") -> None:
        with self._lock:
            at_hand = info.name in self._open or info.name in self._closed
            if not at_hand and self._being_fetched(info.name) is None:
                self._coming[info.name] = self.runtime.read(self._arrive, info)

    def _arrive(self, info: "RangeInfo") -> Table:
        try:
            return self._fetched(info.name, info)
        finally:
            with self._lock:
                self._coming.pop(info.name, None)

    def _being_fetched(self, name: str) -> "Read[Table] | None":
        coming = self._coming.get(name)
        return None if coming is None or coming.is_lost else coming

    def open(self, name: str, expected: Expected | None = None) -> Table:
        """Return a range's table; one request unless it is open already. A copy that is damaged, or another file's, is dropped
        and fetched again.

        :class:`DamagedFileError` if the store's own file is missing, damaged, or another one than its name says (law F5), judged
        by its label and by ``expected``.
        """
        for read_ahead in self._read_aheads:
            read_ahead.opening(name)
        with self._lock:
            table = self._still_open(name)
        return self._fetched_or_coming(name, expected) if table is None else table

    def recall(self, description: bytes, key: bytes) -> bytes | None:
        """Return the packed record of ``key`` in the range with this description, if it was looked up lately
        (:meth:`remember`)."""
        record = self._records.get((description, key))
        if record is not None and self._on_hit is not None:
            self._on_hit()
        return record

    def remember(self, description: bytes, key: bytes, record: bytes) -> None:
        """Keep a record that was looked up."""
        self._records.put((description, key), record)

    def look_into(self, name: str, expected: Expected) -> Lookups:
        """Return a range's file for looking up some records: only its index if it was closed. Otherwise as :meth:`open`."""
        for read_ahead in self._read_aheads:
            read_ahead.opening(name)
        with self._lock:
            table = self._still_open(name)
            closed = self._closed.get(name) if table is None else None
            if closed is not None:
                self._closed.move_to_end(name)
                return closed
        return self._fetched_or_coming(name, expected) if table is None else table

    def _still_open(self, name: str) -> Table | None:
        table = self._open.get(name)
        if table is not None:
            self._open.move_to_end(name)
            if self._on_hit is not None:
                self._on_hit()
        return table

    def _fetched_or_coming(self, name: str, expected: Expected | None) -> Table:
        coming = self._being_fetched(name) if self._coming else None
        if coming is not None:
            with suppress(GravelerError):  # the fetch below reports the error
                return coming.result()
        return self._fetched(name, expected)

    def keep_open(self, name: str, data: bytes, index: TableIndex) -> None:
        """Keep a range open that was just written. No request."""
        self._keep_open(name, Table(data, self._blocks, index))

    def _fetched(self, name: str, expected: Expected | None) -> Table:
        table = self.read(RANGES, name, expected)
        self._keep_open(name, table)
        return table

    def _keep_open(self, name: str, table: Table) -> None:
        with self._lock:
            if name not in self._open:
                self._open[name] = table
                self._open_bytes += table.size
                self._close_some()

    def read(self, kind: str, name: str, expected: Expected | None) -> Table:
        """Return the file's table, for a caller that keeps what it needs of it: the file is not kept open. One request. Errors as
        of :meth:`open`."""
        try:
            try:
                table = self._read(kind, name, expected, fresh=False)
            except MalformedTableError:
                table = self._read(kind, name, expected, fresh=True)
        except MalformedTableError as error:
            wrong = wrong_with(error)
        except NotFoundError:
            wrong = "is missing from the object store"
        else:
            return table
        first_key, last_key = (None, None) if expected is None else (expected.first, expected.last)
        raise DamagedFileError(kind[:-1], name, wrong, first_key, last_key)

    def metarange_end(self, name: str, length: int) -> "tuple[bytes, Callable[[int, int], bytes]] | None":
        """Return the last bytes of a metarange's file, as of :meth:`Parts.get_end`, and what reads others. None if parts cannot
        be read, or the file is missing: then :meth:`read` says more."""
        if self._parts is None:
            return None
        with suppress(NotFoundError):
            return self._parts.get_end(METARANGES, name, length), partial(self._parts.get_part, METARANGES, name)
        return None

    def _read(self, kind: str, name: str, expected: Expected | None, *, fresh: bool) -> Table:
        table = Table(self.files.get(kind, name, fresh=fresh), self._blocks)
        expect_label(table, kind, name)
        if expected is not None:
            expected.check(table)
        return table

    def _close_some(self) -> None:
        """Close the least recently used files until the rest fits."""
        while self._open_bytes > self._max_open_bytes and len(self._open) > 1:
            name, table = self._open.popitem(last=False)
            self._open_bytes -= table.size
            if self._parts is None or not self._on_disk or name in self._closed:
                continue
            self._closed[name] = ClosedTable(table, partial(self._parts.get_part, RANGES, name))
            self._closed_blocks += len(table)
            while self._closed_blocks > _CLOSED_BLOCKS:
                _, forgotten = self._closed.popitem(last=False)
                self._closed_blocks -= len(forgotten)


def wrong_with(error: MalformedTableError) -> str:
    """Return what is wrong with a file, to follow its name in a sentence."""
    return str(error) if isinstance(error, OtherFileError) else f"is damaged ({error})"


def expect_label(table: Table, kind: str, name: str) -> None:
    """Check that a file's label names this file. :class:`OtherFileError` if it names another. 1 µs. A file without a label
    passes."""
    if table.label is not None and table.label != (label := Label.of(kind, name, table.label.split)):
        raise OtherFileError(f"contains another file: it is {table.label}, not {label}")
