"""Several commits of one branch at once keep each other's work and their order (C6); and commits whose branch is deleted
meanwhile."""

from functools import partial
from threading import Event, Thread, current_thread

import pytest

from graveler.errors import (
    NoChangesError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.history.commits import new_commit
from graveler.history.refs import BranchState
from graveler.lake.committing.publish import publish
from graveler.lake.committing.restage import empty_sealed
from graveler.lake.committing.sealing import MAX_QUEUE, MAX_SEALED, seal, take_sealed
from graveler.lake.lake import Lake
from graveler.model import Commit
from graveler.staging.tokens import LEASE
from graveler.storage.tables.port import MAX_TRANSACTION_WRITES
from graveler.tree.apply import apply
from tests.lake.support import (
    NAME,
    PUBLISH,
    TINY,
    Before,
    DieAt,
    World,
    commit,
    died,
    messages,
    paths,
    put,
    texts,
)
from tests.support.instruments import FaultyTables
from tests.support.patience import PATIENCE

# Several commits (C6)


def test_two_commits_at_once_give_two_commits_each_with_its_own_message() -> None:
    """Both seal before either publishes, each a part of what is staged; here the older one is the slower."""
    world = World()
    put(world.main, {"a": "1"})
    made: list[Commit] = []
    ready, go = Event(), Event()

    def wait() -> None:
        ready.set()
        assert go.wait(PATIENCE)

    first = world.repository(Before(*PUBLISH, act=wait))
    thread = Thread(target=lambda: made.append(first.commit("main", "first")))
    thread.start()
    assert ready.wait(PATIENCE)
    put(world.main, {"b": "2"})

    def let_the_first_go_on() -> None:
        if current_thread() is not thread:
            go.set()
            thread.join(PATIENCE)

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
        assert go.wait(PATIENCE)

    first = world.repository(Before("objects.put", 1, wait))
    thread = Thread(target=lambda: first.commit("main", "first"))
    thread.start()
    assert ready.wait(PATIENCE)
    put(world.main, {"k": "new"})
    waited: list[bool] = []

    def let_the_first_go_on() -> None:
        if not waited:
            waited.append(True)
            go.set()
            thread.join(PATIENCE)

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
        state = world.main.parts.branches.state("main")
        after = BranchState(state.name, side_id, state.open, state.sealed)
        event = world.main.parts.branches.event("test", "")
        world.tables.transact(world.main.parts.refs.move_branch_writes(state, after, event))

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
        state = world.main.parts.branches.state("main")
        after = BranchState(state.name, moved, state.open, state.sealed)
        world.tables.transact(
            world.main.parts.refs.move_branch_writes(state, after, world.main.parts.branches.event("t", ""))
        )

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
        state = other.parts.branches.state("main")
        assert len(state.sealed) == 1
        head = other.parts.commits.get(state.commit_id)
        record = other.codec.encode(entry)
        tree = apply(other.parts.trees.load(head.metarange), [(b"k", record)], TINY)
        made = new_commit([head], other.parts.trees.save(tree), "", "theirs", 0, {}, "op")
        publish(other.parts, state, made, "merge", other.parts.deadlines.begin())

    with pytest.raises(NoChangesError, match="main"):
        world.repository(Before(*PUBLISH, act=act)).commit("main", "mine")
    assert messages(world.main)[0] == "theirs"
    state = world.main.parts.branches.state("main")
    assert state.sealed == ()
    assert texts(world.main) == {"a": "1", "k": "same"}


def test_a_commit_without_changes_seals_nothing() -> None:
    world = World()
    before = world.main.parts.branches.state("main")
    with pytest.raises(NoChangesError):
        world.main.commit("main", "nothing")
    assert world.main.parts.branches.state("main") == before


def test_a_long_build_does_not_use_up_the_patience_for_conflicts() -> None:
    world = World()
    put(world.main, {"a": "1"})
    other = world.repository()

    def long_build_and_somebody_seals() -> None:
        world.clock.time += 300
        put(other, {"b": "1"})
        seal(other.parts, "main", "somebody")

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
    state = world.main.parts.branches.state("b")
    assert 4 + 2 * len(state.sealed) <= MAX_TRANSACTION_WRITES
    world.main.create_branch("c", "main")
    world.main.commit("b", "all of them")
    assert len(paths(world.main, "b@")) == 60
    assert world.main.parts.branches.state("b").sealed == ()


@pytest.mark.parametrize("amount", [MAX_SEALED - 1, MAX_SEALED, MAX_SEALED + 1, 3 * MAX_SEALED + 1])
def test_however_many_commits_died_the_next_one_is_one_commit_of_everything(amount: int) -> None:
    """Each had a request of its own, whose result is the one commit, as if it had made it."""
    world = World()
    for number in range(amount):
        put(world.main, {f"k{number:03}": str(number), "newest": str(number), "gone": "x" if number % 2 else None})
        dying = world.repository(DieAt("objects.put", 1))
        assert died(partial(dying.commit, "main", "dies", request_id=f"request {number}"))
        world.wait_for_leases()
    put(world.main, {"mine": "x"})
    expected = texts(world.main)
    made = world.main.commit("main", "everything", request_id="mine")
    assert messages(world.main) == ["everything", "Repository created"]
    assert texts(world.main, "main@") == texts(world.main) == expected
    assert expected["newest"] == str(amount - 1)
    assert world.main.parts.branches.state("main").sealed == ()
    for request in (*(f"request {number}" for number in range(amount)), "mine"):
        assert world.repository().commit("main", "again", request_id=request) == made


@pytest.mark.parametrize("then", ["published", "open", "sealed by another", "another is slow"])
def test_a_slow_commit_whose_changes_were_staged_again_still_has_them_committed(
    then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for dead. Its changes are uncommitted again, or in somebody else's commit."""
    monkeypatch.setattr("graveler.lake.committing.sealing.MAX_SEALED", 1)
    world = World()
    put(world.main, {"a": "1"})

    def another() -> None:
        world.clock.time += 2 * LEASE
        take_sealed(world.main.parts, world.main.parts.branches.state("main").sealed)  # has watched it
        world.clock.time += 2 * LEASE
        put(world.main, {"b": "1"})
        if then == "published":
            world.main.commit("main", "another")
            return
        empty_sealed(world.main.parts, world.main.parts.branches.state("main"), "another")
        if then == "open":
            return
        sealed = seal(world.main.parts, "main", "another")
        assert sealed.own_token is not None
        if then == "another is slow":
            world.clock.on_sleep = finish

    def finish() -> None:
        world.clock.on_sleep = None
        world.wait_for_leases()
        world.main.commit("main", "another")

    made = world.repository(Before("objects.put", 1, another)).commit("main", "slow", request_id="slow")
    assert messages(world.main) == [made.message, "Repository created"]
    assert made.message == ("another" if then in ("published", "another is slow") else "slow")
    assert paths(world.main, "main@") == ["a", "b"]
    assert world.repository().commit("main", "again", request_id="slow") == made


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
    assert len(world.main.parts.branches.state("main").sealed) <= MAX_QUEUE
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
