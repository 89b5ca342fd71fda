"""Streams that write to a branch by foreachBatch: every row once, whatever fails in between."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import graveler.spark
from graveler.errors import AlreadyExistsError, ConflictError, DirtyBranchError, InvalidError
from graveler.lake.clock import GRACE
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode
from graveler.spark.linking import Mode as WriteMode
from graveler.spark.transactions import Transaction
from tests.lake.support import FakeClock

MOMENTS: Final = 60
"""Among so many moments of a driver the kills are spread: those of a batch and a half."""


def ids(spark: SparkSession, repository: OpenRepository) -> list[int]:
    frame = graveler.spark.read(spark, "lakefs://repo/main/events", lake=repository)
    return sorted(row.id for row in frame.collect())


def test_a_batch_that_failed_behind_its_commit_is_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.json").write_text("".join(f'{{"id": {10 * number + row}}}\n' for row in range(10)))
    events = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(source))
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo")
        calls: list[tuple[int, bool]] = []
        numbers = []

        def write(tx: Transaction, frame: DataFrame) -> None:
            numbers.append(tx.hidden)
            if not frame.isEmpty():
                tx.write(frame, "events")

        once = graveler.spark.each_batch(repository, "main", write, message="Events")

        def run(*, failing: bool) -> None:
            def each(frame: DataFrame, number: int) -> None:
                head = repository.commit_of("main")
                once(frame, number)
                calls.append((number, repository.commit_of("main") != head))
                if failing and number == 1:
                    raise RuntimeError("behind the commit")

            writer = events.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            writer.foreachBatch(each).start().awaitTermination()

        spark.sparkContext.setLogLevel("OFF")
        try:
            with pytest.raises(StreamingQueryException, match="behind the commit"):
                run(failing=True)
        finally:
            spark.sparkContext.setLogLevel("ERROR")
        run(failing=False)
        assert calls == [(0, True), (1, True), (1, False), (2, True)]
        assert len(numbers) == 3, "the batch that is repeated is not even asked for"
        assert ids(spark, repository) == list(range(30))
        assert [one.message for one in repository.log("main", first_parent=True).results][:3] == ["Events"] * 3
        assert [branch.name for branch in repository.branches(show_hidden=True).results] == ["main"]
        assert sum(1 for _ in repository.namespace.list("data/")) == sum(1 for _ in repository.objects("main"))


def test_a_batch_that_is_written_in_two_parts_is_not_taken_for_its_repetition(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two functions of each_batch, or one that is called twice, write under one number: the second is told, not passed over. With
    names of their own each writes, also when the stream begins with the batch again."""
    source = tmp_path / "source"
    spark.range(4).coalesce(1).write.json(str(source))
    events = spark.readStream.schema("id long").json(str(source))
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo")

        def run(each: Callable[[DataFrame, int], None]) -> None:
            checkpoint = tmp_path / f"checkpoint-{len(repository.log('main').results)}"
            writer = events.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            writer.foreachBatch(each).start().awaitTermination()

        def part(name: str, app_id: str | None = None) -> Callable[[DataFrame, int], None]:
            def write(tx: Transaction, frame: DataFrame) -> None:
                tx.write(frame, name)

            return graveler.spark.each_batch(repository, "main", write, app_id=app_id)

        one, other = part("one"), part("other")
        spark.sparkContext.setLogLevel("OFF")
        try:
            for first, second in ((one, other), (one, one)):

                def both(frame: DataFrame, number: int, first: Any = first, second: Any = second) -> None:
                    first(frame.where("id < 2"), number)
                    second(frame.where("id >= 2"), number)

                with pytest.raises(
                    StreamingQueryException, match="batch 0 of this stream was already written to branch 'main'"
                ):
                    run(both)
            tries = []
            one, other = part("events", "one"), part("events", "other")

            def failing(frame: DataFrame, number: int) -> None:
                one(frame.where("id < 2"), number)
                tries.append(number)
                if len(tries) == 1:
                    raise RuntimeError("between the parts")
                other(frame.where("id >= 2"), number)

            with pytest.raises(StreamingQueryException, match="between the parts"):
                run(failing)
            run(failing)
        finally:
            spark.sparkContext.setLogLevel("ERROR")
        assert ids(spark, repository) == [0, 1, 2, 3]


def test_a_numbered_transaction_happens_once(spark: SparkSession, tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo")

        def write(version: int, first: int, tag: str | None = None) -> Transaction:
            with graveler.spark.transaction(
                repository, "main", app_id="nightly", version=version, tag=tag, allow_empty=True
            ) as tx:
                if first >= 0:
                    tx.write(spark.range(first, first + 2), "events", mode="append")
            return tx

        first = write(7, 0, "v7")
        assert not first.repeated
        again = write(7, 100, "v7")
        assert again.repeated
        assert again.merged == first.merged == repository.commit_of("main")
        assert write(6, 200).merged == first.merged
        with pytest.raises(AlreadyExistsError):
            write(8, 2, "v7")
        write(8, 2)
        assert write(9, -1).merged is None, "nothing was written"
        assert ids(spark, repository) == [0, 1, 2, 3]
        with graveler.spark.transaction(repository, "main", app_id="nightly", version=8) as tx:
            assert (tx.repeated, tx.hidden, tx.delete("events")) == (True, "", 0)
            assert tx.write(spark.range(9), "events", mode="overwrite").files == 0
            assert tx.read(spark, "events").count() == 4
        with (
            pytest.raises(InvalidError, match="belong together"),
            graveler.spark.transaction(repository, "main", app_id="x"),
        ):
            raise AssertionError("not reached")
        with pytest.raises(InvalidError, match="does not say which stream"):
            graveler.spark.each_batch(repository, "main", lambda *_: None)(spark.range(1), 0)


@pytest.mark.parametrize("kept", [False, True], ids=["at its end", "landed later"])
def test_a_write_that_a_later_version_has_overtaken_is_not_called_done(
    spark: SparkSession, tmp_path: Path, kept: bool
) -> None:
    """Two jobs of one application at once, or one that went on although a transaction of before had been kept."""
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo")

        def write(
            version: int, meanwhile: Callable[[], object] = lambda: None, mode: WriteMode = "append"
        ) -> Transaction:
            with graveler.spark.transaction(repository, "main", app_id="nightly", version=version) as tx:
                tx.write(spark.range(10 * version, 10 * version + 2), "events", mode=mode)
                meanwhile()
            return tx

        write(6)
        if kept:
            with pytest.raises(DirtyBranchError) as refused:
                write(7, lambda: repository.upload("main", "events/stray", b"x"), "overwrite")
            repository.reset("main")
            write(8)
            with pytest.raises(ConflictError, match="version 7 of application 'nightly'") as told:
                graveler.spark.land(repository, refused.value.kept)
            assert "merge" in str(told.value)
            hidden = refused.value.kept
        else:
            with pytest.raises(ConflictError, match="version 7 of application 'nightly'") as told:
                write(7, lambda: write(8))
            hidden = told.value.kept
        there = [70, 71] if kept else [60, 61, 70, 71]
        frame = graveler.spark.read(spark, f"lakefs://repo/{hidden}/events", lake=repository)
        assert sorted(row.id for row in frame.collect()) == there, "its work is kept"
        assert ids(spark, repository) == [60, 61, 80, 81]
        assert write(7).repeated, "as before: a version that comes late is passed over"


def test_two_who_write_one_version_at_once_write_it_once(spark: SparkSession, tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo")

        def write(meanwhile: Callable[[], object] = lambda: None) -> Transaction:
            with graveler.spark.transaction(repository, "main", app_id="nightly", version=7) as tx:
                tx.write(spark.range(2), "events")
                meanwhile()
            return tx

        others: list[Transaction] = []
        assert write(lambda: others.append(write())).merged == others[0].merged
        assert ids(spark, repository) == [0, 1]


def test_a_stream_that_begins_with_an_older_checkpoint_loses_nothing_silently(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its batches have the numbers of others then, and other rows: Spark cuts anew what is there by now."""
    source, checkpoint, older = tmp_path / "source", tmp_path / "checkpoint", tmp_path / "older"
    source.mkdir()

    def come(*numbers: int) -> None:
        for number in numbers:
            (source / f"{number}.json").write_text(f'{{"id": {number}}}\n')

    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("repo", "local://repo")
        each = graveler.spark.each_batch(repository, "main", lambda tx, frame: tx.write(frame, "events"))

        def run() -> None:
            events = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(str(source))
            writer = events.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            writer.foreachBatch(each).start().awaitTermination()

        come(0)
        run()
        shutil.copytree(checkpoint, older)
        come(1)
        run()
        come(2)
        run()
        come(3, 4)
        shutil.rmtree(checkpoint)
        older.rename(checkpoint)
        spark.sparkContext.setLogLevel("OFF")
        try:
            with pytest.raises(
                StreamingQueryException,
                match=r"batch 1 of this stream.* is older than the last one on branch 'main'",
            ):
                run()
        finally:
            spark.sparkContext.setLogLevel("ERROR")
        assert ids(spark, repository) == [0, 1, 2]
        repository.hard_reset("main", "main~2")
        run()
        assert ids(spark, repository) == [0, 1, 2, 3, 4], "where the branch goes back as well, all is as it should be"


@pytest.mark.ci
def test_a_driver_killed_at_any_moment_of_a_stream_writes_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL to driver, JVM and workers. The hidden branches of the killed ones go with the next collection, and their files
    with one after the grace. ``GRAVELER_STREAM_KILLS=n`` for n kills."""
    kills = int(os.environ.get("GRAVELER_STREAM_KILLS", "2"))
    source, checkpoint, folder = tmp_path / "source", tmp_path / "checkpoint", tmp_path / "lake"
    source.mkdir()
    files = kills + 3
    for number in range(files):
        (source / f"{number}.json").write_text("".join(f'{{"id": {5 * number + row}}}\n' for row in range(5)))
    with create_folder_lake(folder) as lake:
        repository = lake.create_repository("repo", "local://repo")

    def run(moment: int) -> int:
        places = [str(folder), str(source), str(checkpoint)]
        command = [sys.executable, "-m", "tests.spark.stream_driver", *places, str(moment)]
        return subprocess.run(command, start_new_session=True, stderr=subprocess.DEVNULL, check=False).returncode

    died = [run(1 + number * MOMENTS // kills) for number in range(kills)]
    assert died.count(-signal.SIGKILL) == kills
    assert run(0) == 0
    clock = FakeClock(time.time() + 1)
    with open_folder_lake(folder, clock=clock) as lake:
        repository = lake.repository("repo")
        assert ids(spark, repository) == list(range(5 * files))
        hidden = [branch.name for branch in repository.branches(show_hidden=True).results if branch.hidden]
        assert hidden or kills < 10, "some were killed with a transaction at work"
        collect = Options(Mode.DELETE, threads=1, parquet=False)
        assert Garbage(repository, collect).run().transactions == len(hidden)
        assert [branch.name for branch in repository.branches(show_hidden=True).results] == ["main"]
        for _ in range(2):
            clock.time += 2 * GRACE
            Garbage(repository, collect).run()
        linked = {entry.address.removeprefix("local://repo/") for entry in repository.objects("main")}
        assert {stored.key for stored in repository.namespace.list("data/")} == linked
        assert ids(spark, repository) == list(range(5 * files))
        assert not repository.fsck().findings
