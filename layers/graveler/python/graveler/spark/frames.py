"""A lake's metadata as data frames: the objects of a commit, its ranges, commits, branches and tags.

The driver resolves a ref once, to a commit, and splits its tree into parts by the metarange alone; tasks open the ranges, in
parallel. Works on every Spark that has ``mapInArrow`` (3.3 and later); the data source of :mod:`graveler.spark.source` reads the
same parts.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from graveler.errors import InvalidError
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake
from graveler.model import CommitID
from graveler.spark.columns import OBJECT, RecordColumns
from graveler.spark.conditions import keys_where
from graveler.spark.error_translation import spark_errors
from graveler.spark.handles import LakeLike, Reachable, reached
from graveler.spark.read_ahead import read_ahead
from graveler.spark.slices import TASK_ROWS, KeyRanges, Slice, both, either, slices
from graveler.spark.workers import forget_archives
from graveler.tree.key_range import KeyRange

if TYPE_CHECKING:
    from graveler.spark.served import ServedRepository

COMMIT: Final = pa.schema(
    [
        ("id", pa.string()),
        ("parents", pa.list_(pa.string())),
        ("metarange_id", pa.string()),
        ("committer", pa.string()),
        ("message", pa.string()),
        ("created", pa.int64()),
        ("generation", pa.int64()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)
REF: Final = pa.schema([("name", pa.string()), ("commit_id", pa.string())])
RANGE: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("first", pa.string()),
        ("last", pa.string()),
        ("objects", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

_ANSWER: Final = pa.schema([pa.field("answer", pa.binary())])
_PAGE: Final = 1000

SENT_BYTES: Final = 1 << 20
"""Bytes of parts that are sent together. From this size on Spark sends a function by a broadcast, not within each task
(``spark.broadcast.UDFCompressionThreshold``)."""

T = TypeVar("T")
Out = TypeVar("Out")


def objects(
    spark: SparkSession,
    repository: Reachable,
    ref: str,
    *,
    prefix: str = "",
    where: Column | str | None = None,
    columns: Sequence[str] = (),
    rows_per_task: int = TASK_ROWS,
    lake: LakeLike | ServedLake = None,
) -> DataFrame:
    """Return the objects of a ref's commit: path, size (bytes), checksum, mtime (Unix seconds), address, content type, metadata.

    Only ranges are opened that can hold paths which begin with ``prefix`` and satisfy ``where``, a condition on the columns: its
    comparisons of ``path`` with constants count (also ``LIKE 'a/%'``, ``startswith``, ``IN``), combined by AND and OR. With
    ``columns``, only these are read. Uncommitted changes do not count, and later commits change nothing: the ref is resolved now.
    Through Spark Connect, which does not expose conditions, only ``prefix`` prunes ranges, and ``where`` does not.

    Cost: resolving, the commit, its metarange; one object read per range, by the tasks, ``rows_per_task`` records each or
    somewhat more. 5 µs a row. :class:`graveler.errors.NotFoundError`, :class:`graveler.errors.InvalidError`.
    """
    with reached(spark, repository, lake) as opened:
        keys = either(KeyRange.of_prefix(prefix.encode()))
        if where is not None:
            keys = both(keys, keys_where(spark, where, OBJECT))
        _, parts = plan_objects(opened, ref, keys, rows_per_task)
        namespace = opened.repository.namespace
    names = tuple(columns) or tuple(OBJECT.names)
    if where is not None and columns:
        names = tuple(OBJECT.names)  # the condition may name any of them
    schema = object_schema(names)
    frame = in_tasks(spark, parts, lambda part: read_objects(part, namespace, names), schema)
    if where is not None:
        frame = frame.where(where)
    return frame.select(*columns) if columns else frame


def plan_objects(
    repository: "OpenRepository | ServedRepository", ref: str, keys: KeyRanges, rows_per_task: int = TASK_ROWS
) -> tuple[CommitID, list[Slice]]:
    """Return the commit of a ref, and its parts for tasks. Cost: resolving, the commit, its metarange."""
    commit = repository.commit_of(ref)
    return commit.id, slices(repository, repository.tree(commit.id), keys, rows_per_task)


def read_objects(part: Slice, namespace: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part's ranges, in a task. One object read per range."""
    with read_ahead(part.tree) as (tree,):
        yield from RecordColumns(namespace).batches(tree.blocks(part.keys.start, part.keys.end), columns)


def object_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns of an object. :class:`graveler.errors.InvalidError` for others."""
    unknown = [name for name in columns if name not in OBJECT.names]
    if unknown:
        raise InvalidError(f"objects have no column {unknown[0]!r}; they have {', '.join(OBJECT.names)}")
    return pa.schema([OBJECT.field(name) for name in columns])


def commits(spark: SparkSession, repository: Reachable, ref: str, *, lake: LakeLike | ServedLake = None) -> DataFrame:
    """Return the commits that a ref can reach, newest first. ``created`` in Unix seconds. Read by the driver: about one table
    read per 32. :class:`graveler.errors.NotFoundError`."""
    rows: list[tuple[object, ...]] = []
    with reached(spark, repository, lake) as opened:
        after: CommitID | None = None
        start = opened.commit_of(ref).id
        while True:
            page = opened.log(start, after=after, amount=_PAGE)
            rows += [
                (
                    c.id,
                    list(c.parents),
                    c.metarange_id,
                    c.committer,
                    c.message,
                    c.created,
                    c.generation,
                    dict(c.metadata),
                )
                for c in page.results
            ]
            if page.next_after is None:
                return _frame(spark, COMMIT, rows)
            after = CommitID(page.next_after)


def branches(
    spark: SparkSession, repository: Reachable, *, show_hidden: bool = False, lake: LakeLike | ServedLake = None
) -> DataFrame:
    """Return the branches, by name: name and commit ID. Read by the driver: about 16 table reads per thousand."""
    with reached(spark, repository, lake) as opened:
        pages = _paged(lambda after: opened.branches(after=after, amount=_PAGE, show_hidden=show_hidden))
        return _frame(spark, REF, [(branch.name, branch.commit_id) for branch in pages])


def tags(spark: SparkSession, repository: Reachable, *, lake: LakeLike | ServedLake = None) -> DataFrame:
    """Return the tags, by name: name and commit ID. Cost as :func:`branches`."""
    with reached(spark, repository, lake) as opened:
        pages = _paged(lambda after: opened.tags(after=after, amount=_PAGE))
        return _frame(spark, REF, [(tag.name, tag.commit_id) for tag in pages])


def ranges(spark: SparkSession, repository: Reachable, ref: str, *, lake: LakeLike | ServedLake = None) -> DataFrame:
    """Return the ranges of a ref's commit, in the order of their keys: number, ID, file name, first and last path, number of
    objects and their bytes. Opens none: the metarange suffices."""
    with reached(spark, repository, lake) as opened:
        tree = opened.tree(ref)
        infos = [tree.info(number) for number in range(len(tree))]
    rows: list[tuple[object, ...]] = [
        (number, i.id.hex(), i.name, i.first.decode(), i.last.decode(), i.count, i.total)
        for number, i in enumerate(infos)
    ]
    return _frame(spark, RANGE, rows)


def in_tasks(
    spark: SparkSession, parts: Sequence[T], read: Callable[[T], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """Return a frame of the batches that ``read`` makes of each part, each in a task of its own, in order.

    A task's data is sent with its function, which the tasks of a frame share. So the frame is a union of several, each of which
    has packed parts of :data:`SENT_BYTES` or one part more; Spark sends functions of that size once to each executor that runs
    their tasks. A task unpacks its own part.
    """
    spark_schema = from_arrow_schema(schema)
    if not parts:
        return spark.createDataFrame([], spark_schema)
    with spark_errors("planning a read"):
        return reduce(
            lambda frame, other: frame.unionAll(other),
            (_tasks(spark, some, read, spark_schema) for some in _packed(parts)),
        )


def in_each_task(spark: SparkSession, parts: Sequence[T], work: Callable[[T], Out]) -> list[Out]:
    """Return what ``work`` makes of each part, each in a task of its own, in order. Parts and results are pickled."""

    def answer(part: T) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([pickle.dumps(work(part))], pa.binary())], schema=_ANSWER)

    return [pickle.loads(row.answer) for row in in_tasks(spark, parts, answer, _ANSWER).collect()]


def _packed(parts: Iterable[object]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for part in parts:
        some.append(pickle.dumps(part))
        size += len(some[-1])
        if size >= SENT_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _tasks(
    spark: SparkSession, packed: Sequence[bytes], read: Callable[[T], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_archives()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(pickle.loads(packed[number]))

    return spark.range(0, len(packed), 1, len(packed)).mapInArrow(run, schema)


def _paged(page: Callable[[str], Any]) -> Iterator[Any]:
    after: str | None = ""
    while after is not None:
        results = page(after)
        yield from results.results
        after = results.next_after


def _frame(spark: SparkSession, schema: pa.Schema, rows: list[tuple[object, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, from_arrow_schema(schema), verifySchema=False)
