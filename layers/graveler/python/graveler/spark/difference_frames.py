"""Differences of two refs as a data frame: only ranges that differ are opened, each pair of parts in a task of its own."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from graveler.errors import InvalidError
from graveler.location.environment import ServedLake
from graveler.model import ChangeType
from graveler.spark.columns import BATCH_ROWS, OBJECT, RecordColumns, paths
from graveler.spark.frames import in_tasks
from graveler.spark.handles import LakeLike, Reachable, reached
from graveler.spark.read_ahead import read_ahead
from graveler.spark.slices import TASK_ROWS, TwoSlices, pairs
from graveler.tree.diff import Difference
from graveler.tree.diff import diff as differences
from graveler.tree.key_range import KeyRange

_SIDE: Final = pa.struct([field for field in OBJECT if field.name != "path"])
CHANGE: Final = pa.schema([("type", pa.string()), ("path", pa.string()), ("before", _SIDE), ("after", _SIDE)])
"""The row of a difference: as :class:`graveler.model.Change`."""


def diff(
    spark: SparkSession,
    repository: Reachable,
    left: str,
    right: str,
    *,
    from_base: bool = False,
    prefix: str = "",
    rows_per_task: int = TASK_ROWS,
    lake: LakeLike | ServedLake = None,
) -> DataFrame:
    """Return what turns the commit of ``left`` into that of ``right``: type (added, removed, changed), path, and the object's
    entry before and after. With ``from_base``, what ``right`` changed since its merge base with ``left`` (three dots).

    Cost: resolving both, two metaranges; by the tasks one object read per range that differs (two or more for some at the parts'
    bounds). 10 µs a row. :class:`graveler.errors.NotFoundError`, :class:`graveler.errors.InvalidError`.
    """
    with reached(spark, repository, lake) as opened:
        ids = opened.commit_of(left).id, opened.commit_of(right).id
        if from_base:
            base = opened.merge_base(*ids)
            if base is None:
                raise InvalidError(f"{left!r} and {right!r} have no common history; compare them without from_base")
            ids = base.id, ids[1]
        keys = KeyRange.of_prefix(prefix.encode())
        parts = pairs(opened, opened.tree(ids[0]), opened.tree(ids[1]), keys, rows_per_task)
        namespace = opened.repository.namespace
    return in_tasks(spark, parts, lambda part: read_differences(part, namespace), CHANGE)


def read_differences(part: TwoSlices, namespace: str) -> Iterator[pa.RecordBatch]:
    """Yield the differences of a part, in a task. One object read per range that differs."""
    columns = RecordColumns(namespace)
    with read_ahead(part.left, part.right) as (base, right):
        differing = differences(base, right, part.keys.start, part.keys.end)
        while some := list(islice(differing, BATCH_ROWS)):
            yield _batch(columns, some)


def _batch(columns: RecordColumns, some: Sequence[Difference]) -> pa.RecordBatch:
    keys = [key for key, _, _ in some]
    kinds = [
        (ChangeType.ADDED if before is None else ChangeType.REMOVED if after is None else ChangeType.CHANGED).value
        for _, before, after in some
    ]
    sides = [_side(columns, keys, [row[side] for row in some]) for side in (1, 2)]
    return pa.RecordBatch.from_arrays([pa.array(kinds, pa.string()), paths(keys), *sides], schema=CHANGE)


def _side(columns: RecordColumns, keys: Sequence[bytes], records: Sequence[bytes | None]) -> pa.Array:
    """Return one side of differences; null where it has no record."""
    present = [row for row, record in enumerate(records) if record is not None]
    packed = [record for record in records if record is not None]
    if not packed:
        return pa.nulls(len(records), _SIDE)
    values = pa.StructArray.from_arrays(columns.values([keys[row] for row in present], packed), fields=list(_SIDE))
    if len(packed) == len(records):
        return values
    positions: list[int | None] = [None] * len(records)
    for index, row in enumerate(present):
        positions[row] = index
    return values.take(pa.array(positions, pa.int64()))
