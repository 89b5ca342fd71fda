"""Obstacles of a transaction: changes elsewhere are none; if it cannot land, its work is kept."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import graveler.spark
from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    DirtyBranchError,
    GravelerError,
    InvalidError,
    NoChangesError,
    RuleError,
    TouchedError,
)
from graveler.history.owners import Owners
from graveler.lake.merging.merge import STRATEGY_KEY
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.requests import committing as requests
from graveler.requests.base import Request
from graveler.requests.merging import Merge
from graveler.requests.refs import CreateTag, DeleteBranch
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode
from graveler.spark.landing import replaced_of
from tests.lake.gates.support import TESTED, post, set_rules
from tests.support.requests_on_the_way import intercepted

each_request = pytest.mark.parametrize(
    "kind",
    [Merge, requests.Commit, CreateTag, DeleteBranch],
    ids=["merge", "commit", "create_tag", "delete_branch"],
)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[OpenRepository]:
    with create_folder_lake(tmp_path / "lake") as lake:
        yield lake.create_repository("repo", "local://repo")


def ids(spark: SparkSession, repository: OpenRepository, ref: str = "main") -> list[int]:
    return sorted(row.id for row in graveler.spark.read(spark, f"lakefs://repo/{ref}/t", lake=repository).collect())


def write(
    spark: SparkSession,
    repository: OpenRepository,
    meanwhile: Callable[[], object],
    *,
    mode: str = "overwrite",
    **arguments: object,
) -> graveler.spark.Transaction:
    """Write five rows, in a transaction in which something happens to the branch."""
    with graveler.spark.transaction(repository, "main", message="Mine", metadata={"k": "v"}, **arguments) as tx:  # type: ignore[arg-type]
        tx.write(spark.range(100, 105, 1, 1), "t", mode=mode)  # type: ignore[arg-type]
        meanwhile()
    return tx


def test_uncommitted_changes_elsewhere_cost_nothing(spark: SparkSession, repository: OpenRepository) -> None:
    """Staged before the transaction, and while it is at work; also in the folder of a dataset that it appends to."""
    repository.upload("main", "elsewhere/a", b"1")
    tx = write(spark, repository, lambda: repository.upload("main", "t0", b"2"), committer="ada")
    assert tx.merged == repository.commit_of("main")
    assert tx.merged is not None
    assert (tx.merged.message, tx.merged.committer, dict(tx.merged.metadata)) == (
        "Mine",
        "ada",
        {"k": "v", STRATEGY_KEY: "default"},
    )
    write(spark, repository, lambda: repository.upload("main", "t/_note", b"3"), mode="append")
    assert ids(spark, repository) == sorted([*range(100, 105)] * 2)
    assert [one.path for one in repository.uncommitted("main").results] == ["elsewhere/a", "t/_note", "t0"]
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]


def test_a_transaction_that_cannot_land_is_kept_and_lands_later(
    spark: SparkSession, repository: OpenRepository
) -> None:
    with pytest.raises(DirtyBranchError, match="to objects that") as told:
        write(spark, repository, lambda: repository.upload("main", "t/stray", b"x"), tag="v1")
    hidden = told.value.kept
    assert hidden in str(told.value)
    assert "graveler.spark.land" in str(told.value)
    assert ids(spark, repository, hidden) == [*range(100, 105)]
    uid = repository.repository.uid
    assert Owners(repository.tables, uid).all() == [], "no collector waits for it, or deletes it"
    assert Garbage(repository, Options(Mode.DELETE, threads=1, parquet=False)).run().transactions == 0
    with pytest.raises(DirtyBranchError) as again:
        graveler.spark.land(repository, hidden)
    assert again.value.path == "t/stray"
    repository.reset("main")
    merged = graveler.spark.land(repository, hidden, committer="ada")
    assert (merged.message, merged.committer, dict(merged.metadata)) == (
        "Mine",
        "ada",
        {"k": "v", STRATEGY_KEY: "default"},
    )
    assert repository.tag("v1").commit_id == repository.commit_of("main").id == merged.id
    assert ids(spark, repository) == [*range(100, 105)]
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]


def test_rules_of_the_branch_refuse_a_transaction_which_lands_once_it_is_checked(
    spark: SparkSession, repository: OpenRepository
) -> None:
    set_rules(repository, TESTED)
    head = repository.branch("main").commit_id
    with pytest.raises(RuleError) as told:
        write(spark, repository, lambda: None)
    hidden = told.value.kept
    with pytest.raises(RuleError):
        graveler.spark.land(repository, hidden)
    assert repository.branch("main").commit_id == head
    assert ids(spark, repository, hidden) == [*range(100, 105)]
    post(repository, repository.commit_of(told.value.candidate))
    merged = graveler.spark.land(repository, hidden)
    assert repository.branch("main").commit_id == merged.id
    assert ids(spark, repository) == [*range(100, 105)]
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]


def test_what_others_have_committed_is_not_overwritten_by_landing_later(
    spark: SparkSession, repository: OpenRepository
) -> None:
    def commit() -> None:
        repository.upload("main", "t/stray", b"x")
        repository.commit("main", "theirs")

    with pytest.raises(TouchedError) as told:
        write(spark, repository, commit, app_id="nightly", version=7)
    with pytest.raises(TouchedError):
        graveler.spark.land(repository, told.value.kept)
    repository.undo("main")
    first = graveler.spark.land(repository, told.value.kept)
    assert write(spark, repository, commit, app_id="nightly", version=7).merged == first


def test_a_taken_tag_costs_no_work(spark: SparkSession, repository: OpenRepository) -> None:
    def take() -> None:
        repository.create_tag("v1", "main")

    with pytest.raises(AlreadyExistsError) as told:
        write(spark, repository, take, tag="v1")
    with pytest.raises(AlreadyExistsError):
        graveler.spark.land(repository, told.value.kept)
    merged = graveler.spark.land(repository, told.value.kept, tag="v2")
    assert repository.tag("v2").commit_id == merged.id
    with pytest.raises(AlreadyExistsError) as early:
        write(spark, repository, lambda: pytest.fail("not reached"), tag="v1")
    assert early.value.kept == ""


def test_nothing_is_kept_where_the_work_is_done_again_or_was_not_done(
    spark: SparkSession, repository: OpenRepository
) -> None:
    with pytest.raises(DirtyBranchError) as told:
        write(spark, repository, lambda: repository.upload("main", "t/stray", b"x"), keep_unlanded=False)
    assert told.value.kept == ""

    def fail() -> None:
        raise TouchedError("another", "branch", "of the user's own")

    with pytest.raises(GravelerError, match="of the user's own") as own:
        write(spark, repository, fail, mode="append")
    assert own.value.kept == ""
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]
    with pytest.raises(InvalidError, match="does not belong to a finished transaction"):
        graveler.spark.land(repository, "main")


def test_several_steps_join_one_transaction(spark: SparkSession, repository: OpenRepository) -> None:
    """Each may be in a process of its own: it knows the ID, and nothing else."""
    steps = graveler.spark.begin(repository, "main", message="Nightly", metadata={"k": "v"}, tag="v1", committer="ada")
    with pytest.raises(NoChangesError, match="no step has written"):
        graveler.spark.land(repository, steps)
    with graveler.spark.transaction(repository, steps) as one:
        one.write(spark.range(3), "t", mode="overwrite")
        with graveler.spark.transaction(repository, steps) as other:
            other.write(spark.range(7), "u", mode="overwrite")

    def fail() -> None:
        with graveler.spark.transaction(repository, steps) as failing:
            failing.write(spark.range(100), "t")
            raise RuntimeError("in the step")

    with pytest.raises(RuntimeError, match="in the step"):
        fail()
    for _ in range(2):
        with graveler.spark.transaction(repository, steps, app_id="job", version=1) as again:
            again.write(again.read(spark, "t").selectExpr("id + 10 as id"), "t")
    assert again.repeated
    assert list(repository.objects("main")) == []
    repository.upload("main", "u/stray", b"x")
    repository.commit("main", "theirs")
    with pytest.raises(TouchedError, match="below 'u/'"):
        graveler.spark.land(repository, steps)
    repository.undo("main")
    merged = graveler.spark.land(repository, steps)
    assert (merged.message, dict(merged.metadata), len(merged.parents)) == (
        "Nightly",
        {"k": "v", STRATEGY_KEY: "default"},
        1,
    )
    assert repository.tag("v1").commit_id == merged.id
    assert ids(spark, repository) == [0, 1, 2, 10, 11, 12]
    assert graveler.spark.read(spark, "lakefs://repo/main/u", lake=repository).count() == 7
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]
    assert [one.message for one in repository.log("main").results] == ["Nightly", "Repository created"]


@each_request
@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("tag", [None, "v1"])
def test_a_landing_that_died_anywhere_is_finished_by_the_next_one(
    spark: SparkSession,
    repository: OpenRepository,
    kind: type[Request[Any]],
    tag: str | None,
    *,
    before: bool,
) -> None:
    steps = graveler.spark.begin(repository, "main", message="Nightly", tag=tag, spark=spark)
    with graveler.spark.transaction(repository, steps) as tx:
        tx.write(spark.range(3), "t", mode="overwrite")

    def die(run: Callable[[], object]) -> None:
        if not before:
            run()
        raise KeyboardInterrupt

    with intercepted(repository, kind, die):
        try:
            first = graveler.spark.land(repository, steps)
        except KeyboardInterrupt:
            first = None
    assert (first is not None) == (tag is None and kind in (requests.Commit, CreateTag)), (
        "without a tag, neither is needed"
    )
    gone = kind is DeleteBranch and not before
    if first is None and not gone:
        first = graveler.spark.land(repository, steps)
    head = repository.commit_of("main")
    assert (head.message, [one.id for one in repository.log("main").results][1:]) == ("Nightly", list(head.parents))
    assert gone or first == head
    assert [one.commit_id for one in repository.tags().results] == ([head.id] if tag else [])
    assert ids(spark, repository) == [0, 1, 2]
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]


def test_a_tag_that_somebody_else_took_behind_a_landings_merge_is_not_taken_for_its_own(
    spark: SparkSession, repository: OpenRepository
) -> None:
    steps = graveler.spark.begin(repository, "main", message="Nightly", tag="v1", spark=spark)
    with graveler.spark.transaction(repository, steps) as tx:
        tx.write(spark.range(3), "t", mode="overwrite")

    def take(merge: Callable[[], Commit]) -> Commit:
        repository.create_tag("v1", "main~0")
        return merge()

    with intercepted(repository, Merge, take), pytest.raises(AlreadyExistsError):
        graveler.spark.land(repository, steps)
    head = repository.commit_of("main")
    with pytest.raises(AlreadyExistsError):
        graveler.spark.land(repository, steps)
    assert graveler.spark.land(repository, steps, tag="v2") == head == repository.commit_of("main")
    assert {one.name: one.commit_id for one in repository.tags().results} == {"v1": head.parents[0], "v2": head.id}
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]


@pytest.mark.parametrize("tag", [None, "v1"])
@each_request
def test_a_step_that_comes_while_others_land_is_not_lost(
    spark: SparkSession,
    repository: OpenRepository,
    kind: type[Request[Any]],
    tag: str | None,
) -> None:
    """It has written before any request of the landing: it lands with the others, or stays, and the landing says so."""
    if tag is None and kind in (requests.Commit, CreateTag):
        return  # not asked for
    steps = graveler.spark.begin(repository, "main", message="Nightly", tag=tag, spark=spark)
    with graveler.spark.transaction(repository, steps) as tx:
        tx.write(spark.range(3), "t", mode="overwrite")

    def delay(run: Callable[[], Any]) -> Any:
        with graveler.spark.transaction(repository, steps) as tx:
            tx.write(spark.range(7), "u", mode="overwrite")
        return run()

    with (
        intercepted(repository, kind, delay),
        pytest.raises(
            BusyError, match=r"has landed as commit .*, without what a step has written since then; land it again"
        ),
    ):
        graveler.spark.land(repository, steps)
    first = repository.commit_of("main")
    assert {entry.path.partition("/")[0] for entry in repository.objects("main")} == {"t"}
    repository.upload("main", "elsewhere", b"x")
    repository.commit("main", "theirs")
    second = graveler.spark.land(repository, steps, tag=tag and "v2")
    assert graveler.spark.read(spark, "lakefs://repo/main/u", lake=repository).count() == 7
    assert ids(spark, repository) == [0, 1, 2]
    assert {one.name: one.commit_id for one in repository.tags().results} == (
        {"v1": first.id, "v2": second.id} if tag else {}
    )
    assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]


def test_two_who_land_at_once_make_one_commit(spark: SparkSession, repository: OpenRepository) -> None:
    """The other one has landed it, and deleted the hidden branch, when this one has merged."""
    for tag in (None, "v1"):
        steps = graveler.spark.begin(repository, "main", message="Nightly", tag=tag, spark=spark)
        with graveler.spark.transaction(repository, steps) as tx:
            tx.write(spark.range(3), f"t{tag}", mode="overwrite")
        others: list[Commit] = []

        def both(merge: Callable[[], Commit], others: list[Commit] = others, steps: str = steps) -> Commit:
            commit = merge()
            others.append(graveler.spark.land(repository, steps))
            return commit

        with intercepted(repository, Merge, both):
            assert [graveler.spark.land(repository, steps)] == others == [repository.commit_of("main")]
        assert [one.name for one in repository.branches(show_hidden=True).results] == ["main"]


def test_a_transaction_that_died_before_it_had_begun_is_a_collectors(
    spark: SparkSession, repository: OpenRepository
) -> None:
    def die(run: Callable[[], object]) -> None:
        raise KeyboardInterrupt

    with intercepted(repository, requests.Commit, die), pytest.raises(KeyboardInterrupt):
        graveler.spark.begin(repository, "main", spark=spark)
    owners = Owners(repository.tables, repository.repository.uid)
    hidden = [one.name for one in repository.branches(show_hidden=True).results if one.hidden]
    assert [lease.branch for lease in owners.all()] == hidden
    steps = graveler.spark.begin(repository, "main", spark=spark)
    assert steps not in [lease.branch for lease in owners.all()], "it waits for its steps"


def test_very_many_partitions_are_noted_as_their_dataset() -> None:
    some = [f"t/p={number}/" for number in range(1 << 17)]
    few = some[:10_000]
    assert replaced_of([*few, few[0]], ["t"]) == tuple(few)
    assert replaced_of([*some, "u/"], ["t"]) == ("t/", "u/")
