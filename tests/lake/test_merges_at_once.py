"""Merges and imports among commits and writers: both sides' work is kept (C1, C6), and staged changes stay."""

from contextlib import suppress
from pathlib import Path

import pytest

from graveler.errors import (
    BusyError,
    DirtyBranchError,
    NoChangesError,
    RefNotFoundError,
)
from graveler.lake.committing import sealing
from graveler.model import MergeStrategy
from graveler.staging.tokens import LEASE
from tests.lake.support import (
    Before,
    DieAt,
    World,
    changes,
    commit,
    died,
    diverged,
    messages,
    paths,
    put,
    texts,
    write_files,
)
from tests.support.instruments import Fault


def test_a_merge_against_a_concurrent_commit_takes_both() -> None:
    world = diverged()

    def commit_another() -> None:
        commit(world.main, {"other": "1"}, message="other")

    world.repository(Before("tables.transact", 1, commit_another)).merge("side", "main")
    assert paths(world.main, "main@") == ["a", "m", "other", "s"]
    assert messages(world.main)[:2] == ["Merge 'side' into 'main'", "other"]


def test_a_merge_against_a_concurrent_stage_keeps_what_is_staged() -> None:
    world = diverged()
    world.repository(Before("tables.transact", 1, lambda: put(world.main, {"s": "mine", "n": "1"}))).merge(
        "side", "main"
    )
    assert texts(world.main)["s"] == "mine"
    assert texts(world.main, "main@")["s"] == "1"
    assert changes(world.main) == {"n": "added", "s": "changed"}


def test_a_merge_that_meets_a_commit_in_flight_waits_for_it() -> None:
    world = diverged()
    put(world.main, {"n": "1"})
    first = world.repository(DieAt("objects.put", 1))
    assert died(lambda: first.commit("main", "dies"))
    start = world.clock.time
    with pytest.raises(DirtyBranchError, match="main"):  # the dead one's changes are uncommitted again
        world.main.merge("side", "main")
    assert LEASE - 1 < world.clock.time - start < LEASE + 1


def test_a_merge_during_which_the_destination_is_sealed_looks_again() -> None:
    world = diverged()

    def seal() -> None:
        put(world.main, {"n": "1"})
        sealing.seal(world.main.parts, "main", "somebody")
        world.clock.on_sleep = finish

    def finish() -> None:
        world.clock.on_sleep = None
        world.wait_for_leases()
        world.main.commit("main", "adopted")

    world.repository(Before("tables.transact", 1, seal)).merge("side", "main")
    assert messages(world.main)[:2] == ["Merge 'side' into 'main'", "adopted"]
    assert paths(world.main, "main@") == ["a", "m", "n", "s"]


def test_a_merge_into_a_branch_with_uncommitted_changes_is_refused_and_changes_nothing() -> None:
    world = diverged()
    put(world.main, {"x": "1"})
    before = world.main.parts.branches.state("main")
    with pytest.raises(DirtyBranchError, match="commit or reset them"):
        world.main.merge("side", "main")
    assert world.main.parts.branches.state("main") == before


def test_a_merge_accepts_staged_changes_that_change_nothing() -> None:
    world = diverged()
    put(world.main, {"a": "1", "never was": None})
    world.main.merge("side", "main")
    assert paths(world.main, "main@") == ["a", "m", "s"]
    assert changes(world.main) == {}


def test_staged_changes_that_change_nothing_do_not_hide_what_a_merge_brings() -> None:
    """A tombstone over nothing, or a value that the head has already, is older than the merge that changes the key."""
    world = World()
    commit(world.main, {"a": "1"})
    world.main.create_branch("side", "main")
    commit(world.main, {"a": "2", "k": "1"}, "side")
    put(world.main, {"k": None, "a": "1"})
    world.main.merge("side", "main")
    assert texts(world.main) == {"a": "2", "k": "1"}
    assert changes(world.main) == {}


def test_a_change_staged_while_a_merge_sweeps_aside_what_changes_nothing_is_kept() -> None:
    world = World()
    commit(world.main, {"a": "1"})
    world.main.create_branch("side", "main")
    commit(world.main, {"k": "1"}, "side")
    for moment in range(14):
        put(world.main, {"k": None})

        def schedule(_: str, number: int, at: int = moment) -> Fault:
            if number == at:
                put(world.main, {"mine": str(at)})
            return None

        with suppress(DirtyBranchError, NoChangesError):
            world.repository(schedule).merge("side", "main")
        assert world.main.read("main", "mine").decode() == str(moment)
        if changes(world.main):
            world.main.commit("main", "m")
        world.main.create_branch(f"side{moment}", "main")
        world.main.delete_branch("side")
        commit(world.main, {"k": f"{moment}"}, f"side{moment}")
        world.main.create_branch("side", f"side{moment}")


def test_staged_changes_that_change_nothing_do_not_hide_what_an_import_brings(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"a": "1"})
    put(world.main, {"in/k": None})
    world.main.import_folder("main", write_files(tmp_path, {"k": "1"}), "in/")
    assert paths(world.main) == ["a", "in/k"]


def test_a_merge_that_finds_its_source_expired_moves_nothing() -> None:
    world = diverged()
    source = world.main.branch("side").commit_id
    head = world.main.branch("main").commit_id

    def expire() -> None:
        key = world.main.parts.commits.key(source)
        item = world.tables.get(key)
        assert item is not None
        world.tables.put(key, {**item, "expired": 1})

    with pytest.raises(RefNotFoundError, match="expired"):
        world.repository(Before("tables.transact", 1, expire)).merge("side", "main")
    assert world.main.branch("main").commit_id == head


def test_a_merge_whose_destination_moves_all_the_time_gives_up_with_busy() -> None:
    world = diverged()
    count = 0

    def schedule(request: str, _: int) -> Fault:
        nonlocal count
        if request == "tables.transact":
            count += 1
            commit(world.main, {f"more{count}": "x"})
        return None

    with pytest.raises(BusyError, match="main"):
        world.repository(schedule).merge("side", "main")
    assert count < 1000


def test_merge_strategy_is_told_in_the_commit() -> None:
    world = World()
    commit(world.main, {"a": "1"})
    world.main.create_branch("side", "main")
    commit(world.main, {"a": "s"}, "side")
    commit(world.main, {"a": "m"})
    made = world.main.merge("side", "main", strategy=MergeStrategy.SOURCE_WINS)
    assert made.metadata[".lakefs.merge.strategy"] == "source-wins"
    assert texts(world.main, "main@") == {"a": "s"}
