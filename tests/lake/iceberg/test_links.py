"""Links of tables' files are never fewer than what metadata reaches: renamed and registered tables, stale snapshots, merges."""

from typing import Any, Final

import pytest

from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.model import MergeStrategies, MergeStrategy
from graveler.requests.iceberg import Identifier, TableChange
from graveler.sdk.iceberg_tables import Tables
from tests.lake.iceberg.support import ORDERS, append, appended, keys, metadata, set_property, with_table, write_file
from tests.lake.support import World

RENAMED: Final = Identifier(("shop",), "renamed")
LOG_LENGTH: Final = "write.metadata.previous-versions-max"


def appended_table() -> World:
    """Return a world with a table to which two files were appended, each by a commit, and the branch dev."""
    world = with_table()
    for path in ("data/a", "data/b"):
        append(world, path)
    world.main.create_branch("dev", "main")
    return world


def change(world: World, *updates: dict[str, Any], branch: str = "main", table: Identifier = ORDERS) -> None:
    world.main.commit_tables(branch, tables=(TableChange(table, (), updates),))


def snapshot_ids(world: World, ref: str = "main", table: Identifier = ORDERS) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in metadata(world, ref, table)["snapshots"]]


def remove_snapshots(*numbers: int) -> dict[str, Any]:
    return {"action": "remove-snapshots", "snapshot-ids": list(numbers)}


def set_branch(snapshot_id: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}


def set_tag(snapshot_id: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": "audited", "type": "tag", "snapshot-id": snapshot_id}


def register_again(world: World, branch: str, name: Identifier = ORDERS) -> None:
    """Drop the table, and register it from its metadata."""
    location = CatalogReader(world.main.parts, branch).load(ORDERS).location
    world.main.drop_relation(branch, relation=ORDERS)
    world.main.register_table(branch, table=name, location=location)


def data_links(world: World, ref: str = "main") -> list[str]:
    return [path.rpartition("/")[2] for path in keys(world, ref) if "/.files/" in path and "/data/" in path]


def expect_right(world: World, ref: str, table: Identifier = ORDERS) -> None:
    assert Tables(world.main, ref).load(str(table)).check() == []


def of_two_names() -> World:
    """Return a world with a table that was renamed, and registered again under its former name."""
    world = appended_table()
    world.main.rename_relation("main", relation=ORDERS, destination=RENAMED)
    location = CatalogReader(world.main.parts, "main").load(RENAMED).location
    world.main.register_table("main", table=ORDERS, location=location)
    return world


def test_snapshots_that_expire_under_one_name_stay_linked_under_another_one() -> None:
    world = of_two_names()
    older, _ = snapshot_ids(world)
    change(world, remove_snapshots(older))
    for table in (ORDERS, RENAMED):
        expect_right(world, "main", table)


def test_a_table_that_is_dropped_under_one_name_stays_linked_under_another_one() -> None:
    world = of_two_names()
    world.main.drop_relation("main", relation=ORDERS)
    expect_right(world, "main", RENAMED)
    world.main.drop_relation("main", relation=RENAMED)
    assert data_links(world) == []


def test_a_table_that_is_registered_over_itself_has_its_links_where_they_were() -> None:
    world = appended_table()
    before = keys(world)
    location = CatalogReader(world.main.parts, "main").load(ORDERS).location
    world.main.register_table("main", table=ORDERS, location=location, overwrite=True)
    assert [path for path in keys(world) if "/data/" in path] == [path for path in before if "/data/" in path]
    expect_right(world, "main")


def test_a_snapshot_on_an_expired_one_links_the_files_of_its_manifests_again() -> None:
    world = appended_table()
    older, newer = snapshot_ids(world)
    write_file(world, "data/c")
    staged = appended(world.main.parts, metadata(world), "data/c").updates[0]
    change(world, set_branch(older), remove_snapshots(newer))
    assert data_links(world) == ["a"]
    change(world, staged)  # a writer that has staged it on the newer snapshot, and does not ask for its presence
    assert data_links(world) == ["a", "b", "c"]
    expect_right(world, "main")


@pytest.mark.parametrize("strategy", [MergeStrategy.NONE, MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS])
def test_a_link_that_one_side_made_again_and_the_other_removed_is_no_conflict(strategy: MergeStrategy) -> None:
    world = appended_table()
    set_property(world, LOG_LENGTH, "1", branch="dev")
    register_again(world, "main")
    for source, destination in (("dev", "main"), ("main", "dev")):
        world.main.merge(source, destination, strategies=MergeStrategies(strategy), allow_empty=True)
        expect_right(world, destination)
    assert metadata(world)["properties"][LOG_LENGTH] == "1"


def test_a_table_with_other_links_on_both_sides_has_all_files_of_a_tagged_snapshot() -> None:
    world = appended_table()
    register_again(world, "dev", RENAMED)
    (tagged,) = snapshot_ids(world, "dev", RENAMED)[-1:]
    write_file(world, "data/c")
    added = appended(world.main.parts, metadata(world, "dev", RENAMED), "data/c").updates
    change(world, *added, set_tag(snapshot_ids(world, "main")[-1]), branch="dev", table=RENAMED)
    change(world, set_tag(snapshot_ids(world, "dev", RENAMED)[-1]), branch="dev", table=RENAMED)

    write_file(world, "data/d")
    document = metadata(world) | {"current-snapshot-id": None}
    replacing = appended(world.main.parts, document, "data/d").updates
    change(world, {"action": "remove-snapshot-ref", "ref-name": "main"}, *replacing)
    change(world, remove_snapshots(*snapshot_ids(world)[:-1]))
    assert data_links(world) == ["d"]
    assert tagged not in snapshot_ids(world)

    world.main.merge("dev", "main")
    expect_right(world, "main", RENAMED)
    assert "audited" in metadata(world, "main", RENAMED)["refs"]


def test_a_table_that_one_side_registered_under_another_name_has_it_after_the_merge() -> None:
    world = appended_table()
    register_again(world, "dev", RENAMED)
    append(world, "data/c")
    world.main.merge("dev", "main")
    expect_right(world, "main", RENAMED)
    assert data_links(world)[-1] == "c"


def test_a_table_that_the_winner_dropped_leaves_no_links() -> None:
    world = appended_table()
    append(world, "data/c")
    world.main.drop_relation("dev", relation=ORDERS)
    world.main.merge("dev", "main", strategies=MergeStrategies(MergeStrategy.SOURCE_WINS))
    assert data_links(world) == []


@pytest.mark.parametrize(
    ("strategy", "winner"), [(MergeStrategy.SOURCE_WINS, "dev"), (MergeStrategy.DEST_WINS, "before")]
)
def test_a_table_that_one_side_won_has_the_links_of_that_side_alone(strategy: MergeStrategy, winner: str) -> None:
    world = appended_table()
    append(world, "data/c", branch="dev")
    append(world, "data/d")
    for branch in ("dev", "main"):
        set_property(world, "a", branch, branch)
    world.main.create_branch("before", "main")
    world.main.merge("dev", "main", strategies=MergeStrategies(strategy), allow_empty=True)
    assert keys(world) == keys(world, winner)
    expect_right(world, "main")

    world.main.drop_relation("dev", relation=ORDERS)
    world.main.merge("main", "dev", strategies=MergeStrategies(MergeStrategy.DEST_WINS), allow_empty=True)
    assert [path for path in keys(world, "dev") if "orders" in path] == []
