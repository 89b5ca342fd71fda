"""``make demo-spark``: the data pipeline on this machine, on real files: an import, a dataset written on a branch, a merge, and a
read of the old version."""

import sys
import time
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from shutil import rmtree
from typing import Final

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import graveler.spark
from graveler.lake.folder import create_folder_lake
from graveler.lake.importing.object_listing import ListingOptions
from graveler.lake.repository import OpenRepository
from graveler.spark.linking import Mode
from graveler.spark.session import local_session

FOLDER: Final = Path("demo-lake-spark")
EVENTS: Final = "tables/events"
_LISTING: Final = "key string, size long, etag string, mtime long"

Tell = Callable[[str], object]


def main() -> None:
    """The story, in a lake that is made anew in the working folder."""
    rmtree(FOLDER, ignore_errors=True)
    spark = local_session("graveler demo")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with create_folder_lake(FOLDER) as lake:
            tell_story(
                spark, lake.create_repository("sales", "local://sales"), lambda line: sys.stdout.write(line + "\n")
            )
    finally:
        spark.stop()


def tell_story(spark: SparkSession, repository: OpenRepository, tell: Tell) -> None:
    """The story, in an empty repository."""
    tell("1. Import: the files of pyspark, where they lie, from a listing of them")
    files = Path(pyspark.__file__).parent
    listing = spark.createDataFrame(list(listed(files)), _LISTING)
    report = graveler.spark.import_listing(
        spark,
        repository,
        "main",
        listing,
        ListingOptions(base=f"file://{files}/", destination="code/"),
        message="Import pyspark",
        committer="ada",
        partitions=4,
    )
    assert report.built is not None
    tell(f"   {report.built.objects:,} objects by 4 tasks: commit {report.commit.id[:16]}")
    objects = graveler.spark.objects(spark, repository, "main")
    largest = objects.orderBy(sql.desc("size"), "path").first()
    assert largest is not None
    tell(f"   the largest: {largest.path} ({largest.size:,} bytes)")

    tell("2. A dataset, written on main: all of it appears at once")
    write(repository, "main", events(spark, 4), "Events of January", "append")
    before = repository.commit_of("main").id
    tell(f"   {said(spark, repository, 'main')}")

    tell("3. On a branch, one day is written anew")
    repository.create_branch("fix-day-1", "main")
    again = events(spark, 4).filter("day = '2026-01-01'").withColumn("amount", sql.col("amount") * 10)
    write(repository, "fix-day-1", again, "Day 1 was in cents", "dynamic")
    tell(f"   fix-day-1: {said(spark, repository, 'fix-day-1')}")
    tell(f"   main:      {said(spark, repository, 'main')}")
    changes = (
        graveler.spark.diff(spark, repository, "main", "fix-day-1").groupBy("type").count().orderBy("type").collect()
    )
    tell(f"   the difference, in files: {', '.join(f'{row[1]} {row[0]}' for row in changes)}")

    tell("4. Merge, and read the old version")
    repository.merge("fix-day-1", "main", message="Merge fix-day-1", committer="ada")
    tell(f"   main:      {said(spark, repository, 'main')}")
    tell(f"   {before[:16]}: {said(spark, repository, before)}")


def listed(folder: Path) -> Iterator[tuple[str, int, str, int]]:
    """The Python files below a folder, as an inventory would list them."""
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        yield path.relative_to(folder).as_posix(), len(data), md5(data).hexdigest(), int(path.stat().st_mtime)


def events(spark: SparkSession, days: int) -> DataFrame:
    """A hundred events for each day."""
    return spark.range(0, days * 100, 1, 2).select(
        "id",
        (sql.col("id") % 7).alias("amount"),
        sql.date_add(sql.lit("2026-01-01").cast("date"), (sql.col("id") / 100).cast("int")).cast("string").alias("day"),
    )


def write(repository: OpenRepository, branch: str, frame: DataFrame, message: str, mode: Mode) -> None:
    """Write a frame to the dataset, in a transaction."""
    with graveler.spark.transaction(repository, branch, message=message, committer="ada") as tx:
        tx.write(frame.repartition("day"), EVENTS, partition_by="day", mode=mode)


def said(spark: SparkSession, repository: OpenRepository, ref: str) -> str:
    """What is in the dataset."""
    frame = graveler.spark.read(spark, f"lakefs://{repository.repository.name}/{ref}/{EVENTS}", lake=repository)
    row = frame.agg(sql.count("*"), sql.countDistinct("day"), sql.sum("amount")).first()
    assert row is not None
    return f"{row[0]:,} events of {row[1]} days, amounts add up to {row[2]:,}"


if __name__ == "__main__":
    began = time.monotonic()
    main()
    sys.stdout.write(f"({time.monotonic() - began:.0f} s, with Spark's start; the lake is in {FOLDER}/)\n")
