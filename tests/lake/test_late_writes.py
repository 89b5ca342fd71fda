"""Writers and deleters whose token a commit seals meanwhile (C1), and writers of existing values: each case was wrong in some
draft of the protocol, or is close to one. Clients step in at each other's requests."""

import pytest

from graveler.errors import (
    BusyError,
    NoChangesError,
)
from tests.lake.support import (
    PUBLISH,
    Before,
    DieAt,
    World,
    changes,
    commit,
    died,
    messages,
    paths,
    put,
    stager,
    texts,
)
from tests.support.instruments import Fault

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
    put(world.repository(), {"k": "0"})
    put(world.main, {"k": "1"})
    dies = DieAt("tables.get_many", 2)  # after the put, before the check: its process is gone then
    slow = world.repository(dies)
    stager(slow).expect("main")  # it knows the open token, by its first request

    def put_late() -> None:
        assert died(lambda: slow.upload("main", "k", b"2"))
        assert dies.dead

    committer = world.repository(Before("tables.query", 2, put_late))  # sealed, and not yet read
    committer.commit("main", "m")
    assert texts(world.main)["k"] in ("1", "2")
    assert texts(world.main, "main@")["k"] in ("1", "2")


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_late_put_that_was_read_is_gone_only_if_it_was_never_acknowledged(is_killed: bool) -> None:
    """As docs/concurrency.md says below the promises. The commit has read the token's items, and publishes without this one."""
    world = World()
    put(world.main, {"k": "1"})
    dies = DieAt("tables.get_many", 2)  # after the put, before the look
    reads: list[dict[str, str]] = []

    def read() -> None:
        reads.append(texts(world.main))

    slow = world.repository(dies if is_killed else Before("tables.get_many", 2, read))
    stager(slow).expect("main")  # it knows the open token, by its first request

    def put_late() -> None:
        if not is_killed:
            slow.upload("main", "late", b"2")
            return
        assert died(lambda: slow.upload("main", "late", b"2"))
        read()

    world.repository(Before(*PUBLISH, act=put_late)).commit("main", "m")
    assert reads == [{"k": "1", "late": "2"}]
    assert texts(world.main) == ({"k": "1"} if is_killed else {"k": "1", "late": "2"})


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
