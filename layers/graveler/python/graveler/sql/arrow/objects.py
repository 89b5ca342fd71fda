"""The objects of one state, as record batches read out of the blocks of its tree."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from graveler.errors import CorruptError
from graveler.sql.arrow.blocks import Packed, packed_of, parsed
from graveler.sql.arrow.records import object_columns
from graveler.tree.block import MalformedTableError

if TYPE_CHECKING:
    from graveler.lake.reading.view import View
    from graveler.tree.key_range import KeyRange
    from graveler.tree.sstable import Records

_BYTES: Final = 1 << 22
"""Bytes of blocks that are parsed together: some 30,000 records."""
_FIRST_BYTES: Final = 1 << 17
"""The first ones, as most queries are narrow."""
_ROWS: Final = 30_000


def object_batches(view: "View", key_ranges: Sequence["KeyRange"], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the objects in some key ranges, which ascend and do not overlap, with the columns of ``schema``. Opens the ranges of
    the tree that hold them, and reads what is staged once. :class:`CorruptError` or :class:`DamagedFileError` for damaged
    files."""
    for keys in key_ranges:
        for records in _records(view, keys):
            yield pa.RecordBatch.from_arrays(object_columns(view.codec, records, schema), schema=schema)


def _records(view: "View", keys: "KeyRange") -> Iterator[Packed]:
    """Yield the records of a key range, many at a time and at least one."""
    some: Records = ([], [])
    for stretch in view.stretches(keys):
        if len(stretch) == 2:  # records, beside staged ones
            some[0].extend(stretch[0])
            some[1].extend(stretch[1])
            if len(some[0]) < _ROWS:
                continue
        if some[0]:
            yield packed_of(*some)
            some = ([], [])
        if len(stretch) == 3:
            yield from _in_blocks(*stretch)
    if some[0]:
        yield packed_of(*some)


def _in_blocks(start: bytes, end: bytes | None, blocks: Iterator[bytes]) -> Iterator[Packed]:
    for some in _grouped(blocks):
        try:
            records = parsed(some)
        except (MalformedTableError, IndexError, StructError) as error:
            raise CorruptError(
                f"a range from {start!r} on is malformed: {error}. `graveler fsck` finds which"
            ) from None
        numbers = range(len(records))
        begin = bisect_left(numbers, start, key=records.key) if start else 0
        stop = len(records) if end is None else bisect_left(numbers, end, key=records.key)
        if begin < stop:
            yield records.within(begin, stop)


def _grouped(blocks: Iterator[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size, amount = 0, _FIRST_BYTES
    for block in blocks:
        some.append(block)
        size += len(block)
        if size >= amount:
            yield some
            some, size, amount = [], 0, _BYTES
    if some:
        yield some
