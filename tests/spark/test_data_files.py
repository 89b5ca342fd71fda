"""Files that other programs leave in a dataset's folder: the rows are those that Spark reads from a plain folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import graveler.spark
from graveler.errors import InvalidError, NotFoundError
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from tests.spark.conftest import SPARK_4
from tests.spark.listings import TINY
from tests.support.campaigns import share
from tests.support.strays import LAYOUTS, STRAYS, write_folder


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[OpenRepository]:
    with create_folder_lake(tmp_path / "lake") as lake:
        yield lake.create_repository("repo", "local://repo", split=TINY)


def upload(repository: OpenRepository, folder: str, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        repository.upload("main", f"{folder}/{path}", content)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_those_of_a_plain_folder(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path, layout: str
) -> None:
    """Where Spark fails on a stray file, the lake has the table's own rows."""
    table = LAYOUTS[layout]
    upload(repository, "t", table.files)
    upload(repository, "t", STRAYS)
    strays = share(list(STRAYS), 12, layout)
    for number, stray in enumerate(strays):
        upload(repository, f"one/{number}", {**table.files, stray: STRAYS[stray]})
    repository.commit("main", "Tables")
    for number, stray in enumerate(strays):
        write_folder(tmp_path / f"{number}", {**table.files, stray: STRAYS[stray]})
        try:
            expected = rows(spark.read.parquet(str(tmp_path / f"{number}")))
        except (Py4JJavaError, PySparkException):
            expected = table.rows
        frame = graveler.spark.read(spark, f"lakefs://repo/main/one/{number}", lake=repository)
        assert rows(frame) == expected, stray
    frame = graveler.spark.read(spark, "lakefs://repo/main/t/", lake=repository)
    assert rows(frame) == table.rows
    with graveler.spark.transaction(repository, "main", allow_empty=True) as tx:
        assert rows(tx.read(spark, "t")) == table.rows
    manifest = graveler.spark.manifest(spark, repository, "main", "t", f"file://{tmp_path}/manifest")
    assert manifest.files == len(table.files)
    if SPARK_4 and layout == "partitioned":  # a stream takes seconds
        graveler.spark.register(spark)
        options = {"lake": str(tmp_path / "lake"), "repository": "repo", "ref": "main", "startingRef": "earliest"}
        stream = spark.readStream.format("graveler").options(**options).load("t")
        batches: list[tuple[object, ...]] = []
        query = stream.drop("_commit_id", "_commit_timestamp").writeStream.foreachBatch(
            lambda frame, _: batches.extend(rows(frame))
        )
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
        assert sorted(row[:-1] for row in batches) == table.rows
        assert {row[-1] for row in batches} == {"insert"}


def test_folders_without_data(spark: SparkSession, repository: OpenRepository, tmp_path: Path) -> None:
    upload(repository, "t", {"": b"", "k=a/": b"", "_SUCCESS": b"", "k=a_$folder$": b""})
    upload(repository, "empty", {"part-1": b"", "_delta_log/": b"", ".hoodie/": b""})
    repository.commit("main", "Folders without data")
    for path in ("t", "t/", "t/k=a/"):
        with pytest.raises(NotFoundError, match="has no data files"):
            graveler.spark.read(spark, f"lakefs://repo/main/{path}", lake=repository)
    for path in ("empty", "empty/part-1"):
        uri = f"lakefs://repo/main/{path}"
        assert rows(graveler.spark.read(spark, uri, format="text", lake=repository)) == []
        assert rows(graveler.spark.read(spark, uri, schema="id long", lake=repository)) == []
        with pytest.raises(InvalidError, match="no schema can be inferred"):
            graveler.spark.read(spark, uri, lake=repository)
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(spark.range(2).selectExpr("id", "'x' k"), "t", partition_by="k")
        tx.write(spark.range(2), "empty")
    assert rows(graveler.spark.read(spark, "lakefs://repo/main/t", lake=repository)) == [(0, "x"), (1, "x")]
    assert rows(graveler.spark.read(spark, "lakefs://repo/main/empty", lake=repository)) == [(0,), (1,)]
