"""Commits of tables move a branch, all or nothing, beside what is staged there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from graveler.errors import ForbiddenError, InvalidError, NotFoundError
from graveler.lake.iceberg.catalog_errors import NamespaceNotFoundError, RelationExistsError, RelationNotFoundError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.table_folders import root_of
from graveler.lake.lake import Lake
from graveler.lake.opening.lake_parts import TreeSettings
from graveler.model import SplitParameters
from graveler.requests.iceberg import Identifier, TableChange
from graveler.table_format.manifest_lists import read_manifest_list, write_manifest_list
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import encode_metadata
from graveler.table_format.table_requirements import RequirementError
from graveler.values.reserved_paths import TablePathError
from tests.lake.iceberg.support import (
    ORDERS,
    SCHEMA,
    VIEW_DEFINITION,
    appended,
    creation_of,
    keys,
    metadata,
    set_property,
    with_table,
    write_file,
)
from tests.lake.support import NAME, Before, StoredWorld, World, put

OTHER = Identifier(("shop",), "other")


def test_a_table_is_one_entry_and_its_changes_are_commits(world: StoredWorld) -> None:
    before = world.main.commit_of("main")
    assert keys(world) == ["_iceberg/shop.namespace", "_iceberg/shop/orders.table"]
    commit = set_property(world, "a", "b")
    assert commit.parents == (before.id,)
    assert commit.metadata["iceberg.table"] == "shop.orders"
    assert metadata(world)["properties"]["a"] == "b"
    assert "a" not in metadata(world, before.id)["properties"]
    [link] = [path for path in keys(world) if path.startswith("_iceberg/.files/")]
    assert link.startswith(f"_iceberg/.files/shop/orders-{metadata(world)['table-uuid'][:8]}/metadata/")


def test_what_is_staged_stays_staged(world: StoredWorld) -> None:
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


def test_a_branch_copies_nothing_and_has_a_table_of_its_own(world: StoredWorld) -> None:
    world.main.create_branch("dev", "main")
    set_property(world, "a", "dev", "dev")
    assert "a" not in metadata(world)["properties"]
    assert metadata(world)["location"] == metadata(world, "dev")["location"]


def test_a_change_without_an_effect_makes_no_commit(world: StoredWorld) -> None:
    head = set_property(world, "a", "b")
    assert set_property(world, "a", "b") == head
    world.main.set_namespace_properties("main", namespace=("shop",), removals=("none",))
    assert world.main.commit_of("main") == head


def test_a_requirement_that_does_not_hold_changes_no_table_of_the_transaction(world: StoredWorld) -> None:
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


def test_a_transaction_names_each_table_once(world: StoredWorld) -> None:
    with pytest.raises(InvalidError, match="each table once"):
        world.main.commit_tables("main", tables=(TableChange(ORDERS), TableChange(ORDERS)))


def test_a_table_that_is_made_anew_shares_nothing_with_the_one_before(world: StoredWorld) -> None:
    before = metadata(world)
    set_property(world, "a", "b")
    world.main.drop_relation("main", relation=ORDERS)
    assert keys(world) == ["_iceberg/shop.namespace"]
    world.main.create_table("main", table=ORDERS, definition={"schema": SCHEMA})
    assert metadata(world)["table-uuid"] != before["table-uuid"]
    assert metadata(world)["location"] != before["location"]


def test_a_rename_leaves_the_links_where_they_are(world: StoredWorld) -> None:
    set_property(world, "a", "b")
    links = [path for path in keys(world) if ".files" in path]
    world.main.rename_relation("main", relation=ORDERS, destination=OTHER)
    set_property(world, "a", "c", table=OTHER)
    assert set(links) < set(keys(world))
    with pytest.raises(RelationNotFoundError):
        metadata(world)
    world.main.drop_relation("main", relation=OTHER)
    assert keys(world) == ["_iceberg/shop.namespace"]


def test_names_are_those_of_one_namespace(world: StoredWorld) -> None:
    with pytest.raises(RelationExistsError):
        world.main.create_table("main", table=ORDERS, definition={"schema": SCHEMA})
    with pytest.raises(NamespaceNotFoundError):
        world.main.create_table("main", table=Identifier(("none",), "t"), definition={"schema": SCHEMA})
    with pytest.raises(RelationNotFoundError):
        set_property(world, "a", "b", table=OTHER)
    with pytest.raises(InvalidError, match="already has that name"):
        world.main.rename_relation("main", relation=ORDERS, destination=ORDERS)


@pytest.mark.parametrize("name", ["", "\x1f", "a\nb", "x" * 256, "\ud800", ".", ".."])
def test_a_name_that_cannot_be_a_key_is_refused(world: StoredWorld, name: str) -> None:
    with pytest.raises(InvalidError):
        world.main.create_table("main", table=Identifier(("shop",), name), definition={"schema": SCHEMA})
    with pytest.raises(InvalidError):
        world.main.create_namespace("main", namespace=("shop", name))


@pytest.mark.parametrize("levels", [("x" * 255,) * 5, ("x",) * 1_000, ("%/" * 100,) * 2, ("x",) * 100_000])
def test_a_name_with_more_levels_than_a_key_has_room_for_is_refused(levels: tuple[str, ...]) -> None:
    world = with_table()
    before, deep = keys(world), Identifier(levels[:-1], levels[-1])
    for change in (
        lambda: world.main.create_namespace("main", namespace=levels),
        lambda: world.main.drop_namespace("main", namespace=levels),
        lambda: world.main.create_table("main", table=deep, definition={"schema": SCHEMA}),
        lambda: world.main.rename_relation("main", relation=ORDERS, destination=deep),
        lambda: CatalogReader(world.main.parts, "main").load(deep, "view"),
        lambda: CatalogReader(world.main.parts, "main").relations(levels, "table"),
    ):
        with pytest.raises(InvalidError, match="at most 1,024 are allowed"):
            change()
    assert keys(world) == before


@pytest.mark.parametrize(
    "name", ["a.b", "a/b", "...", "./..", ".files", "100%", "%2F", "a.table", "ü", "a b+c", "x" * 255]
)
def test_a_name_may_be_nearly_any_text(world: StoredWorld, name: str) -> None:
    table = Identifier(("shop", name), name)
    world.main.create_namespace("main", namespace=("shop", name))
    world.main.create_table("main", table=table, definition={"schema": SCHEMA})
    set_property(world, "a", "b", table=table)
    reader = CatalogReader(world.main.parts, "main")
    assert reader.relations(("shop", name), "table").results == (table,)
    assert reader.namespaces(("shop",)).results == (("shop", name),)
    assert reader.relations(("shop",), "table").results == (ORDERS,)


def test_verbs_for_objects_change_nothing_of_a_table(world: StoredWorld) -> None:
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


def test_a_protected_branch_refuses_commits_of_tables(world: StoredWorld) -> None:
    world.main.protect(["main"])
    with pytest.raises(ForbiddenError):
        set_property(world, "a", "b")


@pytest.mark.parametrize("spelled", [str.lower, str.upper])  # clients may write the names of updates in capitals
def test_a_location_that_a_client_demands_is_not_used(world: StoredWorld, spelled: Callable[[str], str]) -> None:
    create = ({"type": "assert-create"},)
    updates: tuple[Document, ...] = (
        {"action": spelled("assign-uuid"), "uuid": "00000000-0000-4000-8000-000000000000"},
        {"action": "upgrade-format-version", "format-version": 2},
        *creation_of(OTHER).updates,
        {"action": spelled("set-location"), "location": metadata(world)["location"]},
    )
    world.main.commit_tables("main", tables=(TableChange(OTHER, create, updates),))
    location = metadata(world, table=OTHER)["location"]
    assert location != metadata(world)["location"]
    world.main.commit_tables("main", tables=(TableChange(OTHER, (), (updates[-1],)),))
    assert metadata(world, table=OTHER)["location"] == location
    view = Identifier(("shop",), "recent")
    world.main.create_view("main", view=view, definition=VIEW_DEFINITION)
    before = CatalogReader(world.main.parts, "main").load(view, "view").document
    world.main.replace_view("main", view=view, updates=(updates[-1],))
    assert CatalogReader(world.main.parts, "main").load(view, "view").document == before


@pytest.mark.parametrize(
    "listed",
    [
        b"",
        b"no Avro file",
        {"length": 1},
        {"spec_id": 7},
        {"content": 1},
        {"path": "data/a"},
        {"path": "metadata/none.avro"},
        {"path": "file:///elsewhere.avro"},
    ],
)
def test_a_commit_that_names_no_manifests_is_the_clients_fault(listed: bytes | dict[str, Any]) -> None:
    world = with_table()
    write_file(world, "data/a")
    before, document = keys(world), metadata(world)
    change = appended(world.main.parts, document, "data/a", snapshot_id=7)
    objects, folder = world.main.parts.objects, f"{document['location'].removeprefix(world.main.parts.namespace)[1:]}/"
    name = f"{folder}metadata/snap-7.avro"
    if isinstance(listed, bytes):
        objects.put(name, listed)
    else:
        (manifest,) = read_manifest_list(objects.get(name), name)
        if (path := listed.get("path", ":")) and ":" not in path:
            listed = {"path": f"{document['location']}/{path}"}
        changed = replace(manifest, **listed)
        objects.put(name, write_manifest_list([changed], format_version=2, snapshot_id=7, parent_snapshot_id=None))
    with pytest.raises(InvalidError):
        world.main.commit_tables("main", tables=(change,))
    assert keys(world) == before


def test_a_table_registered_in_another_tables_folder_is_refused(world: StoredWorld) -> None:
    document = {**metadata(world), "table-uuid": "00000000-0000-4000-8000-000000000000"}
    location = f"{root_of(world.main.parts)}/tables/stolen.metadata.json"
    world.objects().put("tables/stolen.metadata.json", encode_metadata(document))
    with pytest.raises(InvalidError, match="did not make that folder"):
        world.main.register_table("main", table=OTHER, location=location)


def test_a_namespace_that_is_dropped_meanwhile_gets_no_table(world: StoredWorld) -> None:
    world.main.create_namespace("main", namespace=("empty",))
    change = creation_of(Identifier(("empty",), "orders"))
    drop = Before("tables.transact", 1, lambda: world.main.drop_namespace("main", namespace=("empty",)))
    with pytest.raises(NamespaceNotFoundError):
        world.repository(drop).commit_tables("main", tables=(change,))
    assert drop.reached
    assert keys(world) == ["_iceberg/shop.namespace", "_iceberg/shop/orders.table"]


def test_a_tag_and_a_commit_change_nothing(world: StoredWorld) -> None:
    world.main.create_tag("v1", "main")
    with pytest.raises(NotFoundError):
        set_property(world, "a", "b", "v1")


def test_an_import_neither_replaces_nor_brings_parts_of_tables(world: StoredWorld, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a")
    head = world.main.commit_of("main")
    for destination in ("", "_iceberg/", "_iceberg/shop/"):
        with pytest.raises(TablePathError):
            world.main.import_folder("main", tmp_path, destination)
    assert world.main.commit_of("main") == head
    world.main.import_folder("main", tmp_path, "in/")
    (tmp_path / "_iceberg").mkdir()
    (tmp_path / "_iceberg/x.table").write_text("{}")
    world.main.drop_relation("main", relation=ORDERS)
    world.main.drop_namespace("main", namespace=("shop",))
    with pytest.raises(TablePathError):
        world.main.import_folder("main", tmp_path, "")
