"""Faults around a job: throttling, missing and expiring rights, processes that die."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as arrow
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import graveler.spark
from graveler.errors import UnavailableError
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.location import AwsLake, open_at
from graveler.requests.importing import ListingOptions
from graveler.spark.importing import import_listing
from tests.spark.listings import BASE, TINY, frame_of, make_repository, rows_of, tree_of
from tests.support.proxy import FaultyProxy, Trouble, s3_reply
from tests.support.servers import s3proxy

OPTIONS = ListingOptions(base=BASE)
ROWS = rows_of(Random(21), 120, duplicates=0.1)


@pytest.fixture
def proxy(aws: AwsLake, spark: SparkSession) -> Iterator[FaultyProxy]:
    """Before the S3 server: what the lake's own code asks by :func:`through`, and what Spark asks of the lake's bucket."""
    with FaultyProxy(s3proxy()) as made:
        context: Any = spark.sparkContext
        bucket = aws.objects.removeprefix("s3://").partition("/")[0]
        configuration = context._jsc.hadoopConfiguration()
        configuration.set(f"fs.s3a.bucket.{bucket}.endpoint", made.url)
        configuration.set("fs.s3a.impl.disable.cache", "true")
        yield made
        configuration.unset(f"fs.s3a.bucket.{bucket}.endpoint")
        configuration.unset("fs.s3a.impl.disable.cache")


def through(proxy: FaultyProxy, aws: AwsLake) -> AwsLake:
    return replace(aws, s3_endpoint_url=proxy.url)


def test_a_throttled_store_delays_imports_and_transactions(
    spark: SparkSession, aws: AwsLake, proxy: FaultyProxy
) -> None:
    refused = [0]

    def slow_down(operation: str, ordinal: int) -> Trouble:
        """Two of three, for a while, of writes and reads alike."""
        if ordinal % 3 == 2 or refused[0] >= 60:
            return None
        refused[0] += 1
        return s3_reply("SlowDown", 503)

    with open_at(through(proxy, aws)) as lake:
        repository = lake.create_repository("throttled", f"{aws.objects}/throttled", split=TINY)
        proxy.begin(slow_down)
        report = import_listing(spark, repository, "main", frame_of(spark, ROWS), OPTIONS, partitions=2, checkpoint="x")
        assert refused[0] >= 30
        assert report.commit.metarange == tree_of(repository, ROWS).name()
        refused[0] = 30
        with graveler.spark.transaction(repository, "main") as tx:
            tx.write(spark.range(0, 40, 1, 2), "t")
        assert refused[0] > 40
        proxy.begin(lambda *_: None)
        assert graveler.spark.read(spark, "lakefs://throttled/main/t", lake=repository).count() == 40
        stored = {one.key for one in repository.namespace.list("data/")}
        linked = {entry.address for entry in repository.objects("main", "t/")}
        assert {f"{repository.repository.namespace}/{key}" for key in stored} == linked, "each file once"


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (
            "AccessDenied",
            403,
            r"these credentials do not allow it; grant their user or role the right to do it; .* \(AccessDenied",
        ),
        ("ExpiredToken", 400, r"the credentials have expired; get new ones, then try again \(ExpiredToken"),
    ],
)
def test_what_the_store_refuses_to_tasks_is_told_by_the_driver(
    spark: SparkSession, aws: AwsLake, proxy: FaultyProxy, code: str, status: int, said: str
) -> None:
    with open_at(through(proxy, aws)) as lake:
        repository = lake.create_repository(code.lower(), f"{aws.objects}/{code}", split=TINY)
        before = repository.branch("main").commit_id
        proxy.begin(lambda operation, _: s3_reply(code, status) if operation == "PUT" else None)
        with pytest.raises(UnavailableError, match=said):
            import_listing(spark, repository, "main", frame_of(spark, ROWS), OPTIONS, partitions=2)
        with (
            pytest.raises(
                UnavailableError,
                match=rf"writing parquet: Spark's job failed: .* S3 refused it \({code}: on purpose\)\. .*credentials",
            ),
            graveler.spark.transaction(repository, "main") as tx,
        ):
            tx.write(spark.range(10), "t")
        proxy.begin(lambda *_: None)
        assert repository.branch("main").commit_id == before
        assert [branch.name for branch in repository.branches(show_hidden=True).results] == ["main"]


def test_tasks_without_the_right_secret_say_so(spark: SparkSession, aws: AwsLake) -> None:
    with open_at(aws) as lake:
        repository = lake.create_repository("secret", f"{aws.objects}/secret", split=TINY)
        with (
            patch.dict(spark.sparkContext.environment, {"AWS_SECRET_ACCESS_KEY": "wrong"}),
            pytest.raises(UnavailableError, match=r"the credentials are not valid.*SignatureDoesNotMatch"),
        ):
            import_listing(spark, repository, "main", frame_of(spark, ROWS), OPTIONS, partitions=1)


@pytest.mark.ci
def test_a_driver_that_dies_is_gone_on_from(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL to driver, JVM and workers at once, when most partitions are built and noted; another driver does the rest."""
    repository = make_repository(tmp_path / "lake")
    before = repository.branch("main").commit_id
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tests.spark.stuck_driver", str(tmp_path / "lake"), str(pipe)]
    driver = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        assert pipe.read_text().startswith(
            "stuck"
        )  # by a task that will never end, for each file that it has under way
        assert driver.poll() is None
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert repository.branch("main").commit_id == before
    assert list(repository.namespace.list("_graveler/imports/")), "notes"
    report = import_listing(
        spark, repository, "main", frame_of(spark, ROWS, 3), OPTIONS, partitions=3, checkpoint="listing-1"
    )
    assert report.commit.metarange == tree_of(repository, ROWS).name()
    assert report.built is not None
    assert 0 < report.built.resumed < report.built.objects
    assert list(repository.namespace.list("_graveler/imports/")) == []


@pytest.mark.parametrize("how", ["an error", "a kill"])
def test_attempts_that_fail_after_they_have_written_files_leave_no_row(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    """Every other partition's first attempt has closed three of its files when it ends. A speculative duplicate is an attempt
    like these, which does not count."""

    def fail_late(batches: Iterable[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.attemptNumber() == 0 and context.partitionId() % 2:
            (tmp_path / f"failed-{context.partitionId()}").touch()
            if how == "a kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("the test's own")

    spark.sparkContext.setLogLevel("OFF")
    try:
        with create_folder_lake(tmp_path / "lake") as lake:
            repository = lake.create_repository("repo", "local://repo")
            frame = spark.range(0, 40, 1, 4).mapInArrow(fail_late, "id long")
            with graveler.spark.transaction(repository, "main") as tx:
                written = tx.write(frame, "t", maxRecordsPerFile=3)
            found = graveler.spark.read(spark, "lakefs://repo/main/t", lake=repository)
            assert sorted(row.id for row in found.collect()) == list(range(40))
            stored = {one.key for one in repository.namespace.list("data/")}
            linked = {entry.address.removeprefix("local://repo/") for entry in repository.objects("main")}
            assert written.files == len(linked) == 16
            assert linked <= stored
            assert {path.name for path in tmp_path.glob("failed-*")} == {"failed-1", "failed-3"}
    finally:
        spark.sparkContext.setLogLevel("ERROR")
