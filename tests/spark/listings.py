"""Listings for tests of imports: rows, the tree that one process builds of them, and faults on the way."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as arrow
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from graveler.errors import UnavailableError
from graveler.lake.importing.importer import ImportSource
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, SplitParameters
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Sent, StoredObject
from graveler.tree.record import RecordCodec, encode_key
from graveler.tree.tree import Tree
from graveler.tree.writer import build

TINY = SplitParameters(min_size=200, max_size=1600, raggedness=4)
"""Ranges of a few records each, so that small listings have many of them."""
BASE = "s3://elsewhere/"


class Row(NamedTuple):
    """One row of a listing."""

    key: str
    size: int
    etag: str
    mtime: int


def make_repository(folder: Path, split: SplitParameters = TINY) -> OpenRepository:
    """An empty repository ``repo`` in a lake of its own."""
    return create_folder_lake(folder).create_repository("repo", "local://repo", split=split)


def rows_of(random: Random, count: int, *, duplicates: float = 0.0) -> list[Row]:
    """Rows in no order; that part of them have a key that another one has."""
    rows: list[Row] = []
    for number in range(count):
        if rows and random.random() < duplicates:
            key = random.choice(rows).key
        else:
            folder = random.choice(["", "a/", "a/b/", "a-b/", "é/", "\U0001f600/"])
            key = f"{folder}{random.choice('xyz')}{random.randrange(count * 3)}-{number}"
        rows.append(
            Row(key, random.randrange(1000), f"{random.getrandbits(128):032x}", random.randrange(1 << 20, 1 << 30))
        )
    return rows


def frame_of(spark: SparkSession, rows: Sequence[Row], slices: int = 2) -> DataFrame:
    """The rows as a data frame."""
    return spark.createDataFrame(
        spark.sparkContext.parallelize([tuple(row) for row in rows], slices),
        "key string, size long, etag string, mtime long",
    )


def latest(rows: Iterable[Row]) -> dict[str, Row]:
    """Of rows with one key, the one that counts. Times differ, or all is the same."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.key not in found or row.mtime > found[row.key].mtime:
            found[row.key] = row
    return found


def records_of(rows: Iterable[Row], namespace: str, destination: str = "") -> list[tuple[bytes, bytes]]:
    """The records that a single process makes of rows, in order."""
    codec = RecordCodec(namespace)
    entries = [
        ObjectEntry(destination + row.key, BASE + row.key, row.size, row.etag, row.mtime)
        for row in latest(rows).values()
    ]
    return sorted((encode_key(entry.path), codec.encode(entry)) for entry in entries)


def tree_of(repository: OpenRepository, rows: Iterable[Row], destination: str = "") -> Tree:
    """The tree that a single process builds."""
    records = records_of(rows, repository.repository.namespace, destination)
    return build(repository.tree("main").store, repository.repository.split, records)


def import_here(repository: OpenRepository, branch: str, rows: Iterable[Row], destination: str = "") -> str:
    """Import in this process; the metarange ID."""
    records = records_of(rows, repository.repository.namespace, destination)
    source = ImportSource(destination.encode(), True, lambda: iter(records))
    return repository.import_sources(branch, [source], "here").metarange_id


def batches_of(rows: Sequence[Row], random: Random) -> list[arrow.RecordBatch]:
    """Sorted rows as tasks get them, in batches of any size."""
    batches = []
    at = 0
    while at < len(rows):
        end = at + random.randrange(1, 12)
        some = rows[at:end]
        batches.append(
            arrow.RecordBatch.from_arrays(
                [
                    arrow.array([row.key.encode() for row in some], arrow.binary()),
                    arrow.array([row.size for row in some], arrow.int64()),
                    arrow.array([row.etag for row in some], arrow.string()),
                    arrow.array([row.mtime for row in some], arrow.int64()),
                ],
                names=["key", "size", "checksum", "mtime"],
            )
        )
        at = end
    return batches


class UnsteadyObjects(FolderObjects):
    """A folder's objects, in which tasks fail: every ``every``-th partition's first attempt, at its ``at``-th write, by an error
    or (``kill``) by the end of its process; with ``always``, every attempt of the last of ``every`` partitions."""

    def __init__(
        self, root: Path, namespace: str, every: int, at: int, *, kill: bool = False, always: bool = False
    ) -> None:
        super().__init__(root, namespace)
        self._place = root, namespace
        self._plan = every, at
        self._kill = kill
        self._always = always
        self._ranges = 0

    def __reduce__(self) -> tuple[object, ...]:
        return _unsteady, (*self._place, *self._plan, self._kill, self._always)

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        context = TaskContext.get()
        if context is not None and "_graveler/ranges/" in key:
            self._ranges += 1
            every, at = self._plan
            mine = context.partitionId() % every == every - 1
            if mine and self._ranges > at and (self._always or context.attemptNumber() == 0):
                if self._kill:
                    os.kill(os.getpid(), 9)
                raise UnavailableError("the disk is full, says the test")
        return super().put(key, data, if_absent=if_absent, sent=sent)


def _unsteady(root: Path, namespace: str, every: int, at: int, kill: bool, always: bool) -> UnsteadyObjects:
    return UnsteadyObjects(root, namespace, every, at, kill=kill, always=always)
