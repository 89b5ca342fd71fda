"""Links of files that a table does not reach any more, and snapshots that expire at commits."""

from typing import Any, Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from graveler.errors import ConflictError, InvalidError, NoChangesError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.repository import OpenRepository
from graveler.requests.base import Request
from graveler.requests.iceberg import TableChange
from graveler.sdk.iceberg_tables import Tables
from graveler.table_format.snapshot_expiry import EXPIRE_PROPERTY
from tests.lake.iceberg.support import ORDERS, append, appended, keys, metadata, set_property, with_table, write_file
from tests.lake.support import StoredWorld

NAME: Final = "shop.orders"
ROOM: Final = "write.metadata.previous-versions-max"


def append_each(world: StoredWorld, *files: str) -> None:
    """Append each of the files to the table by a commit."""
    for file in files:
        write_file(world, f"data/{file}")
        append(world, f"data/{file}")


def change(world: StoredWorld, *updates: dict[str, Any], branch: str = "main") -> None:
    world.main.commit_tables(branch, tables=(TableChange(ORDERS, (), updates),))


def snapshot_ids(world: StoredWorld, ref: str = "main") -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in metadata(world, ref)["snapshots"]]


def remove_snapshots(*numbers: int) -> dict[str, Any]:
    return {"action": "remove-snapshots", "snapshot-ids": list(numbers)}


def linked(world: StoredWorld, kind: str, ref: str = "main") -> list[str]:
    """Return the names of the links of a kind, by a part of their paths."""
    return [path.rpartition("/")[2] for path in keys(world, ref) if "/.files/" in path and kind in path]


def test_links_of_removed_snapshots_go_with_them(world: StoredWorld) -> None:
    append_each(world, "a", "b")
    older, newer = snapshot_ids(world)
    change(world, remove_snapshots(older))
    lists = [name for name in linked(world, "/metadata/") if str(older) in name or str(newer) in name]
    assert all(str(older) not in name or "-m0" in name for name in lists), (
        "its manifest is one of the newer snapshot's, too"
    )
    assert linked(world, "/data/") == ["a", "b"]
    assert Tables(world.main, "main").load(NAME).check() == []
    assert snapshot_ids(world, "main~1") == [older, newer]
    assert Tables(world.main, "main~1").load(NAME).check() == []


def test_links_of_files_go_with_the_last_snapshot_that_has_them(world: StoredWorld) -> None:
    append_each(world, "a")
    (older,) = snapshot_ids(world)
    change(world, {"action": "remove-snapshot-ref", "ref-name": "main"})
    write_file(world, "data/c")
    append(world, "data/c")
    assert older in snapshot_ids(world)
    change(world, remove_snapshots(older))
    assert linked(world, "/data/") == ["c"]
    assert Tables(world.main, "main").load(NAME).check() == []
    assert linked(world, "/data/", "main~1") == ["a", "c"]


def test_links_of_the_log_are_as_many_as_its_entries(world: StoredWorld) -> None:
    set_property(world, ROOM, "2")
    for number in range(5):
        set_property(world, "n", str(number))
        assert len(linked(world, ".metadata.json")) == len(metadata(world)["metadata-log"]) <= 2
    assert Tables(world.main, "main").load(NAME).check() == []


def test_each_commit_removes_what_has_expired_if_the_table_says_so(world: StoredWorld) -> None:
    change(
        world,
        {
            "action": "set-properties",
            "updates": {EXPIRE_PROPERTY: "true", "history.expire.max-snapshot-age-ms": "-86400000"},
        },
    )
    for file in "abc":
        write_file(world, f"data/{file}")
        append(world, f"data/{file}")
        assert len(snapshot_ids(world)) == 1
        assert len(metadata(world)["snapshot-log"]) == 1
        assert Tables(world.main, "main").load(NAME).check() == []
    assert linked(world, "/data/") == ["a", "b", "c"]
    assert len(metadata(world)["metadata-log"]) == 4, "one entry for each commit"


def test_a_property_of_expiry_that_is_no_number_is_refused_when_it_is_set(world: StoredWorld) -> None:
    append_each(world, "a")
    updates = {EXPIRE_PROPERTY: "true", "history.expire.min-snapshots-to-keep": "some"}
    with pytest.raises(InvalidError, match="min-snapshots-to-keep is 'some'"):
        change(world, {"action": "set-properties", "updates": updates})
    assert EXPIRE_PROPERTY not in metadata(world)["properties"]


def test_expire_leaves_a_table_alone_in_which_nothing_has_expired(world: StoredWorld) -> None:
    append_each(world, "a")
    head = world.main.branch("main").commit_id
    expiry = Tables(world.main, "main").expire(NAME)
    assert (expiry.snapshots, expiry.refs, expiry.commit) == ((), (), None)
    assert world.main.branch("main").commit_id == head


def test_expire_is_one_commit_with_the_number_of_snapshots(world: StoredWorld) -> None:
    append_each(world, "a", "b", "c")
    older = snapshot_ids(world)
    tables = Tables(world.main, "main", "Ada")
    later = world.clock.now() + 86_400
    foreseen = tables.expire(NAME, older_than=later, keep_last=1, dry_run=True)
    assert (len(foreseen.snapshots), foreseen.commit, snapshot_ids(world)) == (2, None, older)
    expiry = tables.expire(NAME, older_than=later, keep_last=1)
    assert expiry.commit is not None
    assert (expiry.snapshots, expiry.commit.message) == (foreseen.snapshots, "Expire 2 snapshots of table shop.orders")
    assert (expiry.commit.committer, world.main.branch("main").commit_id) == ("Ada", expiry.commit.id)
    assert snapshot_ids(world) == older[2:]
    assert tables.load(NAME).check() == []
    assert tables.expire(NAME, older_than=later, keep_last=1).commit is None


def test_only_a_branch_expires(world: StoredWorld) -> None:
    append_each(world, "a", "b")
    world.main.create_tag("v1", "main")
    for ref in ("v1", "main~1"):
        with pytest.raises(InvalidError, match="is no branch, and only a branch can change"):
            Tables(world.main, ref).expire(NAME)


class Overtaken(Struct):
    """A repository in which another client changes the table right before each of the first commits of tables."""

    world: StoredWorld
    times: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.main, name)

    def run(self, request: Request[Any]) -> Any:
        if self.times:
            self.times -= 1
            append(self.world, f"data/overtaking-{self.times}")
        return self.world.main.run(request)


def test_expire_looks_again_if_the_table_changed_meanwhile(world: StoredWorld) -> None:
    append_each(world, "a", "b")
    later = world.clock.now() + 86_400
    expiry = Tables(cast("OpenRepository", Overtaken(world, 2)), "main").expire(NAME, older_than=later, keep_last=1)
    assert (len(expiry.snapshots), len(snapshot_ids(world))) == (3, 1)
    assert linked(world, "/data/") == ["a", "b", "overtaking-0", "overtaking-1"]


def test_expire_gives_up_if_the_table_never_stays_as_it_is(world: StoredWorld) -> None:
    append_each(world, "a", "b")
    overtaken = cast("OpenRepository", Overtaken(world, 100))
    with pytest.raises(ConflictError, match="main has changed"):
        Tables(overtaken, "main").expire(NAME, older_than=world.clock.now() + 86_400)
    assert len(snapshot_ids(world)) == 12


@given(
    actions=st.lists(
        st.tuples(st.sampled_from(["append", "expire", "replace"]), st.sampled_from(["main", "dev"])), max_size=8
    ),
    verb=st.sampled_from(["merge", "cherry_pick", "revert"]),
)
def test_links_are_complete_after_expiry_on_either_side(actions: list[tuple[str, str]], verb: str) -> None:
    world = with_table()
    append_each(world, "0", "1")
    world.main.create_branch("dev", "main")
    for number, (action, branch) in enumerate(actions, 2):
        if action == "expire":
            numbers = snapshot_ids(world, branch)[:-1]
            change(world, remove_snapshots(*numbers), branch=branch)
            continue
        write_file(world, f"data/{number}")
        document = metadata(world, branch)
        if action == "replace":  # all earlier files are in no current snapshot any more
            document = document | {"current-snapshot-id": None}
        update = appended(world.main.parts, document, f"data/{number}")
        if action == "replace":
            removal = {"action": "remove-snapshot-ref", "ref-name": "main"}
            update = TableChange(ORDERS, (), (removal, *update.updates))
        world.main.commit_tables(branch, tables=(update,))
    try:
        if verb == "merge":
            world.main.merge("dev", "main")
        elif verb == "cherry_pick":
            world.main.cherry_pick("dev", "main")
        else:
            world.main.revert("main", "main")
    except (ConflictError, NoChangesError):
        return
    for ref in ("main", "dev", "main~1"):
        assert Tables(world.main, ref).load(NAME).check() == [], ref
    assert CatalogReader(world.main.parts, "main").load(ORDERS).document["snapshots"]
