"""Spark's data source ``graveler``: the objects of a ref as rows.

::

    graveler.spark.register(spark)
    spark.read.format("graveler").option("lake", "/srv/lake").option("repository", "sales").option("ref", "main").load()

Spark runs the code of a data source in processes of its own, so options say where the lake is. They are those of
:func:`graveler.spark.places.place_of`, ``repository`` and ``ref``, with ``timestampAsOf`` or ``versionAsOf`` as for
:func:`graveler.spark.read`, and of these what is wanted: ``prefix``; ``from`` (inclusive)
and ``to`` (exclusive), which bound the path; ``columns``, separated by commas; ``rows_per_task``. Ranges without such keys are
not opened. From Spark 4.1 on, filters on ``path`` bound it as well; Python data sources of Spark 4.0 are not told of filters
(:func:`graveler.spark.objects` takes a condition).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from graveler.errors import InvalidError
from graveler.lake.place import LakePlace, open_at
from graveler.spark.as_of import AS_OF, ref_as_of
from graveler.spark.columns import OBJECT
from graveler.spark.conditions import keys_of
from graveler.spark.frames import object_schema, plan_objects, read_objects
from graveler.spark.places import PLACE_OPTIONS, place_of
from graveler.spark.slices import TASK_ROWS, KeyRange, KeyRanges, Slice, both, either
from graveler.spark.workers import forget_archives

NAME: Final = "graveler"

_OPTIONS: Final = (*PLACE_OPTIONS, "repository", "ref", *AS_OF, "prefix", "from", "to", "columns", "rows_per_task")


class ObjectsSource(DataSource):
    """The data source. The ref is resolved once, when the frame is made, and what is read of it later is that commit."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        _expect_known(options)
        given = {name.lower(): value for name, value in options.items()}
        self._place = place_of(given)
        self._repository = _needed(given, "repository")
        self._ref, _ = ref_as_of(_needed(given, "ref"), given)
        self._columns = tuple(name.strip() for name in given.get("columns", "").split(",") if name.strip())
        self._columns = self._columns or tuple(OBJECT.names)
        end = given.get("to")
        bounds = KeyRange(given.get("from", "").encode(), None if end is None else end.encode())
        self._keys = either(KeyRange.of_prefix(given.get("prefix", "").encode()) & bounds)
        self._rows = _number(given, "rows_per_task", TASK_ROWS)
        self._schema = object_schema(self._columns)
        with open_at(self._place) as lake:
            self._commit = lake.repository(self._repository).commit_of(self._ref).id

    @property
    def _reader(self) -> "type[_Reader]":
        return _Reader

    @classmethod
    def name(cls) -> str:
        """What it is called."""
        return NAME

    def schema(self) -> StructType:
        """The columns."""
        return from_arrow_schema(self._schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads it. :class:`graveler.errors.InvalidError` for a schema of the user's own."""
        if [field.name for field in schema.fields] != list(self._columns):
            raise InvalidError(
                "the data source graveler has a schema of its own; choose columns by its option 'columns'"
            )
        kind = self._reader
        return kind(self._place, self._repository, self._commit, self._keys, self._columns, self._rows)


class _Part(InputPartition):
    """What one task reads."""

    def __init__(self, part: Slice, namespace: str) -> None:
        super().__init__(part)
        self.part, self.namespace = part, namespace


class _Reader(DataSourceReader):
    def __init__(
        self, place: LakePlace, repository: str, commit: str, keys: KeyRanges, columns: tuple[str, ...], rows: int
    ) -> None:
        self._place, self._repository, self._commit = place, repository, commit
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
        """Leave out ranges; Spark still filters the rows. What is noted here reaches :meth:`partitions`."""
        for pushed in filters:
            self._keys = both(self._keys, keys_of(pushed))
            yield pushed


class FilteredObjectsSource(ObjectsSource):
    """The same for sessions that tell data sources of filters: those of Spark 4.1 that set
    ``spark.sql.python.filterPushdown.enabled``. In others, Spark refuses a reader that would listen."""

    @property
    def _reader(self) -> type[_Reader]:
        return _FilteredReader


def _expect_known(options: Collection[str]) -> None:
    unknown = next((name for name in options if name.lower() not in _OPTIONS), None)
    if unknown is not None:
        like = get_close_matches(unknown.lower(), _OPTIONS, 1)
        meant = f"; is {like[0]!r} meant?" if like else "."
        raise InvalidError(f"the data source graveler has no option {unknown!r}{meant} It has {', '.join(_OPTIONS)}")


def _needed(options: dict[str, str], name: str) -> str:
    value = options.get(name, "")
    if not value:
        raise InvalidError(f"the data source graveler needs the option {name!r}")
    return value


def _number(options: dict[str, str], name: str, default: int) -> int:
    text = options.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise InvalidError(f"option {name!r} is {text!r}; give a number from 1 on")
    return int(text)
