"""The live listing of objects, compared with the needed ones: as a whole, or split into intervals that several may work on.

Bounds of intervals lie between the first parts of data names, so that the files of a data folder, whose names do not sort as
their keys, stay together.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from graveler.retention.comparison import NAME_BYTES, Listed, unneeded
from graveler.retention.rowfiles import read_rows
from graveler.retention.runs import Candidate, Kind, Tally
from graveler.storage.objects.port import Objects, StoredObject
from graveler.tree.record import data_id, data_path

BEHIND: Final = "_graveler0"
"""Sorts after all keys of graveler's own files, before the first of an object."""

_DATA: Final = "data/"
_FIRST_PART: Final = len(_DATA) + 20
"""Characters of a key before the second part of a data name."""
_SECOND_BITS: Final = 100
_EXAMPLES: Final = 20


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
    """Keys above ``after`` and up to ``last`` (empty: all), and their names (25 bytes): above ``above``, up to ``upto`` (empty:
    all)."""

    after: str = BEHIND
    last: str = ""
    above: bytes = b""
    upto: bytes = b""


EVERYTHING: Final = ListingInterval()


class Comparison(Struct, frozen=True):
    """The needed objects to compare a listing with: ``files`` are keys of sorted rows (:mod:`.comparison`), ``alive`` holds 1 for
    each number that counts. Objects younger than ``horizon`` (Unix seconds) stay. Picklable if ``objects`` is."""

    objects: Objects
    files: tuple[str, ...]
    alive: bytes
    horizon: float


def intervals(names: Sequence[bytes], amount: int) -> list[ListingInterval]:
    """Return up to ``amount`` intervals that share ``names``, a sample of the existing ones, evenly; together they cover
    everything."""
    ordered = sorted(names)
    bounds = {ordered[len(ordered) * number // amount] for number in range(1, amount)} if ordered else set()
    parts: list[ListingInterval] = []
    after, above = BEHIND, b""
    for upto in sorted({_last_of_first_part(name) for name in bounds}):
        last = f"{_DATA}{data_path(upto)[:20]}0"  # after all keys with this first part: "/" comes before "0"
        parts.append(ListingInterval(after, last, above, upto))
        after, above = last, upto
    return [*parts, ListingInterval(after, "", above, b"")]


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
    ``progress`` receives the number listed. One listing; a dozen requests per file of rows. Streaming."""
    rows = [read_rows(work.objects, key, interval.above) for key in work.files]
    for listed in unneeded(
        own_objects(work.objects, interval, work.horizon, unknown, progress), rows, work.alive, also
    ):
        reason = "no kept commit and no uncommitted change refers to it"
        yield Candidate(Kind.OBJECT, listed.key, listed.size, listed.etag, listed.modified, reason)


def own_objects(
    objects: Objects, interval: ListingInterval, horizon: float, unknown: Unknown, progress: Callable[[int], None]
) -> Iterator[Listed]:
    """Yield the objects with graveler's names that are not younger than ``horizon`` (Unix seconds), by name. One listing."""
    numbered = enumerate(_listed(objects, interval), 1)
    for _, together in groupby(numbered, lambda numbered: numbered[1].key[:_FIRST_PART]):
        old = []  # one, or all files of a data folder
        for number, stored in together:
            name = data_id(stored.key)
            if name is None:
                unknown.add(stored)
            elif stored.modified <= horizon:
                old.append(Listed(name, stored.key, stored.size, stored.etag, stored.modified))
            if number % 1000 == 0:
                progress(number)
        yield from sorted(old)


def _listed(objects: Objects, interval: ListingInterval) -> Iterator[StoredObject]:
    for stored in objects.list(after=interval.after):
        if interval.last and stored.key > interval.last:
            return
        yield stored
