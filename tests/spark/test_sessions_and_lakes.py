"""The lake that a transaction writes to, if the thread has no session, or another one."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import graveler.spark
from graveler.errors import InvalidError, NoChangesError
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from tests.support.shell import Shell

LAKES = ("one", "other")


@pytest.fixture
def sessions(spark: SparkSession, tmp_path: Path, shell: Shell) -> list[SparkSession]:
    """A session for each of two lakes; the environment names a third one, in which there is the same repository."""
    found = []
    for name in (*LAKES, "environment"):
        with create_folder_lake(tmp_path / name) as lake:
            lake.create_repository("repo", "local://repo")
    for name in LAKES:
        session = spark.newSession()
        session.conf.set("spark.graveler.lake", str(tmp_path / name))
        found.append(session)
    shell.export("GRAVELER_LAKE", str(tmp_path / "environment"))
    return found


def in_thread(work: object) -> None:
    """Run in a thread for which Spark has no active session."""
    assert callable(work)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(SparkSession.getActiveSession).result() is None
        pool.submit(work).result()


def paths(tmp_path: Path) -> dict[str, set[str]]:
    """The datasets of each lake; and no lake has a hidden branch left."""
    found = {}
    for name in (*LAKES, "environment"):
        with open_folder_lake(tmp_path / name) as lake:
            repository = lake.repository("repo")
            assert [branch.name for branch in repository.branches(show_hidden=True).results] == ["main"]
            found[name] = {entry.path.partition("/")[0] for entry in repository.objects("main")}
    return found


def test_the_first_frames_session_decides_in_which_lake_a_thread_writes(
    sessions: list[SparkSession], tmp_path: Path
) -> None:
    one, other = sessions

    def write_each() -> None:
        for session, name in zip(sessions, LAKES, strict=True):
            with graveler.spark.transaction("repo", "main") as tx:
                tx.write(session.range(1), f"of-{name}")
                assert tx.hidden.startswith("tx-")

    def write_both() -> None:
        with graveler.spark.transaction("repo", "main") as tx:
            tx.write(one.range(1), "mixed")
            tx.write(other.range(1), "mixed")

    def write_another() -> None:
        with graveler.spark.transaction("repo", "main", spark=other) as tx:
            tx.write(one.range(1), "mixed")

    def read_another() -> None:
        with graveler.spark.transaction("repo", "main", spark=other) as tx:
            tx.read(one, "of-one")

    def ask_too_early() -> None:
        with graveler.spark.transaction("repo", "main") as tx:
            tx.delete("of-one")

    def write_nothing() -> None:
        with graveler.spark.transaction("repo", "main"):
            pass

    def begin() -> None:
        graveler.spark.begin("repo", "main")

    def land() -> None:
        graveler.spark.land("repo", "tx-1")

    for early in (begin, land):
        with pytest.raises(InvalidError, match="the transaction's lake is unknown"):
            in_thread(early)
    in_thread(write_each)
    for work in (write_both, write_another, read_another):
        with pytest.raises(
            InvalidError, match=r"disagree about the lake: spark\.graveler\.lake was .* Nothing was written"
        ):
            in_thread(work)
    with pytest.raises(InvalidError, match="no Spark session is active in this thread"):
        in_thread(ask_too_early)
    with pytest.raises(NoChangesError, match="no frame was written"):
        in_thread(write_nothing)
    assert paths(tmp_path) == {"one": {"of-one"}, "other": {"of-other"}, "environment": set()}


def test_a_lake_that_is_named_needs_no_session(sessions: list[SparkSession], tmp_path: Path) -> None:
    one, other = sessions

    def named() -> None:
        with graveler.spark.transaction("repo", "main", lake=tmp_path / "other") as tx:
            tx.write(one.range(1), "named")
            tx.write(other.range(1), "named")
            assert tx.delete("nothing") == 0

    in_thread(named)
    assert paths(tmp_path) == {"one": set(), "other": {"named"}, "environment": set()}
