"""``make demo-spark``: the data pipeline on this machine, on real files: an import, a dataset written on a branch, a merge, a
read of the old version, a join of two refs, a wrong load that is refused, and a stream that continues after its process was
killed."""

import os
import signal
import subprocess
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
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.requests.base import CommitInfo
from graveler.requests.importing import ListingOptions
from graveler.requests.merging import Merge
from graveler.requests.refs import CreateBranch
from graveler.spark.linking import Mode
from graveler.spark.session import local_session
from graveler.system.secret_variables import without_secrets

FOLDER: Final = Path("demo-lake-spark")
EVENTS: Final = "tables/events"
STREAMED: Final = "tables/streamed"
_LISTING: Final = "key string, size long, etag string, mtime long"

Tell = Callable[[str], object]


def main() -> None:
    """Run the story, in a lake recreated in the working folder."""
    rmtree(FOLDER, ignore_errors=True)
    spark = local_session("graveler demo")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with create_folder_lake(FOLDER) as lake:
            repository = lake.create_repository("sales", "local://sales")
            tell_story(spark, repository, FOLDER.absolute(), lambda line: sys.stdout.write(line + "\n"))
    finally:
        spark.stop()


def tell_story(spark: SparkSession, repository: OpenRepository, folder: Path, tell: Tell) -> None:
    """Tell the story, in an empty repository of the lake in ``folder``."""
    tell("1. Import: the files of pyspark, in place, from a listing")
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
    tell(f"   {summary_of(spark, repository, 'main')}")

    tell("3. On a branch, one day is rewritten")
    repository.run(CreateBranch(name="fix-day-1", source="main"))
    again = events(spark, 4).filter("day = '2026-01-01'").withColumn("amount", sql.col("amount") * 10)
    write(repository, "fix-day-1", again, "Day 1 was in cents", "dynamic")
    tell(f"   fix-day-1: {summary_of(spark, repository, 'fix-day-1')}")
    tell(f"   main:      {summary_of(spark, repository, 'main')}")
    changes = (
        graveler.spark.diff(spark, repository, "main", "fix-day-1").groupBy("type").count().orderBy("type").collect()
    )
    tell(f"   the difference, in files: {', '.join(f'{row[1]} {row[0]}' for row in changes)}")

    tell("4. Merge, and read the old version")
    info = CommitInfo("Merge fix-day-1", "ada")
    repository.run(Merge(source="fix-day-1", destination="main", info=info))
    tell(f"   main:      {summary_of(spark, repository, 'main')}")
    tell(f"   {before[:16]}: {summary_of(spark, repository, before)}")

    tell("5. Two refs in one join: what the merge changed")
    old, new = (read(spark, repository, ref).select("id", "amount") for ref in (before, "main"))
    both = new.join(old.withColumnRenamed("amount", "was"), "id").where("amount != was")
    row = both.agg(sql.count("*"), sql.sum("was"), sql.sum("amount")).first()
    assert row is not None
    tell(f"   {row[0]:,} events have another amount: a total of {row[1]:,} before, {row[2]:,} now")

    tell("6. A load with wrong rows is refused by a check before its merge")
    wrong = events(spark, 5).where("day = '2026-01-05'").withColumn("amount", -sql.col("amount"))
    try:
        with graveler.spark.transaction(repository, "main", message="Day 5", committer="ada") as tx:
            tx.write(wrong, EVENTS, partition_by="day")
            negative = tx.read(spark, EVENTS).where("amount < 0").count()
            if negative:
                raise ValueError(f"{negative:,} amounts are negative")
    except ValueError as error:
        tell(f"   refused: {error}")
    tell(f"   main:      {summary_of(spark, repository, 'main')}")

    tell("7. A stream resumes after its process was killed, right after the commit of its second batch")
    for number in range(4):
        spark.range(10 * number, 10 * number + 10).coalesce(1).write.mode("append").json(f"{folder}/incoming")
    killed = subprocess.run(
        [sys.executable, "-m", "graveler.spark.demo", str(folder)],
        env=without_secrets(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if killed.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the stream was not killed, but ended by itself:\n{killed.stderr}")
    tell(f"   killed:    {streamed(spark, repository)}")
    stream(spark, repository, folder)
    tell(f"   resumed:   {streamed(spark, repository)}")


def stream(spark: SparkSession, repository: OpenRepository, folder: Path, killed_behind: int | None = None) -> None:
    """Write the files in ``incoming`` to a dataset, one per batch, to the end; or kill the process after the commit of one
    batch."""
    write = graveler.spark.each_batch(repository, "main", lambda tx, frame: tx.write(frame, STREAMED), committer="ada")

    def each(frame: DataFrame, number: int) -> None:
        write(frame, number)
        if number == killed_behind:
            os.kill(os.getpid(), signal.SIGKILL)  # before the checkpoint knows of this batch

    incoming = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(f"{folder}/incoming")
    written = incoming.writeStream.foreachBatch(each).option("checkpointLocation", f"{folder}/checkpoint")
    written.trigger(availableNow=True).start().awaitTermination()


def stream_and_die(folder: Path) -> None:
    """Run the stream in this process, which is killed."""
    spark = local_session("graveler demo, a stream")
    spark.sparkContext.setLogLevel("ERROR")
    with open_folder_lake(folder) as lake:
        stream(spark, lake.repository("sales"), folder, killed_behind=1)


def streamed(spark: SparkSession, repository: OpenRepository) -> str:
    """Return what the stream has written."""
    uri = f"lakefs://{repository.repository.name}/main/{STREAMED}"
    row = graveler.spark.read(spark, uri, lake=repository).agg(sql.count("*"), sql.countDistinct("id")).first()
    assert row is not None
    return f"{row[0]:,} rows, {row[1]:,} of them different"


def listed(folder: Path) -> Iterator[tuple[str, int, str, int]]:
    """Yield the Python files below a folder, as an inventory would list them."""
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        yield (
            path.relative_to(folder).as_posix(),
            len(data),
            md5(data, usedforsecurity=False).hexdigest(),
            int(path.stat().st_mtime),
        )


def events(spark: SparkSession, days: int) -> DataFrame:
    """Return a hundred events per day."""
    return spark.range(0, days * 100, 1, 2).select(
        "id",
        (sql.col("id") % 7).alias("amount"),
        sql.date_add(sql.lit("2026-01-01").cast("date"), (sql.col("id") / 100).cast("int")).cast("string").alias("day"),
    )


def write(repository: OpenRepository, branch: str, frame: DataFrame, message: str, mode: Mode) -> None:
    """Write a frame to the dataset, in a transaction."""
    with graveler.spark.transaction(repository, branch, message=message, committer="ada") as tx:
        tx.write(frame.repartition("day"), EVENTS, partition_by="day", mode=mode)


def summary_of(spark: SparkSession, repository: OpenRepository, ref: str) -> str:
    """Return a summary of the dataset."""
    row = read(spark, repository, ref).agg(sql.count("*"), sql.countDistinct("day"), sql.sum("amount")).first()
    assert row is not None
    return f"{row[0]:,} events of {row[1]} days, amounts add up to {row[2]:,}"


def read(spark: SparkSession, repository: OpenRepository, ref: str) -> DataFrame:
    """Return the dataset at a ref."""
    return graveler.spark.read(spark, f"lakefs://{repository.repository.name}/{ref}/{EVENTS}", lake=repository)


if __name__ == "__main__":
    began = time.monotonic()
    if len(sys.argv) > 1:
        stream_and_die(Path(sys.argv[1]))
    main()
    sys.stdout.write(f"({time.monotonic() - began:.0f} s, with Spark's start; the lake is in {FOLDER}/)\n")
