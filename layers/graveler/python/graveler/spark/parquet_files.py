"""Writing of rows as Parquet files of a dataset, in a task: one file for each partition that the task has rows of.

The files are written to their final locations, under names that are never reused. So the files of a failed or repeated attempt
are never mistaken for ones that count; an attempt that fails in an orderly way removes its files.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark import __version__ as spark_version
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from graveler.errors import GravelerError
from graveler.spark.partition_names import folder_of
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects
from graveler.system.temporary_files import own_folder

CODECS: Final = {"snappy": ".snappy", "zstd": ".zstd", "gzip": ".gz", "lz4": ".lz4", "none": ""}
"""Compressions, and their parts of file names."""
_ENDING: Final = ".parquet"

_ROWS_SCHEMA: Final = "org.apache.spark.sql.parquet.row.metadata"
_VERSION: Final = "org.apache.spark.version"
"""The key by which Spark recognizes that dates and times are in the modern calendar."""
_GROUP_BYTES: Final = 64 << 20
"""Bytes of rows, in Arrow's form, per row group of a file."""
_WAITING_BYTES: Final = 128 << 20
"""Bytes of rows that wait for their group, in all files of a task."""
_OPEN_FILES: Final = 100
_PIECE: Final = 1 << 20


class PutFile(Struct, frozen=True):
    """A written file: its name below the folder, size in bytes, checksum as the lake records it, time in Unix seconds."""

    name: str
    size: int
    checksum: str
    mtime: int


class ParquetFolder(Struct, frozen=True):
    """The destination and format of files. Picklable."""

    objects: Objects
    key: str
    schema: str
    """The frame's, as JSON."""
    partition_by: tuple[str, ...]
    codec: str

    def write(self, batches: Iterable[pa.RecordBatch], task: int) -> list[PutFile]:
        """Write all rows and return the files. The task with number 0 writes a file even without rows, so that the columns are
        known, unless the dataset is partitioned. One object write per file."""
        columns = StructType.fromJson(_json(self.schema))
        with TemporaryDirectory(dir=own_folder(), prefix="parquet-") as folder:
            writing = _Files(self, columns, Path(folder), task)
            try:
                for batch in batches:
                    for partition, rows in _by_partition(batch, self.partition_by):
                        writing.add(partition, rows)
                if task == 0 and not self.partition_by:
                    writing.begin("")
                return writing.finish()
            except BaseException:
                writing.forget()
                raise


class _OpenFile:
    def __init__(self, name: str, path: Path, writer: pq.ParquetWriter) -> None:
        self.name, self.path, self.writer = name, path, writer
        self.rows: list[pa.Table] = []
        self.size = 0

    def flush(self) -> None:
        if self.rows:
            table = pa.concat_tables(self.rows)
            self.writer.write_table(table, row_group_size=max(table.num_rows, 1))
            self.rows, self.size = [], 0


class _Files:
    """The files of one attempt of a task."""

    def __init__(self, where: ParquetFolder, columns: StructType, folder: Path, task: int) -> None:
        self._where, self._folder, self._task = where, folder, task
        self._all = to_arrow_schema(columns)
        data = StructType([field for field in columns.fields if field.name not in where.partition_by])
        self._schema = to_arrow_schema(data).with_metadata({_ROWS_SCHEMA: data.json(), _VERSION: spark_version})
        self._attempt = uuid4()
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._waiting = 0
        self._done: list[PutFile] = []
        self._begun = 0

    def add(self, partition: str, rows: pa.Table) -> None:
        """Add rows to the file of a partition, with all columns of the frame."""
        file = self.begin(partition)
        table = rows.select(self._schema.names).cast(self._schema)
        before = file.size
        file.rows.append(table)
        file.size += table.nbytes
        if file.size >= _GROUP_BYTES:
            file.flush()
        self._waiting += file.size - before
        while self._waiting >= _WAITING_BYTES:
            largest = max(self._open.values(), key=lambda open_file: open_file.size)
            self._waiting -= largest.size
            largest.flush()

    def begin(self, partition: str) -> _OpenFile:
        """Return the open file of a partition, started if needed."""
        if partition in self._open:
            self._open.move_to_end(partition)
            return self._open[partition]
        if len(self._open) >= _OPEN_FILES:
            _, oldest = self._open.popitem(last=False)
            self._waiting -= oldest.size
            self._put(oldest)
        number, codec = self._begun, self._where.codec
        self._begun += 1
        name = f"{partition}part-{self._task:05d}-{self._attempt}-c{number:03d}{CODECS[codec]}{_ENDING}"
        path = self._folder / str(number)
        writer = pq.ParquetWriter(path, self._schema, compression=codec, store_schema=False)
        self._open[partition] = _OpenFile(name, path, writer)
        return self._open[partition]

    def finish(self) -> list[PutFile]:
        """Write the open files and return all."""
        while self._open:
            _, file = self._open.popitem(last=False)
            self._put(file)
        return self._done

    def forget(self) -> None:
        """Remove the written files. Those that cannot be removed are left to the collector."""
        for file in self._open.values():
            with suppress(OSError, pa.ArrowException):
                file.writer.close()
        for put in self._done:
            with suppress(GravelerError):
                self._where.objects.delete(f"{self._where.key}/{put.name}")

    def _put(self, file: _OpenFile) -> None:
        file.flush()
        file.writer.close()
        objects = self._where.objects
        checksum = _md5(file.path) if isinstance(objects, FolderObjects) else ""
        stored = objects.put(f"{self._where.key}/{file.name}", file.path)
        file.path.unlink()
        self._done.append(PutFile(file.name, stored.size, checksum or stored.etag, int(stored.modified)))


def _by_partition(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each partition, and its folder, with a slash at its end."""
    table = pa.Table.from_batches([batch])
    if not columns or not batch.num_rows:
        if batch.num_rows:
            yield "", table
        return
    code = np.zeros(batch.num_rows, np.int64)
    encoded = [batch.column(name).dictionary_encode(null_encoding="encode") for name in columns]
    for column in encoded:
        code = np.unique(code * len(column.dictionary) + column.indices.to_numpy(), return_inverse=True)[1]
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(code[order]) != 0])
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = order[start:end]
        values = [column.dictionary[column.indices[int(rows[0])].as_py()].as_py() for column in encoded]
        yield folder_of(columns, values), table.take(pa.array(rows))


def _md5(path: Path) -> str:
    digest = md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _json(text: str) -> dict[str, Any]:
    import json

    document: dict[str, Any] = json.loads(text)
    return document
