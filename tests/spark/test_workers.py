"""Python workers begin their tasks at once."""

import importlib
import os
import sys
import zipimport
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from graveler.spark.frames import in_tasks
from graveler.spark.workers import forget_archives

_SEEN = pa.schema([("worker", pa.int64()), ("archives", pa.int64())])


def test_archives_are_not_read_again_before_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packed.zip"
    with ZipFile(archive, "w") as file:
        file.writestr("packed_for_workers/__init__.py", "")
        file.writestr("packed_for_workers/first.py", "answer = 1")
        file.writestr("packed_for_workers/second.py", "answer = 2")
    monkeypatch.syspath_prepend(str(archive))
    names = ["packed_for_workers", "packed_for_workers.first", "packed_for_workers.second"]
    try:
        assert importlib.import_module(names[1]).answer == 1
        assert any(path.startswith(str(archive)) for path in sys.path_importer_cache)

        forget_archives()

        assert not any(isinstance(finder, zipimport.zipimporter) for finder in sys.path_importer_cache.values())
        assert importlib.import_module(names[2]).answer == 2, "what was not imported before can be"
    finally:
        for name in names:
            sys.modules.pop(name, None)
        forget_archives()


def test_a_task_leaves_its_worker_without_finders_of_archives(spark: SparkSession) -> None:
    def worker(number: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"worker": [os.getpid()], "archives": [number]})

    def archives(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            found = sum(isinstance(finder, zipimport.zipimporter) for finder in sys.path_importer_cache.values())
            yield pa.RecordBatch.from_pydict({"worker": [os.getpid()], "archives": [found]})

    ours = {row.worker for row in in_tasks(spark, list(range(8)), worker, _SEEN).collect()}
    seen = spark.range(0, 8, 1, 8).mapInArrow(archives, "worker long, archives long").collect()

    found = [row.archives for row in seen if row.worker in ours]
    assert found, "workers are used again"
    assert set(found) == {0}
