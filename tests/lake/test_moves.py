"""Hard reset, undo and rename: refs that move while others work on them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

from graveler.errors import (
    AlreadyExistsError,
    DirtyBranchError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    RefNotFoundError,
)
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID
from graveler.storage.tables.port import Key
from tests.lake.support import Before, DieAt, FakeClock, OwnClock, World, changes, commit, died, messages, put, texts
from tests.support.instruments import Fault

TRANSACT = "tables.transact"
AT = ("tables.transact", 1)


class TickingClock(FakeClock):
    """Rows of the reference log are in the order of time."""

    def now(self) -> float:
        self.time += 0.001
        return self.time


def history() -> tuple[World, list[str]]:
    world = World(clock=TickingClock())
    return world, [commit(world.main, {"k": str(n)}, message=str(n)) for n in range(3)]


def head(world: World, branch: str = "main") -> str:
    return world.main.branch(branch).commit_id


def test_a_hard_reset_moves_the_branch_and_says_so() -> None:
    world, ids = history()
    made = world.main.hard_reset("main", "main~2", by="me")
    assert (made.name, made.commit_id) == ("main", ids[0])
    assert texts(world.main) == texts(world.main, "main@") == {"k": "0"}
    row = world.main.reflog("main")[0]
    assert (row.event.operation, row.event.by, row.old, row.new) == ("hard reset", "me", ids[2], ids[0])
    rows = len(world.main.reflog("main"))
    world.main.hard_reset("main", ids[0])  # is there
    assert len(world.main.reflog("main")) == rows
    world.main.hard_reset("main", ids[2])
    assert texts(world.main) == {"k": "2"}
    with pytest.raises(RefNotFoundError):
        world.main.hard_reset("none", ids[0])
    with pytest.raises(RefNotFoundError):
        world.main.hard_reset("main", "none")


def test_a_hard_reset_is_refused_while_changes_are_not_committed() -> None:
    world, ids = history()
    put(world.main, {"x": "1"})
    verbs: list[Callable[[], object]] = [
        lambda: world.main.hard_reset("main", ids[0]),
        lambda: world.main.undo("main"),
    ]
    for verb in verbs:
        with pytest.raises(DirtyBranchError, match="has uncommitted changes, so moving it to"):
            verb()
    assert head(world) == ids[2]
    world.main.reset("main")
    put(world.main, {"k": "2"})
    world.main.delete("main", ["none"])  # both change nothing
    world.main.hard_reset("main", ids[0])
    assert texts(world.main) == {"k": "0"}


def test_a_hard_reset_to_a_commit_that_expired_meanwhile_is_refused() -> None:
    world, ids = history()
    place = world.main.parts.commits.key(CommitID(ids[0]))
    item = world.tables.get(place)
    assert item is not None
    hook = Before(*AT, act=lambda: world.tables.put(place, {**item, "expired": True}))
    with pytest.raises(RefNotFoundError, match="has expired"):
        world.repository(hook).hard_reset("main", ids[0])
    assert hook.reached
    assert head(world) == ids[2]


def test_a_hard_reset_that_meets_a_commit_moves_from_that_one() -> None:
    world, ids = history()
    hook = Before(*AT, act=lambda: commit(world.main, {"y": "1"}))
    world.repository(hook).hard_reset("main", ids[0])
    assert texts(world.main) == {"k": "0"}
    assert [e.event.operation for e in world.main.reflog("main", 2)] == ["hard reset", "commit"]


def test_a_put_that_is_acknowledged_while_a_branch_is_moved_stays() -> None:
    world, ids = history()
    world.repository(Before(*AT, act=lambda: put(world.main, {"y": "1"}))).hard_reset("main", ids[0])
    assert texts(world.main) == {"k": "0", "y": "1"}


def test_a_commit_that_a_hard_reset_meets_is_made_on_the_new_head() -> None:
    world, ids = history()
    put(world.main, {"y": "1"})
    refused: list[GravelerError] = []

    def act() -> None:
        world.wait_for_leases()  # the owner is slow; its changes are still not committed
        try:
            world.main.hard_reset("main", ids[0])
        except GravelerError as error:
            refused.append(error)

    world.repository(Before(TRANSACT, 2, act)).commit("main", "m")
    assert [type(error) for error in refused] == [DirtyBranchError]
    assert texts(world.main, "main@") == {"k": "2", "y": "1"}


@pytest.mark.parametrize("fault", ["repeat", "fail_after"])
def test_moves_whose_requests_arrive_twice_or_unanswered_happen_once(fault: Fault) -> None:
    world, ids = history()
    world.repository(Before(*AT, fault=fault)).hard_reset("main", ids[0])
    assert head(world) == ids[0]
    world.repository(Before(*AT, fault=fault)).undo("main")
    assert head(world) == ids[2]
    world.main.create_branch("b", "main")
    world.repository(Before(*AT, fault=fault)).rename_branch("b", "c")
    assert [b.name for b in world.main.branches().results] == ["c", "main"]


def test_undo_goes_back_and_undoing_it_goes_forth() -> None:
    world, ids = history()
    put(world.main, {"x": "1"})
    world.main.reset("main")  # moves no commit
    assert world.main.undo("main", by="me").commit_id == ids[1]
    row = world.main.reflog("main")[0]
    assert (row.event.operation, row.event.by, row.old, row.new) == ("undo", "me", ids[2], ids[1])
    assert texts(world.main) == {"k": "1"}
    world.main.undo("main")
    assert head(world) == ids[2]
    world.main.hard_reset("main", ids[0])
    world.main.undo("main")
    assert head(world) == ids[2]


@pytest.mark.parametrize("ahead", [-86_400.0, 86_400.0])
def test_undo_takes_back_what_happened_last_whatever_the_clocks_say(ahead: float) -> None:
    world = World()
    other = world.repository(clock=OwnClock(world.clock, ahead))
    first = commit(world.main, {"k": "1"}, message="1")
    second = commit(other, {"k": "2"}, message="2")
    third = commit(world.main, {"k": "3"}, message="3")
    world.main.hard_reset("main", first, by="reset")
    for repository, back, forth in ((world.main, third, first), (other, third, first)):
        assert repository.undo("main").commit_id == back
        assert repository.undo("main").commit_id == forth
    assert other.undo("main").commit_id == third
    other.hard_reset("main", second)
    world.main.undo("main")
    assert head(world) == third
    news = [row.new for row in world.main.reflog("main")]
    assert news == [third, second, third, first, third, first, third, first, third, second, first, news[-1]]
    assert [row.new for row in world.main.reflog("main", 3)] == news[:3]


@pytest.mark.parametrize("ahead", [-86_400.0, 86_400.0])
def test_the_log_of_a_name_goes_on_where_a_branch_takes_it_again(ahead: float) -> None:
    world = World()
    other = world.repository(clock=OwnClock(world.clock, ahead))
    first = world.main.branch("main").commit_id
    other.create_branch("b", "main")
    second = commit(other, {"k": "1"}, "b")
    other.delete_branch("b")
    world.main.create_branch("b", second)
    with pytest.raises(NotFoundError, match="nothing to undo"):
        world.main.undo("b")
    world.main.create_branch("c", "main")
    world.main.delete_branch("b")
    other.rename_branch("c", "b")
    third = commit(world.main, {"k": "2"}, "b")
    rows = [(row.old, row.new) for row in world.main.reflog("b")]
    assert rows[:4] == [(first, third), (None, first), (second, None), (None, second)]
    assert rows[4:] == [(second, None), (first, second), (None, first)]
    assert [row.new for row in world.main.reflog("c")] == [None, first]
    assert other.undo("b").commit_id == first


def test_a_name_that_somebody_uses_meanwhile_is_counted_on() -> None:
    world = World()

    def meanwhile() -> None:
        world.main.create_branch("b", "main")
        world.main.delete_branch("b")

    hook = Before("tables.transact", 1, act=meanwhile)
    world.repository(hook).create_branch("b", "main")
    assert hook.reached
    hook = Before("tables.transact", 1, act=lambda: world.main.create_branch("b", "main"))
    world.main.delete_branch("b")
    with pytest.raises(AlreadyExistsError):
        world.repository(hook).create_branch("b", "main")
    verbs = [row.event.operation.partition(" ")[0] for row in reversed(world.main.reflog("b"))]
    assert verbs == ["create", "delete"] * 2 + ["create"]


def test_branches_that_an_earlier_version_moved_are_counted_from_then_on() -> None:
    """Its rows are in order of time, and its writes of the branch's item know no counter."""
    world, ids = history()
    key = world.main.parts.refs.branch_key("main")
    partition = f"{world.main.repository.uid}/reflog/branch/main"
    item = dict(world.tables.get(key) or {})
    del item["moves"]
    world.tables.put(key, item)
    for sort, row in world.tables.query(partition).items:
        old = {name: value for name, value in row.items() if name != "time_ns"}
        time_ns = row["time_ns"]
        assert isinstance(time_ns, int)
        world.tables.delete(Key(partition, sort))
        world.tables.put(Key(partition, time_ns.to_bytes(8) + sort), old)
    before = world.main.reflog("main")
    assert [row.new for row in before[:3]] == ids[::-1]
    assert world.repository().undo("main").commit_id == ids[1]
    world.main.undo("main")
    assert head(world) == ids[2]
    slow = world.repository(clock=OwnClock(world.clock, -86_400.0))
    fourth = commit(slow, {"k": "4"})
    assert [row.new for row in world.main.reflog("main")] == [fourth, ids[2], ids[1], *(row.new for row in before)]
    assert slow.undo("main").commit_id == ids[2]


def test_a_hard_reset_with_a_request_id_moves_once_whatever_its_ref_is_relative_to() -> None:
    world = World()
    made = [commit(world.main, {"a": str(number)}) for number in range(4)]
    for _ in range(3):
        assert world.repository().hard_reset("main", "main~1", request_id="r").commit_id == made[2]
    commit(world.main, {"b": "1"})
    assert world.main.hard_reset("main", "main~1", request_id="r").commit_id == made[2], "its result, and no move"
    assert texts(world.main) == {"a": "2", "b": "1"}
    world.main.create_branch("other", made[3])
    assert world.main.hard_reset("other", "other~1", request_id="r").commit_id == made[2], "another branch's log"
    assert world.main.hard_reset("main", "main~1", request_id="s").commit_id == made[2]
    assert world.main.hard_reset("main", "main~1", request_id="t").commit_id == made[1]


def test_of_hard_resets_with_one_request_id_at_the_same_time_one_moves() -> None:
    world = World()
    made = [commit(world.main, {"a": str(number)}) for number in range(4)]
    barrier = Barrier(4)

    def reset() -> str:
        repository = world.repository()
        barrier.wait()
        return repository.hard_reset("main", "main~1", request_id="r").commit_id

    with ThreadPoolExecutor(4) as threads:
        found = [future.result() for future in [threads.submit(reset) for _ in range(4)]]
    assert set(found) == {made[2]}
    assert world.main.branch("main").commit_id == made[2]


def test_there_is_nothing_to_undo_on_a_new_branch() -> None:
    world, _ = history()
    world.main.create_branch("b", "main")
    with pytest.raises(NotFoundError, match="nothing to undo"):
        world.main.undo("b")
    commit(world.main, {"z": "1"}, "b")
    world.main.undo("b")
    assert texts(world.main, "b") == {"k": "2"}


@pytest.mark.parametrize("moment", [("tables.query", 1), ("tables.get_many", 2), AT])
def test_undo_does_not_take_back_what_it_has_not_seen(moment: tuple[str, int]) -> None:
    world, _ = history()
    hook = Before(*moment, act=lambda: commit(world.main, {"y": "1"}))
    with suppress(NotFoundError, PreconditionError):
        world.repository(hook).undo("main")
        raise AssertionError
    assert hook.reached
    assert texts(world.main) == {"k": "2", "y": "1"}


# Rename


def staged_branch(world: World) -> None:
    """A branch with a commit, a sealed token whose owner died, and an open one."""
    world.main.create_branch("old", "main")
    commit(world.main, {"a": "c"}, "old")
    put(world.main, {"a": "s", "b": "s"}, "old")
    assert died(lambda: world.repository(DieAt("objects.put")).commit("old", "dead"))
    put(world.main, {"b": "o"}, "old")


def test_a_renamed_branch_takes_its_uncommitted_changes_along() -> None:
    world = World()
    staged_branch(world)
    before = world.main.parts.branches.state("old")
    made = world.main.rename_branch("old", "new", by="me")
    assert (made.name, made.commit_id) == ("new", before.commit_id)
    after = world.main.parts.branches.state("new")
    assert after.sealed == ()
    assert after.open not in (before.open, *before.sealed)
    assert texts(world.main, "new") == {"a": "s", "b": "o"}
    with pytest.raises(RefNotFoundError):
        world.main.branch("old")
    rows = [(e.event.operation, e.old, e.new) for e in (world.main.reflog("old")[0], world.main.reflog("new")[0])]
    assert rows == [("rename branch", before.commit_id, None), ("rename branch", None, before.commit_id)]
    world.wait_for_leases()
    world.main.commit("new", "m")
    assert texts(world.main, "new@") == {"a": "s", "b": "o"}


def test_names_that_a_branch_cannot_get() -> None:
    world = World()
    world.main.create_branch("a", "main")
    world.main.create_branch("b", "main")
    with pytest.raises(ForbiddenError, match="default branch"):
        world.main.rename_branch("main", "c")
    with pytest.raises(RefNotFoundError):
        world.main.rename_branch("none", "c")
    for taken in ("b", "main", "a"):
        with pytest.raises(AlreadyExistsError, match=f"branch '{taken}' already exists"):
            world.main.rename_branch("a", taken)
    with pytest.raises(InvalidError):
        world.main.rename_branch("a", "")
    assert [b.name for b in world.main.branches().results] == ["a", "b", "main"]


def acts() -> list[Callable[[OpenRepository], object]]:
    return [
        lambda r: put(r, {"x": "1"}, "old"),
        lambda r: r.commit("old", "m"),
        lambda r: r.reset("old", prefix="none"),
        lambda r: r.upload("old", "x", b"1", if_absent=True),
    ]


@pytest.mark.parametrize("act", acts())
@pytest.mark.parametrize("moment", range(14))
def test_a_rename_at_any_moment_of_another_verb_loses_nothing(
    act: Callable[[OpenRepository], object], moment: int
) -> None:
    world = World()
    staged_branch(world)
    world.wait_for_leases()

    def schedule(_: str, number: int) -> Fault:
        if number == moment:
            world.main.rename_branch("old", "new")
        return None

    acknowledged = True
    try:
        act(world.repository(schedule))
    except GravelerError:
        acknowledged = False
    names = {b.name for b in world.main.branches().results} - {"main"}
    assert len(names) == 1
    name = names.pop()
    found = texts(world.main, name)
    assert {**found, "x": "1"} == {"a": "s", "b": "o", "x": "1"}
    world.wait_for_leases()
    if changes(world.main, name):
        world.main.commit(name, "rest")
    assert texts(world.main, f"{name}@") == found
    assert messages(world.main, name)[-1] == "Repository created"
    assert acknowledged or name == "new"


def test_a_commit_that_meets_a_rename_says_so() -> None:
    said = set()
    for moment in range(14):
        world = World()
        staged_branch(world)
        world.wait_for_leases()

        def schedule(_: str, number: int, moment: int = moment, world: World = world) -> Fault:
            if number == moment:
                world.main.rename_branch("old", "new")
            return None

        try:
            world.repository(schedule).commit("old", "m")
        except PreconditionError as error:
            said.add(str(error))
        except RefNotFoundError:
            continue
    assert said == {"branch 'old' was renamed while it was being committed; nothing was committed"}


def test_two_who_rename_at_once() -> None:
    world = World()
    world.main.create_branch("a", "main")
    world.main.create_branch("b", "main")
    with pytest.raises(AlreadyExistsError):
        world.repository(Before(*AT, act=lambda: world.main.rename_branch("b", "c"))).rename_branch("a", "c")
    with pytest.raises(RefNotFoundError):
        world.repository(Before(*AT, act=lambda: world.main.rename_branch("a", "d"))).rename_branch("a", "e")
    assert [b.name for b in world.main.branches().results] == ["c", "d", "main"]


def test_cost() -> None:
    world, ids = history()
    world.main.create_branch("b", "main")

    def asked(verb: Callable[[OpenRepository], object]) -> tuple[int, int, int]:
        counted = world.counted()
        counted.reset()
        verb(counted.repository)
        calls = counted.tables.calls
        return calls["get"] + calls["get_many"], calls["query"], calls["transact"]

    assert asked(lambda r: r.rename_branch("b", "c")) == (1, 3, 2)
    found = asked(lambda r: r.hard_reset("main", ids[0]))
    assert found[1:] == (1, 1), found
    assert asked(lambda r: r.undo("main"))[1:] == (2, 1)


def test_a_tag_that_is_made_again_while_it_is_deleted_is_deleted() -> None:
    world = World()
    first = world.main.commit("main", "first", allow_empty=True)
    world.main.create_tag("v", "main~1")

    def again() -> None:
        world.main.delete_tag("v")
        world.main.create_tag("v", first.id)

    world.repository(Before("tables.transact", 0, again)).delete_tag("v")
    assert world.main.tags().results == ()


def test_what_was_undone_can_be_uploaded_again() -> None:
    """The process still has the token under which it was staged before, and somebody has staged on a condition."""
    world = World()
    world.main.upload("main", "a", b"1", if_absent=True)
    world.main.upload("main", "a", b"2")
    world.main.commit("main", "a")
    world.main.undo("main")
    world.main.upload("main", "a", b"2")
    assert world.main.read("main", "a") == b"2"
