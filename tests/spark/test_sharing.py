"""Frames of datasets in one session. Spark shares caches, exchanges and scans among plans that it takes for equal, so that equal
has to mean: the same files, with the same values of partition columns."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import graveler.spark
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from tests.support.campaigns import share

Row = tuple[int, int, int]
"""ID, value, and the partition that both lie in."""
OLD = {"tables/a": range(12), "tables/b": range(6, 18)}
NEW = {"tables/a": range(20), "tables/b": range(3, 9)}
_WAYS = (("true", "10485760", False), ("true", "-1", True), ("false", "10485760", True), ("false", "-1", False))
"""Adaptive execution, the size up to which tables are broadcast (-1: none), is one of the frames cached?"""


@pytest.fixture(scope="module")
def repository(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenRepository]:
    """Two tables of one schema, in two versions: tag ``old`` and ``main``."""
    with create_folder_lake(tmp_path_factory.mktemp("sharing") / "lake") as lake:
        made = lake.create_repository("repo", "local://repo")
        for tables in (OLD, NEW):
            with graveler.spark.transaction(made, "main") as tx:
                for path, ids in tables.items():
                    tx.write(frame_of(spark, ids, len(ids)), path, partition_by="part", mode="overwrite")
            if tables is OLD:
                made.create_tag("old", "main")
        yield made


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Sets options of the session, which are as they were afterwards."""
    before: dict[str, str | None] = {}

    def put(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield put
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def frame_of(spark: SparkSession, ids: range, version: int) -> DataFrame:
    """A row for each ID, whose value tells of which version and table it is."""
    rows = spark.range(ids.start, ids.stop, 1, 1)
    return rows.select("id", sql.lit(version).alias("value"), (sql.col("id") % 2).cast("int").alias("part"))


def rows_of(ids: range) -> set[Row]:
    return {(at, len(ids), at % 2) for at in ids}


def read(spark: SparkSession, repository: OpenRepository, ref: str, path: str = "tables/a") -> DataFrame:
    return graveler.spark.read(spark, f"lakefs://repo/{ref}/{path}", lake=repository)


def found_in(frames: dict[str, DataFrame]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each, by one job, in whose plan all of them meet."""
    together: DataFrame | None = None
    for name, frame in frames.items():
        columns = [f"c{at}" for at in range(len(frame.columns))]
        values = sql.array(*(sql.col(column).cast("long") for column in columns))
        labelled = frame.toDF(*columns).select(sql.lit(name), values)
        together = labelled if together is None else together.unionAll(labelled)
    assert together is not None
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for name, row in together.collect():
        found[name].append(tuple(row))
    return {name: sorted(found[name]) for name in frames}


def combined(
    one: DataFrame, other: DataFrame, ones: set[Row], others: set[Row]
) -> dict[str, tuple[DataFrame, list[tuple[Any, ...]]]]:
    """What can be done with two frames, and the rows that it gives."""
    mine, yours = {row[0]: row for row in ones}, {row[0]: row for row in others}
    both = sorted(mine.keys() & yours.keys())
    by_part = [
        (part, sum(1 for row in rows if row[2] == part)) for rows in (ones, others) for part in {r[2] for r in rows}
    ]
    left, right = one.alias("left"), one.alias("right")
    return {
        "join": (one.join(other, "id"), [mine[at] + yours[at][1:] for at in both]),
        "anti": (one.join(other, "id", "left_anti"), sorted(ones - {mine[at] for at in both})),
        "union": (one.unionAll(other), sorted([*ones, *others])),
        "counts": (one.groupBy("part").count().union(other.groupBy("part").count()), sorted(by_part)),
        "subtract": (one.select("id").subtract(other.select("id")), [(at,) for at in sorted(mine.keys() - yours)]),
        "intersect": (one.select("id").intersect(other.select("id")), [(at,) for at in both]),
        "self": (
            left.join(right, sql.col("left.id") == sql.col("right.id")).select("left.value", "right.id"),
            sorted((row[1], row[0]) for row in ones),
        ),
        "where": (one.where("part = 1").join(other.where("part = 1"), ["id", "part"]).select("id"), [
            (at,) for at in both if at % 2
        ]),
    }  # fmt: skip


def test_refs_and_tables_of_one_schema_are_not_taken_for_each_other(
    spark: SparkSession, repository: OpenRepository, settings: Callable[[str, str], None]
) -> None:
    rows = {(ref, path): rows_of(ids) for ref, tables in (("old", OLD), ("main", NEW)) for path, ids in tables.items()}
    one, others = ("main", "tables/a"), (("old", "tables/a"), ("main", "tables/b"))
    settings("spark.sql.shuffle.partitions", "2")
    for adaptive, broadcast, cached in share(_WAYS, 2, "sharing"):
        settings("spark.sql.adaptive.enabled", adaptive)
        settings("spark.sql.autoBroadcastJoinThreshold", broadcast)
        frames = {(ref, path): read(spark, repository, ref, path) for ref, path in rows}
        if cached:
            frames[one].cache().count()
        plans: dict[str, DataFrame] = {}
        wanted: dict[str, list[tuple[Any, ...]]] = {}
        for other in others:
            for name, (plan, result) in combined(frames[one], frames[other], rows[one], rows[other]).items():
                plans[f"{name} {other}"], wanted[f"{name} {other}"] = plan, result
        assert found_in(plans) == wanted, (adaptive, broadcast, cached)
        frames[one].unpersist()


def test_equal_reads_share_a_cache(spark: SparkSession, repository: OpenRepository) -> None:
    first = read(spark, repository, "main").cache()
    try:
        for again, is_same in (
            (read(spark, repository, repository.commit_of("main").id), True),
            (read(spark, repository, "main", "tables/b"), False),
            (read(spark, repository, "old"), False),
        ):
            assert again.sameSemantics(first) == is_same
            assert ("InMemoryTableScan" in again._jdf.queryExecution().executedPlan().toString()) == is_same
        commit = repository.commit_of("main").id
        scan = read(spark, repository, "old")._jdf.queryExecution().executedPlan().toString()
        assert f"repo/{repository.commit_of('old').id[:16]}/tables/a" in scan, "the plan tells what is read"
        assert commit[:16] not in scan
    finally:
        first.unpersist()


def test_a_branch_that_moved_and_a_transaction_that_wrote_are_read_anew(
    spark: SparkSession, repository: OpenRepository
) -> None:
    repository.create_branch("moving", "old")
    before = read(spark, repository, "moving").cache()
    assert before.count() == 12
    with graveler.spark.transaction(repository, "moving") as tx:
        first = tx.read(spark, "tables/a").cache()
        assert first.count() == 12
        tx.write(frame_of(spark, range(100, 150), 1), "tables/a", partition_by="part")
        second = tx.read(spark, "tables/a")
        assert (first.count(), second.count()) == (12, 62)
        tx.write(second.union(first), "tables/c", partition_by="part")
        tx.write(second.where("id >= 100"), "tables/a", partition_by="part", mode="overwrite")
        assert tx.read(spark, "tables/a").count() == 50
    after = read(spark, repository, "moving")
    counts = {"before": before, "after": after, "c": read(spark, repository, "moving", "tables/c")}
    assert {name: len(found) for name, found in found_in(counts).items()} == {"before": 12, "after": 50, "c": 74}
    assert after.subtract(before).count() == 50
    first.unpersist()
    before.unpersist()


def test_the_same_folders_under_another_time_zone_are_other_values(
    spark: SparkSession, repository: OpenRepository, settings: Callable[[str, str], None]
) -> None:
    repository.create_branch("zones", "old")
    with graveler.spark.transaction(repository, "zones") as tx:
        tx.write(spark.range(1).selectExpr("id", "'2026-01-01 12:00:00' as at"), "tables/t", partition_by="at")
    here = read(spark, repository, "zones", "tables/t").selectExpr("unix_seconds(at) as at").cache()
    noon = here.collect()[0].at
    settings("spark.sql.session.timeZone", "America/New_York")
    there = read(spark, repository, "zones", "tables/t").selectExpr("unix_seconds(at) as at")
    assert there.collect()[0].at == noon + 5 * 3600
    here.unpersist()


def test_a_frame_that_is_refreshed_stays_what_it_was(spark: SparkSession, repository: OpenRepository) -> None:
    """There is nothing that Spark could list, and no listing may make an empty table of it, or one of other files."""
    frame = read(spark, repository, "main")
    frame.createOrReplaceTempView("sharing")
    for refresh, what in ((spark.catalog.refreshTable, "sharing"), (spark.catalog.refreshByPath, "/")):
        try:
            refresh(what)
        except PySparkException as error:
            told = "UnsupportedOperationException" if spark.version < "4" else "listStatus"
            assert told in f"{error!s} {error!r}", error  # noqa: PT017
        assert {tuple(row) for row in spark.table("sharing").collect()} == rows_of(NEW["tables/a"])
    spark.catalog.dropTempView("sharing")


def test_objects_of_two_refs_are_not_taken_for_each_other(spark: SparkSession, repository: OpenRepository) -> None:
    now, then = (graveler.spark.objects(spark, repository, ref).select("path") for ref in ("main", "old"))
    paths = [{(entry.path,) for entry in repository.objects(ref)} for ref in ("main", "old")]
    now.cache()
    assert set(now.subtract(then).collect()) == paths[0] - paths[1]
    assert then.count() == len(paths[1])
    now.unpersist()
