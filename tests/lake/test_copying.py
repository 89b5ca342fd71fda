"""Copies and moves take a record to another path: the same bytes at the same address, staged like any other change."""

from itertools import islice

import pytest

from graveler.errors import (
    BytesGoneError,
    InvalidError,
    MovedError,
    NoChangesError,
    NotFoundError,
    ObjectNotFoundError,
    PreconditionError,
    UnavailableError,
)
from graveler.lake.clock import GRACE
from graveler.model import MetarangeName, ObjectEntry
from tests.lake.support import Before, World, changes, commit, paths, put, texts


@pytest.fixture
def world() -> World:
    made = World()
    commit(made.main, {"a/1": "one", "a/2": "two", "b": "bee"})
    return made


def test_a_copy_has_the_bytes_and_all_that_is_noted_but_the_time(world: World) -> None:
    made = world.main.upload("main", "x", b"1", content_type="text/plain", metadata={"k": "v"})
    world.clock.time += 100
    copied = world.main.copy("main", "x", "y")
    assert copied == world.main.stat("main", "y")
    assert (copied.address, copied.size, copied.checksum) == (made.address, made.size, made.checksum)
    assert (copied.content_type, copied.metadata) == ("text/plain", {"k": "v"})
    assert copied.mtime == made.mtime + 100
    assert world.main.read("main", "y") == b"1"


def test_a_copy_comes_from_any_ref(world: World) -> None:
    old = world.main.branch("main").commit_id
    commit(world.main, {"b": None})
    world.main.copy("main", "b", "back", source_ref=old)
    assert world.main.read("main", "back") == b"bee"
    with pytest.raises(ObjectNotFoundError):
        world.main.copy("main", "b", "again")


def test_a_copy_costs_no_object_and_as_much_as_stat_and_link(world: World) -> None:
    counted = world.counted()
    counted.repository.copy("main", "b", "c")
    counted.reset()
    counted.repository.copy("main", "b", "d")
    assert counted.objects.requests == 0
    assert counted.tables.calls == {"get_many": 2, "put": 1}


def test_a_duplicate_has_bytes_of_its_own(world: World) -> None:
    made = world.main.upload("main", "x", b"1", content_type="text/plain", metadata={"k": "v"})
    world.clock.time += 100
    own = world.main.duplicate("main", "x", "y")
    assert own == world.main.stat("main", "y")
    assert (own.size, own.checksum, own.content_type, own.metadata) == (1, made.checksum, "text/plain", {"k": "v"})
    assert own.address != made.address
    assert own.mtime == made.mtime + 100
    world.objects().delete(made.address.removeprefix(f"{world.main.repository.namespace}/"))
    assert world.main.read("main", "y") == b"1"
    with pytest.raises(BytesGoneError, match="'x'"):
        world.main.duplicate("main", "x", "z")
    assert "z" not in paths(world.main)


def test_a_duplicate_of_what_is_large_or_lies_elsewhere_shares_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = ObjectEntry("e", "s3://other/e", 5, "ab", 1)
    world.main.link("main", elsewhere)
    assert world.main.duplicate("main", "e", "f").address == elsewhere.address
    monkeypatch.setattr("graveler.lake.objects.copying._DUPLICATED_BYTES", 2)
    assert world.main.duplicate("main", "b", "c").address == world.main.stat("main", "b").address


def test_a_move_leaves_nothing_at_the_old_path(world: World) -> None:
    world.main.move("main", "b", "c")
    assert texts(world.main) == {"a/1": "one", "a/2": "two", "c": "bee"}
    with pytest.raises(InvalidError, match="itself"):
        world.main.move("main", "c", "c")
    with pytest.raises(ObjectNotFoundError):
        world.main.move("main", "b", "d")


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("request_", ["tables.put", "tables.get_many"])
def test_a_move_that_fails_anywhere_leaves_the_object_somewhere(world: World, number: int, request_: str) -> None:
    for fault in ("fail_before", "fail_after"):
        schedule = Before(request_, number, None, fault)
        try:
            world.repository(schedule).move("main", "b", "c")
        except UnavailableError:
            assert "bee" in texts(world.main).values()
        world.main.reset("main")


def test_a_prefix_is_copied_and_moved_whole(world: World) -> None:
    copied = list(world.main.copy_prefix("main", "a/", "new/"))
    assert [entry.path for entry in copied] == ["new/1", "new/2"]
    moved = list(world.main.move_prefix("main", "a/", "z/"))
    assert [(old, entry.path) for old, entry in moved] == [("a/1", "z/1"), ("a/2", "z/2")]
    assert texts(world.main) == {"b": "bee", "new/1": "one", "new/2": "two", "z/1": "one", "z/2": "two"}


def test_a_long_prefix_goes_by_the_page() -> None:
    world = World()
    world.main.link_many("main", [ObjectEntry(f"a/{n:04}", f"mem://o/{n}", 1, "00" * 16, 0) for n in range(2100)])
    assert len(list(islice(world.main.move_prefix("main", "a/", "b/"), 1))) == 1
    assert len(paths(world.main, "main", "a/")) == 1100
    assert sum(1 for _ in world.main.move_prefix("main", "a/", "b/")) == 1100
    assert paths(world.main) == [f"b/{n:04}" for n in range(2100)]


def test_old_files_of_a_data_folder_with_long_names_are_copied_and_dumped(world: World) -> None:
    """Their keys are noted for the collector of garbage: more than fit one item of the table."""
    address = world.main.new_address("main", "t/")
    names = [f"{number:03}/{'x' * 800}" for number in range(600)]
    world.main.link_many("main", [ObjectEntry(f"t/{name}", f"{address}/{name}", 1, "00" * 16, 1) for name in names])
    world.clock.time += GRACE
    assert len(list(world.main.copy_prefix("main", "t/", "u/"))) == len(names)
    assert world.main.dump().staged == 2 * len(names)


@pytest.mark.parametrize(("source", "destination"), [("a/", "a/b/"), ("a/b/", "a/"), ("a/", "a/"), ("", "x/")])
def test_prefixes_that_overlap_are_refused(world: World, source: str, destination: str) -> None:
    with pytest.raises(InvalidError, match="overlap"):
        list(world.main.move_prefix("main", source, destination))
    with pytest.raises(InvalidError, match="overlap"):
        list(world.main.copy_prefix("main", source, destination))


def test_of_another_ref_a_prefix_may_be_copied_over_itself(world: World) -> None:
    old = world.main.branch("main").commit_id
    commit(world.main, {"a/1": None, "a/2": "2"})
    list(world.main.copy_prefix("main", "a/", "a/", source_ref=old))
    assert texts(world.main, "main", "a/") == {"a/1": "one", "a/2": "two"}


def test_metadata_of_an_object_is_replaced_and_nothing_else(world: World) -> None:
    before = world.main.stat("main", "b")
    world.clock.time += 10
    after = world.main.update_metadata("main", "b", {"k": "v"})
    assert world.main.stat("main", "b") == after
    assert (after.address, after.mtime, after.metadata) == (before.address, before.mtime, {"k": "v"})
    assert world.main.update_metadata("main", "b", {"l": "w"}).metadata == {"l": "w"}
    world.main.commit("main", "m")
    assert world.main.stat("main@", "b").metadata == {"l": "w"}
    with pytest.raises(ObjectNotFoundError):
        world.main.update_metadata("main", "none", {})


def test_metadata_that_cannot_be_written_is_refused(world: World) -> None:
    with pytest.raises(InvalidError):
        world.main.update_metadata("main", "b", {"k": "\ud800"})


@pytest.mark.parametrize("staged", [False, True])
def test_metadata_does_not_bring_back_what_was_replaced_meanwhile(world: World, staged: bool) -> None:
    if staged:
        put(world.main, {"b": "staged"})

    def replace() -> None:
        put(world.main, {"b": "newer"})

    def remove() -> None:
        put(world.main, {"b": None})

    world.repository(Before("tables.transact", 1, replace)).update_metadata("main", "b", {"k": "v"})
    assert world.main.read("main", "b") == b"newer"
    assert world.main.stat("main", "b").metadata == {"k": "v"}
    with pytest.raises(ObjectNotFoundError):
        world.repository(Before("tables.transact", 1, remove)).update_metadata("main", "b", {"k": "w"})
    assert "b" not in paths(world.main)


def test_metadata_is_there_once_though_the_answer_was_lost(world: World) -> None:
    client = world.repository(Before("tables.transact", 1, None, "fail_after"))
    client.update_metadata("main", "b", {"k": "v"})
    assert world.main.stat("main", "b").metadata == {"k": "v"}


# Ready metaranges


def test_a_ready_metarange_becomes_the_next_commit(world: World) -> None:
    world.main.create_branch("side", "main")
    commit(world.main, {"b": "other", "n": "new"}, "side")
    ready = world.main.commit_of("side").metarange
    head = world.main.branch("main").commit_id
    made = world.main.commit_metarange("main", ready, "taken", metadata={"k": "v"}, created=77, request_id="r")
    assert (made.parents, made.metarange, made.created, made.metadata) == ((head,), ready, 77, {"k": "v"})
    assert texts(world.main) == texts(world.main, "side")
    assert world.main.commit_metarange("main", ready, "taken", request_id="r") == made
    with pytest.raises(NoChangesError):
        world.main.commit_metarange("main", ready, "again")
    assert world.main.commit_metarange("main", ready, "again", allow_empty=True).parents == (made.id,)


def test_a_ready_metarange_must_exist_be_young_and_meet_a_clean_branch(world: World) -> None:
    ready = world.main.commit_of("main").metarange
    for name in ("x", ready[:-1], f"../{ready}"):
        with pytest.raises(InvalidError, match="not the name of a metarange"):
            world.main.commit_metarange("main", MetarangeName(name), "m")
    with pytest.raises(NotFoundError, match="does not exist"):
        world.main.commit_metarange("main", MetarangeName("0" * 64 + "-" + "0" * 32), "m")
    put(world.main, {"x": "1"})
    with pytest.raises(PreconditionError, match="uncommitted"):
        world.main.commit_metarange("main", ready, "m", allow_empty=True)
    assert changes(world.main) == {"x": "added"}
    world.main.reset("main")
    world.clock.time += 43_201
    with pytest.raises(PreconditionError, match="12 hours ago"):
        world.main.commit_metarange("main", ready, "m", allow_empty=True)


def test_a_ready_metarange_can_insist_on_the_head_that_it_was_made_for(world: World) -> None:
    world.main.create_branch("side", "main")
    commit(world.main, {"n": "new"}, "side")
    ready = world.main.commit_of("side").metarange
    before = world.main.branch("main").commit_id
    with pytest.raises(NoChangesError):
        world.main.commit_metarange("main", world.main.commit_of("main").metarange, "looks", parent=before)
    made = world.main.commit_metarange("main", ready, "taken", parent=before, request_id="r")
    assert made.parents == (before,)
    assert world.main.commit_metarange("main", ready, "taken", parent=before, request_id="r") == made, "a lost answer"
    with pytest.raises(
        MovedError, match=rf"branch 'main' is at commit {made.id[:16]}, but this request is for commit {before[:16]}"
    ):
        world.main.commit_metarange("main", ready, "too late", parent=before)
    move = Before("tables.transact", 1, lambda: commit(world.main, {"z": "1"}))
    with pytest.raises(MovedError):
        world.repository(move).commit_metarange("main", world.main.commit_of("main~1").metarange, "x", parent=made.id)
    assert "z" in paths(world.main), "the one between is not lost"
    world.clock.time += 43_201
    head = world.main.commit_of("main")
    with pytest.raises(NoChangesError):
        world.main.commit_metarange("main", head.metarange, "the head's own is in use", parent=head.id)


# Times that others choose


def test_merge_revert_and_cherry_pick_take_a_time(world: World) -> None:
    world.main.create_branch("side", "main")
    commit(world.main, {"s": "1"}, "side")
    assert world.main.cherry_pick("main", "side", created=5).created == 5
    assert world.main.revert("main", "main", created=6).created == 6
    assert world.main.merge("side", "main", created=7, allow_empty=True).created == 7
