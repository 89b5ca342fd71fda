"""Numbered writes of applications: repeated after any failure and any time, each version is on the branch once (C4)."""

from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.errors import AlreadyExistsError, CorruptError, InvalidError
from graveler.lake.committing.request_results import REQUEST_TTL
from graveler.lake.repository import OpenRepository
from graveler.model import Application, Commit
from graveler.storage.tables.port import Key
from tests.lake.support import Before, DieAt, World, commit, died, put, texts
from tests.support.campaigns import examples
from tests.support.instruments import Fault

NAMES = count()


def write(repository: OpenRepository, version: int, *, branch: str = "main", app: str = "stream") -> Commit:
    """One try of one batch, as Spark makes it: files with names of their own, on a branch of its own, which is merged."""
    name = f"try-{next(NAMES)}"
    repository.create_branch(name, branch, hidden=True)
    put(repository, {f"{app}/{version}/{name}": "x"}, name)
    repository.commit(name, f"batch {version}")
    return repository.merge(name, branch, message=f"batch {version}", application=Application(app, version))


def versions(repository: OpenRepository, ref: str = "main") -> list[str]:
    """Of each file that is there, whose it is and of which version."""
    return sorted(path.rpartition("/")[0] for path in texts(repository, ref))


def world_with(*written: int) -> World:
    world = World()
    commit(world.main, {"a": "1"})
    world.main.delete("main", ["a"])
    world.main.commit("main", "nothing")
    for version in written:
        write(world.main, version)
    return world


def test_a_version_that_is_repeated_after_weeks_is_there_once() -> None:
    world = world_with(0, 1)
    made = world.main.commit_of("main")
    world.clock.time += 10 * REQUEST_TTL
    commit(world.main, {"others": "go on"})
    head = world.main.commit_of("main")
    assert write(world.repository(), 1) == made
    assert write(world.repository(), 0).id == made.parents[0], "the one that it made then"
    assert world.main.commit_of("main") == head
    assert world.main.written_by("main", Application("stream", 1)) == made
    assert world.main.written_by("main", Application("stream", 2)) is None
    write(world.repository(), 2)
    write(world.repository(), 1, app="another")
    assert versions(world.main) == ["", "another/1", "stream/0", "stream/1", "stream/2"]


def test_the_source_of_a_repeated_one_may_be_gone() -> None:
    world = world_with(0)
    assert world.main.merge("gone", "main", application=Application("stream", 0)) == world.main.commit_of("main")


@pytest.mark.parametrize("moment", range(40))
def test_a_version_written_by_two_at_once_is_there_once(moment: int) -> None:
    world = world_with(0)
    made: list[Commit] = []

    def schedule(_: str, number: int) -> Fault:
        if number == moment:
            made.append(write(world.repository(), 1))
        return None

    made.append(write(world.repository(schedule), 1))
    assert len({one.id for one in made}) == 1
    assert versions(world.main) == ["stream/0", "stream/1"]


@pytest.mark.parametrize("moment", range(1, 8))
@pytest.mark.parametrize("after", [False, True])
def test_a_version_repeated_after_a_crash_is_there_once(moment: int, after: bool) -> None:
    world = world_with(0)
    died(lambda: write(world.repository(DieAt("tables.transact", moment, after=after)), 1))
    world.wait_for_leases()
    write(world.repository(), 1)
    write(world.repository(), 2)
    assert versions(world.main) == ["stream/0", "stream/1", "stream/2"]


def test_of_a_version_and_the_next_one_at_once_both_are_there() -> None:
    world = world_with(0)
    schedule = Before("tables.transact", 4, lambda: write(world.repository(), 1, app="another"))
    write(world.repository(schedule), 1)
    assert schedule.reached
    assert versions(world.main) == ["another/1", "stream/0", "stream/1"]


def test_what_left_the_branch_is_written_when_it_is_repeated() -> None:
    """A reset, an undo, a branch of the same name: the rows have gone, and the stream brings them again."""
    world = world_with(0, 1)
    world.main.undo("main")
    assert versions(world.main) == ["stream/0"]
    write(world.main, 1)
    assert versions(world.main) == ["stream/0", "stream/1"]
    world.main.create_branch("b", "main~1")
    write(world.main, 1, branch="b")
    world.main.delete_branch("b")
    world.main.create_branch("b", "main~1")
    assert world.main.written_by("b", Application("stream", 1)) is None
    write(world.main, 1, branch="b")
    assert versions(world.main, "b") == ["stream/0", "stream/1"]
    world.main.hard_reset("main", "main~2")
    write(world.main, 0)
    assert versions(world.main) == ["stream/0"]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["write", "undo", "reset"]), st.integers(0, 4)), min_size=1, max_size=9))
@example([("write", 0), ("write", 1), ("undo", 0), ("write", 0)])
@example([("write", 0), ("write", 3), ("reset", 1), ("write", 1), ("undo", 0), ("write", 3), ("write", 0)])
def test_what_the_branch_has_is_not_written_again_whatever_became_of_later_versions(
    does: list[tuple[str, int]],
) -> None:
    """A version is written if, and only if, the branch has neither it nor a later one, by what its history says."""
    world = world_with()
    known: dict[str, list[int]] = {world.main.commit_of("main").id: []}
    """What each head that the branch had has of the application."""
    for verb, number in does:
        there = known[world.main.commit_of("main").id]
        if verb == "write":
            made = write(world.main, number)
            if not there or max(there) < number:
                assert made.id not in known
                known[made.id] = [*there, number]
        elif verb == "undo" and len(known) > 1:
            world.main.undo("main")
        elif verb == "reset" and there:
            world.main.hard_reset("main", f"main~{1 + number % len(there)}")
        there = known[world.main.commit_of("main").id]
        assert versions(world.main) == sorted(f"stream/{version}" for version in there)
        last = max(there, default=-1)
        for version in range(5):
            found = world.main.written_by("main", Application("stream", version))
            assert (found is not None) == (version <= last)


def test_what_an_older_process_has_noted_is_read_and_what_a_newer_one_notes_is_bounded() -> None:
    world = world_with()
    uid = world.main.repository.uid
    key = Key(f"{uid}/applications", b"main\0stream")
    for version in range(12):
        write(world.main, version)
        noted = world.tables.get(key)
        assert noted is not None
        if version == 5:  # as an older process writes it
            world.tables.put(key, {name: value for name, value in noted.items() if name != "earlier"})
    commits = [one.id for one in world.main.log("main", first_parent=True, amount=9).results]
    noted = world.tables.get(key)
    assert noted is not None
    assert noted["earlier"] == [f"{10 - at} {commit}" for at, commit in enumerate(commits[1:7])]
    world.main.hard_reset("main", "main~3")
    assert [write(world.main, version).id for version in (8, 7, 0)] == [commits[3], commits[4], commits[6]]
    assert world.main.commit_of("main").id == commits[3]


def test_branches_count_apart_and_a_renamed_one_goes_on() -> None:
    world = world_with(0)
    world.main.create_branch("b", "main")
    write(world.main, 1, branch="b")
    write(world.main, 1)
    assert write(world.main, 1, branch="b") == world.main.commit_of("b")
    world.main.rename_branch("b", "c")
    assert write(world.main, 1, branch="c") == world.main.commit_of("c")
    assert versions(world.main, "c") == ["stream/0", "stream/1"]


@pytest.mark.parametrize("moment", range(1, 8))
def test_a_rename_at_any_moment_of_a_write_loses_no_version(moment: int) -> None:
    world = world_with()
    world.main.create_branch("b", "main")
    schedule = Before("tables.query", moment, lambda: write(world.repository(), 0, branch="b"))
    world.repository(schedule).rename_branch("b", "c")
    write(world.main, 0, branch="c")
    assert versions(world.main, "c") == ["stream/0"]


def test_a_rename_to_a_name_that_another_branch_takes_meanwhile_leaves_its_versions_alone() -> None:
    """The rename fails, and what it had begun to note must not count for the other branch."""
    world = world_with()
    world.main.create_branch("b", "main")
    write(world.main, 0, branch="b")
    made: list[Commit] = []

    def schedule(request: str, _: int) -> Fault:
        """Once the branch is closed, before anything is noted."""
        state = None if made else world.main.parts.refs.branch("b")
        if state is not None and state.renaming is not None:
            world.main.create_branch("c", "main")
            made.append(write(world.repository(), 1, branch="c"))
        return None

    with pytest.raises(AlreadyExistsError):
        world.repository(schedule).rename_branch("b", "c")
    assert write(world.main, 1, branch="c") == made[0]
    assert versions(world.main, "c") == ["stream/1"]


def test_what_is_no_application_is_refused() -> None:
    world = world_with()
    for application, match in (
        (Application("", 0), "1 to 200 printable characters"),
        (Application("x" * 201, 0), "1 to 200 printable characters"),
        (Application("a\0b", 0), "1 to 200 printable characters"),
        (Application("a", -1), "from 0 to"),
    ):
        with pytest.raises(InvalidError, match=match):
            world.main.merge("main~1", "main", application=application)
        with pytest.raises(InvalidError, match=match):
            world.main.written_by("main", application)


def test_a_numbered_merge_costs_one_table_read_more() -> None:
    world = world_with(0)
    calls = []
    for application in (None, Application("stream", 1)):
        name = f"try-{next(NAMES)}"
        world.main.create_branch(name, "main", hidden=True)
        put(world.main, {name: "x"}, name)
        world.main.commit(name, "batch")
        counted = world.counted()
        counted.reset()
        counted.repository.merge(name, "main", application=application)
        calls.append(counted.tables.calls)
    plain, numbered = calls
    assert numbered["get"] == plain["get"] + 1
    assert {**numbered, "get": 0} == {**plain, "get": 0}


def test_an_item_that_cannot_be_read_is_told() -> None:
    world = world_with(0)
    partition = f"{world.main.repository.uid}/applications"
    ((sort, item),) = world.tables.query(partition).items
    world.tables.put(Key(partition, sort), {**item, "version": "one"})
    with pytest.raises(CorruptError, match="application 'stream' on branch 'main'"):
        write(world.main, 1)


def test_a_restored_repository_knows_its_versions() -> None:
    world = world_with(0, 1)
    dumped = world.main.dump()
    made = world.main.commit_of("main")
    world.lake().delete_repository("repo")
    uid = world.main.repository.uid
    world.tables.remove_partitions(f"{uid}/applications")
    world.lake().restore(dumped.namespace, dumped.id, "repo")
    again = world.repository()
    assert again.written_by("main", Application("stream", 1)) == made
    assert write(again, 1) == made
    write(again, 2)
    assert versions(again) == ["stream/0", "stream/1", "stream/2"]
