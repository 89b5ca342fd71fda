"""Spark's data source ``graveler``: the objects of a ref as rows, a branch's changes as a stream, and writes to a branch.

::

    graveler.spark.register(spark)
    spark.read.format("graveler").option("lake", "/srv/lake").option("repository", "sales").option("ref", "main").load()

Spark runs the code of a data source in separate processes, so options give the lake's location: those of
:func:`graveler.spark.locations.location_of`. They also determine the kind of source: Spark asks for its columns without telling
whether it will be read at once or as a stream. Options of :mod:`graveler.spark.change_feed` make it a stream; without any, it has
the rows of the objects of a commit. Writes (:mod:`graveler.spark.sink`) name a ``branch``, and no ``ref``.

Objects are those of ``repository`` and ``ref``, with ``timestampAsOf`` or ``versionAsOf`` as for :func:`graveler.spark.read`,
restricted by ``prefix``; ``from`` (inclusive) and ``to`` (exclusive), which bound the path; ``columns``, separated by commas;
``rows_per_task``. Ranges without such keys are not opened. From Spark 4.1 on, filters on ``path`` bound it as well; Spark 4.0
does not pass filters to Python data sources (:func:`graveler.spark.objects` takes a condition).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from graveler.errors import InvalidError
from graveler.lake.opening.location import LakeLocation, open_at
from graveler.spark.as_of import AS_OF, ref_as_of
from graveler.spark.change_feed import STREAM_OPTIONS, CommitStream, FeedOptions
from graveler.spark.columns import OBJECT
from graveler.spark.conditions import keys_of
from graveler.spark.feed_objects import ObjectsFeed
from graveler.spark.feed_rows import RowsFeed
from graveler.spark.frames import object_schema, plan_objects, read_objects
from graveler.spark.locations import LOCATION_OPTIONS, location_of
from graveler.spark.sink import writer_of
from graveler.spark.slices import TASK_ROWS, KeyRanges, Slice, both, either
from graveler.spark.source_options import expect_known, lower, needed, number, words
from graveler.spark.workers import forget_archives
from graveler.tree.key_range import KeyRange

NAME: Final = "graveler"

_OPTIONS: Final = (*LOCATION_OPTIONS, "repository", "ref", *AS_OF, "prefix", "from", "to", "columns", "rows_per_task")


class _Meaning(Protocol):
    """The kind of source that the options describe."""

    def schema(self) -> StructType: ...
    def reader(self, schema: StructType, *, filtered: bool) -> DataSourceReader: ...
    def stream_reader(self, schema: StructType) -> DataSourceStreamReader: ...


class Source(DataSource):
    """The data source. Its options are evaluated when the frame is made."""

    _filtered = False

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._given = lower(options)
        self._meaning = _meaning(self._given) if "ref" in self._given else None

    @classmethod
    def name(cls) -> str:
        """Return its format name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns."""
        return self._read().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader. :class:`graveler.errors.InvalidError` for a schema of the user's own, and for a stream."""
        return self._read().reader(schema, filtered=self._filtered)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the stream reader. :class:`graveler.errors.InvalidError` for options that do not make it a stream."""
        return self._read().stream_reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a frame. Errors as :func:`graveler.spark.sink.writer_of`."""
        return writer_of(self._given, schema, overwrite=overwrite)

    def streamWriter(self, *_: object, **__: object) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Refuse, with :class:`graveler.errors.InvalidError`."""
        raise InvalidError(
            "Spark does not tell a Python data source which stream a batch belongs to, so batches could be written twice; "
            "write a stream with foreachBatch(graveler.spark.each_batch(…))"
        )

    def _read(self) -> _Meaning:
        return self._meaning or _meaning(self._given)


class FilteredSource(Source):
    """The data source for sessions that push down filters: those of Spark 4.1 that set
    ``spark.sql.python.filterPushdown.enabled``. In others, Spark refuses a reader that accepts filters."""

    _filtered = True


def _meaning(options: Mapping[str, str]) -> _Meaning:
    is_stream = "path" in options or any(name.lower() in options for name in STREAM_OPTIONS)
    return _Changes(options) if is_stream else _Objects(options)


class _Objects:
    """The objects of a ref. It is resolved once, when the frame is made, and later reads use that commit."""

    def __init__(self, options: Mapping[str, str]) -> None:
        expect_known(options, _OPTIONS, STREAM_OPTIONS)
        self._place = location_of(options)
        self._repository = needed(options, "repository")
        self._ref, _ = ref_as_of(needed(options, "ref"), options)
        self._columns = words(options, "columns") or tuple(OBJECT.names)
        end = options.get("to")
        bounds = KeyRange(options.get("from", "").encode(), None if end is None else end.encode())
        self._keys = either(KeyRange.of_prefix(options.get("prefix", "").encode()) & bounds)
        self._rows = number(options, "rows_per_task", TASK_ROWS)
        self._schema = object_schema(self._columns)
        with open_at(self._place) as lake:
            self._commit = lake.repository(self._repository).commit_of(self._ref).id

    def schema(self) -> StructType:
        return from_arrow_schema(self._schema)

    def reader(self, schema: StructType, *, filtered: bool) -> DataSourceReader:
        if [field.name for field in schema.fields] != list(self._columns):
            raise InvalidError("the data source graveler has its own schema; choose columns with its option 'columns'")
        kind = _FilteredReader if filtered else _Reader
        return kind(self._place, self._repository, self._commit, self._keys, self._columns, self._rows)

    def stream_reader(self, _: StructType) -> NoReturn:
        raise InvalidError(
            "Spark does not tell a Python data source that it is read as a stream; say so with an option: readChangeFeed=true "
            "or startingRef="
        )


class _Changes:
    """The changes of a branch's commits."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = FeedOptions(options)
        self._feed = RowsFeed(options, self._options) if options.get("path") else ObjectsFeed(options)

    def schema(self) -> StructType:
        return self._feed.schema()

    def reader(self, *_: object, **__: object) -> NoReturn:
        raise InvalidError(
            f"options path, {', '.join(STREAM_OPTIONS)} make a stream of changes, for spark.readStream. To read a dataset at "
            "once, use graveler.spark.read; for the changes between two refs, use graveler.spark.diff"
        )

    def stream_reader(self, schema: StructType) -> CommitStream:
        return CommitStream(self._options, self._feed, schema)


class _Part(InputPartition):
    """The part of one task."""

    def __init__(self, part: Slice, namespace: str) -> None:
        super().__init__(part)
        self.part, self.namespace = part, namespace


class _Reader(DataSourceReader):
    def __init__(
        self, location: LakeLocation, repository: str, commit: str, keys: KeyRanges, columns: tuple[str, ...], rows: int
    ) -> None:
        self._place, self._repository, self._commit = location, repository, commit
        self._keys, self._columns, self._rows = keys, columns, rows

    def partitions(self) -> Sequence[InputPartition]:
        with open_at(self._place) as lake:
            repository = lake.repository(self._repository)
            _, parts = plan_objects(repository, self._commit, self._keys, self._rows)
            return [_Part(part, repository.repository.namespace) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        forget_archives()
        if isinstance(partition, _Part):
            yield from read_objects(partition.part, partition.namespace, self._columns)


class _FilteredReader(_Reader):
    def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Skip ranges; Spark still filters the rows. The result stored here reaches :meth:`partitions`."""
        for pushed in filters:
            self._keys = both(self._keys, keys_of(pushed))
            yield pushed
