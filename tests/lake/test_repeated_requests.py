"""Requests with an id, repeated at any moment, after crashes, and by two at once, have the effect of one (C4)."""

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import pytest

from graveler.lake.repository import OpenRepository
from graveler.model import Branch, Commit, CommitID
from tests.lake.support import (
    Before,
    DieAt,
    Died,
    World,
    changes,
    died,
    diverged,
    messages,
    put,
    write_files,
)
from tests.support.instruments import Fault

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


MOVES: list[Callable[[OpenRepository], Branch]] = [
    lambda opened: opened.undo("main", request_id="r1"),
    lambda opened: opened.hard_reset("main", "main~1", request_id="r1"),
]


@pytest.mark.parametrize("move", MOVES, ids=["undo", "hard reset"])
@pytest.mark.parametrize("later", [False, True])
def test_a_move_repeated_at_any_moment_of_the_first_moves_the_branch_once(
    move: Callable[[OpenRepository], Branch], later: bool
) -> None:
    """Whether the branch stays where the other attempt has moved it, or somebody commits on top of that."""
    for moment in range(16):
        world = World()
        heads = [world.main.commit("main", str(number), allow_empty=True).id for number in range(3)]
        between: list[CommitID] = []

        def meanwhile(world: World = world, between: list[CommitID] = between) -> None:
            between.append(move(world.repository()).commit_id)
            if later:
                world.main.commit("main", "later", allow_empty=True)

        assert move(world.repository(BeforeNumber(moment, meanwhile))).commit_id == heads[1]
        assert between in ([], [heads[1]]), moment
        said = messages(world.main)
        assert said[: len(said) - 3] == (["later"] if later and between else []), moment
    assert not between


class BeforeNumber:
    """Does something right before the request with this number."""

    def __init__(self, number: int, work: Callable[[], None]) -> None:
        self._number = number
        self._work = work

    def __call__(self, _: str, number: int) -> Fault:
        if number == self._number:
            self._work()
        return None
