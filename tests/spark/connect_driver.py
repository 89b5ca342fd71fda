"""A client of Spark Connect, with a real server of its own: what works there, and what is refused beforehand.

A process has a session of Spark Connect or one of Spark itself, so this is not the tests' own. Prints one JSON object.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

import graveler.spark
from graveler.errors import GravelerError
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.spark import joining
from graveler.spark.connect import SparkConnectError, cores
from graveler.spark.garbage_tasks import SparkEngine
from graveler.spark.jobs import import_
from graveler.spark.jobs.frame import run_job


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def refusal(work: Callable[[], object]) -> str:
    """What a session of Spark Connect is told."""
    try:
        work()
    except SparkConnectError as error:
        return str(error)
    return "not refused"


def never(tx: object, frame: object) -> None:
    """No batch comes so far."""
    raise AssertionError(tx, frame)


class Client:
    """A session, and a lake in a folder."""

    def __init__(self, spark: SparkSession, folder: Path, repository: OpenRepository) -> None:
        self.spark, self.folder, self.repository, self.lake = spark, folder, repository, str(folder / "lake")

    def works(self) -> dict[str, Any]:
        found: dict[str, Any] = {"cores": cores(self.spark)}
        listing = self.spark.createDataFrame(
            [(f"raw/{number:02}", number, f"{number:032x}", 1 << 20) for number in range(90)],
            "key string, size long, etag string, mtime long",
        )
        options = graveler.spark.ListingOptions(source="raw/", destination="in/", base="s3://warehouse/")
        report = graveler.spark.import_listing(self.spark, "sales", "main", listing, options, lake=self.lake)
        assert report.built is not None
        found["import"] = [report.built.objects, report.built.partitions, report.changes.added]
        with patch.object(joining, "_MANY", 1):  # so that tasks join, as they do for more than forty subtrees
            again = graveler.spark.import_listing(
                self.spark, "sales", "again", listing, options, partitions=5, lake=self.lake
            )
        found["the same tree"] = again.commit.metarange == report.commit.metarange
        objects = graveler.spark.objects
        found["objects"] = objects(self.spark, "sales", "main", prefix="in/", lake=self.lake).count()
        found["where"] = objects(
            self.spark, "sales", "main", where="path like 'in/0%' and size > 4", lake=self.lake
        ).count()
        found["diff"] = graveler.spark.diff(self.spark, "sales", "main~1", "main", lake=self.lake).count()
        found["commits"] = graveler.spark.commits(self.spark, "sales", "main", lake=self.lake).count()
        found["ranges"] = graveler.spark.ranges(self.spark, "sales", "main", lake=self.lake).count() > 0
        graveler.spark.register(self.spark)
        source = self.spark.read.format("graveler").options(lake=self.lake, repository="sales", ref="main")
        found["data source"] = source.load().count()
        exported = graveler.spark.export(
            self.spark, "sales", "main", f"file://{self.folder}/out", prefix="a/", lake=self.lake
        )
        found["export"] = exported.written
        place = f"file://{self.folder}/named"
        found["manifest"] = graveler.spark.manifest(self.spark, "sales", "main", "a", place, lake=self.lake).files
        (self.folder / "listing.csv").write_text("key,size,etag\na,1,00\n")
        tables = graveler.spark.read_tables(self.spark, [f"{self.folder}/listing.csv"], "csv")
        tabled = graveler.spark.import_listing(
            self.spark, "sales", "again", tables.rows, options, dry_run=True, lake=self.lake, allow_empty=True
        )
        found["read_tables"] = tabled.changes.removed
        return found

    def refused(self) -> dict[str, str]:

        def write(**given: Any) -> None:
            with graveler.spark.transaction("sales", "main", message="m", **given) as tx:
                tx.write(self.spark.range(3), "t")

        job = ["--lake", self.lake, "--repository", "sales", "--branch", "main", "--listing", "none.csv"]
        return {
            "read": refusal(
                lambda: graveler.spark.read(self.spark, "lakefs://sales/main/a", format="text", lake=self.lake)
            ),
            "transaction": refusal(lambda: write(lake=self.lake)),
            "transaction of the session": refusal(lambda: write(spark=self.spark, lake=self.lake)),
            "batch": refusal(
                lambda: graveler.spark.each_batch("sales", "main", never, lake=self.lake)(self.spark.range(1), 1)
            ),
            "garbage": refusal(lambda: SparkEngine(self.spark)),
            "job": str(run_job(import_.JOB, job, self.spark)),
        }


def main() -> None:
    folder = Path(sys.argv[1])
    with create_folder_lake(folder / "lake") as lake:
        repository = lake.create_repository("sales", f"file://{folder}/namespace")
        repository.upload("main", "a/1", b"1")
        repository.commit("main", "a/1")
        repository.create_branch("again", "main")
        client = Client(session(), folder, repository)
        works = client.works()
        before = [(branch.name, branch.commit_id) for branch in repository.branches(show_hidden=True).results]
        refused = client.refused()
        after = [(branch.name, branch.commit_id) for branch in repository.branches(show_hidden=True).results]
        try:
            graveler.spark.objects(client.spark, "sales", "main", where="nothing = 1", lake=client.lake)
        except GravelerError as error:
            works["a wrong condition"] = type(error).__name__
        sys.stdout.write("\n" + json.dumps({"works": works, "refused": refused, "untouched": before == after}) + "\n")
    client.spark.stop()


if __name__ == "__main__":
    main()
