"""``df.write.format("graveler")``: one commit for a write, of files of attempts that count, as a plan that Spark shows."""

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.types import StructType

import graveler.spark
from graveler.errors import InvalidError
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.location import AwsLake, open_at
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.spark import parquet_files
from graveler.spark.parquet_files import ParquetFolder
from graveler.spark.partition_names import folder_of, values_of
from graveler.spark.schemas import nullable
from graveler.storage.objects.folder import FolderObjects
from tests.support.campaigns import share


class Place:
    """A lake in a folder, and its repository ``repo``."""

    def __init__(self, spark: SparkSession, folder: Path, repository: OpenRepository) -> None:
        self.spark, self.folder, self.repository = spark, folder, repository

    def writer(self, frame: DataFrame, mode: str = "append", **options: str) -> DataFrameWriter:
        given = {"lake": str(self.folder), "repository": "repo", "branch": "main", "path": "t", **options}
        return frame.write.format("graveler").mode(mode).options(**given)

    def write(self, frame: DataFrame, mode: str = "append", **options: str) -> None:
        self.writer(frame, mode, **options).save()

    def ids(self, column: str = "id") -> list[object]:
        return sorted(row[column] for row in self.read().collect())

    def read(self, path: str = "t") -> DataFrame:
        return graveler.spark.read(self.spark, f"lakefs://repo/main/{path}", lake=self.repository)

    def files(self, path: str = "t") -> list[ObjectEntry]:
        return list(self.repository.objects("main@", f"{path}/"))

    def stored(self) -> set[str]:
        return {one.key for one in self.repository.namespace.list("data/")}

    def commits(self) -> int:
        return len(self.repository.log("main", amount=1000).results)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Iterator[Place]:
    graveler.spark.register(spark)
    with create_folder_lake(tmp_path / "lake") as lake:
        yield Place(spark, tmp_path / "lake", lake.create_repository("repo", "local://repo"))


@contextmanager
def refused(match: str) -> Iterator[None]:
    with pytest.raises((PySparkException, IllegalArgumentException), match=f"(?s){match}"):
        yield


def test_the_modes(spark: SparkSession, place: Place) -> None:
    repository, two = place.repository, spark.range(0, 2)
    before = place.commits()
    place.write(two, message="First", metadata=json.dumps({"job": "nightly"}), committer="ada", tag="v1")
    assert place.ids() == [0, 1]
    head = repository.commit_of("main")
    assert (place.commits(), head.message, head.committer) == (before + 1, "First", "ada")
    assert head.metadata["job"] == "nightly"
    assert repository.tag("v1").commit_id == head.id
    assert [branch.name for branch in repository.branches(show_hidden=True).results] == ["main"]
    for entry in place.files():
        assert (entry.size, entry.checksum) == _stored(place, entry)
    place.write(spark.range(2, 4))
    assert place.ids() == [0, 1, 2, 3]
    place.write(place.read().where("id > 1"), "overwrite")
    assert place.ids() == [2, 3]
    assert place.commits() == before + 3, "one commit for each"
    # Spark itself refuses these modes to data sources in Python; options do what they do.
    with refused("cannot be written in the .ErrorIfExists. mode"):
        place.write(two, "errorifexists")
    with refused("cannot be written in the .Ignore. mode"):
        place.write(two, "ignore")
    with refused("AlreadyExistsError: dataset 't' .*overwrite it"):
        place.write(two, ifExists="error")
    place.write(two, ifExists="ignore")
    with refused("contradict each other"):
        place.write(two, "overwrite", ifExists="ignore")
    assert place.ids() == [2, 3]
    repository.upload("main", "u/", b"")  # S3's console marks a folder
    repository.commit("main", "A folder")
    place.write(two, path="u", ifExists="error")
    place.write(two, path="w", ifExists="ignore")
    assert place.read("u").count() == place.read("w").count() == 2
    # Without rows there are columns, and none if they are partitioned.
    place.write(two.where("false"), "overwrite")
    assert place.read().schema == nullable(two.schema)
    assert place.ids() == []
    with refused("NoChangesError: nothing to commit in the transaction on 'main': .*allowEmpty"):
        place.write(two.selectExpr("id", "id x").where("false"), path="empty", partitionBy="x")
    place.write(two.selectExpr("id", "id x").where("false"), path="empty", partitionBy="x", allowEmpty="true")
    assert not repository.fsck().findings


def _stored(place: Place, entry: ObjectEntry) -> tuple[int, str]:
    from hashlib import md5

    data = place.repository.read("main@", entry.path)
    return len(data), md5(data, usedforsecurity=False).hexdigest()


def test_partitions_are_those_of_spark(spark: SparkSession, place: Place) -> None:
    rows = [
        (1, "a/b c", True, datetime.date(2026, 1, 31), Decimal("1.50")),
        (2, "é%=", False, None, Decimal("-0.01")),
        (3, "", None, datetime.date(1, 1, 1), None),
        (4, None, True, datetime.date(2026, 1, 31), Decimal("1.50")),
        (5, "a/b c", True, datetime.date(2026, 1, 31), Decimal("1.50")),
    ]
    frame = spark.createDataFrame(rows, "id long, word string, yes boolean, day date, `a:b` decimal(4,2)").coalesce(1)
    columns = ["word", "yes", "day", "a:b"]
    place.write(frame, partitionBy=", ".join(columns))
    with graveler.spark.transaction(place.repository, "main") as tx:
        tx.write(frame, "sparks", partition_by=columns)
    folders = [
        {entry.path.partition("/")[2].rpartition("/")[0] for entry in place.files(one)} for one in ("t", "sparks")
    ]
    assert folders[0] == folders[1]
    assert len(place.files()) == 4
    assert {tuple(values_of(folder)) for folder in folders[0]} == {tuple(columns)}
    assert sorted(map(repr, place.read().collect())) == sorted(map(repr, place.read("sparks").collect()))
    assert folder_of(["x"], [None]) == "x=__HIVE_DEFAULT_PARTITION__/"
    # Dynamic: those partitions alone, of which the frame has rows.
    other = spark.createDataFrame([(10, "a/b c", True, datetime.date(2026, 1, 31), Decimal("1.50"))], frame.schema)
    place.write(other, "overwrite", partitionBy=",".join(columns), partitionOverwriteMode="dynamic")
    assert place.ids() == [2, 3, 4, 10]
    place.write(other, "overwrite", partitionBy=",".join(columns))
    assert place.ids() == [10]
    # Files with other partition columns would make the dataset unreadable.
    with refused("dataset 't' is partitioned by 'word', 'yes', 'day', 'a:b', and the frame by no columns"):
        place.write(other)
    with refused("dataset 't' is partitioned by .* and the frame by 'day'"):
        place.write(other, "overwrite", partitionBy="day", partitionOverwriteMode="dynamic")
    assert place.ids() == [10]
    with refused("partitioning or clustering columns do not match"):
        place.writer(frame).partitionBy("day").save()
    with refused("there are none without partitionBy"):
        place.write(other, "overwrite", partitionOverwriteMode="dynamic")


def test_what_is_written_is_read_again(spark: SparkSession, place: Place) -> None:
    frame = spark.range(0, 20, 1, 1).selectExpr(
        "id",
        "cast(id as byte) b",
        "cast(id as decimal(38, 9)) amount",
        "timestamp_micros(id * 1000001 - 10000000) at",
        "timestamp'1500-01-01 00:00:00' old",
        "cast('1500-01-01 00:00:00' as timestamp_ntz) local",
        "date'1500-01-01' day",
        "array(named_struct('x', id, 'y', if(id % 2 = 0, null, 'z'))) many",
        "map('k', array(id, null)) named",
        "cast('x' as binary) raw",
        "id / 7 fraction",
        "cast(null as string) nothing",
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        place.write(frame, compression="zstd")
        read = place.read()
        assert read.schema == nullable(frame.schema)
        assert _texts(read) == _texts(frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert [entry.path.endswith("-c000.zstd.parquet") for entry in place.files()] == [True]


def _attempt() -> tuple[int, int]:
    """Which task this is, and the how-many-th attempt of it."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber()


@pytest.mark.ci
def test_a_write_that_fails_leaves_nothing(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(3).selectExpr("id", "id part"), partitionBy="part")
    before, stored = place.repository.commit_of("main"), place.stored()

    def often(batches: Any) -> Any:
        yield from batches
        if _attempt()[0] == 1:
            raise ValueError("no")

    def once(batches: Any) -> Any:
        yield from batches
        task, attempt = _attempt()
        if task == 1 and attempt < 2:
            raise ValueError("not yet")

    frame = spark.range(0, 100, 1, 4).selectExpr("id", "id % 3 part")
    with refused("ValueError: no"):
        place.write(frame.mapInArrow(often, frame.schema), partitionBy="part")
    assert place.repository.commit_of("main") == before
    # Other tasks may still be at work when Spark gives the write up, and their files are garbage.
    assert [key for key in place.stored() - stored if "/part-00001-" in key] == []
    place.write(frame.mapInArrow(once, frame.schema), "overwrite", partitionBy="part")
    assert place.ids() == list(range(100))
    linked = {entry.address.removeprefix("local://repo/") for entry in place.files()}
    (folder,) = {key.split("/")[2] for key in linked}
    assert {key for key in place.stored() if f"/{folder}/" in key} == linked, "attempts that failed removed their files"
    # A commit that is refused, after all the work: it is kept, and can be landed later.
    before = place.repository.commit_of("main")
    place.repository.upload("main", "t/part=0/uncommitted", b"x")
    with refused("DirtyBranchError.*'t/part=0/uncommitted'"):
        place.write(frame, "overwrite", partitionBy="part")
    with refused("DirtyBranchError.*graveler.spark.land") as error:
        place.write(frame.where("id < 3"), "overwrite", partitionBy="part", partitionOverwriteMode="dynamic")
    del error
    (kept,) = (one.name for one in place.repository.branches(show_hidden=True).results if one.name != "main")
    place.repository.reset("main")
    assert place.repository.commit_of("main") == before
    graveler.spark.land(place.repository, kept)
    assert place.ids() == [0, 1, 2]


def test_who_replaces_what_somebody_changed_meanwhile_is_refused(spark: SparkSession, place: Place) -> None:
    place.write(spark.range(3))
    meanwhile = _committing(str(place.folder), "t/another")
    frame = spark.range(0, 1, 1, 1)
    with refused("TouchedError.*below 't/'"):
        place.write(frame.mapInArrow(meanwhile, frame.schema), "overwrite")
    with refused("TouchedError.*below 'u/'"):
        place.write(
            frame.mapInArrow(_committing(str(place.folder), "u/another"), frame.schema), path="u", ifExists="error"
        )
    place.write(frame.mapInArrow(meanwhile, frame.schema))
    assert len(place.files()) >= 3, "both come together"


def _committing(folder: str, path: str) -> Any:
    """A task that commits another object to the branch."""

    def meanwhile(batches: Any) -> Any:
        from graveler.lake.opening.folder import open_folder_lake

        yield from batches
        with open_folder_lake(Path(folder)) as lake:
            repository = lake.repository("repo")
            repository.upload("main", path, token_hex().encode())
            repository.commit("main", "meanwhile")

    return meanwhile


def test_a_numbered_write_happens_once(spark: SparkSession, place: Place) -> None:
    for version, first in ((7, 0), (7, 10), (6, 20), (8, 30)):
        place.write(spark.range(first, first + 1), txnAppId="nightly", txnVersion=str(version))
    assert place.ids() == [0, 30]
    assert len(place.stored()) == len(place.files()), "what is not committed is not even written"
    # A write is a step of a transaction that several join.
    steps = graveler.spark.begin(place.repository, "main")
    place.write(spark.range(90, 91), "overwrite", branch=steps)
    assert place.ids() == [0, 30]
    graveler.spark.land(place.repository, steps)
    assert place.ids() == [90]


@pytest.mark.ci
def test_a_repeated_numbered_write_gives_the_tag_that_the_first_try_did_not_come_to(
    spark: SparkSession, place: Place
) -> None:
    """Whether it died before its tag or behind it, and whatever has been written since."""
    repository = place.repository
    for way in ("writer", "transaction"):

        def write(version: int, way: str = way) -> None:
            tag, frame = f"{way}-{version}", spark.range(version, version + 1)
            if way == "writer":
                place.write(frame, path=way, txnAppId=way, txnVersion=str(version), tag=tag)
                return
            with graveler.spark.transaction(repository, "main", app_id=way, version=version, tag=tag) as tx:
                tx.write(frame, way)

        heads = {}
        for version in (1, 2):
            write(version)
            heads[f"{way}-{version}"] = repository.commit_of("main").id
        for gone in ((), ("1",), ("2",), ("1", "2")):
            for one in gone:
                repository.delete_tag(f"{way}-{one}")
            for version in (2, 1, 2):
                write(version)
            tags = {one.name: one.commit_id for one in repository.tags().results if one.name.startswith(way)}
            assert tags == heads
            assert repository.commit_of("main").id == heads[f"{way}-2"]


def test_what_cannot_be_written_is_told(spark: SparkSession, place: Place) -> None:
    before = place.repository.commit_of("main")
    one = spark.range(1)
    frames: list[tuple[DataFrame, dict[str, str], str]] = [
        (one, {"branch": "nothing"}, "RefNotFoundError"),
        (one, {"path": "../t"}, "not the path of a dataset"),
        (one, {"path": "s3://bucket/t"}, "it is a URI"),
        (one, {"path": "/"}, "its own folder|starts with a slash"),
        (one, {"partitionby": "x"}, "no column 'x' to partition by"),
        (one, {"partitionBy": "id"}, "all of its columns"),
        (one, {"partitonBy": "id"}, "is 'partitionBy' meant"),
        (one, {"ref": "main"}, "no option 'ref'|no option"),
        (one, {"txnAppId": "x"}, "belong together"),
        (one, {"metadata": "[1]"}, "JSON object"),
        (one, {"compression": "brotli"}, "one of snappy"),
        (one.selectExpr("id", "id ID"), {}, "two columns of one name"),
        (one.selectExpr("struct(id, id) s"), {}, "column 's' of the frame has two columns"),
        (one.selectExpr("interval '1' day d"), {}, "type interval day"),
        (one.selectExpr("null v"), {}, "type void"),
        (one.selectExpr("id", "cast(id as double) x"), {"partitionBy": "x"}, "cannot name folders"),
    ]
    for frame, options, message in share(frames, 4, "refusals of writes"):
        with refused(message):
            place.write(frame, **options)
    with refused("needs the option 'branch'"):
        one.write.format("graveler").mode("append").option("lake", str(place.folder)).option("repository", "repo").save(
            "t"
        )
    assert place.repository.commit_of("main") == before
    assert not place.stored()


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("_delta_log/00000000000000000000.json", "Delta"),
        (".hoodie/hoodie.properties", "Hudi"),
        ("metadata/v3.metadata.json", "Iceberg"),
    ],
)
def test_no_files_are_added_to_a_table_whose_log_would_not_know_of_them(
    spark: SparkSession, place: Place, log: str, kind: str
) -> None:
    repository, frame = place.repository, spark.range(2).selectExpr("id", "1 as day")
    repository.upload("main", f"t/{log}", b"{}")
    repository.upload("main", "u/metadata/a.parquet", b"no log")
    head = repository.commit("main", "a table").id
    for mode in ("append", "dynamic"):
        with (
            pytest.raises(InvalidError, match=f"'t' is a table in {kind} format, whose log"),
            graveler.spark.transaction(repository, "main") as tx,
        ):
            tx.write(frame, "t", mode=mode, partition_by="day")
    with refused(f"'t' is a table in {kind} format, whose log"):
        place.write(frame)
    assert repository.commit_of("main").id == head
    place.write(frame, path="u")
    place.write(frame, "overwrite")
    assert place.ids() == [0, 1]


def test_many_partitions_take_few_open_files_and_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_OPEN_FILES", 2)
    monkeypatch.setattr(parquet_files, "_WAITING_BYTES", 500)
    schema = StructType.fromDDL("id long, part int")
    where = ParquetFolder(FolderObjects(tmp_path, "local://x"), "data/a/b", schema.json(), ("part",), "snappy")
    rows = [pa.record_batch({"id": range(at, at + 50), "part": [n % 5 for n in range(50)]}) for at in range(0, 500, 50)]
    put = where.write(rows, 3)
    assert len({one.name for one in put}) == len(put) > 5
    found = []
    for one in put:
        file = tmp_path / "data/a/b" / one.name
        assert file.stat().st_size == one.size
        (part,) = values_of(one.name.rpartition("/")[0]).values()
        found += [(number, part) for number in pq.read_table(file, partitioning=None).column("id").to_pylist()]
    assert sorted(found) == [(number, str(number % 5)) for number in range(500)]
    assert where.write([], 1) == []


def test_a_write_is_a_query_that_spark_shows(spark: SparkSession, place: Place) -> None:
    """In the SQL tab, which is made of this store, and so to all query listeners."""
    session: Any = spark._jsparkSession
    store = session.sharedState().statusStore()
    before = store.executionsCount()
    place.write(spark.range(3), "overwrite")
    found = [store.executionsList().apply(at) for at in range(store.executionsList().size())][before:]
    plans = [str(one.physicalPlanDescription()) for one in found]
    assert any("graveler" in plan and "OverwriteByExpression" in plan for plan in plans)
    assert all(one.completionTime().isDefined() for one in found)


def test_on_s3(spark: SparkSession, aws: AwsLake) -> None:
    """A write, and the stream of its rows: planned, done and committed by Spark's own Python processes."""
    graveler.spark.register(spark)  # once more: the processes get the credentials that are there now
    given = {
        "tables": aws.tables,
        "objects": aws.objects,
        "region": str(aws.region),
        "s3_endpoint_url": str(aws.s3_endpoint_url),
        "dynamodb_endpoint_url": str(aws.dynamodb_endpoint_url),
        "repository": "repo",
    }
    with open_at(aws) as lake:
        repository = lake.create_repository("repo", f"{aws.objects}/repo")
        frame = spark.range(0, 50, 1, 2).selectExpr("id", "cast(id % 3 as int) part")
        for mode in ("append", "overwrite"):
            writer = frame.write.format("graveler").mode(mode).options(**given, branch="main", partitionBy="part")
            writer.save("t")
        assert graveler.spark.read(spark, "lakefs://repo/main/t", lake=repository).count() == 50
        stored = {one.key: one for one in repository.namespace.list("data/")}
        for entry in repository.objects("main"):
            found = stored[entry.address.removeprefix(f"{aws.objects}/repo/")]
            assert (entry.size, entry.checksum) == (found.size, found.etag)
        rows = spark.readStream.format("graveler").options(**given, ref="main", startingRef="earliest").load("t")
        query = rows.groupBy("_change_type").count().writeStream.format("memory").queryName("changes")
        query.outputMode("complete").trigger(availableNow=True).start().awaitTermination()
        assert dict(map(tuple, spark.table("changes").collect())) == {"insert": 100, "delete": 50}


def test_a_stream_is_told_to_write_by_batches(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load()
    options = {"lake": str(place.folder), "repository": "repo", "branch": "main", "path": "t"}
    query = stream.writeStream.format("graveler").options(**options).option("checkpointLocation", str(tmp_path / "c"))
    with refused("foreachBatch.*each_batch"):
        query.trigger(availableNow=True).start().awaitTermination()
    with pytest.raises(AnalysisException, match="no option 'branch'"):
        spark.read.format("graveler").options(**options).load()


def _texts(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))
