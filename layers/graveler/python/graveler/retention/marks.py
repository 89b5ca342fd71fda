"""Marks: the data names in each range, kept from run to run, so that a range is read once in its life.

::

    _graveler/gc/marks/state.msgpack       the numbers of ranges, and the contents of metaranges, after its SHA-256
    _graveler/gc/marks/<16 hex>.rows       rows (:mod:`.rowfiles`) of some ranges, sorted

A range's file name pins all of its records, so what was read of it stays true as long as the file exists, whichever writer puts
it again. The state is written after its rows; leftovers of a run that died are removed as garbage. Lost or damaged marks cost
reading the trees anew, and no more: all of them have checksums.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, CorruptError, DamagedFileError
from graveler.lake.importing.external_sort import Block, sort_blocks
from graveler.retention.comparison import ROW
from graveler.retention.rowfiles import put_rows
from graveler.retention.threads import at_once
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.objects.tree_files import FOLDER as FILES
from graveler.tree.range_info import RangeInfo
from graveler.tree.recomputed_name import expect_name
from graveler.tree.record import record_data_id
from graveler.tree.sstable import MalformedTableError, Table
from graveler.tree.store import METARANGES, RANGES, expect_label, wrong_with

FOLDER: Final = "_graveler/gc/marks"
STATE: Final = f"{FOLDER}/state.msgpack"
VERSION: Final = 2

_MEMORY: Final = 256 << 20
MOST_FILES: Final = 8
"""Beyond this number, files of rows are merged into one."""
_WRITE: Final = 1 << 16
_DIGEST: Final = 32


class _State(Struct):
    version: int = VERSION
    ranges: dict[bytes, int] = {}
    """Raw name (ID and suffix, 48 bytes) → number."""
    marked: set[int] = set()
    metaranges: dict[bytes, list[int]] = {}
    files: list[str] = []
    next_number: int = 0


class Marks:
    """The marks of one namespace. ``metaranges_read`` and ``ranges_read`` count those that had to be read."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._state = self._load()
        self.metaranges_read = 0
        self.ranges_read = 0

    def ranges_of(self, metarange: str) -> list[int]:
        """Return the numbers of a metarange's ranges. One object read the first time in its life, else none.
        :class:`DamagedFileError` if it cannot be read: then nothing must be collected."""
        raw = _raw(metarange)
        numbers = self._state.metaranges.get(raw)
        if numbers is None:
            numbers = []
            for lasts, packed in _table(self._objects, METARANGES, metarange).blocks():
                for last, description in zip(lasts, packed, strict=True):
                    info = RangeInfo.unpack(last, description)
                    numbers.append(self.number(info.id + info.suffix))
            self._state.metaranges[raw] = numbers
            self.metaranges_read += 1
        return numbers

    def number(self, name: bytes) -> int:
        """Return the number of a range, by its raw name."""
        number = self._state.ranges.get(name)
        if number is None:
            number = self._state.ranges[name] = self._state.next_number
            self._state.next_number += 1
        return number

    def number_of(self, name: str) -> int:
        """Return the number of a range, by its file's name."""
        return self.number(_raw(name))

    def is_in(self, name: str, numbers: Collection[int]) -> bool:
        """Return whether the range file of this name is one of those."""
        return self._state.ranges.get(_raw(name)) in numbers

    def unread(self, numbers: Collection[int]) -> list[tuple[int, str]]:
        """Return number and name of those of these ranges that were never read."""
        fresh = sorted(set(numbers) - self._state.marked)
        names = {number: name for name, number in self._state.ranges.items()} if fresh else {}
        return [(number, _hex(names[number])) for number in fresh]

    def add(self, ranges: Sequence[tuple[int, str]], files: Sequence[str]) -> None:
        """Record that these ranges have been read, into these files."""
        self._state.files += files
        self._state.marked.update(number for number, _ in ranges)
        self.ranges_read += len(ranges)

    @property
    def files(self) -> tuple[str, ...]:
        """Keys of the files of rows."""
        return tuple(f"{FOLDER}/{name}" for name in self._state.files)

    def alive(self, numbers: Collection[int]) -> bytearray:
        """Return 1 for each of these numbers, 0 for all others."""
        is_alive = bytearray(self._state.next_number)
        for number in numbers:
            is_alive[number] = 1
        return is_alive

    def save(
        self,
        metaranges: Collection[str],
        numbers: Collection[int],
        merge: Callable[[Objects, Sequence[str], bytes], list[str]],
        most_files: int = MOST_FILES,
    ) -> None:
        """Save the data about these metaranges and ranges for the next run, and drop the rest. If more than ``most_files`` files
        of rows exist, or half of the ranges are gone, ``merge`` makes new ones."""
        if len(self._state.files) > most_files or len(self._state.marked) > 2 * len(numbers) + MOST_FILES:
            self._state.files = merge(self._objects, self.files, bytes(self.alive(numbers)))
            self._state.marked &= set(numbers)
        raw_names = {_raw(name) for name in metaranges}
        self._state.metaranges = {
            raw: range_numbers for raw, range_numbers in self._state.metaranges.items() if raw in raw_names
        }
        needed = set(numbers) | self._state.marked
        needed.update(number for range_numbers in self._state.metaranges.values() for number in range_numbers)
        self._state.ranges = {raw: number for raw, number in self._state.ranges.items() if number in needed}
        state = msgspec.msgpack.encode(self._state)
        self._objects.put(STATE, sha256(state).digest() + state)
        current = {STATE, *(f"{FOLDER}/{name}" for name in self._state.files)}
        for stored in list(self._objects.list(f"{FOLDER}/")):
            if stored.key not in current:
                with suppress(ObjectMissingError):
                    self._objects.delete(stored.key)

    def _load(self) -> _State:
        """Return the saved state; a damaged one, or one of another version, counts as empty: everything is read again."""
        try:
            data = self._objects.get(STATE)
        except ObjectMissingError:
            return _State()
        if sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            return _State()
        try:
            state = msgspec.msgpack.decode(data[_DIGEST:], type=_State)
        except UNREADABLE:
            return _State()
        return state if state.version == VERSION and all(map(self._is_there, state.files)) else _State()

    def _is_there(self, name: str) -> bool:
        try:
            self._objects.head(f"{FOLDER}/{name}")
        except ObjectMissingError:
            return False
        return True


def write_rows(
    objects: Objects, ranges: Sequence[tuple[int, str]], threads: int, progress: Callable[[int, int], None]
) -> str:
    """Read ranges, each with its number, write rows of the names in them, and return the name of the file. One object read each,
    one write. Memory for 256 MiB of rows, the rest in temporary files."""

    def blocks() -> Iterator[Block]:
        names_by_range = at_once(threads, lambda numbered: _names(objects, numbered[1]), ranges)
        for done, ((number, _), names) in enumerate(zip(ranges, names_by_range, strict=True), 1):
            yield names, [number] * len(names), [b""] * len(names)
            progress(done, len(ranges))

    return _write(objects, sort_blocks(blocks(), _MEMORY))


def _names(objects: Objects, name: str) -> list[bytes]:
    names = []
    for _, packed in _table(objects, RANGES, name).blocks():
        names += [name_of_object for name_of_object in map(record_data_id, packed) if name_of_object is not None]
    return names


def _table(objects: Objects, kind: str, name: str) -> Table:
    """Return the file, if it is the one of this name: otherwise another one would decide what is garbage. Without a label its
    digest is checked: 3 µs a record, once in its life."""
    try:
        table = Table(objects.get(f"{FILES}/{kind}/{name}"))
        expect_label(table, kind, name)
        if table.label is None:
            expect_name(table, name)
        return table
    except ObjectMissingError:
        raise DamagedFileError(kind[:-1], name, "is missing, so nothing was collected") from None
    except MalformedTableError as error:
        raise DamagedFileError(kind[:-1], name, f"{wrong_with(error)}, so nothing was collected") from None


def write_names(objects: Objects, names: Iterator[bytes], number: int, key: str) -> None:
    """Write sorted names as rows of one number. One object write."""
    put_rows(objects, key, _packed(_as_blocks((name, number) for name in names)))


def _write(objects: Objects, blocks: Iterable[Block]) -> str:
    name = f"{token_hex(8)}.rows"
    put_rows(objects, f"{FOLDER}/{name}", _packed(blocks))
    return name


def _packed(blocks: Iterable[Block]) -> Iterator[bytes]:
    for names, numbers, _ in blocks:
        yield b"".join(map(ROW.pack, names, numbers))


def merge_rows(objects: Objects, sources: Iterable[Iterator[bytes]], alive: bytes) -> str:
    """Write the rows of sorted sources, which yield some at a time, as one file, without those of dead ranges. One object
    write."""
    return _write(objects, _as_blocks(heapq.merge(*(_unpacked(source, alive) for source in sources))))


def _unpacked(source: Iterator[bytes], alive: bytes) -> Iterator[tuple[bytes, int]]:
    for part in source:
        yield from ((name, number) for name, number in ROW.iter_unpack(part) if alive[number])


def _as_blocks(rows: Iterator[tuple[bytes, int]]) -> Iterator[Block]:
    while some := list(islice(rows, _WRITE)):
        yield [name for name, _ in some], [number for _, number in some], []


def _raw(name: str) -> bytes:
    try:
        return bytes.fromhex(name.replace("-", "", 1))
    except ValueError:
        raise CorruptError(f"{name!r} is not the name of a range or metarange") from None


def _hex(raw: bytes) -> str:
    return f"{raw[:32].hex()}-{raw[32:].hex()}"
