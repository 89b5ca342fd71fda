"""Create only if absent: of several creators one wins, and nothing acknowledged is overwritten."""

from collections.abc import Callable

import pytest

from graveler.errors import AlreadyExistsError, RefNotFoundError, UnavailableError
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from tests.lake.support import Before, DieAt, World, commit, died, put, texts
from tests.support.instruments import Fault

TRANSACT = "tables.transact"


def create(repository: OpenRepository, text: str, path: str = "k") -> bool:
    """Did it win?"""
    try:
        repository.upload("main", path, text.encode(), if_absent=True)
    except AlreadyExistsError:
        return False
    return True


def seal_and_die(world: World) -> None:
    """Leave a sealed token on the branch whose owner's lease ran out."""
    assert died(lambda: world.repository(DieAt("objects.put")).commit("main", "dead"))
    assert world.main.parts.branches.state("main").sealed
    world.wait_for_leases()


def test_creating_what_is_nowhere_stages_it() -> None:
    world = World()
    entry = world.main.upload("main", "k", b"1", if_absent=True)
    assert world.main.stat("main", "k") == entry
    world.main.link("main", ObjectEntry("l", "mem://o/l", 1, "00" * 16, 0), if_absent=True)
    assert {e.path for e in world.main.objects("main")} == {"k", "l"}


@pytest.mark.parametrize("where", ["staged", "sealed", "committed"])
def test_what_is_there_is_not_created(where: str) -> None:
    world = World()
    put(world.main, {"k": "old"})
    if where == "sealed":
        seal_and_die(world)
    if where == "committed":
        world.main.commit("main", "m")
    counted = world.counted()
    with pytest.raises(AlreadyExistsError, match=r"object 'k' already exists; delete it first"):
        counted.repository.upload("main", "k", b"new", if_absent=True)
    assert counted.objects.calls["put"] == 0  # before any byte is written
    entry = ObjectEntry("k", "mem://o/l", 1, "00" * 16, 0)
    with pytest.raises(AlreadyExistsError):
        world.main.link("main", entry, if_absent=True)
    assert texts(world.main) == {"k": "old"}


@pytest.mark.parametrize("below", ["staged", "sealed", "committed"])
@pytest.mark.parametrize("tombstone", ["open", "sealed", "committed"])
def test_a_tombstone_hides_what_is_below(below: str, tombstone: str) -> None:
    world = World()
    put(world.main, {"k": "old", "z": "z"})
    if below == "sealed":
        seal_and_die(world)
    if below == "committed":
        world.main.commit("main", "m")
    world.main.delete("main", ["k"])
    if tombstone == "sealed":
        seal_and_die(world)
    if tombstone == "committed":
        world.main.commit("main", "n")
    assert create(world.main, "new")
    assert texts(world.main, prefix="k") == {"k": "new"}
    world.main.commit("main", "o")
    assert texts(world.main, "main@", "k") == {"k": "new"}


def steps() -> list[tuple[str, Callable[[World], object]]]:
    def put_and_seal(world: World) -> None:
        put(world.main, {"k": "other"})
        seal_and_die(world)

    def seal_and_create(world: World) -> None:
        put(world.main, {"x": "1"})
        seal_and_die(world)
        create(world.main, "other")  # into the token that is open now; the one that was looked at has nothing of it

    return [
        ("put", lambda world: put(world.main, {"k": "other"})),
        ("create", lambda world: create(world.main, "other")),
        ("put and commit", lambda world: commit(world.main, {"k": "other"})),
        ("create and commit", lambda world: (create(world.main, "other"), world.main.commit("main", "m"))),
        ("put and seal", put_and_seal),
        ("seal and create", seal_and_create),
    ]


@pytest.mark.parametrize(("name", "act"), steps(), ids=[name for name, _ in steps()])
@pytest.mark.parametrize("deleted", [False, True])
def test_who_comes_between_look_and_transaction_wins(name: str, act: Callable[[World], object], deleted: bool) -> None:
    world = World()
    if deleted:
        world.main.delete("main", ["k"])
    hook = Before(TRANSACT, 1, lambda: act(world))
    assert not create(world.repository(hook), "mine")
    assert hook.reached
    assert texts(world.main, prefix="k") == {"k": "other"}


def test_a_creator_that_a_seal_or_another_path_meets_tries_again_and_wins() -> None:
    world = World()
    put(world.main, {"x": "1"})

    def seal() -> None:
        put(world.main, {"y": "1"})
        seal_and_die(world)

    acts: list[Callable[[], object]] = [
        lambda: world.main.commit("main", "m"),
        seal,
        lambda: commit(world.main, {"k": None, "y": "2"}),
    ]
    for act in acts:
        assert create(world.repository(Before(TRANSACT, 1, act)), "mine")
        assert texts(world.main, prefix="k") == {"k": "mine"}
        put(world.main, {"k": None})


def test_the_creator_of_a_record_whose_token_is_being_committed_is_seen_by_the_next_one() -> None:
    """Both look before the commit seals; the first one stages late."""
    world = World()
    put(world.main, {"x": "1"})
    second: list[bool] = []

    def act() -> None:
        world.main.commit("main", "m")
        second.append(create(world.main, "second"))

    assert not create(world.repository(Before(TRANSACT, 1, act)), "first")
    assert second == [True]
    assert texts(world.main, prefix="k") == {"k": "second"}


@pytest.mark.parametrize("fault", ["repeat", "fail_after"])
def test_a_creator_whose_answer_is_lost_finds_its_own_record(fault: Fault) -> None:
    world = World()
    assert create(world.repository(Before(TRANSACT, 1, fault=fault)), "mine")
    assert texts(world.main) == {"k": "mine"}
    assert not create(world.main, "other")


def test_a_creator_whose_request_does_not_arrive_says_so() -> None:
    world = World()
    with pytest.raises(UnavailableError):
        create(world.repository(Before(TRANSACT, 1, fault="fail_before")), "mine")
    assert texts(world.main) == {}


def test_a_creator_that_dies_leaves_the_path_as_it_was_or_created() -> None:
    for after in (False, True):
        world = World()
        assert died(lambda: create(world.repository(DieAt(TRANSACT, 1, after=after)), "mine"))  # noqa: B023
        assert texts(world.main) == ({"k": "mine"} if after else {})
        assert create(world.main, "other") is not after


def test_a_linked_record_that_is_there_already_exactly_so_is_no_win_unless_tried_before() -> None:
    world = World()
    entry = ObjectEntry("k", "mem://o/l", 1, "00" * 16, 0)
    world.main.link("main", entry, if_absent=True)
    with pytest.raises(AlreadyExistsError):
        world.main.link("main", entry, if_absent=True)


def test_a_branch_deleted_meanwhile_takes_nothing() -> None:
    world = World()
    world.main.create_branch("b", "main")
    hook = Before(TRANSACT, 1, lambda: world.main.delete_branch("b"))
    with pytest.raises(RefNotFoundError):
        world.repository(hook).upload("b", "k", b"1", if_absent=True)


def test_cost() -> None:
    world = World()
    commit(world.main, {f"p{n}": str(n) for n in range(40)})

    def asked(path: str, warm: str) -> tuple[int, int, int, int]:
        counted = world.counted()
        if warm:
            counted.repository.stat("main", warm)
        counted.reset()
        counted.repository.link("main", ObjectEntry(path, "mem://o/l", 1, "00" * 16, 0), if_absent=True)
        calls = counted.tables.calls
        assert counted.ranges_read() <= 1
        return (
            calls["get"] + calls["get_many"],
            calls["transact"],
            counted.tables.requests,
            counted.metaranges_read(),
        )

    assert asked("p20x", "") == (3, 1, 4, 1)
    assert asked("p20y", "p20") == (2, 1, 3, 0)
    world.main.delete("main", ["p21"])
    assert asked("p21", "") == (2, 1, 3, 0)
    counted = world.counted()
    counted.reset()
    counted.repository.upload("main", "p20z", b"1", if_absent=True)
    calls = counted.tables.calls
    assert (calls["get"] + calls["get_many"], calls["transact"], counted.tables.requests) == (3, 1, 4)
    assert counted.objects.calls["put"] == 1
