"""The live listing of objects, compared with the needed ones: as a whole, or split into intervals that several may work on.

Objects below ``data/`` and files below ``tables/`` are two listings, whose names are merged. Bounds of intervals lie between the
first parts of names, so that the files of a folder, whose names do not sort as their keys, stay together.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final

import msgspec
from msgspec import Struct

from graveler.lake.importing.external_sort import Block, sort_blocks
from graveler.lake.objects.issued_addresses import NAMESPACES, TableFolders
from graveler.retention.comparison import BATCH, NAME_BYTES, Listed, unneeded
from graveler.retention.rowfiles import read_rows
from graveler.retention.runs import Candidate, Kind, Tally
from graveler.storage.objects.port import Objects, StoredObject
from graveler.tree.record import TABLES, data_id, data_path

BEHIND: Final = "_graveler0"
"""Sorts after all keys of graveler's own files, before the first of an object."""

_DATA: Final = "data/"
_FIRST_CHARS: Final = 20
"""Characters of the first part of a name."""
_SECOND_BITS: Final = 100
_EXAMPLES: Final = 20
_MEMORY: Final = 64 << 20
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[str, int, str, float]).decode


class Unknown:
    """Files that are not graveler's: kept, and listed."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.examples: list[str] = []

    def add(self, stored: StoredObject) -> None:
        """Record one."""
        self.tally = self.tally.plus(stored.size)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(stored.key)

    def merge(self, other: "Unknown") -> None:
        """Record all of another one's."""
        self.tally = Tally(self.tally.files + other.tally.files, self.tally.bytes + other.tally.bytes)
        self.examples = [*self.examples, *other.examples][:_EXAMPLES]


class ListingInterval(Struct, frozen=True):
    """Names (25 bytes) above ``above``, and up to ``upto`` (empty: all). Foreign files before, between and after the two listings
    belong to the first or the last interval."""

    above: bytes = b""
    upto: bytes = b""

    def spans(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return the keys below ``data/`` and ``tables/`` that have these names: those after the first key of a pair and up to
        the second one (empty: all)."""
        return (
            (_end_of(_DATA, self.above) or BEHIND, _end_of(_DATA, self.upto) or TABLES),
            (_end_of(TABLES, self.above) or TABLES, _end_of(TABLES, self.upto)),
        )


def _end_of(folder: str, name: bytes) -> str:
    """Return a key after all those in a folder whose names have the same first part: "/" comes before "0"."""
    return f"{folder}{data_path(name)[:_FIRST_CHARS]}0" if name else ""


EVERYTHING: Final = ListingInterval()


class Horizon(Struct, frozen=True):
    """Times up to which files are old: objects that were not modified after ``objects`` (Unix seconds), and files that were not
    modified after ``tables`` in the folders of tables that ``folders`` recognises. Other folders are foreign."""

    objects: float
    tables: float
    folders: TableFolders

    def of(self, key: str) -> float | None:
        """Return the time for a key; None for a foreign one."""
        if not key.startswith(TABLES):
            return self.objects
        return self.tables if self.folders.recognises(key) else None


class Comparison(Struct, frozen=True):
    """The needed objects to compare a listing with: ``files`` are keys of sorted rows (:mod:`.comparison`), ``alive`` holds 1 for
    each number that counts. Objects younger than the ``horizon`` stay. Picklable if ``objects`` is."""

    objects: Objects
    files: tuple[str, ...]
    alive: bytes
    horizon: Horizon


def intervals(names: Sequence[bytes], amount: int) -> list[ListingInterval]:
    """Return up to ``amount`` intervals that share ``names``, a sample of the existing ones, evenly; together they cover
    everything."""
    ordered = sorted(names)
    bounds = {ordered[len(ordered) * number // amount] for number in range(1, amount)} if ordered else set()
    parts: list[ListingInterval] = []
    above = b""
    for upto in sorted({_last_of_first_part(name) for name in bounds}):
        parts.append(ListingInterval(above, upto))
        above = upto
    return [*parts, ListingInterval(above)]


def _last_of_first_part(name: bytes) -> bytes:
    number = int.from_bytes(name, "big") | (1 << _SECOND_BITS) - 1
    return number.to_bytes(NAME_BYTES, "big")


def candidates(
    work: Comparison,
    interval: ListingInterval,
    also: Iterator[bytes],
    unknown: Unknown,
    progress: Callable[[int], None],
) -> Iterator[Candidate]:
    """Yield the unneeded objects of an interval, by key: neither a row that counts nor ``also`` (sorted names) names them.
    ``progress`` receives the number listed. Two listings; a dozen requests per file of rows. Streaming."""
    rows = [read_rows(work.objects, key, interval.above) for key in work.files]
    for listed in unneeded(
        own_objects(work.objects, interval, work.horizon, unknown, progress), rows, work.alive, also
    ):
        kind, reason = Kind.OBJECT, "no kept commit and no uncommitted change refers to it"
        if listed.key.startswith(TABLES):
            kind, reason = Kind.TABLE, "no kept commit has it in a table"
        yield Candidate(kind, listed.key, listed.size, listed.etag, listed.modified, reason)


def own_objects(
    objects: Objects, interval: ListingInterval, horizon: Horizon, unknown: Unknown, progress: Callable[[int], None]
) -> Iterator[Listed]:
    """Yield the objects with graveler's names that are not younger than the ``horizon``, by name. Two listings."""
    listings = [_old(objects, span, horizon, unknown, progress) for span in interval.spans()]
    return heapq.merge(*listings)


def _old(
    objects: Objects, span: tuple[str, str], horizon: Horizon, unknown: Unknown, progress: Callable[[int], None]
) -> Iterator[Listed]:
    def old(together: Iterator[tuple[int, StoredObject]]) -> Iterator[Listed]:
        for number, stored in together:
            name = data_id(stored.key)
            modified = None if name is None else horizon.of(stored.key)
            if name is None or modified is None:
                if stored.key != NAMESPACES:
                    unknown.add(stored)
            elif stored.modified <= modified:
                yield Listed(name, stored.key, stored.size, stored.etag, stored.modified)
            if number % 1000 == 0:
                progress(number)

    numbered = enumerate(_listed(objects, *span), 1)
    for first_part, together in groupby(numbered, lambda numbered: _first_part(numbered[1].key)):
        if first_part.startswith(TABLES):
            yield from _sorted_files(old(together))
        else:
            yield from sorted(old(together))  # one, or all files of a data folder


def _sorted_files(files: Iterator[Listed]) -> Iterator[Listed]:
    """Yield the files of a table by name. 64 MiB of them are in memory, and the others in a temporary file."""

    def blocks() -> Iterator[Block]:
        while some := list(islice(files, BATCH)):
            yield [file.name for file in some], [0] * len(some), [_encode(file[1:]) for file in some]

    for names, _, rests in sort_blocks(blocks(), _MEMORY):
        for name, rest in zip(names, rests, strict=True):
            yield Listed(name, *_decode(rest))


def _first_part(key: str) -> str:
    """Return what the key begins with, up to the end of the first part of a name."""
    return key[: (len(TABLES) if key.startswith(TABLES) else len(_DATA)) + _FIRST_CHARS]


def _listed(objects: Objects, after: str, last: str) -> Iterator[StoredObject]:
    for stored in objects.list(after=after):
        if last and stored.key > last:
            return
        yield stored
