"""Commits of tables move a branch, all or nothing, beside what is staged there."""

from pathlib import Path

import pytest

from graveler.errors import ForbiddenError, InvalidError, NotFoundError
from graveler.lake.iceberg.catalog_errors import NamespaceNotFoundError, RelationExistsError, RelationNotFoundError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.lake import Lake
from graveler.lake.opening.lake_parts import TreeSettings
from graveler.model import SplitParameters
from graveler.requests.iceberg import Identifier, TableChange
from graveler.table_format.table_metadata import encode_metadata
from graveler.table_format.table_requirements import RequirementError
from graveler.values.reserved_paths import TablePathError
from tests.lake.iceberg.support import ORDERS, SCHEMA, keys, metadata, set_property, with_table
from tests.lake.support import NAME, Before, World, put

OTHER = Identifier(("shop",), "other")


def test_a_table_is_one_entry_and_its_changes_are_commits() -> None:
    world = with_table()
    before = world.main.commit_of("main")
    assert keys(world) == ["_iceberg/shop.namespace", "_iceberg/shop/orders.table"]
    commit = set_property(world, "a", "b")
    assert commit.parents == (before.id,)
    assert commit.metadata["iceberg.table"] == "shop.orders"
    assert metadata(world)["properties"]["a"] == "b"
    assert "a" not in metadata(world, before.id)["properties"]
    [link] = [path for path in keys(world) if path.startswith("_iceberg/.files/")]
    assert link.startswith(f"_iceberg/.files/shop/orders-{metadata(world)['table-uuid'][:8]}/metadata/")


def test_what_is_staged_stays_staged() -> None:
    world = with_table()
    put(world.main, {"a": "1"}, "main")
    set_property(world, "a", "b")
    assert world.main.has_staged("main")
    assert world.main.stat("main", "a").size == 1


def test_staged_changes_are_compared_with_a_tree_whose_files_are_written_at_the_same_time() -> None:
    world = with_table(World(SplitParameters()))
    put(world.main, {"0": "1"}, "main")
    world.main.commit("main", "a path before those of tables")
    put(world.main, {"1": "1"}, "main")
    lake = Lake(world.tables, world.objects, clock=world.clock, trees=TreeSettings(writes_at_once=2))
    lake.repository(NAME).commit_tables(
        "main", tables=(TableChange(ORDERS, (), ({"action": "set-properties", "updates": {"a": "b"}},)),)
    )
    assert metadata(world)["properties"]["a"] == "b"
    assert world.main.has_staged("main")


def test_a_branch_copies_nothing_and_has_a_table_of_its_own() -> None:
    world = with_table()
    world.main.create_branch("dev", "main")
    set_property(world, "a", "dev", "dev")
    assert "a" not in metadata(world)["properties"]
    assert metadata(world)["location"] == metadata(world, "dev")["location"]


def test_a_change_without_an_effect_makes_no_commit() -> None:
    world = with_table()
    head = set_property(world, "a", "b")
    assert set_property(world, "a", "b") == head
    world.main.set_namespace_properties("main", namespace=("shop",), removals=("none",))
    assert world.main.commit_of("main") == head


def test_a_requirement_that_does_not_hold_changes_no_table_of_the_transaction() -> None:
    world = with_table()
    world.main.create_table("main", table=OTHER, definition={"schema": SCHEMA})
    head = world.main.commit_of("main")
    update = {"action": "set-properties", "updates": {"a": "b"}}
    wrong = {"type": "assert-table-uuid", "uuid": metadata(world)["table-uuid"]}
    with pytest.raises(RequirementError):
        world.main.commit_tables(
            "main", tables=(TableChange(ORDERS, (), (update,)), TableChange(OTHER, (wrong,), (update,)))
        )
    assert world.main.commit_of("main") == head
    world.main.commit_tables(
        "main", tables=(TableChange(ORDERS, (wrong,), (update,)), TableChange(OTHER, (), (update,)))
    )
    assert world.main.commit_of("main").parents == (head.id,)
    assert metadata(world, table=OTHER)["properties"]["a"] == "b"


def test_a_transaction_names_each_table_once() -> None:
    world = with_table()
    with pytest.raises(InvalidError, match="each table once"):
        world.main.commit_tables("main", tables=(TableChange(ORDERS), TableChange(ORDERS)))


def test_a_table_that_is_made_anew_shares_nothing_with_the_one_before() -> None:
    world = with_table()
    before = metadata(world)
    set_property(world, "a", "b")
    world.main.drop_relation("main", relation=ORDERS)
    assert keys(world) == ["_iceberg/shop.namespace"]
    world.main.create_table("main", table=ORDERS, definition={"schema": SCHEMA})
    assert metadata(world)["table-uuid"] != before["table-uuid"]
    assert metadata(world)["location"] != before["location"]


def test_a_rename_leaves_the_links_where_they_are() -> None:
    world = with_table()
    set_property(world, "a", "b")
    links = [path for path in keys(world) if ".files" in path]
    world.main.rename_relation("main", relation=ORDERS, destination=OTHER)
    set_property(world, "a", "c", table=OTHER)
    assert set(links) < set(keys(world))
    with pytest.raises(RelationNotFoundError):
        metadata(world)
    world.main.drop_relation("main", relation=OTHER)
    assert keys(world) == ["_iceberg/shop.namespace"]


def test_names_are_those_of_one_namespace() -> None:
    world = with_table()
    with pytest.raises(RelationExistsError):
        world.main.create_table("main", table=ORDERS, definition={"schema": SCHEMA})
    with pytest.raises(NamespaceNotFoundError):
        world.main.create_table("main", table=Identifier(("none",), "t"), definition={"schema": SCHEMA})
    with pytest.raises(RelationNotFoundError):
        set_property(world, "a", "b", table=OTHER)
    with pytest.raises(InvalidError, match="already has that name"):
        world.main.rename_relation("main", relation=ORDERS, destination=ORDERS)


@pytest.mark.parametrize("name", ["", "\x1f", "a\nb", "x" * 256, "\ud800"])
def test_a_name_that_cannot_be_a_key_is_refused(name: str) -> None:
    world = with_table()
    with pytest.raises(InvalidError):
        world.main.create_table("main", table=Identifier(("shop",), name), definition={"schema": SCHEMA})
    with pytest.raises(InvalidError):
        world.main.create_namespace("main", namespace=("shop", name))


@pytest.mark.parametrize("name", ["a.b", "a/b", "..", ".", ".files", "100%", "%2F", "a.table", "ü", "a b+c", "x" * 255])
def test_a_name_may_be_nearly_any_text(name: str) -> None:
    world = with_table()
    table = Identifier(("shop", name), name)
    world.main.create_namespace("main", namespace=("shop", name))
    world.main.create_table("main", table=table, definition={"schema": SCHEMA})
    set_property(world, "a", "b", table=table)
    reader = CatalogReader(world.main.parts, "main")
    assert reader.relations(("shop", name), "table").results == (table,)
    assert reader.namespaces(("shop",)).results == (("shop", name),)
    assert reader.relations(("shop",), "table").results == (ORDERS,)


def test_verbs_for_objects_change_nothing_of_a_table() -> None:
    world = with_table()
    path, before = keys(world)[-1], world.main.commit_of("main~1")
    for change in (
        lambda: put(world.main, {path: "1"}, "main"),
        lambda: world.main.delete("main", [path]),
        lambda: world.main.delete("main", ["a", path]),
        lambda: world.main.commit_metarange("main", metarange=before.metarange, allow_empty=True),
        lambda: world.main.copy("main", path, "_iceberg/x"),
    ):
        with pytest.raises(TablePathError, match="Iceberg table"):
            change()
    assert not world.main.has_staged("main")


def test_a_protected_branch_refuses_commits_of_tables() -> None:
    world = with_table()
    world.main.protect(["main"])
    with pytest.raises(ForbiddenError):
        set_property(world, "a", "b")


def test_a_location_that_a_client_demands_is_not_used() -> None:
    world = with_table()
    create = ({"type": "assert-create"},)
    updates = (
        {"action": "assign-uuid", "uuid": "00000000-0000-4000-8000-000000000000"},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 0}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata(world)["location"]},
    )
    world.main.commit_tables("main", tables=(TableChange(OTHER, create, updates),))
    location = metadata(world, table=OTHER)["location"]
    assert location != metadata(world)["location"]
    world.main.commit_tables("main", tables=(TableChange(OTHER, (), (updates[-1],)),))
    assert metadata(world, table=OTHER)["location"] == location


def test_a_table_registered_in_another_tables_folder_is_refused() -> None:
    world = with_table()
    document = {**metadata(world), "table-uuid": "00000000-0000-4000-8000-000000000000"}
    name = f"{world.main.parts.namespace}/tables/stolen.metadata.json"
    world.objects().put("tables/stolen.metadata.json", encode_metadata(document))
    with pytest.raises(InvalidError, match="did not make that folder"):
        world.main.register_table("main", table=OTHER, location=name)


def test_a_namespace_that_is_dropped_meanwhile_gets_no_table() -> None:
    world = with_table()
    world.main.create_namespace("main", namespace=("empty",))
    create = (
        {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 0}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    change = TableChange(Identifier(("empty",), "orders"), ({"type": "assert-create"},), create)
    drop = Before("tables.transact", 1, lambda: world.main.drop_namespace("main", namespace=("empty",)))
    with pytest.raises(NamespaceNotFoundError):
        world.repository(drop).commit_tables("main", tables=(change,))
    assert drop.reached
    assert keys(world) == ["_iceberg/shop.namespace", "_iceberg/shop/orders.table"]


def test_a_tag_and_a_commit_change_nothing() -> None:
    world = with_table()
    world.main.create_tag("v1", "main")
    with pytest.raises(NotFoundError):
        set_property(world, "a", "b", "v1")


def test_an_import_neither_replaces_nor_brings_parts_of_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a")
    world = with_table()
    head = world.main.commit_of("main")
    for destination in ("", "_iceberg/", "_iceberg/shop/"):
        with pytest.raises(TablePathError):
            world.main.import_folder("main", tmp_path, destination)
    assert world.main.commit_of("main") == head
    world.main.import_folder("main", tmp_path, "in/")
    (tmp_path / "_iceberg").mkdir()
    (tmp_path / "_iceberg/x.table").write_text("{}")
    empty = World()
    with pytest.raises(TablePathError):
        empty.main.import_folder("main", tmp_path, "")
