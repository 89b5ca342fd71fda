"""A name or namespace has one owner, even if two claim it at once, or a claim arrives twice or unanswered."""

from collections.abc import Callable

import pytest

from graveler.errors import (
    AlreadyExistsError,
    BusyError,
    GravelerError,
    RepositoryNotFoundError,
    UnavailableError,
)
from graveler.lake.repository import OpenRepository
from tests.lake.support import (
    NAME,
    TINY,
    Before,
    DieAt,
    OwnClock,
    World,
    commit,
    died,
    paths,
    put,
)
from tests.support.instruments import Fault

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


@pytest.mark.parametrize("ahead", [-86_400.0, 0.0, 86_400.0])
@pytest.mark.parametrize("moment", [("objects.put", 1), ("objects.put", 2), ("tables.transact", 1)])
def test_a_namespace_whose_creator_died_can_be_claimed_after_a_while(moment: tuple[str, int], ahead: float) -> None:
    world = World()
    dying = world.lake(DieAt(*moment, after=moment[0] == "objects.put"))
    assert died(lambda: dying.create_repository("dead", "mem://new"))
    lake = world.lake(clock=OwnClock(world.clock, ahead))
    slept = world.clock.slept
    lake.create_repository("alive", "mem://new")
    assert 30 <= world.clock.slept - slept < 35
    assert [r.name for r in lake.repositories().results] == ["alive", NAME]


def test_a_creator_that_is_slow_gives_the_namespace_back() -> None:
    world = World()

    def stand_still() -> None:
        world.clock.time += 16

    with pytest.raises(BusyError, match="took longer than 15 s"):
        world.lake(Before("objects.put", 2, stand_still)).create_repository("slow", "mem://new")
    slept = world.clock.slept
    world.lake().create_repository("next", "mem://new")
    assert world.clock.slept == slept


def test_a_creator_that_was_only_slow_does_not_get_a_namespace_that_another_took_over() -> None:
    world = World()
    lake = world.lake()

    def take_over() -> None:
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
