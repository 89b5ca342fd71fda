"""Dropping uncommitted changes, all, of a path or of a prefix, while others write, commit and reset."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread, current_thread

import pytest

from graveler.errors import BusyError, GravelerError, InvalidError, NoChangesError, PreconditionError, RefNotFoundError
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.staging.cleanup import LONGEST_REQUEST
from graveler.staging.tokens import TokenState
from tests.lake.support import Before, DieAt, World, changes, commit, died, put, texts
from tests.support.instruments import Fault
from tests.support.patience import PATIENCE

TRANSACT = "tables.transact"


def seal_and_die(world: World, *, wait: bool = True) -> None:
    """Leave a sealed token on the branch whose owner died; its lease has run out, or (not ``wait``) lives."""
    assert died(lambda: world.repository(DieAt("objects.put")).commit("main", "dead"))
    assert world.main.parts.branches.state("main").sealed
    if wait:
        world.wait_for_leases()


def mixed(*, sealed: bool) -> World:
    """Committed, staged in a sealed token if there is one, and in the open token."""
    world = World()
    commit(world.main, {"a/1": "c", "a/2": "c", "b/1": "c", "b/2": "c", "b/3": "c"})
    put(world.main, {"a/1": "s", "a/2": None, "b/1": "s", "b/2": None, "b/3": "s", "a/new": "s", "c": "s"})
    if sealed:
        seal_and_die(world)
    put(world.main, {"a/1": "o", "b/3": "o", "d": "o"})
    return world


RESET_ALL = {"a/1": "c", "a/2": "c", "b/1": "c", "b/2": "c", "b/3": "c"}
RESET_A = {"a/1": "c", "a/2": "c", "b/1": "s", "b/3": "o", "c": "s", "d": "o"}
RESET_A1 = {"a/1": "c", "b/1": "s", "b/3": "o", "a/new": "s", "c": "s", "d": "o"}
AS_IT_WAS = {"a/1": "o", "b/1": "s", "b/3": "o", "a/new": "s", "c": "s", "d": "o"}

Reset = Callable[[OpenRepository], None]
RESETS: list[tuple[Reset, dict[str, str]]] = [
    (lambda r: r.reset("main", by="me"), RESET_ALL),
    (lambda r: r.reset("main", prefix="a/", by="me"), RESET_A),
    (lambda r: r.reset("main", path="a/1", by="me"), RESET_A1),
]
EACH = pytest.mark.parametrize(("reset", "expected"), RESETS, ids=["all", "prefix", "path"])
SEALED = pytest.mark.parametrize("sealed", [False, True])


@SEALED
@EACH
def test_what_is_reset_is_as_committed_and_the_rest_stays(reset: Reset, expected: dict[str, str], sealed: bool) -> None:
    world = mixed(sealed=sealed)
    reset(world.main)
    assert texts(world.main) == expected
    assert world.main.parts.branches.state("main").sealed == ()
    reset(world.main)  # once more: nothing to do
    assert texts(world.main) == expected
    if expected != RESET_ALL:
        world.main.commit("main", "the rest")
        assert texts(world.main, "main@") == expected
    assert changes(world.main) == {}
    with pytest.raises(NoChangesError):
        world.main.commit("main", "nothing")


def test_a_path_that_a_sealed_token_does_not_hold_leaves_that_token_alone() -> None:
    world = mixed(sealed=True)
    before = world.main.parts.branches.state("main")
    world.main.reset("main", path="d")
    world.main.reset("main", prefix="d")
    assert world.main.parts.branches.state("main") == before
    assert "d" not in texts(world.main)


def test_resetting_nothing_is_no_error_and_no_transaction() -> None:
    world = World()
    counted = world.counted()
    counted.reset()
    counted.repository.reset("main")
    counted.repository.reset("main", path="k")
    counted.repository.reset("main", prefix="k")
    assert counted.tables.calls["transact"] == 0
    with pytest.raises(RefNotFoundError):
        world.main.reset("none")
    with pytest.raises(InvalidError, match="either path 'a' or prefix 'b'"):
        world.main.reset("main", path="a", prefix="b")
    put(world.main, {"k": "1"})
    world.main.reset("main", prefix="")
    assert texts(world.main) == {}


def test_tokens_of_a_reset_branch_say_so_and_are_cleaned_up() -> None:
    world = mixed(sealed=True)
    state = world.main.parts.branches.state("main")
    world.main.reset("main", by="me")
    for token in (state.open, *state.sealed):
        outcome = world.outcomes().get(token)
        assert outcome is not None
        assert outcome.state is TokenState.RESET
        assert world.staged().exists([token])  # readers of before may still look
        assert token in list(world.cleanup().waiting())
    row = world.main.reflog("main")[0]
    assert (row.event.operation, row.event.by, row.old) == ("reset", "me", row.new)
    world.clock.time += LONGEST_REQUEST + 1
    commit(world.main, {"x": "1"})
    assert not world.staged().exists([state.open, *state.sealed])


@pytest.mark.parametrize("moment", range(12))
@SEALED
@pytest.mark.parametrize(("reset", "expected"), RESETS[1:], ids=["prefix", "path"])
def test_a_put_of_another_key_at_any_moment_stays(
    reset: Reset, expected: dict[str, str], sealed: bool, moment: int
) -> None:
    world = mixed(sealed=sealed)
    other = world.repository()
    other.link("main", ObjectEntry("x", "mem://o/l", 1, "00" * 16, 0))  # knows the token
    other.reset("main", path="x")
    done = False

    def schedule(_: str, number: int) -> Fault:
        nonlocal done
        if number == moment:
            put(other, {"b/1": "new", "e": "new"})
            other.delete("main", ["c"])
            done = True
        return None

    reset(world.repository(schedule))
    if done:
        wanted = {**expected, "b/1": "new", "e": "new"}
        del wanted["c"]
        assert texts(world.main) == wanted
    else:
        assert texts(world.main) == expected


@pytest.mark.parametrize("moment", range(14))
@SEALED
@EACH
def test_a_commit_at_any_moment_takes_all_or_what_is_left(
    reset: Reset, expected: dict[str, str], sealed: bool, moment: int
) -> None:
    world = mixed(sealed=sealed)
    failed = ""

    def schedule(_: str, number: int) -> Fault:
        nonlocal failed
        if number == moment:
            try:
                world.main.commit("main", "m")
            except GravelerError as error:
                failed = str(error)
        return None

    reset(world.repository(schedule))
    # What the commit took first is committed and can not be reset any more.
    assert not failed or "nothing to commit" in failed
    for key in AS_IT_WAS.keys() | expected.keys():
        assert texts(world.main).get(key) in (AS_IT_WAS.get(key), expected.get(key)), key
    assert changes(world.main) == {} or moment == 0 or texts(world.main) == expected
    rest = texts(world.main)
    if changes(world.main):
        world.main.commit("main", "rest")
    assert texts(world.main, "main@") == rest


@pytest.mark.parametrize("moment", range(14))
@pytest.mark.parametrize("second", [RESETS[1][0], RESETS[2][0], lambda r: r.reset("main", path="c")])
def test_two_resets_at_once_reset_both(second: Reset, moment: int) -> None:
    """Each brings back what the other one drops."""
    world = mixed(sealed=True)
    done = False

    def schedule(_: str, number: int) -> Fault:
        nonlocal done
        if number == moment:
            second(world.repository())
            done = True
        return None

    world.repository(schedule).reset("main", path="b/3")
    if not done:
        second(world.repository())
    found = texts(world.main)
    assert found["b/3"] == "c"
    expected = mixed(sealed=True)
    second(expected.main)
    assert {**texts(expected.main), "b/3": "c"} == found


@pytest.mark.parametrize("moment", range(14))
@pytest.mark.parametrize("after", [False, True])
@SEALED
@EACH
def test_a_reset_that_dies_harms_nothing_and_can_be_repeated(
    reset: Reset, expected: dict[str, str], sealed: bool, moment: int, after: bool
) -> None:
    world = mixed(sealed=sealed)
    dead = False

    def schedule(_: str, number: int) -> Fault:
        nonlocal dead
        if dead or (number == moment and not after):
            dead = True
            raise KeyboardInterrupt
        if number == moment:
            dead = True
            return "fail_after"
        return None

    with suppress(KeyboardInterrupt, GravelerError):
        reset(world.repository(schedule))
    found = texts(world.main)
    for key in AS_IT_WAS.keys() | expected.keys():
        assert found.get(key) in (AS_IT_WAS.get(key), expected.get(key)), key
        if AS_IT_WAS.get(key) == expected.get(key):
            assert found.get(key) == expected.get(key)
    reset(world.main)
    assert texts(world.main) == expected


@pytest.mark.parametrize("fault", ["repeat", "fail_after"])
@pytest.mark.parametrize("number", [1, 2, 3])
@EACH
def test_requests_that_arrive_twice_or_unanswered(
    reset: Reset, expected: dict[str, str], fault: Fault, number: int
) -> None:
    world = mixed(sealed=True)
    try:
        reset(world.repository(Before(TRANSACT, number, fault=fault)))
    except GravelerError:
        assert fault == "fail_after"
        assert expected != RESET_ALL, "the reference log says that it happened"
        reset(world.main)
    assert texts(world.main) == expected


def test_a_put_that_lands_in_the_old_token_of_a_reset_branch_is_staged_again() -> None:
    world = World()
    writer = world.repository(Before("tables.put", 1, lambda: world.main.reset("main")))
    put(world.main, {"k": "1"})
    put(writer, {"l": "1"})
    assert texts(world.main) == {"l": "1"}
    late = world.repository()
    put(late, {"m": "1"})
    world.main.reset("main")
    put(late, {"n": "1"})
    assert texts(world.main) == {"n": "1"}


@EACH
def test_the_lease_of_a_commit_at_work_is_waited_for(reset: Reset, expected: dict[str, str]) -> None:
    world = World()
    commit(world.main, {"a/1": "c"})
    put(world.main, {"a/1": "s", "b": "s"})
    world.repository(Before("objects.put", 1, lambda: None))
    reached = False

    def during() -> None:
        nonlocal reached
        reached = True
        slept = world.clock.slept
        world.clock.on_sleep = None
        with pytest.raises(BusyError):
            # The fake clock runs past the lease only by sleeping, and the owner renews it.
            renewing(world, lambda: reset(world.repository()))
        assert world.clock.slept > slept

    world.repository(Before("objects.put", 1, during)).commit("main", "m")
    assert reached
    assert texts(world.main, "main@") == {"a/1": "s", "b": "s"}


def renewing(world: World, act: Callable[[], object]) -> None:
    """Run ``act`` while the lease of the branch's sealed token is renewed at each sleep."""
    (token,) = world.main.parts.branches.state("main").sealed
    outcome = world.outcomes().get(token)
    assert outcome is not None

    def renew() -> None:
        write = world.outcomes().renew_write(token, outcome.owner, 6.0)
        world.tables.put(write.key, write.item, write.condition)

    world.clock.on_sleep = renew
    try:
        act()
    finally:
        world.clock.on_sleep = None


@EACH
def test_a_commit_that_was_only_slow_says_that_the_branch_was_reset(reset: Reset, expected: dict[str, str]) -> None:
    world = mixed(sealed=False)

    def act() -> None:
        world.wait_for_leases()
        reset(world.main)

    with pytest.raises(PreconditionError, match="was reset while it was being committed; nothing was committed"):
        world.repository(Before(TRANSACT, 2, act)).commit("main", "slow")
    assert texts(world.main) == expected


def test_many_are_dropped_in_transactions_of_99() -> None:
    world = World()
    world.main.link_many("main", [ObjectEntry(f"k{n:04}", "mem://o/l", 1, "00" * 16, 0) for n in range(200)])
    put(world.main, {"z": "z"})
    counted = world.counted()
    counted.reset()
    counted.repository.reset("main", prefix="k")
    calls = counted.tables.calls
    assert (calls["get"] + calls["get_many"], calls["query"], calls["transact"], counted.tables.requests) == (
        1,
        1,
        3,
        5,
    )
    assert texts(world.main) == {"z": "z"}
    counted.reset()
    counted.repository.reset("main", path="z")
    calls = counted.tables.calls
    assert (calls["get"] + calls["get_many"], calls["transact"], counted.tables.requests) == (2, 1, 3)
    put(world.main, {"z": "z"})
    counted.reset()
    counted.repository.reset("main")
    calls = counted.tables.calls
    assert (calls["get"] + calls["get_many"], calls["query"], calls["transact"], counted.tables.requests) == (
        1,
        1,
        1,
        3,
    )


def test_many_are_brought_back_in_transactions_of_99() -> None:
    world = World()
    world.main.link_many("main", [ObjectEntry(f"k{n:04}", "mem://o/l", 1, "00" * 16, 0) for n in range(200)])
    seal_and_die(world)
    counted = world.counted()
    counted.reset()
    counted.repository.reset("main", path="k0100")
    assert counted.tables.calls["transact"] == 4
    assert len(list(world.main.objects("main"))) == 199


def test_large_records_are_brought_back_too() -> None:
    world = World()
    wide = {"m": "x" * 30_000}
    world.main.link_many(
        "main", [ObjectEntry(f"k{n:04}", "mem://o/l", 1, "00" * 16, 0, metadata=wide) for n in range(300)]
    )
    seal_and_die(world)
    world.main.reset("main", path="k0100")
    assert len(list(world.main.objects("main"))) == 299


def test_large_records_are_dropped_as_many_at_a_time_as_a_transaction_takes() -> None:
    """What is deleted counts, too: 4 MB of items in one transaction."""
    world = World()
    wide = {"m": "x" * 30_000}
    world.main.link_many(
        "main", [ObjectEntry(f"k{n:04}", "mem://o/l", 1, "00" * 16, 0, metadata=wide) for n in range(300)]
    )
    counted = world.counted()
    counted.repository.reset("main", prefix="k")
    assert 300 * 30_000 / counted.tables.calls["transact"] < 2_100_000
    assert texts(world.main) == {}


def test_what_a_commit_has_read_already_is_not_dropped_behind_its_back() -> None:
    """Dropped, it would be gone first, and come back when the commit publishes."""
    world = World()
    put(world.main, {"k": "1", "l": "1"})
    ready, go = Event(), Event()

    def wait() -> None:
        ready.set()
        assert go.wait(PATIENCE)

    committer = world.repository(Before("objects.put", 1, wait))  # it has sealed, and read
    thread = Thread(target=lambda: committer.commit("main", "m"))

    def begin_to_commit() -> None:
        thread.start()
        assert ready.wait(PATIENCE)

    def let_it_end() -> None:
        if current_thread() is not thread:
            go.set()
            thread.join(PATIENCE)

    world.clock.on_sleep = let_it_end
    world.repository(Before("tables.transact", 1, begin_to_commit)).reset("main", path="k")
    found = texts(world.main)
    let_it_end()
    assert texts(world.main) == found == {"k": "1", "l": "1"}
