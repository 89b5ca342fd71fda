"""Datasets written on a branch, all at once or not at all, and read back at any commit."""

import datetime
import io
import threading
import time
from collections.abc import Iterator
from hashlib import md5
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import graveler.spark
from graveler.errors import (
    DirtyBranchError,
    GravelerError,
    InvalidError,
    NoChangesError,
    NotFoundError,
    ProtectedBranchError,
    RefNotFoundError,
    TouchedError,
    UnavailableError,
)
from graveler.lake.clock import GRACE
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.opening.location import AwsLake, open_at
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode as Collecting
from graveler.sdk.lake import Lake as LakeHandle
from graveler.spark.jvm import WrittenFile, _Engine, write_files
from graveler.spark.linking import Mode, link_files
from graveler.spark.transactions import Written
from tests.lake.support import FakeClock
from tests.spark.listings import TINY

DAY = datetime.date(2026, 1, 31)
FORMATS = ("parquet", "orc", "json", "csv")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[OpenRepository]:
    with create_folder_lake(tmp_path / "lake") as lake:
        yield lake.create_repository("repo", "local://repo", split=TINY)


def events(spark: SparkSession, count: int, first: int = 0, days: int = 3) -> DataFrame:
    """Rows with a date and a text to partition by, in two tasks."""
    return spark.range(first, first + count, 1, 2).select(
        "id",
        (sql.col("id") * 2).cast("int").alias("amount"),
        sql.date_add(sql.lit(DAY), (sql.col("id") % days).cast("int")).alias("day"),
        sql.concat(sql.lit("a/b %"), sql.col("id") % 2).alias("kind"),
    )


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select("id", "amount", "day", "kind").collect())


def read(spark: SparkSession, repository: OpenRepository, ref: str = "main", **options: Any) -> DataFrame:
    return graveler.spark.read(spark, f"lakefs://repo/{ref}/tables/events", lake=repository, **options)


def files(repository: OpenRepository, ref: str = "main") -> list[str]:
    return [entry.path for entry in repository.objects(ref)]


def branches(repository: OpenRepository) -> list[str]:
    return [branch.name for branch in repository.branches(show_hidden=True).results]


@pytest.mark.parametrize("format_", FORMATS)
def test_a_dataset_in_each_format_comes_back(spark: SparkSession, repository: OpenRepository, format_: str) -> None:
    frame = events(spark, 40)
    options: Any = {"header": True} if format_ == "csv" else {}
    with graveler.spark.transaction(repository, "main", message="Events", committer="ada") as tx:
        written = tx.write(frame, "tables/events", format=format_, partition_by=["day", "kind"], **options)
    assert tx.merged is not None
    assert (tx.merged.message, tx.merged.committer) == ("Events", "ada")
    assert repository.commit_of("main") == tx.merged
    assert branches(repository) == ["main"]
    found = list(repository.objects("main@", "tables/events/"))
    assert (written.files, written.size) == (len(found), sum(entry.size for entry in found))
    assert written.files >= 6
    for entry in found:
        data = repository.read("main@", entry.path)
        assert (entry.size, entry.checksum) == (len(data), md5(data).hexdigest())
        assert "/day=2026-0" in entry.path
    assert "kind=a%2Fb %250/" in found[0].path
    inferred: Any = {"inferSchema": True} if options else {}
    again = read(spark, repository, format=format_, **options, **inferred)
    assert {name: again.schema[name].dataType.typeName() for name in ("day", "kind")} == {
        "day": "date",
        "kind": "string",
    }
    assert rows(again) == rows(frame)


def test_a_text_file(spark: SparkSession, repository: OpenRepository) -> None:
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(spark.createDataFrame([("one",), ("two",)], ["value"]), "notes", format="text")
    uri = "lakefs://repo/main/notes"
    assert tx.merged is not None
    assert tx.merged.message == "Write notes"
    assert {row.value for row in graveler.spark.read(spark, uri, format="text", lake=repository).collect()} == {
        "one",
        "two",
    }
    single = files(repository)[0]
    frame = graveler.spark.read(spark, f"lakefs://repo/main/{single}", format="text", lake=repository)
    assert frame.count() == 1


def test_append_overwrite_and_dynamic(spark: SparkSession, repository: OpenRepository) -> None:
    def write(frame: DataFrame, mode: Mode) -> Written:
        with graveler.spark.transaction(repository, "main", message=mode) as tx:
            return tx.write(frame, "tables/events", partition_by="day", mode=mode)

    repository.upload("main", "tables/events-old/x", b"not of this dataset")
    repository.commit("main", "a neighbour")
    first, second = events(spark, 20), events(spark, 10, 100)
    write(first, "append")
    write(second, "append")
    assert rows(read(spark, repository)) == sorted(rows(first) + rows(second))
    third = events(spark, 4, 200, days=1)
    assert write(third, "dynamic").removed > 1
    kept = [row for row in rows(first) + rows(second) if row[2] != DAY]
    assert rows(read(spark, repository)) == sorted(kept + rows(third))
    assert write(second, "overwrite").removed > 1
    assert rows(read(spark, repository)) == rows(second)
    assert rows(read(spark, repository, "main~1")) == sorted(kept + rows(third)), "the old version is there"
    assert rows(read(spark, repository, "main~2")) == sorted(rows(first) + rows(second))
    assert repository.read("main", "tables/events-old/x") == b"not of this dataset"


def test_filters_on_partitions_leave_files_out(spark: SparkSession, repository: OpenRepository) -> None:
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(events(spark, 30), "tables/events", partition_by="day")
    other = [entry for entry in repository.objects("main") if "day=2026-01-31" not in entry.path]
    for entry in other:
        repository.namespace.delete(entry.address.removeprefix("local://repo/"))
    frame = read(spark, repository).where(sql.col("day") == DAY)
    assert frame.count() == 10
    assert "PartitionFilters: [isnotnull(day" in frame._jdf.queryExecution().toString()
    with pytest.raises(Exception, match="does not exist"):
        read(spark, repository).where("id > 0").collect()


def test_nothing_is_seen_before_the_end(spark: SparkSession, repository: OpenRepository) -> None:
    frame = events(spark, 10)
    with graveler.spark.transaction(repository, "main", tag="v1") as tx:
        tx.write(frame, "tables/events", partition_by="day")
        tx.write(frame.limit(1).select("id"), "tables/other")
        assert rows(tx.read(spark, "tables/events")) == rows(frame)
        assert files(repository) == []
        assert branches(repository) == ["main", tx.hidden]
        with pytest.raises(NotFoundError, match="no data files"):
            read(spark, repository)
        doubled = tx.read(spark, "tables/events").withColumn("amount", sql.col("amount") * 2)
        tx.write(doubled, "tables/events", partition_by="day", mode="overwrite")
        assert tx.delete("tables/other") == 1
    assert [row[1] for row in rows(read(spark, repository))] == [4 * at for at in range(10)]
    assert repository.tag("v1").commit_id == repository.commit_of("main").id
    assert len(repository.log("main").results) == 2, "one commit"


def write_and_fail(spark: SparkSession, repository: OpenRepository, *, keep: bool = False) -> None:
    with graveler.spark.transaction(repository, "main", keep_on_error=keep) as tx:
        tx.write(events(spark, 10), "tables/events", partition_by="day")
        raise RuntimeError("the user's own")


def test_a_transaction_that_fails_leaves_nothing_but_garbage(spark: SparkSession, repository: OpenRepository) -> None:
    with pytest.raises(RuntimeError, match="the user's own"):
        write_and_fail(spark, repository)
    assert branches(repository) == ["main"]
    assert files(repository) == []
    assert len(repository.log("main").results) == 1
    assert list(repository.namespace.list("data/")), "for the collector"
    with pytest.raises(RuntimeError, match="the user's own"):
        write_and_fail(spark, repository, keep=True)
    hidden = branches(repository)[1]
    assert len(files(repository, hidden)) >= 3


def test_a_task_that_fails_fails_the_transaction_in_a_sentence(spark: SparkSession, repository: OpenRepository) -> None:
    bad = events(spark, 10).withColumn("amount", sql.expr("if(id = 7, raise_error('boom'), amount)").cast("string"))
    spark.sparkContext.setLogLevel("OFF")
    told: type[GravelerError] = InvalidError
    sentence = r"\[USER_RAISED_EXCEPTION\] boom"
    if spark.version < "4":  # which does not say that a user raised it
        told = UnavailableError
        sentence = "Spark's job failed: boom"
    try:
        with (
            pytest.raises(told, match=rf"^writing parquet: {sentence}$"),
            graveler.spark.transaction(repository, "main") as tx,
        ):
            tx.write(bad, "tables/events", partition_by="day")
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    assert branches(repository) == ["main"]
    assert files(repository) == []
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(events(spark, 10), "tables/events", partition_by="day")
    assert rows(read(spark, repository)) == rows(events(spark, 10)), "nothing of the one that failed"


def test_what_is_linked_too_late_is_refused_and_what_nobody_names_is_collected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(time.time())
    with create_folder_lake(tmp_path / "lake", clock=clock) as lake:
        repository = lake.create_repository("repo", "local://repo")
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(events(spark, 10), "tables/events", partition_by="day")
        kept = {one.key for one in repository.namespace.list("data/")}

        def slowly(*arguments: Any) -> list[WrittenFile]:
            written = write_files(*arguments)
            clock.time += 0.6 * GRACE
            return written

        monkeypatch.setattr("graveler.spark.transactions.write_files", slowly)
        with (
            pytest.raises(InvalidError, match=r"issued 14 hours ago and is too old"),
            graveler.spark.transaction(repository, "main") as tx,
        ):
            tx.write(events(spark, 10), "tables/events", mode="overwrite")
        assert kept < {one.key for one in repository.namespace.list("data/")}
        clock.time += 2 * GRACE
        Garbage(repository, Options(Collecting.DELETE)).run()
        assert {one.key for one in repository.namespace.list("data/")} == kept
        assert rows(read(spark, repository)) == rows(events(spark, 10))


def test_two_who_append_at_once_both_win(spark: SparkSession, repository: OpenRepository) -> None:
    with graveler.spark.transaction(repository, "main") as one:
        one.write(events(spark, 10), "tables/events", partition_by="day")
        with graveler.spark.transaction(repository, "main") as other:
            other.write(events(spark, 10, 100), "tables/events", partition_by="day")
        repository.upload("main", "elsewhere", b"x")
        repository.commit("main", "somebody else")
    assert rows(read(spark, repository)) == sorted(rows(events(spark, 10)) + rows(events(spark, 10, 100)))


def replace_both(spark: SparkSession, repository: OpenRepository, mode: Mode, one: int, other: int) -> None:
    with graveler.spark.transaction(repository, "main") as slow:
        slow.write(events(spark, 1, one), "tables/events", partition_by="day", mode=mode)
        with graveler.spark.transaction(repository, "main") as fast:
            fast.write(events(spark, 1, other), "tables/events", partition_by="day", mode=mode)


@pytest.mark.parametrize("mode", ["overwrite", "dynamic"])
def test_of_two_threads_that_replace_the_same_in_one_transaction_the_later_one_counts(
    spark: SparkSession, repository: OpenRepository, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """The first one has looked what there is to replace, and the other one comes."""
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(spark.range(10).selectExpr("id", "1 as p"), "t", partition_by="p")
    objects, listed = repository.objects, threading.Event()

    def write(tx: graveler.spark.Transaction, first: int) -> None:
        tx.write(spark.range(first, first + 5).selectExpr("id", "1 as p"), "t", mode=mode, partition_by="p")

    with graveler.spark.transaction(repository, "main") as tx:
        other = threading.Thread(target=write, args=(tx, 200))

        def look(ref: str, prefix: str = "", **named: Any) -> Any:
            found = list(objects(ref, prefix, **named))
            if threading.current_thread() is other:
                listed.set()
            elif prefix == ("t/" if mode == "overwrite" else "t/p=1/"):
                other.start()
                listed.wait(3)  # in vain, if the other one waits for its turn
            return iter(found)

        with monkeypatch.context() as patch:
            patch.setattr(repository, "objects", look)
            write(tx, 100)
            other.join()
    found = sorted(row.id for row in graveler.spark.read(spark, "lakefs://repo/main/t", lake=repository).collect())
    assert found == [*range(200, 205)]


@pytest.mark.parametrize("mode", ["overwrite", "dynamic"])
def test_two_who_replace_the_same_do_not_mix(spark: SparkSession, repository: OpenRepository, mode: Mode) -> None:
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(events(spark, 6), "tables/events", partition_by="day")
    with pytest.raises(TouchedError, match="below 'tables/events/") as told:
        replace_both(spark, repository, mode, 102, 99)
    found = {row[0] for row in rows(read(spark, repository))}
    assert found == ({99} if mode == "overwrite" else {99, 1, 2, 4, 5})
    assert branches(repository) == ["main", told.value.kept]
    if mode == "dynamic":
        replace_both(spark, repository, mode, 102, 100)
        assert {row[0] for row in rows(read(spark, repository))} == {102, 100, 2, 5}, "other partitions"


def test_tasks_know_the_settings_of_the_frames_session(spark: SparkSession, repository: OpenRepository) -> None:
    """What an expression makes of a value, and how a file is written, may depend on a setting that only tasks look at; also where
    another session is the active one."""
    other = spark.newSession()
    settings = {
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    }
    for name, value in settings.items():
        other.conf.set(name, value)
    weekday = "date_format(timestamp_seconds(id * 86400), 'u')"  # a number as Spark 2 had it, and no pattern since
    frame = other.range(0, 2, 1, 1).selectExpr("id", f"{weekday} as day", "date'1500-01-01' as old")
    spark.createDataFrame([(1,)], "a int")  # makes its session the active one
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(frame, "t")
    found = graveler.spark.read(spark, "lakefs://repo/main/t", lake=repository).sort("id").collect()
    assert [row.day for row in found] == ["4", "5"]
    assert {row.old for row in found} == {datetime.date(1500, 1, 1)}
    noted = [pq.read_metadata(io.BytesIO(repository.read("main", path))).metadata for path in files(repository)]
    assert all(b"org.apache.spark.legacyDateTime" in one for one in noted)
    assert [spark.sparkContext.getLocalProperty(name) for name in settings] == [None] * len(settings)
    active = SparkSession.getActiveSession()
    assert active is not None
    assert active.conf.get("spark.sql.ansi.enabled") == spark.conf.get("spark.sql.ansi.enabled")


def test_what_is_wrong_is_told_before_or_instead(spark: SparkSession, repository: OpenRepository) -> None:
    frame = events(spark, 3)

    def refused(
        kind: type[GravelerError], match: str, *, path: str = "t", data: DataFrame = frame, **arguments: object
    ) -> None:
        with pytest.raises(kind, match=match), graveler.spark.transaction(repository, "main") as tx:
            tx.write(data, path, **arguments)  # type: ignore[arg-type]

    refused(InvalidError, "needs its own folder", path="/")
    refused(InvalidError, "mode 'upsert' is not one of", mode="upsert")
    refused(InvalidError, "without partition_by", mode="dynamic")
    refused(InvalidError, "0 columns 'month' to partition by; it has id, amount, day, kind", partition_by="month")
    refused(InvalidError, "all of its columns", partition_by=["id", "amount", "day", "kind"])
    refused(InvalidError, "'nonsense' is not a file format", format="nonsense")
    refused(InvalidError, "'jdbc' is not a file format", format="jdbc")
    refused(
        InvalidError, "CSV datasource doesn't support", format="csv", data=spark.range(1).selectExpr("map(id, id) as m")
    )
    with pytest.raises(RefNotFoundError, match="'nowhere'"), graveler.spark.transaction(repository, "nowhere"):
        raise AssertionError("not reached")
    with (
        pytest.raises(NoChangesError, match="on 'main': its writes changed nothing; allow_empty=True") as nothing,
        graveler.spark.transaction(repository, "main"),
    ):
        pass
    assert "tx-" not in str(nothing.value)
    repository.upload("main", "t/staged", b"x")
    refused(DirtyBranchError, r"to objects that replacing 't' would change \('t/staged'\)", mode="overwrite")
    repository.reset("main")
    assert branches(repository) == ["main"]
    with pytest.raises(
        UnavailableError, match=r"has no org\.apache\.spark\.Nothing; datasets are read and written with"
    ):
        _Engine(spark).find("org.apache.spark.Nothing")
    for uri, match in (("repo/main/t", "does not name objects"), ("lakefs://repo", "does not name objects")):
        with pytest.raises(InvalidError, match=match):
            graveler.spark.read(spark, uri, lake=repository)


def test_a_branch_that_is_protected_is_merged_into(spark: SparkSession, repository: OpenRepository) -> None:
    repository.set_protection(["main"])
    with pytest.raises(ProtectedBranchError):
        repository.upload("main", "a", b"x")
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(events(spark, 3), "tables/events")
    assert rows(read(spark, repository)) == rows(events(spark, 3))


def test_what_was_copied_imported_or_uploaded_otherwise_is_read_too(
    spark: SparkSession, repository: OpenRepository, tmp_path: Path
) -> None:
    """Physical names say nothing then: partition columns come from the paths in the lake."""
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(spark.range(4).coalesce(1), "raw")
    (single,) = files(repository)
    data = repository.read("main", single)
    repository.upload("main", "tables/t/p=1/one.parquet", data)
    repository.upload("main", "tables/t/p=1/_SUCCESS", b"")
    repository.upload("main", "tables/t/.hidden/p=7/x", b"")
    repository.copy("main", single, "tables/t/p=2/two.parquet")
    repository.copy("main", single, "tables/t/p=3/three.parquet")
    repository.copy("main", single, "tables/t/p=3/again.parquet")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.parquet").write_bytes(data)
    (outside / "y.parquet").write_bytes(data)
    for name, p in (("x", 4), ("y", 5)):
        repository.link("main", ObjectEntry(f"tables/t/p={p}/f", f"file://{outside}/{name}.parquet", len(data), "", 1))
    repository.commit("main", "from elsewhere")
    frame = graveler.spark.read(spark, "lakefs://repo/main/tables/t", lake=repository)
    found = {row.p: row["count"] for row in frame.groupBy("p").count().collect()}
    assert found == {1: 4, 2: 4, 3: 8, 4: 4, 5: 4}
    assert frame.where("p = 3").count() == 8
    repository.upload("main", "tables/t/stray", data)
    repository.commit("main", "a file outside of the partitions")
    with pytest.raises(InvalidError, match="are in partitions, but others are not"):
        graveler.spark.read(spark, "lakefs://repo/main/tables/t", lake=repository)


def test_columns_are_found_in_every_file(spark: SparkSession, repository: OpenRepository, tmp_path: Path) -> None:
    """Also where a folder outside is named under two partitions, of which one has a file more."""
    for kind in ("json", "parquet"):
        outside = tmp_path / kind
        for at, expression in (("a", "'x' as a"), ("b", "'y' as b")):
            written = tmp_path / f"{kind}-{at}"
            spark.range(2).coalesce(1).selectExpr("id", expression).write.format(kind).save(str(written))
            outside.mkdir(exist_ok=True)
            next(written.glob("part-*")).rename(outside / at)
        links = [("p=1", "a"), ("p=2", "a"), ("p=2", "b")]
        sizes = {at: (outside / at).stat().st_size for at in ("a", "b")}
        for folder, at in links:
            entry = ObjectEntry(f"{kind}/{folder}/{at}", f"file://{outside}/{at}", sizes[at], "", 1)
            repository.link("main", entry)
        repository.commit("main", kind)
        frame = graveler.spark.read(spark, f"lakefs://repo/main/{kind}", lake=repository, format=kind, mergeSchema=True)
        found = sorted((row.p, row.id, row.a or "", row.b or "") for row in frame.collect())
        assert found == [
            (1, 0, "x", ""),
            (1, 1, "x", ""),
            *[(2, n, a, b) for n in (0, 1) for a, b in (("", "y"), ("x", ""))],
        ]


def test_where_case_matters_a_data_column_is_not_taken_for_a_partitions(
    spark: SparkSession, repository: OpenRepository
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    frame = session.range(3).selectExpr("id", "id + 5 as p", "id % 2 as P")
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(frame, "t", partition_by="P")
    for schema in (None, frame.schema):
        found = graveler.spark.read(session, "lakefs://repo/main/t", lake=repository, schema=schema)
        assert sorted(map(tuple, found.select("id", "p", "P").collect())) == [(0, 5, 0), (1, 6, 1), (2, 7, 0)]


def test_schemas_are_given_or_inferred(spark: SparkSession, repository: OpenRepository) -> None:
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(
            events(spark, 6).select("id", "kind", sql.lit("007").alias("code")), "t", format="json", partition_by="code"
        )
    uri = "lakefs://repo/main/t"
    frame = graveler.spark.read(spark, uri, format="json", lake=repository)
    assert dict(frame.dtypes) == {"id": "bigint", "kind": "string", "code": "int"}
    given = graveler.spark.read(spark, uri, format="json", schema="id int, code string, more double", lake=repository)
    assert dict(given.dtypes) == {"id": "int", "more": "double", "code": "string"}
    assert {tuple(row) for row in given.select("more", "code").collect()} == {(None, "007")}
    empty = graveler.spark.read(spark, "lakefs://repo/main/nothing", schema="id int", lake=repository)
    assert empty.collect() == []


def test_an_empty_frame_is_a_dataset_too(spark: SparkSession, repository: OpenRepository) -> None:
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(events(spark, 3).where("id > 5"), "tables/events")
    assert rows(read(spark, repository)) == []


def test_an_empty_frame_with_partitions_has_no_files(spark: SparkSession, repository: OpenRepository) -> None:
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(events(spark, 3), "tables/events", partition_by="day")
        assert tx.write(events(spark, 3).where("id > 5"), "tables/events", partition_by="day").files == 0
        assert (
            tx.write(events(spark, 3).where("id > 5"), "tables/events", partition_by="day", mode="dynamic").removed == 0
        )
        assert tx.read(spark, "tables/events").count() == 3
        tx.write(events(spark, 3).where("id > 5"), "tables/events", partition_by="day", mode="overwrite")
        tx.write(spark.range(1), "other")
    assert {path.partition("/")[0] for path in files(repository)} == {"other"}
    nothing = events(spark, 3).where("id > 5")
    with (
        pytest.raises(NoChangesError, match="on 'main': its writes changed nothing; allow_empty=True"),
        graveler.spark.transaction(repository, "main") as tx,
    ):
        tx.write(nothing, "tables/events", partition_by="day", mode="dynamic")
    with graveler.spark.transaction(repository, "main", allow_empty=True) as tx:
        tx.write(nothing, "tables/events", partition_by="day", mode="dynamic")
    assert tx.merged is None


def test_files_with_other_partition_columns_are_not_added(spark: SparkSession, repository: OpenRepository) -> None:
    """Nothing could read the dataset: its branch, and what a transaction has written before, stay as they are."""
    frame = events(spark, 6)
    nothing = frame.where("false")

    def write(path: str, columns: list[str], mode: Mode) -> None:
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(frame, path, partition_by=columns, mode=mode)

    layouts: tuple[list[str], ...] = ([], ["day"], ["day", "kind"], ["kind", "day"])
    modes: tuple[Mode, ...] = ("append", "dynamic")
    for number, columns in enumerate(layouts[:3]):
        path = f"t/{number}"
        repository.upload("main", f"{path}/kind=z/", b"")  # a marker is not a file of the dataset
        repository.commit("main", "A folder")
        write(path, columns, "append")
        head = repository.commit_of("main").id
        for others, mode in product(layouts, modes):
            if others != columns and (others or mode == "append"):
                with (
                    pytest.raises(InvalidError, match=f"dataset '{path}' is partitioned by .* and the frame by "),
                    graveler.spark.transaction(repository, "main") as tx,
                ):
                    tx.write(nothing, path, partition_by=others, mode=mode)
        assert repository.commit_of("main").id == head
    with graveler.spark.transaction(repository, "main") as tx:
        tx.write(frame, "other")
        with pytest.raises(InvalidError, match="nothing could read both"):
            tx.write(frame, "t/2", partition_by="amount", mode="dynamic")
        assert tx.read(spark, "t/2").count() == tx.read(spark, "other").count() == 6
    write("t/2", ["AMOUNT"], "overwrite")
    write("t/2", ["amount"], "append")
    frame = frame.withColumnRenamed("amount", "AMOUNT")
    for mode in modes:  # with folders of both names, a dynamic overwrite would leave the rows in those of one
        with pytest.raises(InvalidError, match="by 'amount', and the frame by 'AMOUNT'"):
            write("t/2", ["amount"], mode)


def test_partition_columns_that_would_hide_all_rows_are_refused(
    spark: SparkSession, repository: OpenRepository
) -> None:
    frame = spark.createDataFrame([(1, "x")], "id long, `.k` string")
    modes: tuple[Mode, ...] = ("append", "overwrite", "dynamic")
    for mode in modes:
        with (
            pytest.raises(InvalidError, match="is in a hidden folder"),
            graveler.spark.transaction(repository, "main") as tx,
        ):
            tx.write(frame, "t", partition_by=".k", mode=mode)


def test_of_two_threads_the_later_one_adds_no_files_with_other_partition_columns(
    spark: SparkSession, repository: OpenRepository
) -> None:
    """Also where both began before either had written."""
    frame = events(spark, 6)
    with graveler.spark.transaction(repository, "main") as tx:
        hidden = tx.hidden
        entries = [ObjectEntry("t/day=1/a", repository.new_address(hidden, "t/"), 1, "", 1)]
        tx.write(frame, "t", partition_by="kind")
        with pytest.raises(InvalidError, match="'t' is partitioned by 'kind', and the frame by 'day'"):
            link_files(repository, hidden, "t", "append", entries, [])
        assert tx.read(spark, "t").count() == 6


def test_frames_that_could_not_be_read_again_are_not_written(spark: SparkSession, repository: OpenRepository) -> None:
    unreadable = {
        r"the frame has two columns of one name \('id'\)": ["id", "id"],
        r"the frame has two columns of one name \('id' and 'ID'\)": ["id", "id as ID"],
        "column 's' of the frame has two columns of one name": ["named_struct('a', id, 'A', 1) as s"],
        "column 'm.x' of the frame has two": ["map(id, array(named_struct('x', named_struct('b', 1, 'b', 2)))) as m"],
        "the frame has no columns": [],
    }
    with graveler.spark.transaction(repository, "main") as tx:
        for match, columns in unreadable.items():
            with pytest.raises(InvalidError, match=match):
                tx.write(spark.range(1).selectExpr(*columns), "t")
        assert not list(repository.namespace.list("data/"))
        tx.write(spark.range(1).selectExpr("named_struct('a', 1) as s", "named_struct('a', 2) as t"), "t")
    assert graveler.spark.read(spark, "lakefs://repo/main/t", lake=repository).selectExpr("s.a + t.a").first() == (3,)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(spark.range(1).selectExpr("id", "id + 1 as ID"), "cases")
        assert graveler.spark.read(spark, "lakefs://repo/main/cases", lake=repository).collect() == [(0, 1)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("s3a://bucket/tables/events", "is a URI"),
        ("lakefs://repo/main/tables", "is a URI"),
        ("file:/tmp/events", "is a URI"),
        ("tables/../events", r"a part '\.\.'"),
        ("./events", r"a part '\.'"),
        ("tables//events", "an empty part"),
        ("/tables/events", "starts with a slash"),
    ],
)
def test_a_path_that_is_none_of_a_branch_is_refused(repository: OpenRepository, path: str, why: str) -> None:
    spark = SparkSession.active()
    wrong = rf"is not the path of a dataset: .*{why}.*such as 'tables/events'"
    with graveler.spark.transaction(repository, "main") as tx:
        for work in (
            lambda: tx.write(spark.range(1), path),
            lambda: tx.delete(path),
            lambda: tx.read(spark, path),
            lambda: graveler.spark.read(spark, f"lakefs://repo/main/{path}", lake=repository),
            lambda: graveler.spark.manifest(spark, repository, "main", path, "file:///nowhere"),
        ):
            with pytest.raises(InvalidError, match=wrong):
                work()
        tx.write(spark.range(1), "events/")
    assert all(name.startswith("events/part-") for name in files(repository))


def test_a_branch_is_read_as_it_was(spark: SparkSession, repository: OpenRepository) -> None:
    for rows in (1, 2):
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(spark.range(rows), "tables/events")
            with pytest.raises(InvalidError, match="option 'versionAsOf' does not apply here"):
                tx.read(spark, "tables/events", versionAsOf="main")
    newest, first, *_ = repository.log("main").results
    moments = [row.event.time_ns for row in repository.reflog("main")]
    begin = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    before = (begin + datetime.timedelta(microseconds=-(-moments[1] // 1000))).isoformat()
    for options, rows in (
        ({}, 3),
        ({"timestampAsOf": before}, 1),
        ({"versionAsOf": first.id}, 1),
        ({"VERSIONASOF": newest.id[:20]}, 3),
        ({"timestampasof": datetime.datetime.now(datetime.UTC).isoformat()}, 3),
    ):
        assert read(spark, repository, **options).count() == rows, options
    for wrong, why in (
        (
            {"timestampAsOf": "soon"},
            r"is not a valid ref expression, at character 7: .* takes a number, a time such as 2026-06-01",
        ),
        ({"timestampAsOf": "1"}, "'1' is not a value for timestampasof; give text such as 2026-06-01T12:00Z"),
        ({"timestampAsOf": 20260101}, "20260101 is not a value for timestampasof; give text such as 2026-06-01T12:00Z"),
        ({"timestampAsOf": before, "versionAsOf": first.id}, "mutually exclusive"),
    ):
        with pytest.raises(InvalidError, match=why):
            read(spark, repository, **wrong)


def test_what_a_function_of_the_user_raises_is_told(spark: SparkSession, repository: OpenRepository) -> None:
    def wrong(number: int) -> int:
        raise {0: ValueError("no such product"), 1: ConnectionError("the shop's own service is down")}[number]

    spark.sparkContext.setLogLevel("OFF")
    try:
        for number, kind, said in (
            (0, InvalidError, r"raised ValueError: no such product \(.*test_transaction\.py, line \d+, in wrong\)$"),
            (1, UnavailableError, r"raised ConnectionError: the shop's own service is down \("),
        ):
            frame = spark.range(1).select(sql.udf(wrong, "long", useArrow=False)(sql.lit(number)).alias("x"))
            with (
                pytest.raises(kind, match=f"^writing parquet: a function of the job {said}"),
                graveler.spark.transaction(repository, "main") as tx,
            ):
                tx.write(frame, "t")
    finally:
        spark.sparkContext.setLogLevel("ERROR")


def test_handles_and_names_will_do(spark: SparkSession, tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as made:
        made.create_repository("repo", "local://repo")
    lake = LakeHandle(open_folder_lake(tmp_path / "lake"), "ada")
    with graveler.spark.transaction(lake.repository("repo"), "main") as tx:
        tx.write(spark.range(3), "t")
    with graveler.spark.transaction("repo", "main", lake=tmp_path / "lake") as tx:
        tx.write(spark.range(3), "t")
    assert graveler.spark.read(spark, "lakefs://repo/main/t", lake=lake).count() == 6
    assert graveler.spark.read(spark, "lakefs://repo/main~1/t", lake=tmp_path / "lake").count() == 3
    lake.close()


def test_on_s3_files_go_straight_to_their_places(spark: SparkSession, aws: AwsLake) -> None:
    with open_at(aws) as lake:
        repository = lake.create_repository("repo", f"{aws.objects}/repo", split=TINY)
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(events(spark, 20), "tables/events", partition_by=["day", "kind"])
            assert rows(tx.read(spark, "tables/events")) == rows(events(spark, 20))
        stored = {one.key: one for one in repository.namespace.list("data/")}
        linked = {entry.address.removeprefix(f"{aws.objects}/repo/"): entry for entry in repository.objects("main")}
        assert stored.keys() == linked.keys(), "no temporary files, no manifest, no second copy"
        for key, entry in linked.items():
            assert (entry.size, entry.checksum) == (stored[key].size, md5(repository.namespace.get(key)).hexdigest())
        assert rows(read(spark, repository)) == rows(events(spark, 20))
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(events(spark, 2, 50, days=1), "tables/events", partition_by=["day", "kind"], mode="dynamic")
        assert read(spark, repository).where(sql.col("day") == DAY).count() == 2
        assert rows(read(spark, repository, "main~1")) == rows(events(spark, 20))
        assert Garbage(repository).plan().plan.found == {}
