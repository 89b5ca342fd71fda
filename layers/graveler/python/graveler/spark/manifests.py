"""Manifests: lists of a dataset's files at a commit, for engines that read paths and know nothing of lakes."""

from itertools import groupby
from typing import Final, Literal

import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet
from pyspark.sql import SparkSession

from graveler.errors import InvalidError, NotFoundError
from graveler.location.environment import ServedLake
from graveler.model import CommitID, ObjectEntry
from graveler.retention.threads import THREADS, at_once
from graveler.spark.datasets import data_files, dataset_path
from graveler.spark.destinations import Destination, destination_at
from graveler.spark.handles import LakeLike, Reachable, Reached, reached
from graveler.storage.objects.folder import FolderObjects

SYMLINK: Final = "symlink.txt"
TABLE: Final = "manifest.parquet"

_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("url", pa.string()),
        ("size", pa.int64()),
        ("checksum", pa.string()),
        ("mtime", pa.int64()),
    ]
)


class Manifest(Struct, frozen=True):
    """The result: the commit, the number of data files and their bytes, and the keys below the destination."""

    commit_id: CommitID
    files: int
    size: int
    keys: tuple[str, ...]


def manifest(
    spark: SparkSession | None,
    repository: Reachable,
    ref: str,
    path: str,
    destination: str,
    *,
    format: Literal["symlink", "parquet"] = "symlink",  # noqa: A002 - as Spark's own
    lake: LakeLike | ServedLake = None,
) -> Manifest:
    """Write at ``destination`` (``s3://bucket/prefix``, ``file:///folder``) a list of the files of the dataset at ``path`` in the
    ref's commit. No file is copied: the manifest names their existing locations.

    ``symlink`` is the format that Hive, Trino and Athena read with ``SymlinkTextInputFormat``: for each folder of the dataset,
    such as a partition, ``<folder>/symlink.txt`` with a URL per line; all others below the destination are removed. ``parquet``
    is one table, ``manifest.parquet``: path, URL, size in bytes, checksum, mtime in Unix seconds.

    A manifest appears file by file; concurrent readers may see files of two commits. Files stay as long as the commit is kept.
    ``lake`` may be the URL of a server. Cost: a listing of the dataset; one write per folder, sixteen at once.
    :class:`NotFoundError` for no files, :class:`InvalidError`.
    """
    if format not in ("symlink", "parquet"):
        raise InvalidError(f"format {format!r} of a manifest is neither 'symlink' nor 'parquet'")
    base = dataset_path(path)
    with reached(spark, repository, lake) as opened:
        commit = opened.commit_of(ref).id
        opened.expect_kept(ref)
        location = destination_at(opened, destination)
        entries = list(data_files(opened.objects(commit, f"{base}/" if base else ""), base))
        if not entries:
            raise NotFoundError(f"{path!r} has no data files in {ref!r}; name a folder that has some")
        keys = _symlinks(opened, location, entries, base) if format == "symlink" else _table(opened, location, entries)
        location.tidy()
    return Manifest(commit, len(entries), sum(entry.size for entry in entries), tuple(keys))


def _symlinks(repository: Reached, location: Destination, entries: list[ObjectEntry], base: str) -> list[str]:
    before = {
        stored.key for stored in location.objects.list(location.prefix) if stored.key.rpartition("/")[2] == SYMLINK
    }
    contents: dict[str, bytes] = {}
    begin = len(base) + 1 if base else 0
    in_folders = sorted(entries, key=lambda entry: entry.path.rpartition("/")[0])
    for folder, members in groupby(in_folders, lambda entry: entry.path.rpartition("/")[0]):
        subfolder = folder[begin:]
        key = f"{location.prefix}{subfolder}/{SYMLINK}" if subfolder else f"{location.prefix}{SYMLINK}"
        contents[key] = "".join(f"{_url(repository, entry)}\n" for entry in members).encode()
    for _ in at_once(THREADS, lambda key: location.objects.put(key, contents[key]), contents):
        pass
    for _ in at_once(THREADS, location.objects.delete, sorted(before.difference(contents))):
        pass
    return list(contents)


def _table(repository: Reached, location: Destination, entries: list[ObjectEntry]) -> list[str]:
    columns = [
        pa.array([entry.path for entry in entries]),
        pa.array([_url(repository, entry) for entry in entries]),
        pa.array([entry.size for entry in entries], pa.int64()),
        pa.array([entry.checksum for entry in entries]),
        pa.array([entry.mtime for entry in entries], pa.int64()),
    ]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), sink)
    location.objects.put(f"{location.prefix}{TABLE}", sink.getvalue().to_pybytes())
    return [f"{location.prefix}{TABLE}"]


def _url(repository: Reached, entry: ObjectEntry) -> str:
    """Return the URL under which other engines find it: a file, or an object of S3."""
    objects, key = repository.store_at(entry.address)
    return f"file://{objects.file_of(key)}" if isinstance(objects, FolderObjects) else f"{objects.namespace}/{key}"
