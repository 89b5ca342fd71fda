"""Marks: the data names in each range, kept from run to run, so that a range is read once in its life.

::

    _graveler/gc/marks/state.msgpack       the numbers of ranges, and what metaranges change (:mod:`.mark_state`)
    _graveler/gc/marks/<16 hex>.rows       rows (:mod:`.rowfiles`) of some ranges, sorted

A range's file name pins all of its records, so what was read of it stays true as long as the file exists, whichever writer puts
it again. The state is written after its rows; leftovers of a run that died are removed as garbage. Lost or damaged marks cost
reading the trees anew, and no more: all of them have checksums.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count, islice
from secrets import token_hex
from typing import Final

from graveler.lake.importing.external_sort import Block, sort_blocks
from graveler.model import CommitID
from graveler.retention.comparison import ROW
from graveler.retention.mark_state import FOLDER, STATE, load_state, save_state
from graveler.retention.metarange_reader import MetarangeReader
from graveler.retention.packed_numbers import file_name, raw_name
from graveler.retention.range_numbers import RangeNumbers
from graveler.retention.rowfiles import put_rows
from graveler.retention.rules import KnownCommit
from graveler.retention.threads import at_once
from graveler.retention.tree_tables import tree_table
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.tree.record import record_data_id
from graveler.tree.store import RANGES

_MEMORY: Final = 256 << 20
MOST_FILES: Final = 8
"""Beyond this number, files of rows are merged into one."""
_WRITE: Final = 1 << 16


class Marks:
    """The marks of one namespace. ``metaranges_read`` and ``ranges_read`` count those that had to be read.

    :meth:`read` says which metaranges there are, each with bits for what needs it; :meth:`ranges_with` and :meth:`masks` say what
    their ranges are needed for. Memory: 120 bytes a commit of few changes and 60 a range; 170 a commit more while metaranges are
    read, and 170 a range while ranges are looked up."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._state = load_state(objects)
        self._bits: list[int] = []
        """Bits of the metaranges in the succession: 0 for those that nothing needs."""
        self.metaranges_read = 0
        self.ranges_read = 0

    def read(
        self,
        metaranges: Mapping[str, int],
        commits: Mapping[CommitID, KnownCommit],
        progress: Callable[[int, int], None],
    ) -> None:
        """Read those of these metaranges that were never read, and note the bits that say for what each is needed, not 0. One
        object read each, in its life. ``commits`` say which follows which: a metarange is compared with that of its commit's
        first parent. ``progress`` is called before each. :class:`DamagedFileError` if one cannot be read: then nothing must be
        collected."""
        succession = self._state.succession
        names = list(map(raw_name, metaranges))
        positions = succession.positions()
        fresh = sorted([name for name in names if name not in positions])
        if fresh:
            numbers = count()
            reader = MetarangeReader(
                self._objects, self._state.ranges.number, self._state.lists, lambda: progress(next(numbers), len(fresh))
            )
            succession.insert(_places(fresh, _bases(fresh, commits, positions), positions), reader.changes)
            self._state.lists = {}
            self.metaranges_read += reader.objects_read
            positions = succession.positions()
        self._bits = [0] * len(succession)
        for name, bits in zip(names, metaranges.values(), strict=True):
            self._bits[positions[name]] = bits

    def ranges_with(self, bits: int) -> RangeNumbers:
        """Return the numbers of all ranges of the metaranges that have one of these bits. 0.1 µs a change of any metarange, 0.3
        the first time."""
        members = bytes([mask & bits != 0 for mask in self._bits])
        return self._state.succession.union(members, self._state.ranges.next_number)

    def masks(self) -> list[int]:
        """Return for the number of each range the bits of all metaranges that contain it, 0 for other numbers. 1 µs a change of
        any metarange, and more where neighbours have different bits."""
        return self._state.succession.masks(self._bits, self._state.ranges.next_number)

    def number_ranges(self, names: Iterable[str]) -> RangeNumbers:
        """Return the numbers of ranges, by their files' names. Those that have none get one."""
        return RangeNumbers([self._state.ranges.number(raw_name(name)) for name in names])

    def numbered(self, names: Iterable[str]) -> RangeNumbers:
        """Return the numbers of those of these ranges that have one."""
        numbers = map(self._state.ranges.by_name().get, map(raw_name, names))
        return RangeNumbers([number for number in numbers if number is not None])

    def is_in(self, name: str, numbers: RangeNumbers) -> bool:
        """Return whether the range file of this name is one of those."""
        return self._state.ranges.by_name().get(raw_name(name)) in numbers

    def unread(self, numbers: RangeNumbers) -> list[tuple[int, str]]:
        """Return number and name of those of these ranges that were never read."""
        ranges = self._state.ranges
        return [(number, file_name(raw)) for number, raw in ranges.named(numbers - ranges.read)]

    def add(self, ranges: Sequence[tuple[int, str]], files: Sequence[str]) -> None:
        """Record that these ranges have been read, into these files."""
        self._state.files += files
        for number, _ in ranges:
            self._state.ranges.read.add(number)
        self.ranges_read += len(ranges)

    @property
    def files(self) -> tuple[str, ...]:
        """Keys of the files of rows."""
        return tuple(f"{FOLDER}/{name}" for name in self._state.files)

    def alive(self, numbers: RangeNumbers) -> bytes:
        """Return 1 for each of these numbers, 0 for all others."""
        return numbers.flags(self._state.ranges.next_number)

    def save(
        self,
        numbers: RangeNumbers,
        merge: Callable[[Objects, Sequence[str], bytes], list[str]],
        most_files: int = MOST_FILES,
    ) -> None:
        """Save the data about the metaranges that :meth:`read` named, and these ranges, for the next run, and drop the rest. If
        more than ``most_files`` files of rows exist, or half of the ranges are gone, ``merge`` makes new ones."""
        state, ranges = self._state, self._state.ranges
        if len(state.files) > most_files or len(ranges.read) > 2 * len(numbers) + MOST_FILES:
            state.files = merge(self._objects, self.files, self.alive(numbers))
            ranges.read &= numbers
        state.succession.keep(bytes(map(bool, self._bits)))
        self._bits = list(filter(None, self._bits))
        ranges.keep(numbers | ranges.read | RangeNumbers(state.succession.changes))
        state.succession.release()
        ranges.release()
        save_state(self._objects, state)
        current = {STATE, *(f"{FOLDER}/{name}" for name in state.files)}
        for stored in list(self._objects.list(f"{FOLDER}/")):
            if stored.key not in current:
                with suppress(ObjectMissingError):
                    self._objects.delete(stored.key)


def _bases(
    fresh: Sequence[bytes], commits: Mapping[CommitID, KnownCommit], positions: Mapping[bytes, int]
) -> dict[bytes, bytes]:
    """Return for each of these metaranges another one that differs little, if there is one: that of a commit's first parent,
    best of one that was read."""
    bases: dict[bytes, bytes] = {}
    unread = set(map(file_name, fresh))
    for commit in commits.values():
        parent = commits.get(commit.parents[0]) if commit.metarange in unread and commit.parents else None
        if parent is None or not parent.metarange or parent.metarange == commit.metarange:
            continue
        name, base = raw_name(commit.metarange), raw_name(parent.metarange)
        if base in positions or (parent.metarange in unread and name not in bases):
            bases[name] = base
    return bases


def _places(
    fresh: Sequence[bytes], bases: Mapping[bytes, bytes], positions: Mapping[bytes, int]
) -> list[tuple[int, list[bytes]]]:
    """Return where to put new metaranges into the succession: each behind its base, with those in between whose base it is too;
    without a base at the end."""
    following: dict[bytes, list[bytes]] = {}
    for name in fresh:
        if name in bases:
            following.setdefault(bases[name], []).append(name)
    placed: set[bytes] = set()

    def with_followers(names: Iterable[bytes]) -> Iterator[bytes]:
        """Yield these metaranges, each followed by those whose base it is."""
        waiting = [*names]
        while waiting:
            name = waiting.pop()
            if name not in placed:
                placed.add(name)
                yield name
                waiting += following.get(name, ())

    places: dict[int, list[bytes]] = {}
    for base, names in following.items():
        if base in positions:
            places[positions[base] + 1] = list(with_followers(names))
    baseless = with_followers(name for name in fresh if name not in bases)
    in_circles = with_followers(fresh)  # reverts make a metarange its own ancestor
    places.setdefault(len(positions), []).extend(chain(baseless, in_circles))
    return sorted(places.items())


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
    with tree_table(objects, RANGES, name) as table:
        for _, packed in table.blocks():
            names += [name_of_object for name_of_object in map(record_data_id, packed) if name_of_object is not None]
    return names


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
