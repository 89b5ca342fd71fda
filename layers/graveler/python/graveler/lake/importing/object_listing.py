"""Listing the objects of an import from a file: an S3 Inventory, or any table in CSV or Parquet.

The objects themselves are not read: the listing's data about them is trusted. Whatever its order, records come out in the
order of their keys and memory stays bounded. One pass over the keys alone checks whether the files are in order, each by itself
and one after another; if so, the records stream through, otherwise they are sorted on disk.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import le, lt
from pathlib import Path
from typing import Final

import msgspec

from graveler.errors import InvalidError
from graveler.lake.importing.external_sort import Block, sort_blocks
from graveler.lake.importing.gate import Gate
from graveler.lake.importing.listing_files import ListingError, ListingFile, find_files
from graveler.lake.importing.listing_rows import RowReader, RowRules
from graveler.lake.importing.listing_tables import Table, open_table
from graveler.requests.importing import ListingOptions
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.parallel_build import Part
from graveler.tree.record import RecordCodec

MEMORY: Final = 64 << 20
"""Bytes of records that are sorted at a time."""

_SHOWN: Final = 3
"""The number of files of a listing that a message names."""
_ROW_BITS: Final = 44
_ROW: Final = (1 << _ROW_BITS) - 1


def listing_name(listing: Path | Sequence[Path], options: ListingOptions) -> str:
    """Return the name of a listing and of its selected rows for messages."""
    paths = [listing] if isinstance(listing, Path) else list(listing)
    shown = [repr(str(path)) for path in paths[:_SHOWN]] + [f"{len(paths) - _SHOWN} more"] * (len(paths) > _SHOWN)
    below = f" (rows whose key or address starts with {options.source!r})" if options.source else ""
    return f"listing {' and '.join(shown)}{below}"


class _Unit(msgspec.Struct, frozen=True):
    """A unit that can be in order by itself: part ``part`` of file ``file``."""

    file: int
    part: int


class _Interval(msgspec.Struct, frozen=True):
    """The first and the last name of a unit that is in order."""

    start: bytes
    end: bytes
    unit: _Unit


class ObjectListing:
    """The objects that a listing names, as records of the repository whose storage namespace is ``namespace``. ``gate`` is
    that of its readers; None where they are not known, as in a client, whose server asks its own.

    ``listing`` is a file, several, a folder of them, or a ``manifest.json`` of S3 Inventory: see
    :func:`graveler.lake.importing.listing_files.find_files`. A file is CSV in UTF-8, with a header or the names of its
    columns in the options, or Parquet; either may be inside gzip. Columns have the names of S3 Inventory in any spelling
    (``LastModifiedDate``, ``last_modified_date``), or those of a plain listing:

    ===================================== ==================================================================
    ``Key``, ``path``                     the object's key
    ``Bucket``                            its bucket
    ``physical_address``, ``address``     its full URL, instead of the two or besides ``path``
    ``Size``                              bytes; required
    ``ETag``, ``checksum``                required
    ``LastModifiedDate``, ``mtime``, …    ISO 8601 or Unix seconds; without it, the time of the listing's file
    ``content_type``, ``metadata``        the latter a JSON object of texts
    ``IsLatest``, ``IsDeleteMarker``      only latest versions that are no delete markers are taken
    ===================================== ==================================================================

    Opening one reads the beginnings of the files. :class:`graveler.errors.NotFoundError`, :class:`ListingError`,
    :class:`graveler.errors.PreconditionError` for Parquet without pyarrow, :class:`graveler.errors.UnavailableError`.
    """

    def __init__(
        self,
        listing: Path | Sequence[Path],
        namespace: str,
        options: ListingOptions | None = None,
        progress: ObjectProgress = no_object_progress,
        *,
        memory: int = MEMORY,
        scratch: Path | None = None,
        gate: Gate | None = None,
    ) -> None:
        options = options or ListingOptions()
        self._progress = progress
        self._memory = memory
        self._scratch = scratch
        self._files = find_files(listing, options.columns)
        self._rows = _Rows(self._files, namespace, options, gate)
        self._looked_at: tuple[list[_Interval] | None] | None = None

    def __call__(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records, in ascending order of their keys. ``progress`` is called as their rows are read.

        Reads each file twice (once if it is not in order), and again for the MD5 in a manifest; memory for some thousand
        records, or about 64 MiB and the records once on disk if they have to be sorted. :class:`ListingError` names file, row,
        column and value; also for two rows with one key. :class:`graveler.errors.UnavailableError`.
        """
        self._check()
        chain = self._chain()
        for keys, packed in self._distinct(chain):
            yield from zip(keys, packed, strict=True)

    def parts(self) -> Sequence[Part]:
        """Return the records in parts of ascending key intervals, for
        :func:`graveler.tree.parallel_build.build_parallel`: one for each file, of Parquet for each row group. A single part if
        they are not in order: only sorting all of them would find intervals.

        Parts can be sent to other processes, and report no progress.
        Cost: a pass over the keys.
        """
        self._check()
        chain = self._chain()
        if chain is None:
            return [self]
        groups: list[list[_Interval]] = []
        for interval in chain:
            if groups and groups[-1][-1].end == interval.start:  # rows of one key, perhaps: they have to be in one part
                groups[-1].append(interval)
            else:
                groups.append([interval])
        return [_OrderedPart(self._rows, [interval.unit for interval in group]) for group in groups]

    def _check(self) -> None:
        for file in self._files:
            file.check()

    def _chain(self) -> list[_Interval] | None:
        """Return all units in the order of their names, if that puts all rows in order; else None, at the first that is not.
        Reads the listing the first time."""
        if self._looked_at is None:
            self._looked_at = (self._intervals(),)
        return self._looked_at[0]

    def _intervals(self) -> list[_Interval] | None:
        intervals: list[_Interval] = []
        for unit in self._rows.units():
            try:
                interval = self._rows.interval(unit)
            except _UnorderedError:
                return None
            if interval is not None:
                intervals.append(interval)
        intervals.sort(key=lambda interval: (interval.start, interval.end))
        if any(interval.end > following.start for interval, following in pairwise(intervals)):
            return None
        return intervals

    def _distinct(self, chain: list[_Interval] | None) -> Iterator[tuple[list[bytes], list[bytes]]]:
        if chain is not None:
            return self._rows.distinct(self._rows.blocks([interval.unit for interval in chain], self._progress))
        blocks = self._rows.blocks(self._rows.units(), self._progress)
        return self._rows.distinct(sort_blocks(blocks, self._memory, self._scratch))


class _UnorderedError(Exception):
    """The names of a unit do not ascend."""


class _OrderedPart:
    """Units whose rows are in order, one after another. Picklable."""

    def __init__(self, rows: "_Rows", units: Sequence[_Unit]) -> None:
        self._rows = rows
        self._units = units

    def __call__(self) -> Iterator[tuple[bytes, bytes]]:
        for keys, packed in self._rows.distinct(self._rows.blocks(self._units, no_object_progress)):
            yield from zip(keys, packed, strict=True)


class _Rows:
    """The rows of all files: their order, and their records. Picklable; opens the files again in another process."""

    def __init__(
        self, files: Sequence[ListingFile], namespace: str, options: ListingOptions, gate: Gate | None
    ) -> None:
        self._files = files
        self._namespace = namespace
        self.options = options
        self._gate = gate
        if options.destination and not options.destination.endswith("/"):
            raise InvalidError(f"destination {options.destination!r} of a listing must be empty or end with '/'")
        rules = RowRules(options.source, options.destination, options.base, options.url_encoded, options.folders)
        codec = RecordCodec(namespace)
        prefix = namespace.rstrip("/") + "/"
        self._tables: list[Table] = [open_table(file) for file in files]
        self._readers = [
            RowReader(file, table, rules, codec, prefix, int(file.path.stat().st_mtime), gate)
            for file, table in zip(files, self._tables, strict=True)
        ]

    def __reduce__(self) -> tuple[object, ...]:
        return _Rows, (self._files, self._namespace, self.options, self._gate)

    def units(self) -> list[_Unit]:
        """Return the units that can be in order by themselves, in the listing's order."""
        return [_Unit(file, part) for file, table in enumerate(self._tables) for part in range(table.parts)]

    def interval(self, unit: _Unit) -> _Interval | None:
        """Return the first and the last name of a unit; None if it has no rows. Reads the names alone.

        :class:`_UnorderedError` at the first that is less than the one before.
        """
        reader = self._readers[unit.file]
        start: bytes | None = None
        end = b""
        for batch in self._tables[unit.file].batches(unit.part, reader.name_columns):
            names = reader.names(batch)
            if not names:
                continue
            if names[0] < end or not _ascends(names):
                raise _UnorderedError
            start = names[0] if start is None else start
            end = names[-1]
        return None if start is None else _Interval(start, end, unit)

    def blocks(self, units: Iterable[_Unit], progress: ObjectProgress) -> Iterator[Block]:
        """Yield the records of units, one after another, as they stand."""
        for unit in units:
            reader = self._readers[unit.file]
            for batch in self._tables[unit.file].batches(unit.part, reader.columns):
                block, size = reader.block(batch, unit.file << _ROW_BITS)
                if block[0]:
                    progress(len(block[0]), size)
                    yield block

    def distinct(self, blocks: Iterable[Block]) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield the records of ordered blocks, each key once."""
        held: tuple[bytes, int, bytes] | None = None
        for keys, origins, packed in blocks:
            if held is not None:  # the last record of the previous block: the first of this one may have its key
                keys, origins, packed = [held[0], *keys], [held[1], *origins], [held[2], *packed]
            if not all(map(lt, keys, islice(keys, 1, None))):
                keys, origins, packed = self._without_duplicates(keys, origins, packed)
            held = keys.pop(), origins.pop(), packed.pop()
            yield keys, packed
        if held is not None:
            yield [held[0]], [held[2]]

    def _without_duplicates(self, keys: list[bytes], origins: list[int], packed: list[bytes]) -> Block:
        rows: list[tuple[bytes, int, bytes]] = []
        for row in zip(keys, origins, packed, strict=True):
            if rows and row[0] <= rows[-1][0]:
                key, other, _ = rows[-1]
                if row[0] < key:
                    raise ListingError(
                        self._file(row[1]), "changed while it was being read; import again", row[1] & _ROW
                    )
                if not self.options.last_wins:
                    raise self._duplicate(key, *sorted((other, row[1])))
                if other > row[1]:
                    continue
                rows.pop()
            rows.append(row)
        return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]

    def _duplicate(self, key: bytes, origin: int, second_origin: int) -> ListingError:
        return ListingError(
            self._file(second_origin),
            f"occurs a second time, after row {origin & _ROW:,} of {str(self._file(origin))!r}; "
            "remove one of them, or let the last one win",
            second_origin & _ROW,
            value=key,
        )

    def _file(self, origin: int) -> Path:
        return self._files[origin >> _ROW_BITS].path


def _ascends(names: Sequence[bytes]) -> bool:
    return all(map(le, names, islice(names, 1, None)))
