"""The feed of rows: the rows of a dataset's files that a commit added (``insert``) or removed (``delete``).

The unit is a file: replacing one deletes all of its rows and inserts those of the new one, including rows that both have. Tasks
read the rows, from Parquet files only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from io import RawIOBase
from math import isfinite
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from graveler.errors import BytesGoneError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.exporting.export_folder import same_bytes
from graveler.lake.opening.location import open_at
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID, ObjectEntry
from graveler.spark.change_feed import FeedOptions, Step
from graveler.spark.datasets import data_files, dataset_path
from graveler.spark.feed_objects import commit_columns, trees
from graveler.spark.partition_names import values_of
from graveler.spark.schemas import nullable
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.tree.diff import diff
from graveler.tree.key_range import KeyRange
from graveler.tree.record import RecordCodec

KIND: Final = "_change_type"
COMMIT_ID: Final = "_commit_id"
COMMITTED_AT: Final = "_commit_timestamp"
_OURS: Final = (KIND, COMMIT_ID, COMMITTED_AT)
INSERT: Final = "insert"
DELETE: Final = "delete"

_SPARKS_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
"""The key under which Spark records the columns of a file that it writes."""
_TASK_BYTES: Final = 128 << 20
"""Bytes of files per task, exceeded by one file at most."""
_WHOLE_BYTES: Final = 16 << 20
"""Largest file that is read by one request."""
_ROWS: Final = 10_000
_INT: Final = 1 << 31
_LONG: Final = 1 << 63
_DIGITS: Final = 38
"""Digits of the largest whole numbers."""


class _File(Struct, frozen=True):
    """A file that was added or removed by a commit, created at a time (Unix seconds)."""

    kind: str
    commit_id: CommitID
    created: int
    store: Objects
    key: str
    entry: ObjectEntry


class RowsFeed:
    """The rows of the dataset at ``path``."""

    def __init__(self, options: Mapping[str, str], feed_options: FeedOptions) -> None:
        odd = next((name for name in ("prefix", "rows_per_task") if options.get(name)), None)
        if odd is not None:
            raise InvalidError(
                f"option {odd!r} is for a feed of paths, and path makes it one of rows; leave one of them out"
            )
        self._given = feed_options
        self._base = dataset_path(options["path"])
        if not self._base:
            raise InvalidError("a feed of rows needs the folder of a dataset, such as 'tables/events'")

    def schema(self) -> StructType:
        """Return the columns of the dataset as the branch has it now, and those of the feed. Reads the footer of one file, and
        lists all of them for the types of partition columns. :class:`NotFoundError` if the dataset has no files."""
        with open_at(self._given.location) as lake:
            repository = lake.repository(self._given.repository)
            head = repository.branch(self._given.branch).commit_id
            entries = list(data_files(repository.objects(head, f"{self._base}/"), self._base))
            if not entries:
                raise NotFoundError(
                    f"{self._base!r} has no files on branch {self._given.branch!r} yet, so its columns are unknown; "
                    f"give them with schema(), including {KIND} string"
                )
            store, key = repository.store_at(entries[0].address)
            with ExitStack() as stack:
                file = _opened(stack, store, key, entries[0])
                columns = _schema_of(file)
        partitions = _partition_columns(values_of(_folder(entry, self._base)) for entry in entries)
        names = {field.name.lower() for field in partitions}
        fields = [field for field in columns.fields if field.name.lower() not in names]
        reserved = next((field.name for field in [*fields, *partitions] if field.name.lower() in _OURS), None)
        if reserved is not None:
            raise InvalidError(f"dataset {self._base!r} has a column {reserved!r}, which is a column of the feed")
        ours = [
            StructField(KIND, StringType()),
            StructField(COMMIT_ID, StringType()),
            StructField(COMMITTED_AT, TimestampType()),
        ]
        return StructType([*fields, *partitions, *ours])

    def check(self, schema: StructType) -> None:
        """Refuse a schema without the column for the kind of change, or with wrong types, with :class:`InvalidError`."""
        if KIND not in schema.fieldNames():
            raise InvalidError(
                f"the schema has no column {KIND}, without which deleted rows look like inserted ones; add "
                f"'{KIND} string'"
            )
        for field in schema.fields:
            expected_type = TimestampType() if field.name == COMMITTED_AT else StringType()
            if field.name in _OURS and field.dataType != expected_type:
                raise InvalidError(
                    f"column {field.name} is a {expected_type.simpleString()}, not a {field.dataType.simpleString()}"
                )

    def parts(self, repository: OpenRepository, steps: Sequence[Step]) -> list[tuple[str, tuple[_File, ...]]]:
        """Return groups of files of about that many bytes, in the order of the commits, deletes before inserts. Runs on the
        driver: one metarange per commit, and each range of the dataset that differs."""
        return [(self._base, some) for some in _gathered(self._files(repository, steps))]

    def read(self, part: tuple[str, tuple[_File, ...]], schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. One object read per file, or a few per column of a large one."""
        base, files = part
        for file in files:
            yield from _rows(file, base, schema)

    def _files(self, repository: OpenRepository, steps: Sequence[Step]) -> Iterator[_File]:
        codec = RecordCodec(repository.repository.namespace)
        keys = KeyRange.of_prefix(f"{self._base}/".encode())
        for step, base, right in trees(repository, steps):
            removed: list[ObjectEntry] = []
            came: list[ObjectEntry] = []
            for key, before, after in diff(base, right, keys.start, keys.end):
                old = None if before is None else codec.decode(key, before)
                new = None if after is None else codec.decode(key, after)
                if old is not None and new is not None and old.checksum and same_bytes(old, new):
                    continue  # the same bytes, and so the same rows
                removed += [old] if old is not None else []
                came += [new] if new is not None else []
            for kind, entries in ((DELETE, removed), (INSERT, came)):
                for entry in data_files(entries, self._base):
                    store, name = repository.store_at(entry.address)
                    yield _File(kind, step.commit.id, step.commit.created, store, name, entry)


class _RangedFile(RawIOBase):
    """An object as a file that fetches each read by a request."""

    def __init__(self, store: Objects, key: str, size: int) -> None:
        super().__init__()
        self._store, self._key, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        rest = max(self._size - self._at, 0)
        length = rest if size < 0 else min(size, rest)
        data = self._store.get_range(self._key, self._at, length) if length else b""
        self._at += len(data)
        return data


def _rows(file: _File, base: str, schema: StructType) -> Iterator[pa.RecordBatch]:
    arrow_schema = to_arrow_schema(schema)
    partition = values_of(_folder(file.entry, base))
    with ExitStack() as stack:
        parquet = _opened(stack, file.store, file.key, file.entry)
        file_columns = parquet.schema_arrow.names
        names = {field.name: _same(field.name, file_columns) for field in arrow_schema if field.name not in _OURS}
        fixed = {name: _same(name, list(partition)) for name in names}
        columns = [name for field, name in names.items() if name is not None and fixed[field] is None]
        for batch in parquet.iter_batches(_ROWS, columns=columns):
            commit_id, time = commit_columns(file.commit_id, file.created, batch.num_rows)
            kind = pa.repeat(pa.scalar(file.kind, pa.string()), batch.num_rows)
            ours = dict(zip(_OURS, (kind, commit_id, time), strict=True))
            arrays = []
            for field in arrow_schema:
                if field.name in ours:
                    arrays.append(ours[field.name])
                    continue
                column, file_column = fixed[field.name], names[field.name]
                if column is not None:
                    text = pa.repeat(pa.scalar(partition[column], pa.string()), batch.num_rows)
                    arrays.append(_cast(text, field, file.entry.path))
                    continue
                values = pa.nulls(batch.num_rows, field.type) if file_column is None else batch.column(file_column)
                if not keeps(values.type, field.type):
                    raise _unfit(values.type, field, file.entry.path, "a value would change")
                arrays.append(_cast(values, field, file.entry.path))
            yield pa.RecordBatch.from_arrays(arrays, schema=arrow_schema)


def _cast(values: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """Return the values in the type of the stream's column."""
    if values.type == field.type:
        return values
    try:
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unfit(values.type, field, path, str(error)) from None


def _unfit(file_type: pa.DataType, field: pa.Field, path: str, reason: str) -> InvalidError:
    return InvalidError(
        f"column {field.name!r} of {path!r} is {file_type}, which does not fit the stream's {field.type}: {reason}. "
        "Start a stream with another schema()"
    )


def keeps(file_type: pa.DataType, field_type: pa.DataType) -> bool:
    """Return whether values of one type mean the same in the other, by the rules of Spark's own Parquet reader, and for wider
    numbers besides. Whether each value fits is left to the cast. Numbers do not become booleans, times or texts."""
    kinds = pa.types
    if file_type == field_type or kinds.is_null(file_type):
        return True
    if kinds.is_dictionary(file_type):
        return keeps(file_type.value_type, field_type)
    if kinds.is_integer(file_type):
        return bool(kinds.is_integer(field_type) or kinds.is_decimal(field_type) or kinds.is_floating(field_type))
    if kinds.is_floating(file_type):
        return bool(kinds.is_floating(field_type) and file_type.bit_width <= field_type.bit_width)
    if kinds.is_decimal(file_type):
        return bool(kinds.is_decimal(field_type))
    if kinds.is_date(file_type):
        return bool(kinds.is_date(field_type) or (kinds.is_timestamp(field_type) and field_type.tz is None))
    if kinds.is_timestamp(file_type):
        return bool(kinds.is_timestamp(field_type))
    if _is_text(file_type):
        return _is_text(field_type)
    if _is_list(file_type) and _is_list(field_type):
        return keeps(file_type.value_type, field_type.value_type)
    if kinds.is_map(file_type) and kinds.is_map(field_type):
        return keeps(file_type.key_type, field_type.key_type) and keeps(file_type.item_type, field_type.item_type)
    if kinds.is_struct(file_type) and kinds.is_struct(field_type):
        fields = {field.name: field.type for field in file_type}
        return all(field.name not in fields or keeps(fields[field.name], field.type) for field in field_type)
    return False


def _is_text(kind: pa.DataType) -> bool:
    kinds = pa.types
    return any(
        fits(kind) for fits in (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    ) or bool(kinds.is_fixed_size_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    kinds = pa.types
    return any(fits(kind) for fits in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list))


def _same(name: str, names: Sequence[str]) -> str | None:
    """Return the one of the names that equals this one, as Spark compares them: without regard to case, unless that is ambiguous.
    :class:`InvalidError` if several match."""
    if name in names:
        return name
    alike = [column for column in names if column.lower() == name.lower()]
    if len(alike) > 1:
        raise InvalidError(
            f"column {name!r} is ambiguous: it could be {', '.join(alike)}; give schema() the exact name"
        )
    return alike[0] if alike else None


def _opened(stack: ExitStack, store: Objects, key: str, entry: ObjectEntry) -> pq.ParquetFile:
    """Return the file, opened. :class:`InvalidError` if it is not Parquet, :class:`BytesGoneError` if it is missing."""
    try:
        source: Any
        if entry.size <= _WHOLE_BYTES:
            data = store.get(key)
            if len(data) != entry.size:
                raise UnavailableError(
                    f"{entry.address} has {len(data)} bytes, but {entry.path!r} should have {entry.size}; was it changed?"
                )
            source = pa.BufferReader(data)
        else:
            source = pa.PythonFile(_RangedFile(store, key, entry.size), mode="r")
        return stack.enter_context(pq.ParquetFile(source, coerce_int96_timestamp_unit="us"))
    except ObjectMissingError:
        raise BytesGoneError(entry.path, "a commit of the stream", entry.address) from None
    except pa.ArrowInvalid as error:
        raise InvalidError(
            f"{entry.path!r} is not a Parquet file ({error}). A feed of rows reads only Parquet: for other formats use the feed "
            "of paths, without path and with prefix, and read the files in foreachBatch"
        ) from None


def _schema_of(file: pq.ParquetFile) -> StructType:
    """Return the columns as Spark has recorded them, else as Arrow reads them."""
    noted = (file.schema_arrow.metadata or {}).get(_SPARKS_SCHEMA) or (file.metadata.metadata or {}).get(_SPARKS_SCHEMA)
    if noted is not None:
        return nullable(StructType.fromJson(_json(noted)))
    return nullable(from_arrow_schema(file.schema_arrow, prefer_timestamp_ntz=True))


def _json(text: bytes) -> dict[str, Any]:
    import json

    document: dict[str, Any] = json.loads(text)
    return document


def _partition_columns(folders: Iterable[Mapping[str, str | None]]) -> list[StructField]:
    """Return the partition columns, with the types that Spark would infer for whole numbers, fractions, dates and other text."""
    values_by_column: dict[str, list[str]] = {}
    names: list[str] | None = None
    for values in folders:
        if names is None:
            names = list(values)
            values_by_column = {name: [] for name in names}
        elif list(values) != names:
            raise InvalidError(
                f"files of the dataset lie in partitions by {names} and by {list(values)}; give a schema()"
            )
        for name, value in values.items():
            if value is not None:
                values_by_column[name].append(value)
    return [StructField(name, _type_of(set(values))) for name, values in values_by_column.items()]


def _type_of(values: set[str]) -> DataType:
    kinds: tuple[tuple[Any, DataType], ...] = (
        (lambda text: -_INT <= int(text) < _INT, IntegerType()),
        (lambda text: -_LONG <= int(text) < _LONG, LongType()),
        (lambda text: abs(int(text)) < 10**_DIGITS, DecimalType(_DIGITS, 0)),
        (lambda text: isfinite(float(text)), DoubleType()),
        (lambda text: date.fromisoformat(text).isoformat() == text, DateType()),
    )
    for fits, kind in kinds:
        if values and all(_meets(fits, text) for text in values):
            return kind
    return StringType()


def _meets(fits: Any, text: str) -> bool:
    try:
        return bool(fits(text)) and text.isascii() and not set(text) & set("_+ \t")
    except ValueError:
        return False


def _folder(entry: ObjectEntry, base: str) -> str:
    return entry.path[len(base) + 1 :].rpartition("/")[0]


def _gathered(files: Iterable[_File]) -> Iterator[tuple[_File, ...]]:
    some: list[_File] = []
    size = 0
    for file in files:
        some.append(file)
        size += file.entry.size
        if size >= _TASK_BYTES:
            yield tuple(some)
            some, size = [], 0
    if some:
        yield tuple(some)
