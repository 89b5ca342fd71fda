"""Writes and deletes on condition of an ETag: of several writers one wins, and none overwrites what it has not seen."""

from collections.abc import Callable

import pytest

from graveler.errors import (
    AlreadyExistsError,
    AnswerLostError,
    BusyError,
    DirtyBranchError,
    InvalidError,
    ObjectChangedError,
    ObjectNotFoundError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.lake.objects.uploads import finish_upload, upload_part
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategy, ObjectEntry
from tests.lake.support import Before, DieAt, World, commit, died, put, texts
from tests.support.instruments import Fault

TRANSACT = "tables.transact"


def external(path: str, number: int = 1) -> ObjectEntry:
    return ObjectEntry(path, f"mem://o/{number}", number, f"{number:032x}", 0)


def etag(world: World, path: str = "k", ref: str = "main") -> str:
    return world.main.stat(ref, path).checksum


def replace(repository: OpenRepository, text: str, etag_before: str) -> bool:
    """Did it win?"""
    try:
        repository.upload("main", "k", text.encode(), if_match=etag_before)
    except ObjectChangedError:
        return False
    return True


def seal_and_die(world: World) -> None:
    """Leave a sealed token on the branch whose owner's lease ran out."""
    assert died(lambda: world.repository(DieAt("objects.put")).commit("main", "dead"))
    world.wait_for_leases()


def placed(world: World, where: str, text: str = "old") -> str:
    """Put the object there, and return its ETag."""
    put(world.main, {"k": text})
    if where == "sealed":
        seal_and_die(world)
    if where == "committed":
        world.main.commit("main", "m")
    return etag(world)


@pytest.mark.parametrize("where", ["staged", "sealed", "committed"])
def test_what_has_the_etag_is_replaced_and_nothing_else(where: str) -> None:
    world = World()
    etag_before = placed(world, where)
    counted = world.counted()
    with pytest.raises(ObjectChangedError, match="has the ETag") as refused:
        counted.repository.upload("main", "k", b"new", if_match="0" * 32)
    assert (refused.value.expected, refused.value.actual) == ("0" * 32, etag_before)
    assert counted.objects.calls["put"] == 0  # before any byte is written
    assert texts(world.main) == {"k": "old"}
    assert replace(world.main, "new", etag_before)
    assert not replace(world.main, "newer", etag_before)
    world.main.commit("main", "n")
    assert texts(world.main, "main@") == {"k": "new"}


@pytest.mark.parametrize("where", ["staged", "sealed", "committed"])
def test_what_has_the_etag_is_deleted_and_nothing_else(where: str) -> None:
    world = World()
    etag_before = placed(world, where)
    with pytest.raises(ObjectChangedError):
        world.main.delete("main", ["k"], if_match="0" * 32)
    assert texts(world.main) == {"k": "old"}
    world.main.delete("main", ["k"], if_match=etag_before)
    assert texts(world.main) == {}
    world.main.delete("main", ["k"], if_match=etag_before)  # a missing one is success
    world.main.commit("main", "n", allow_empty=True)
    assert texts(world.main, "main@") == {}


def test_a_missing_object_is_not_replaced() -> None:
    world = World()
    for etag_before in ("0" * 32, "*"):
        with pytest.raises(ObjectNotFoundError):
            world.main.link("main", external("k"), if_match=etag_before)
    put(world.main, {"k": "old"})
    world.main.delete("main", ["k"])
    with pytest.raises(ObjectNotFoundError):
        replace(world.main, "new", "*")
    assert texts(world.main) == {}


def test_a_star_is_any_object() -> None:
    world = World()
    put(world.main, {"k": "old"})
    assert replace(world.main, "new", "*")
    world.main.delete("main", ["k"], if_match="*")
    assert texts(world.main) == {}


def test_conditions_that_make_no_sense_are_refused() -> None:
    world = World()
    put(world.main, {"k": "old", "l": "old"})
    with pytest.raises(InvalidError, match="exclude each other"):
        world.main.link("main", external("k"), if_absent=True, if_match="x")
    with pytest.raises(InvalidError, match="2 are named"):
        world.main.delete("main", ["k", "l"], if_match="x")
    with pytest.raises(InvalidError, match="0 are named"):
        world.main.delete("main", [], if_match="x")
    with pytest.raises(RefNotFoundError):
        world.main.link("nowhere", external("k"), if_match="*")


def test_an_upload_in_parts_ends_under_the_condition() -> None:
    world = World()
    put(world.main, {"k": "old"})
    etag_before = etag(world)

    def finish(text: str) -> None:
        upload = world.main.begin_upload("main", "k")
        part = upload_part(world.main.parts, "main", "k", upload, 1, text.encode())
        finish_upload(world.main.parts, "main", "k", upload, [(1, part)], if_match=etag_before)

    finish("new")
    with pytest.raises(ObjectChangedError):
        finish("newer")
    assert texts(world.main) == {"k": "new"}


MOMENTS = range(4)
"""Requests of a writer after its late put: it looks at the branch, at the item to put it over, at marks, and puts it again."""


def late(world: World, moment: int, act: Callable[[], object]) -> OpenRepository:
    """A repository whose next put comes too late: its token is sealed by somebody who dies. Before the request of this number
    that follows the put, somebody acts."""
    requests: list[str] | None = None

    def hook(request: str, _: int) -> Fault:
        if requests is not None:
            if request in ("tables.put", "tables.write_many") and not requests:
                seal_and_die(world)
                requests.append(request)
            elif requests:
                requests.append(request)
                if len(requests) == moment + 2:
                    act()
        return None

    writer = world.repository(hook)
    put(writer, {"other": "1"})  # now it knows the open token
    requests = []
    return writer


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_late_put_does_not_overwrite_what_has_replaced_it(moment: int) -> None:
    world = World()
    commit(world.main, {"k": "old"})
    writer = late(world, moment, lambda: replace(world.main, "newer", etag(world)))
    put(writer, {"k": "new"})
    assert texts(world.main) == {"k": "newer", "other": "1"}
    world.main.commit("main", "m")
    assert texts(world.main, "main@") == {"k": "newer", "other": "1"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_late_delete_does_not_delete_what_was_created_after_it(moment: int) -> None:
    world = World()
    commit(world.main, {"k": "old"})
    writer = late(world, moment, lambda: world.main.upload("main", "k", b"created", if_absent=True))
    writer.delete("main", ["k"])
    assert texts(world.main) == {"k": "created", "other": "1"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_late_batch_of_deletes_does_not_delete_what_was_created_after_it(moment: int) -> None:
    world = World()
    commit(world.main, {"k": "old", "l": "old", "m": "old"})
    world.main.upload("main", "m", b"new", if_match=etag(world, "m"))
    writer = late(world, moment, lambda: world.main.upload("main", "k", b"created", if_absent=True))
    writer.delete("main", ["k", "l"])
    assert texts(world.main) == {"k": "created", "m": "new", "other": "1"}


@pytest.mark.parametrize("moment", MOMENTS)
def test_nobody_knows_of_a_late_put_that_a_commit_took_and_somebody_replaced(moment: int) -> None:
    world = World()

    def act() -> None:
        world.main.commit("main", "takes it")
        assert texts(world.main, "main@") == {"k": "new", "other": "1"}
        assert replace(world.main, "newer", etag(world))

    writer = late(world, moment, act)
    with pytest.raises(AnswerLostError, match="others have changed the same object"):
        put(writer, {"k": "new"})
    assert texts(world.main) == {"k": "newer", "other": "1"}
    put(writer, {"k": "newest"})
    assert texts(world.main) == {"k": "newest", "other": "1"}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("conditional", [False, True])
def test_a_late_put_that_nobody_has_replaced_counts(moment: int, conditional: bool) -> None:
    """A commit took it, or another one came between, or somebody has replaced another object on a condition."""
    for committed in (False, True):
        world = World()
        commit(world.main, {"l": "old"})

        def act() -> None:
            if committed:  # noqa: B023
                world.main.commit("main", "takes it")  # noqa: B023
            if conditional:
                world.main.upload("main", "l", b"new", if_match=etag(world, "l"))  # noqa: B023
            else:
                put(world.main, {"k": "other"})  # noqa: B023

        put(late(world, moment, act), {"k": "new"})
        assert texts(world.main)["k"] == "new"


Act = Callable[[World], object]


def put_and_seal(world: World) -> None:
    put(world.main, {"k": "other"})
    seal_and_die(world)


def seal_and_replace(world: World) -> None:
    put(world.main, {"x": "1"})
    seal_and_die(world)
    replace(world.main, "other", etag(world))


CHANGES: dict[str, Act] = {
    "put": lambda world: put(world.main, {"k": "other"}),
    "replace": lambda world: replace(world.main, "other", etag(world)),
    "put and commit": lambda world: commit(world.main, {"k": "other"}),
    "put and seal": put_and_seal,
    "seal and replace": seal_and_replace,
}


@pytest.mark.parametrize("where", ["staged", "sealed", "committed"])
@pytest.mark.parametrize("act", CHANGES.values(), ids=CHANGES)
def test_who_comes_between_look_and_transaction_wins(act: Act, where: str) -> None:
    world = World()
    etag_before = placed(world, where)
    hook = Before(TRANSACT, 1, lambda: act(world))
    assert not replace(world.repository(hook), "mine", etag_before)
    assert hook.reached
    assert texts(world.main, prefix="k") == {"k": "other"}
    world.main.commit("main", "end", allow_empty=True)
    assert texts(world.main, "main@", "k") == {"k": "other"}


@pytest.mark.parametrize("act", CHANGES.values(), ids=CHANGES)
def test_what_changed_between_look_and_transaction_is_not_deleted(act: Act) -> None:
    world = World()
    etag_before = placed(world, "committed")
    hook = Before(TRANSACT, 1, lambda: act(world))
    with pytest.raises(ObjectChangedError):
        world.repository(hook).delete("main", ["k"], if_match=etag_before)
    assert texts(world.main, prefix="k") == {"k": "other"}


def test_a_writer_that_a_seal_or_another_path_meets_tries_again_and_wins() -> None:
    world = World()
    put(world.main, {"k": "old", "x": "1"})

    def seal() -> None:
        put(world.main, {"y": "1"})
        seal_and_die(world)

    acts: list[Callable[[], object]] = [
        lambda: world.main.commit("main", "m"),
        seal,
        lambda: commit(world.main, {"y": "2"}),
        lambda: world.main.reset("main"),
    ]
    for number, act in enumerate(acts):
        etag_before = etag(world)
        if number == len(acts) - 1:
            world.main.commit("main", "before the reset")
        assert replace(world.repository(Before(TRANSACT, 1, act)), f"mine {number}", etag_before)
        assert texts(world.main, prefix="k") == {"k": f"mine {number}"}


@pytest.mark.parametrize("fault", ["repeat", "fail_after"])
def test_a_writer_whose_answer_is_lost_finds_its_own_record(fault: Fault) -> None:
    world = World()
    etag_before = placed(world, "committed")
    assert replace(world.repository(Before(TRANSACT, 1, fault=fault)), "mine", etag_before)
    assert texts(world.main) == {"k": "mine"}
    again = etag(world)
    world.repository(Before(TRANSACT, 1, fault=fault)).delete("main", ["k"], if_match=again)
    assert texts(world.main) == {}


def test_a_writer_whose_request_does_not_arrive_says_so() -> None:
    world = World()
    etag_before = placed(world, "committed")
    lost = Before(TRANSACT, 1, fault="fail_before")
    with pytest.raises(UnavailableError):
        replace(world.repository(lost), "mine", etag_before)
    with pytest.raises(UnavailableError):
        world.repository(Before(TRANSACT, 1, fault="fail_before")).delete("main", ["k"], if_match=etag_before)
    assert texts(world.main) == {"k": "old"}


def test_a_writer_that_dies_leaves_the_object_as_it_was_or_replaced() -> None:
    for after in (False, True):
        world = World()
        etag_before = placed(world, "sealed")
        assert died(lambda: replace(world.repository(DieAt(TRANSACT, 1, after=after)), "mine", etag_before))  # noqa: B023
        assert texts(world.main) == {"k": "mine" if after else "old"}
        assert replace(world.main, "other", etag_before) is not after


def test_a_branch_that_keeps_changing_makes_a_writer_give_up() -> None:
    """The condition stays open, so it is busy, and not refused."""
    world = World()
    etag_before = placed(world, "committed")

    class Storm(Before):
        def __call__(self, method: str, number: int) -> Fault:
            if method == TRANSACT:
                commit(world.main, {"x": str(number)})
            return None

    with pytest.raises(BusyError):
        replace(world.repository(Storm(TRANSACT, 1)), "mine", etag_before)
    assert texts(world.main, prefix="k") == {"k": "old"}


CONDITIONAL: dict[str, Callable[[World], object]] = {
    "create": lambda world: world.main.upload("main", "new", b"mine", if_absent=True),
    "replace": lambda world: world.main.upload("main", "k", b"mine", if_match=etag(world)),
    "delete": lambda world: world.main.delete("main", ["k"], if_match=etag(world)),
    "metadata": lambda world: world.main.update_metadata("main", "k", {"a": "b"}),
}


@pytest.mark.parametrize("act", CONDITIONAL.values(), ids=CONDITIONAL)
def test_a_merge_that_a_conditional_write_meets_sees_it(act: Act) -> None:
    """Published below the write, the merge's version of the object would vanish, and neither would have seen the other."""
    world = World()
    commit(world.main, {"k": "old"})
    world.main.create_branch("side", "main")
    put(world.main, {"k": "theirs", "new": "theirs"}, branch="side")
    world.main.commit("side", "s")
    hook = Before(TRANSACT, 1, lambda: act(world))
    with pytest.raises(DirtyBranchError):
        world.repository(hook).merge("side", "main", strategy=MergeStrategy.SOURCE_WINS)
    assert hook.reached
    world.main.commit("main", "mine")
    assert texts(world.main, "main@").get("new") != "theirs"


def test_a_merge_beside_what_is_staged_lands_around_conditional_writes_of_other_objects() -> None:
    world = World()
    commit(world.main, {"k": "old"})
    world.main.create_branch("side", "main")
    put(world.main, {"s": "theirs"}, branch="side")
    world.main.commit("side", "s")
    hook = Before(TRANSACT, 1, lambda: CONDITIONAL["replace"](world))
    world.repository(hook).merge("side", "main", beside_uncommitted=True)
    assert texts(world.main) == {"k": "mine", "s": "theirs"}


@pytest.mark.parametrize("act", CONDITIONAL.values(), ids=CONDITIONAL)
def test_a_commit_is_not_held_up_by_conditional_writes(act: Act) -> None:
    """It changes nothing below them."""
    world = World()
    commit(world.main, {"k": "old"})
    put(world.main, {"x": "1"})
    requests = list[str]()

    def before_publishing(request: str, _: int) -> Fault:
        requests.append(request)
        if request == TRANSACT and requests.count(TRANSACT) == 2:
            act(world)
        return None

    world.repository(before_publishing).commit("main", "m")
    assert requests.count(TRANSACT) == 2


def test_a_hard_reset_that_a_conditional_write_meets_is_refused() -> None:
    world = World()
    first = commit(world.main, {"k": "first"})
    commit(world.main, {"k": "second"})
    hook = Before(TRANSACT, 1, lambda: CONDITIONAL["replace"](world))
    with pytest.raises(DirtyBranchError):
        world.repository(hook).hard_reset("main", first)
    assert hook.reached
    assert texts(world.main) == {"k": "mine"}


def test_of_creators_and_replacers_at_once_one_wins() -> None:
    world = World()
    etag_before = placed(world, "committed")
    world.main.delete("main", ["k"])

    def create() -> None:
        world.main.upload("main", "k", b"created", if_absent=True)

    with pytest.raises(ObjectNotFoundError):
        replace(world.main, "replaced", etag_before)
    hook = Before(TRANSACT, 1, create)
    with pytest.raises(AlreadyExistsError):
        world.repository(hook).upload("main", "k", b"mine", if_absent=True)
    assert texts(world.main) == {"k": "created"}


def test_cost() -> None:
    world = World()
    commit(world.main, {f"p{n}": str(n) for n in range(40)})

    def asked(act: Callable[[OpenRepository], object], warm: str) -> tuple[int, int, int, int]:
        counted = world.counted()
        if warm:
            counted.repository.stat("main", warm)
        counted.reset()
        act(counted.repository)
        calls = counted.tables.calls
        assert counted.ranges_read() <= 1
        return calls["get"] + calls["get_many"], calls["transact"], counted.tables.requests, counted.metaranges_read()

    first, second, third = (etag(world, path) for path in ("p20", "p21", "p22"))
    assert asked(lambda r: r.link("main", external("p20"), if_match=first), "") == (3, 1, 4, 1)
    assert asked(lambda r: r.link("main", external("p21"), if_match=second), "p23") == (2, 1, 3, 0)
    assert asked(lambda r: r.delete("main", ["p22"], if_match=third), "p23") == (2, 1, 3, 0)
    staged = external("p20").checksum
    assert asked(lambda r: r.link("main", external("p20", 2), if_match=staged), "") == (2, 1, 3, 0)
