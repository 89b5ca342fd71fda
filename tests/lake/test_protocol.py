"""The cases that were wrong in earlier drafts of the protocol, and their neighbours: clients step in at each other's requests."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from threading import Event, Thread, current_thread
from threading import enumerate as threads

import pytest

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    DirtyBranchError,
    GravelerError,
    NoChangesError,
    PreconditionError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UnavailableError,
)
from graveler.history.commits import new_commit
from graveler.history.refs import BranchState
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.lake.sealing import LEASE, MAX_QUEUE
from graveler.lake.stage import Stager
from graveler.model import Commit, CommitID, MergeStrategy
from graveler.staging.cleanup import LONGEST_REQUEST, SECOND_SWEEP
from graveler.staging.tokens import TokenState
from graveler.storage.tables import MAX_TRANSACTION_WRITES, Key, Value
from graveler.tree.apply import apply
from tests.lake.support import (
    NAME,
    TINY,
    Before,
    DieAt,
    Died,
    World,
    changes,
    commit,
    died,
    messages,
    paths,
    put,
    texts,
    write_files,
)
from tests.support.instruments import Fault, FaultyTables

PUBLISH = ("tables.transact", 2)
"""The second transaction of a commit; the first one seals."""


def stager(repository: OpenRepository) -> Stager:
    return repository._stager


# Deletes and late puts (C1)


def test_a_delete_staged_while_the_commit_that_creates_the_key_is_in_flight_is_not_undone() -> None:
    world = World()
    put(world.main, {"k": "1"})
    other = world.repository()

    def act() -> None:
        other.delete("main", ["k"])
        other.upload("main", "other", b"x")

    committer = world.repository(Before("objects.put", 1, act))
    committer.commit("main", "create")
    assert texts(world.main, "main@") == {"k": "1"}
    assert paths(world.main) == ["other"]
    world.main.commit("main", "delete")
    assert paths(world.main, "main@") == ["other"]


def test_a_commit_of_a_delete_that_loses_the_race_against_the_commit_that_creates_the_key_still_deletes_it() -> None:
    """Both sealed; the creator publishes first. Merging the loser's tree would say "no change" and keep the key."""
    world = World()
    commit(world.main, {"a": "a"})
    put(world.main, {"k": "1"})
    first = world.repository()
    second = world.repository()

    def delete_and_commit_once_sealed() -> None:
        second.delete("main", ["k"])

    first = world.repository(Before(*PUBLISH, act=delete_and_commit_once_sealed))
    first.commit("main", "create")
    second.commit("main", "delete")
    assert messages(world.main)[:2] == ["delete", "create"]
    assert paths(world.main) == ["a"]


def test_a_delete_of_an_object_that_is_only_staged_while_a_commit_runs_survives() -> None:
    world = World()
    put(world.main, {"k": "1", "l": "1"})
    deleter = world.repository()
    committer = world.repository(Before("tables.transact", 1, lambda: deleter.delete("main", ["k"])))
    committer.commit("main", "while it is deleted")
    assert paths(world.main) == ["l"]
    assert paths(world.main, "main@") == ["l"]
    assert changes(world.main) == {}


@pytest.mark.parametrize("moment", range(12))
def test_a_delete_at_any_moment_of_a_commit_is_never_lost(moment: int) -> None:
    world = World()
    put(world.main, {"k": "1", "l": "1"})
    deleter = world.repository()
    deleted = False

    def schedule(_: str, number: int) -> Fault:
        nonlocal deleted
        if number == moment:
            deleter.delete("main", ["k"])
            deleted = True
        return None

    world.repository(schedule).commit("main", "m")
    if not deleted:
        assert moment >= 10, "a commit makes that many requests"
        return
    assert paths(world.main) == ["l"]
    if changes(world.main):
        world.main.commit("main", "the delete")
    assert paths(world.main, "main@") == ["l"]


def test_a_put_into_a_token_that_was_sealed_long_ago_is_found_on_the_branch() -> None:
    world = World()
    writer = world.repository()
    put(writer, {"a": "1"})  # now it knows the open token
    world.main.commit("main", "seals that token")
    put(writer, {"b": "2"})
    assert texts(world.main) == {"a": "1", "b": "2"}
    assert changes(world.main) == {"b": "added"}
    world.main.commit("main", "next")
    assert texts(world.main, "main@") == {"a": "1", "b": "2"}


def test_a_late_put_over_an_older_acknowledged_value_loses_neither() -> None:
    """Taking the late item back would lose the older value that it replaced in the sealed token."""
    world = World()
    late = world.repository()
    put(late, {"k": "0"})
    put(world.main, {"k": "1"})
    dies = DieAt("tables.get_many", 1)  # after the put, before the check: its process is gone then
    slow = world.repository(dies)
    stager(slow)._open.update(stager(late)._open)

    def put_late() -> None:
        assert died(lambda: slow.upload("main", "k", b"2"))
        assert dies.dead

    committer = world.repository(Before("tables.query", 2, put_late))  # sealed, and not yet read
    committer.commit("main", "m")
    assert texts(world.main)["k"] in ("1", "2")
    assert texts(world.main, "main@")["k"] in ("1", "2")


def test_a_put_to_a_branch_that_was_created_again_lands_on_the_new_one() -> None:
    world = World()
    world.main.create_branch("b", "main")
    writer = world.repository()
    put(writer, {"a": "1"}, "b")
    world.main.delete_branch("b")
    world.main.create_branch("b", "main")
    put(writer, {"c": "1"}, "b")
    assert paths(world.main, "b") == ["c"]


def test_a_writer_gives_up_with_busy_when_the_open_token_changes_faster_than_it_writes() -> None:
    world = World()
    world.main.create_branch("b", "main")

    def replace(request: str, number: int) -> Fault:
        if request == "tables.put":
            world.main.delete_branch("b")
            world.main.create_branch("b", "main")
        return None

    writer = world.repository(replace)
    with pytest.raises(BusyError, match="'b'"):
        writer.delete("b", ["k"])
    assert world.clock.slept < 40


# The same bytes again


def test_the_same_bytes_uploaded_again_are_no_change_and_keep_record_and_file_name() -> None:
    world = World()
    first = commit(world.main, {"k": "1", "l": "2"})
    before, tree = world.main.stat("main", "k"), world.main.commit_of(first).metarange
    world.clock.time += 100
    put(world.main, {"k": "1"})
    assert changes(world.main) == {}
    with pytest.raises(NoChangesError):
        world.main.commit("main", "nothing")
    assert world.main.stat("main", "k") == before
    assert world.main.commit_of("main").metarange == tree


def test_the_same_bytes_uploaded_again_beside_a_real_change_keep_their_record() -> None:
    world = World()
    commit(world.main, {"k": "1", "l": "2"})
    before = world.main.stat("main", "k")
    world.clock.time += 100
    put(world.main, {"k": "1", "l": "3"})
    assert changes(world.main) == {"l": "changed"}
    world.main.commit("main", "one change")
    assert world.main.stat("main@", "k") == before
    assert world.main.diff("main~1", "main").results[0].path == "l"


# Committers that die (C1, C5)

DEATHS = [
    ("before the seal", DieAt("tables.transact", 1)),
    ("after the seal", DieAt("tables.transact", 1, after=True)),
    ("before the range is put", DieAt("objects.put", 1)),
    ("after apply", DieAt("objects.put", 2)),
    ("after the metarange put", DieAt("objects.put", 2, after=True)),
    ("before publish", DieAt("tables.transact", 2)),
    ("after publish, the answer lost", DieAt("tables.transact", 2, after=True)),
]


@pytest.mark.parametrize("at", range(len(DEATHS)), ids=[name for name, _ in DEATHS])
def test_what_a_dead_committer_left_is_adopted_by_the_next_commit(at: int) -> None:
    world = World()
    put(world.main, {"a": "1", "b": "1"})
    request, number, after = DEATHS[at][1]._request, DEATHS[at][1]._number, DEATHS[at][1]._after
    killer = DieAt(request, number, after=after)
    victim = world.repository(killer)
    assert died(lambda: victim.commit("main", "of the dead"))
    assert killer.dead
    assert texts(world.main) == {"a": "1", "b": "1"}
    put(world.main, {"b": "2", "c": "2"})
    world.wait_for_leases()
    slept = world.clock.slept
    world.main.commit("main", "of the living")
    assert world.clock.slept == slept, "nobody had to be waited for"
    assert texts(world.main, "main@") == {"a": "1", "b": "2", "c": "2"}
    assert changes(world.main) == {}
    assert world.main._branches.state("main").sealed == ()


def test_a_commit_waits_for_a_dead_owner_no_longer_than_the_lease() -> None:
    world = World()
    put(world.main, {"a": "1"})
    victim = world.repository(DieAt("objects.put", 1))
    assert died(lambda: victim.commit("main", "of the dead"))
    start = world.clock.time
    world.main.commit("main", "of the living")
    assert 0 < world.clock.time - start <= LEASE + 1
    assert texts(world.main, "main@") == {"a": "1"}


def test_a_commit_that_fails_gives_its_lease_back() -> None:
    world = World()
    put(world.main, {"a": "1"})
    failing = world.repository(Before("objects.put", 1, fault="fail_before"))
    with pytest.raises(UnavailableError):
        failing.commit("main", "in vain")
    slept = world.clock.slept
    world.main.commit("main", "again")
    assert world.clock.slept == slept
    assert texts(world.main, "main@") == {"a": "1"}


def test_an_interrupted_commit_leaves_the_changes_uncommitted_and_nobody_waiting() -> None:
    world = World()
    put(world.main, {"a": "1"})

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.repository(Before("objects.put", 1, interrupt)).commit("main", "Ctrl-C")
    assert changes(world.main) == {"a": "added"}
    slept = world.clock.slept
    world.main.commit("main", "again")
    assert world.clock.slept == slept
    assert not [t for t in threads() if t.name.startswith("graveler-lease")]


def test_an_owner_that_was_only_slow_reports_the_commit_that_adopted_its_changes() -> None:
    world = World()
    put(world.main, {"a": "1"})
    other = world.repository()
    adopted: list[Commit] = []

    def adopt() -> None:
        world.wait_for_leases()
        adopted.append(other.commit("main", "adopts"))

    slow = world.repository(Before("objects.put", 1, adopt))
    assert slow.commit("main", "slow") == adopted[0]
    assert messages(world.main)[0] == "adopts"


def test_a_lost_answer_of_publish_is_resolved_by_looking() -> None:
    world = World()
    put(world.main, {"a": "1"})
    made = world.repository(Before(*PUBLISH, fault="fail_after")).commit("main", "once")
    assert world.main.branch("main").commit_id == made.id
    assert messages(world.main) == ["once", "Repository created"]


def test_a_publish_that_arrives_twice_makes_one_commit() -> None:
    world = World()
    put(world.main, {"a": "1"})
    made = world.repository(Before(*PUBLISH, fault="repeat")).commit("main", "once")
    assert world.main.branch("main").commit_id == made.id
    assert messages(world.main) == ["once", "Repository created"]


@pytest.mark.parametrize("fault", ["fail_after", "repeat"])
def test_a_seal_whose_answer_is_lost_or_that_arrives_twice_loses_nothing(fault: Fault) -> None:
    world = World()
    put(world.main, {"a": "1"})
    try:
        world.repository(Before("tables.transact", 1, fault=fault)).commit("main", "first")
    except UnavailableError:
        world.main.commit("main", "second")
    assert texts(world.main, "main@") == {"a": "1"}
    assert len(messages(world.main)) == 2


# Several commits (C6)


def test_two_commits_at_once_give_two_commits_each_with_its_own_message() -> None:
    """Both seal before either publishes, each a part of what is staged; here the older one is the slower."""
    world = World()
    put(world.main, {"a": "1"})
    made: list[Commit] = []
    ready, go = Event(), Event()

    def wait() -> None:
        ready.set()
        assert go.wait(10)

    first = world.repository(Before(*PUBLISH, act=wait))
    thread = Thread(target=lambda: made.append(first.commit("main", "first")))
    thread.start()
    assert ready.wait(10)
    put(world.main, {"b": "2"})

    def let_the_first_go_on() -> None:
        if current_thread() is not thread:
            go.set()
            thread.join(10)

    world.clock.on_sleep = let_the_first_go_on
    made.append(world.main.commit("main", "second"))
    assert messages(world.main) == ["second", "first", "Repository created"]
    assert [paths(world.main, commit.id) for commit in made] == [["a"], ["a", "b"]]


def test_the_commit_that_seals_later_publishes_later() -> None:
    """Oldest first: it waits for the owner of the older token, also when it is ready before."""
    world = World()
    put(world.main, {"k": "old", "a": "1"})
    ready, go = Event(), Event()

    def wait() -> None:
        ready.set()
        assert go.wait(10)

    first = world.repository(Before("objects.put", 1, wait))
    thread = Thread(target=lambda: first.commit("main", "first"))
    thread.start()
    assert ready.wait(10)
    put(world.main, {"k": "new"})
    waited: list[bool] = []

    def let_the_first_go_on() -> None:
        if not waited:
            waited.append(True)
            go.set()
            thread.join(10)

    world.clock.on_sleep = let_the_first_go_on
    world.main.commit("main", "second")
    assert waited
    assert messages(world.main) == ["second", "first", "Repository created"]
    assert texts(world.main, "main@") == {"k": "new", "a": "1"}
    assert texts(world.main, "main~1") == {"k": "old", "a": "1"}


def test_a_commit_whose_head_moved_redoes_only_the_intervals_that_changed() -> None:
    world = World()
    files: dict[str, str | None] = {f"k{n:04}": "x" for n in range(600)}
    commit(world.main, files)
    ranges = len(world.main.tree("main"))
    assert ranges > 60
    put(world.main, {f"k{n:04}": "mine" for n in range(0, 500, 5)})
    world.main.create_branch("side", "main")
    commit(world.main, {"k0599": "theirs"}, "side")
    counted = world.counted()
    first_half: list[int] = []

    # Move the head under the committer: to the sibling commit, which is built on the same head.
    side_id = world.main.branch("side").commit_id

    def move() -> None:
        first_half.extend((counted.ranges_read(), counted.ranges_written()))
        counted.reset()
        state = world.main._branches.state("main")
        after = BranchState(state.name, side_id, state.open, state.sealed)
        event = world.main._branches.event("test", "")
        world.tables.transact(world.main._refs.move_branch_writes(state, after, event))

    hook = Before("tables.transact", 2, move)
    tables, objects = counted.tables, counted.objects

    hooked = Lake(FaultyTables(tables, lambda m, n: hook(f"tables.{m}", n)), lambda _: objects, clock=world.clock)
    repository = hooked.repository(NAME)
    counted.reset()
    repository.commit("main", "mine")
    assert hook.reached
    assert first_half[0] >= 50
    assert counted.ranges_read() <= 6, "only what changed between the heads, and seams"
    assert counted.ranges_written() <= 4
    found = texts(world.main, "main@")
    assert found["k0599"] == "theirs"
    assert {p for p, text in found.items() if text == "mine"} == {f"k{n:04}" for n in range(0, 500, 5)}


def test_staged_changes_that_equal_the_old_head_are_not_lost_on_the_new_one() -> None:
    """No change against the head that was read, but one against the head that is published on."""
    world = World()
    commit(world.main, {"a": "1"})
    side = world.main.create_branch("side", "main")
    commit(world.main, {"k": "theirs"}, "side")
    put(world.main, {"b": "2", "k": None})  # a tombstone over nothing
    moved = world.main.branch("side").commit_id
    assert side.commit_id != moved

    def move() -> None:
        state = world.main._branches.state("main")
        after = BranchState(state.name, moved, state.open, state.sealed)
        world.tables.transact(world.main._refs.move_branch_writes(state, after, world.main._branches.event("t", "")))

    hook = Before(*PUBLISH, act=move)
    world.repository(hook).commit("main", "mine")
    assert hook.reached
    assert paths(world.main, "main@") == ["a", "b"]


def test_no_changes_is_judged_on_the_head_that_is_published_on_and_removes_the_tokens() -> None:
    """Against the head that was read there is a change; by the time of publishing another commit has made the same one."""
    world = World()
    commit(world.main, {"a": "1"})
    put(world.main, {"k": "same"})
    entry = world.main.stat("main", "k")
    other = world.repository()

    def act() -> None:
        other.upload("main", "k", b"same")
        state = other._branches.state("main")
        assert len(state.sealed) == 1
        head = other._commits.get(state.commit_id)
        record = other._codec.encode(entry)
        tree = apply(other._trees.load(head.metarange), [(b"k", record)], TINY)
        made = new_commit([head], other._trees.save(tree), "", "theirs", 0, {}, "op")
        other._committer._publisher.publish(state, made, "merge")

    with pytest.raises(NoChangesError, match="main"):
        world.repository(Before(*PUBLISH, act=act)).commit("main", "mine")
    assert messages(world.main)[0] == "theirs"
    state = world.main._branches.state("main")
    assert state.sealed == ()
    assert texts(world.main) == {"a": "1", "k": "same"}


def test_a_commit_without_changes_seals_nothing() -> None:
    world = World()
    before = world.main._branches.state("main")
    with pytest.raises(NoChangesError):
        world.main.commit("main", "nothing")
    assert world.main._branches.state("main") == before


def test_a_long_build_does_not_use_up_the_patience_for_conflicts() -> None:
    world = World()
    put(world.main, {"a": "1"})
    other = world.repository()

    def long_build_and_somebody_seals() -> None:
        world.clock.time += 300
        put(other, {"b": "1"})
        other._committer._sealer.seal("main", "somebody")

    world.repository(Before(*PUBLISH, act=long_build_and_somebody_seals)).commit("main", "long")
    assert messages(world.main)[0] == "long"


def test_sealed_tokens_stay_few_however_many_commits_fail() -> None:
    """So that the transactions that take them from the branch stay within a transaction's size."""
    world = World()
    world.main.create_branch("b", "main")
    for number in range(60):
        put(world.main, {f"k{number:02}": "x"}, "b")
        failing = world.repository(Before("objects.put", 1, fault="fail_before"))
        with pytest.raises(UnavailableError):
            failing.commit("b", "in vain")
    state = world.main._branches.state("b")
    assert 4 + 2 * len(state.sealed) <= MAX_TRANSACTION_WRITES
    world.main.create_branch("c", "main")
    world.main.commit("b", "all of them")
    assert len(paths(world.main, "b@")) == 60
    assert world.main._branches.state("b").sealed == ()


def test_commits_that_die_waiting_do_not_make_the_next_one_wait_longer() -> None:
    """However many are killed, one after another, the next one waits for one lease."""
    world = World()
    for number in range(20):
        put(world.main, {f"k{number:02}": "x"})
        killer = DieAt("objects.put", 1)
        killed_waiting = world.repository(killer)
        world.clock.on_sleep = partial(setattr, killer, "dead", True)
        assert died(partial(killed_waiting.commit, "main", "of the dead"))
        world.clock.on_sleep = None
    assert len(world.main._branches.state("main").sealed) <= MAX_QUEUE
    start = world.clock.time
    world.main.commit("main", "of the living")
    assert world.clock.time - start < LEASE + 1
    assert len(paths(world.main, "main@")) == 20
    assert messages(world.main)[:2] == ["of the living", "Repository created"]


def test_a_branch_with_as_many_sealed_tokens_as_there_may_be_can_be_deleted() -> None:
    world = World()
    world.main.create_branch("b", "main")
    for number in range(60):
        put(world.main, {f"k{number:02}": "x"}, "b")
        failing = world.repository(Before("objects.put", 1, fault="fail_before"))
        with pytest.raises(UnavailableError):
            failing.commit("b", "in vain")
    world.main.delete_branch("b")
    with pytest.raises(RefNotFoundError):
        world.main.branch("b")


# Branches that go away


@pytest.mark.parametrize("request_", [("objects.put", 1), PUBLISH])
@pytest.mark.parametrize("again", [False, True])
def test_a_commit_whose_branch_was_deleted_meanwhile_says_so(request_: tuple[str, int], again: bool) -> None:
    world = World()
    world.main.create_branch("b", "main")
    put(world.main, {"a": "1"}, "b")

    def delete() -> None:
        world.main.delete_branch("b")
        if again:
            world.main.create_branch("b", "main")

    with pytest.raises(PreconditionError, match="'b' was deleted while it was being committed"):
        world.repository(Before(*request_, act=delete)).commit("b", "m")
    assert paths(world.main, "main") == []


def test_a_commit_that_was_adopted_before_its_branch_was_deleted_is_reported() -> None:
    world = World()
    world.main.create_branch("b", "main")
    put(world.main, {"a": "1"}, "b")
    adopted: list[Commit] = []

    def adopt_and_delete() -> None:
        world.wait_for_leases()
        adopted.append(world.main.commit("b", "adopts"))
        world.main.delete_branch("b")

    assert world.repository(Before(*PUBLISH, act=adopt_and_delete)).commit("b", "m") == adopted[0]


def test_staging_on_a_branch_that_is_deleted_meanwhile_is_refused() -> None:
    world = World()
    world.main.create_branch("b", "main")
    writer = world.repository()
    put(writer, {"a": "1"}, "b")
    hooked = world.repository(Before("tables.put", 1, lambda: world.main.delete_branch("b")))
    with pytest.raises(RefNotFoundError):
        hooked.upload("b", "k", b"1")


# Merge among others


def diverged() -> World:
    """``side`` has ``s``, ``main`` has ``m``, both on a base with ``a``."""
    world = World()
    commit(world.main, {"a": "1"})
    world.main.create_branch("side", "main")
    commit(world.main, {"s": "1"}, "side", "side")
    commit(world.main, {"m": "1"}, message="main")
    return world


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
        world.main._committer._sealer.seal("main", "somebody")
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
    before = world.main._branches.state("main")
    with pytest.raises(DirtyBranchError, match="commit them"):
        world.main.merge("side", "main")
    assert world.main._branches.state("main") == before


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
        key = world.main._commits.key(source)
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
    assert world.clock.slept < 40


# Requests that are repeated (C4)


Verb = Callable[[OpenRepository], Commit]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_files(tmp_path_factory.mktemp("import"), {"i1": "1", "i2": "2"}))


def verb_with_id(verb: str, folder: str) -> tuple[World, Verb]:
    world = diverged()
    if verb == "commit":
        put(world.main, {"n": "1"})
        return world, lambda r: r.commit("main", "mine", request_id="r1")
    if verb == "merge":
        return world, lambda r: r.merge("side", "main", request_id="r1")
    return world, lambda r: r.import_folder("main", Path(folder), "in/", request_id="r1")


VERBS = ["commit", "merge", "import"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_request_repeated_later_has_the_effect_of_one(verb: str, folder: str) -> None:
    world, run = verb_with_id(verb, folder)
    made = run(world.main)
    count = len(messages(world.main))
    put(world.main, {"later": "1"})  # a second effect would commit it, or be refused
    assert run(world.repository()) == made
    assert len(messages(world.main)) == count
    assert changes(world.main) == {"later": "added"}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("moment", range(20))
def test_a_request_repeated_at_any_moment_of_the_first_has_the_effect_of_one(
    verb: str, moment: int, folder: str
) -> None:
    world, run = verb_with_id(verb, folder)
    count = len(messages(world.main))
    made: list[CommitID] = []

    def schedule(_: str, number: int) -> Fault:
        if number == moment:
            made.append(run(world.repository()).id)
        return None

    made.append(run(world.repository(schedule)).id)
    assert len(set(made)) == 1
    assert len(messages(world.main)) == count + 1
    assert world.main.branch("main").commit_id == made[0]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("moment", range(24))
@pytest.mark.parametrize("after", [False, True])
def test_a_request_repeated_after_a_crash_has_the_effect_of_one(
    verb: str, moment: int, after: bool, folder: str
) -> None:
    world, run = verb_with_id(verb, folder)
    count = len(messages(world.main))
    dead = False

    def schedule(_: str, number: int) -> Fault:
        nonlocal dead
        if dead:
            raise Died
        if number == moment:
            dead = True
            if not after:
                raise Died
            return "fail_after"
        return None

    died(lambda: run(world.repository(schedule)))
    world.wait_for_leases()
    made = run(world.repository())
    assert run(world.repository()) == made
    assert len(messages(world.main)) == count + 1
    assert changes(world.main) == {}


@pytest.mark.parametrize("verb", VERBS)
def test_two_that_build_at_once_for_the_same_request_make_one_commit(verb: str, folder: str) -> None:
    """The second passes its first look before the first has published, and finds out at its own publishing."""
    world, run = verb_with_id(verb, folder)
    count = len(messages(world.main))
    made: list[CommitID] = []
    second = world.repository(Before("tables.get", 2))

    def schedule(request: str, number: int) -> Fault:
        if request == "tables.get" and number == 0:
            return None
        if len(made) == 0 and number == 1:
            made.append(run(second).id)
        return None

    made.append(run(world.repository(schedule)).id)
    assert len(set(made)) == 1
    assert len(messages(world.main)) == count + 1


@pytest.mark.parametrize("dies", [False, True])
def test_a_request_whose_changes_another_commit_adopted_has_that_commit_as_its_result(dies: bool) -> None:
    world = World()
    put(world.main, {"a": "1"})
    other = world.repository()
    adopted: list[Commit] = []

    def adopt() -> None:
        world.wait_for_leases()
        adopted.append(other.commit("main", "adopts", request_id="other"))

    if dies:
        victim = world.repository(DieAt("objects.put", 1))
        assert died(lambda: victim.commit("main", "mine", request_id="mine"))
        adopt()
    else:
        slow = world.repository(Before("objects.put", 1, adopt))
        assert slow.commit("main", "mine", request_id="mine") == adopted[0]
    put(world.main, {"later": "1"})
    assert world.repository().commit("main", "mine", request_id="mine") == adopted[0]
    assert world.repository().commit("main", "adopts", request_id="other") == adopted[0]
    assert changes(world.main) == {"later": "added"}


def test_a_repeated_merge_answers_though_its_source_is_gone() -> None:
    world = diverged()
    made = world.main.merge("side", "main", request_id="r")
    world.main.delete_branch("side")
    assert world.repository().merge("side", "main", request_id="r") == made


def test_a_repeated_import_answers_though_its_folder_is_gone(tmp_path: Path) -> None:
    world = World()
    folder = write_files(tmp_path / "f", {"a": "1"})
    made = world.main.import_folder("main", folder, request_id="r")
    rmtree(folder)
    assert world.repository().import_folder("main", folder, request_id="r") == made


def test_a_repeated_commit_with_a_given_time_long_ago_is_still_remembered() -> None:
    world = World()
    put(world.main, {"a": "1"})
    world.main.commit("main", "old", created=86_400, request_id="r")
    item = world.tables.query(f"{world.main.repository.uid}/request/r").items[0][1]
    assert int(str(item["expires"])) > world.clock.now()


# Readers and the clean-up (C3)


def test_a_reader_that_took_the_branch_before_the_publish_still_finds_what_was_staged() -> None:
    world = World()
    put(world.main, {"a": "1"})

    def publish() -> None:
        world.main.commit("main", "m")
        world.clock.time += LONGEST_REQUEST - 1
        put(world.main, {"b": "1"})
        world.main.commit("main", "cleans up")

    reader = world.repository(Before("tables.query", 1, publish))
    assert paths(reader) in (["a"], ["a", "b"])


@pytest.mark.parametrize("moment", range(6))
def test_a_read_at_any_moment_of_commits_and_clean_up_finds_what_was_acknowledged(moment: int) -> None:
    world = World()
    put(world.main, {"a": "1"})

    def schedule(_: str, number: int) -> Fault:
        if number == moment:
            world.main.commit("main", "m")
            world.clock.time += LONGEST_REQUEST - 1
            put(world.main, {"b": "1"})
            world.main.commit("main", "cleans up")
        return None

    assert world.repository(schedule).read("main", "a") == b"1"


def test_applied_tokens_are_cleaned_up_after_the_longest_request_and_again_a_day_later() -> None:
    world = World()
    writer = world.repository()
    put(writer, {"a": "1"})
    token = stager(writer)._open["main"]
    world.main.commit("main", "m")
    staged, queue = world.staged(), world.cleanup()
    assert list(queue.waiting()) == [token]
    assert queue.sweep(staged, world.clock.now() + LONGEST_REQUEST - 1) == 0
    assert staged.exists([token])
    world.clock.time += LONGEST_REQUEST + 1
    commit(world.main, {"b": "1"})
    assert not staged.exists([token])
    # A writer with the token from long ago leaves an item there.
    put(writer, {"c": "1"})
    assert staged.exists([token])
    assert texts(world.main) == {"a": "1", "b": "1", "c": "1"}
    world.clock.time += SECOND_SWEEP + 1
    world.main.commit("main", "c")
    assert not staged.exists([token])
    assert token not in list(queue.waiting())


def test_the_clean_up_of_a_token_with_many_items_goes_on_where_it_stopped() -> None:
    world = World()
    world.main.delete("main", [f"k{n}" for n in range(2500)])
    put(world.main, {"a": "1"})
    token = world.main._branches.state("main").open
    world.main.commit("main", "m")
    now = world.clock.now() + LONGEST_REQUEST + 1
    staged, queue = world.staged(), world.cleanup()
    done = [queue.sweep(staged, now) for _ in range(4)]
    assert sum(done) == 1
    assert not staged.exists([token])


@pytest.mark.parametrize("fault", ["fail_before", "fail_after"])
def test_a_clean_up_that_fails_does_not_fail_the_commit(fault: Fault) -> None:
    world = World()
    commit(world.main, {"a": "1"})
    world.clock.time += LONGEST_REQUEST + 1
    put(world.main, {"b": "1"})
    sweeping = False

    def schedule(request: str, _: int) -> Fault:
        nonlocal sweeping
        if request == "tables.write_many":
            sweeping = True
        return fault if sweeping else None

    world.repository(schedule).commit("main", "m")
    assert sweeping
    assert messages(world.main)[0] == "m"


def test_a_clean_up_that_finds_the_table_busy_does_not_fail_the_commit() -> None:
    world = World()
    put(world.main, {"b": "1"})
    committed = False

    def schedule(request: str, _: int) -> Fault:
        nonlocal committed
        if committed and request == "tables.query":
            raise BusyError("the table is busy")
        if request == "tables.transact" and world.main._branches.state("main").sealed:
            committed = True
        return None

    world.repository(schedule).commit("main", "m")
    assert messages(world.main)[0] == "m"


def test_a_clean_up_entry_that_makes_no_sense_does_not_break_a_commit() -> None:
    world = World()
    uid = world.main.repository.uid
    senseless: list[dict[str, Value]] = [{}, {"token": "t"}, {"sweep": 1}, {"token": "no token", "sweep": 1}]
    for number, item in enumerate(senseless):
        world.tables.put(Key(f"{uid}/cleanup", bytes(8) + bytes([number])), item)
    commit(world.main, {"a": "1"})
    token = next(world.cleanup().waiting())
    world.clock.time += LONGEST_REQUEST + 1
    commit(world.main, {"b": "1"})
    assert not world.staged().exists([token])


def test_outcomes_tell_where_tokens_went() -> None:
    world = World()
    put(world.main, {"a": "1"})
    token = world.main._branches.state("main").open
    made = world.main.commit("main", "m")
    outcome = world.outcomes().get(token)
    assert outcome is not None
    assert (outcome.state, outcome.commit_id) == (TokenState.PUBLISHED, made.id)
    put(world.main, {"a": "1"})
    token = world.main._branches.state("main").open
    with pytest.raises(NoChangesError):
        world.main.commit("main", "m")
    outcome = world.outcomes().get(token)
    assert outcome is not None
    assert outcome.state is TokenState.DROPPED
    world.main.create_branch("b", "main")
    put(world.main, {"x": "1"}, "b")
    token = world.main._branches.state("b").open
    world.main.delete_branch("b")
    outcome = world.outcomes().get(token)
    assert outcome is not None
    assert outcome.state is TokenState.DELETED


# Repositories


def test_a_repository_created_again_under_the_same_name_is_another_one_for_open_handles() -> None:
    world = World()
    old = world.repository()
    put(old, {"a": "1"})
    world.lake().delete_repository(NAME)
    new = world.lake().create_repository(NAME, "mem://second", split=TINY)
    attempts: list[Callable[[], object]] = [
        lambda: put(old, {"b": "1"}),
        lambda: old.delete("main", ["a"]),
        lambda: old.commit("main", "m"),
        lambda: old.create_branch("x", "main"),
        lambda: old.create_tag("t", "main"),
        lambda: old.delete_branch("x"),
        lambda: old.merge("main~0", "main"),
        lambda: old.branch("main"),
        lambda: old.uncommitted("main"),
    ]
    for attempt in attempts:
        with pytest.raises(RepositoryNotFoundError, match=NAME):
            attempt()
    assert paths(new) == []
    assert [b.name for b in new.branches().results] == ["main"]


def test_a_namespace_has_one_owner_of_two_who_create_at_once() -> None:
    world = World()
    lake = world.lake()
    namespace = ""
    failures: list[GravelerError] = []

    def create_another() -> None:
        try:
            lake.create_repository("second", namespace, split=TINY)
        except GravelerError as error:
            failures.append(error)

    moments = (("tables.get", 1), ("objects.put", 1), ("objects.put", 2), ("tables.transact", 1))
    for turn, (request, number) in enumerate(moments):
        namespace = f"mem://new{turn}"
        failures.clear()
        hook = Before(request, number, create_another)
        try:
            world.lake(hook).create_repository("first", namespace, split=TINY)
        except GravelerError as error:
            failures.append(error)
        assert hook.reached
        assert len(failures) == 1
        assert namespace in str(failures[0])
        names = {"first", "second"} & {r.name for r in lake.repositories().results}
        assert len(names) == 1
        lake.delete_repository(names.pop())


def test_of_two_who_create_the_same_name_one_wins_and_the_other_leaves_its_namespace_free() -> None:
    world = World()
    lake = world.lake()
    hook = Before("tables.transact", 1, lambda: lake.create_repository("same", "mem://b", split=TINY))
    with pytest.raises(AlreadyExistsError):
        world.lake(hook).create_repository("same", "mem://a", split=TINY)
    assert lake.repository("same").repository.namespace == "mem://b"
    lake.create_repository("other", "mem://a", split=TINY)


@pytest.mark.parametrize("moment", [("objects.put", 1), ("objects.put", 2), ("tables.transact", 1)])
def test_a_namespace_whose_creator_died_can_be_claimed_after_a_while(moment: tuple[str, int]) -> None:
    world = World()
    dying = world.lake(DieAt(*moment, after=moment[0] == "objects.put"))
    assert died(lambda: dying.create_repository("dead", "mem://new"))
    lake = world.lake()
    with pytest.raises(Exception, match="mem://new") as caught:
        lake.create_repository("alive", "mem://new")
    assert isinstance(caught.value, GravelerError)
    world.clock.time += 700
    lake.create_repository("alive", "mem://new")
    assert [r.name for r in lake.repositories().results] == ["alive", NAME]


def test_a_creator_that_was_only_slow_does_not_get_a_namespace_that_another_took_over() -> None:
    world = World()
    lake = world.lake()

    def take_over() -> None:
        world.clock.time += 700
        lake.create_repository("fast", "mem://new")

    with pytest.raises(GravelerError):
        world.lake(Before("tables.transact", 1, take_over)).create_repository("slow", "mem://new")
    owners = [r.name for r in lake.repositories().results if r.namespace == "mem://new"]
    assert owners == ["fast"]
    with pytest.raises(GravelerError, match="belongs to repository 'fast'"):
        lake.create_repository("third", "mem://new")


@pytest.mark.parametrize("request_", [("objects.put", 1), ("objects.put", 2), ("tables.transact", 1)])
@pytest.mark.parametrize("fault", ["repeat", "fail_after"])
def test_a_creation_whose_requests_arrive_twice_or_unanswered_leaves_a_whole_repository_or_none(
    request_: tuple[str, int], fault: Fault
) -> None:
    world = World()
    try:
        world.lake(Before(*request_, fault=fault)).create_repository("new", "mem://new", split=TINY)
        made = True
    except UnavailableError:
        made = False
    lake = world.lake()
    if fault == "repeat":
        assert made
    if made or lake.repositories("new").results:
        with pytest.raises(GravelerError, match="belongs to repository 'new'"):
            lake.create_repository("other", "mem://new")
        assert commit(lake.repository("new"), {"a": "1"})
    else:
        world.clock.time += 700
        lake.create_repository("other", "mem://new")


# Branches and tags whose requests arrive twice


REF_VERBS: list[Callable[[OpenRepository], object]] = [
    lambda r: r.create_branch("b", "main"),
    lambda r: r.create_tag("t", "main"),
    lambda r: r.delete_tag("t"),
    lambda r: r.delete_branch("b"),
]


def test_creating_and_deleting_refs_by_requests_that_arrive_twice_succeeds() -> None:
    world = World()
    for verb in REF_VERBS:
        hook = Before("tables.transact", 1, fault="repeat")
        verb(world.repository(hook))
        assert hook.reached
    assert [b.name for b in world.main.branches().results] == ["main"]
    assert world.main.tags().results == ()


def test_merge_strategy_is_told_in_the_commit() -> None:
    world = World()
    commit(world.main, {"a": "1"})
    world.main.create_branch("side", "main")
    commit(world.main, {"a": "s"}, "side")
    commit(world.main, {"a": "m"})
    made = world.main.merge("side", "main", strategy=MergeStrategy.SOURCE_WINS)
    assert made.metadata[".lakefs.merge.strategy"] == "source-wins"
    assert texts(world.main, "main@") == {"a": "s"}
