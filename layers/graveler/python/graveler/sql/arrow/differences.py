"""Differences as record batches: the columns of both sides are read out of packed records, as those of objects are."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from graveler.model import ChangeType
from graveler.sql.arrow.blocks import packed_of, texts
from graveler.sql.arrow.records import object_columns
from graveler.sql.arrow.schemas import OBJECTS
from graveler.tree.diff import Difference
from graveler.tree.record import RecordCodec

_ROWS: Final = 16_384
"""Rows of a batch, at most."""
_SIDES: Final = ("before", "after")
_TYPES: Final = pa.array([ChangeType.CHANGED.value, ChangeType.REMOVED.value, ChangeType.ADDED.value])
"""By what is absent: nothing, the record after, the record before."""


def difference_batches(
    codec: RecordCodec, differences: Iterator[Difference], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield differences with the columns of ``schema``, which are some of :data:`~graveler.sql.arrow.schemas.DIFF`. 1 µs a
    difference. :class:`CorruptError` for a malformed record."""
    while group := [*islice(differences, _ROWS)]:
        keys, *sides = zip(*group, strict=True)
        columns = {"path": texts(pa.array(keys, pa.binary()))} if "path" in schema.names else {}
        absent = [np.fromiter((packed is None for packed in side), np.bool_, len(side)) for side in sides]
        for name, side, missing in zip(_SIDES, sides, absent, strict=True):
            columns |= _side(codec, name, keys, side, missing, schema.names)
        if "type" in schema.names:
            columns["type"] = _TYPES.take(pa.array(2 * absent[0] + absent[1]))
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _side(
    codec: RecordCodec,
    side: str,
    keys: Sequence[bytes],
    packed: Sequence[bytes | None],
    absent: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    columns: Sequence[str],
) -> dict[str, pa.Array]:
    """Return the chosen columns of one side, null where it has no record."""
    names = [field.name for field in OBJECTS if f"{field.name}_{side}" in columns]
    if not names:
        return {}
    schema = pa.schema([OBJECTS.field(name) for name in names])
    records = [(key, record) for key, record in zip(keys, packed, strict=True) if record is not None]
    if not records:
        return {f"{field.name}_{side}": pa.nulls(len(keys), field.type) for field in schema}
    arrays = object_columns(codec, packed_of(*zip(*records, strict=True)), schema)
    if len(records) < len(keys):
        places = pa.array(np.cumsum(~absent) - 1, mask=absent)
        arrays = [column.take(places) for column in arrays]
    return {f"{name}_{side}": column for name, column in zip(names, arrays, strict=True)}
