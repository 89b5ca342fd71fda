"""Locations of tables that were moved: on branches with rules, beside views, and in tables of format version 1."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

import graveler
from graveler.errors import ForbiddenError, InvalidError, RuleError
from graveler.lake.iceberg.catalog_errors import RelationNotFoundError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.requests.iceberg import Identifier
from graveler.sdk.iceberg_tables import Tables
from tests.lake.gates.support import TESTED, candidates, post, set_rules
from tests.lake.iceberg.support import (
    ORDERS,
    VIEW_DEFINITION,
    WorldBefore,
    add_table,
    append,
    metadata,
    set_property,
    write_file,
)
from tests.lake.support import StoredWorld, World

RECENT = Identifier(("shop",), "recent")


@pytest.fixture
def moved() -> World:
    """A world with a table of a snapshot and a view, whose storage was moved since."""
    world = World()
    before = WorldBefore(world.tables, world.objects, world.clock)
    add_table(before)
    append(before, "data/a")
    before.main.create_view("main", view=RECENT, definition=VIEW_DEFINITION)
    assert metadata(before)["location"].startswith("mem://before/tables/")
    return world


def view_location(world: StoredWorld, ref: str = "main") -> str:
    return str(CatalogReader(world.main.parts, ref).load(RECENT, "view").document["location"])


def expect_moved(world: StoredWorld, ref: str = "main") -> None:
    """Expect a table and a view that name what is here and nothing else."""
    for document in (metadata(world, ref), CatalogReader(world.main.parts, ref).load(RECENT, "view").document):
        assert document["location"].startswith("mem://repo/tables/")
        assert "mem://before" not in str(document)
    assert Tables(world.main, ref).load("shop.orders").check() == []


def test_tables_and_views_are_rewritten_in_one_commit(moved: World) -> None:
    head = moved.main.commit_of("main")
    versions = CatalogReader(moved.main.parts, "main").load(RECENT, "view").document["versions"]
    rewritten = Tables(moved.main, "main", "ada").rewrite_locations()
    assert (rewritten.tables, rewritten.views) == ((ORDERS,), (RECENT,))
    assert rewritten.commit.message == "Rewrite the location of table shop.orders and view shop.recent"
    assert (rewritten.commit.parents, rewritten.commit.committer) == ((head.id,), "ada")
    expect_moved(moved)
    assert CatalogReader(moved.main.parts, "main").load(RECENT, "view").document["versions"] == versions
    again = Tables(moved.main, "main").rewrite_locations()
    assert (again.tables, again.views, again.commit) == ((), (), rewritten.commit)


def test_a_view_is_rewritten_by_its_name(moved: World) -> None:
    assert Tables(moved.main, "main").rewrite_locations("shop.recent", "shop.recent").views == (RECENT,)
    assert view_location(moved).startswith("mem://repo/")
    assert metadata(moved)["location"].startswith("mem://before/")
    with pytest.raises(RelationNotFoundError):
        Tables(moved.main, "main").rewrite_locations("shop.orders", "shop.none")
    assert metadata(moved)["location"].startswith("mem://before/"), "all or nothing"


def test_a_moved_view_is_changed_and_keeps_its_place(moved: World) -> None:
    Tables(moved.main, "main").rewrite_locations()
    update = {"action": "set-properties", "updates": {"comment": "x"}}
    moved.main.replace_view("main", view=RECENT, updates=(update,))
    expect_moved(moved)


def test_a_protected_branch_gets_rewritten_locations_by_a_merge(moved: World) -> None:
    moved.main.create_branch("dev", "main")
    moved.main.protect(["main"])
    head = moved.main.commit_of("main")
    with pytest.raises(ForbiddenError):
        Tables(moved.main, "main").rewrite_locations()
    assert moved.main.commit_of("main") == head
    Tables(moved.main, "dev").rewrite_locations()
    moved.main.merge("dev", "main")
    expect_moved(moved)
    write_file(moved, "data/b")
    append(moved, "data/b", branch="dev")
    moved.main.merge("dev", "main")
    assert Tables(moved.main, "main").load("shop.orders").check() == []


def test_rules_hold_for_rewritten_locations(moved: World) -> None:
    set_rules(moved.main, TESTED)
    tables = Tables(moved.main, "main", "ada")
    with pytest.raises(RuleError):
        tables.rewrite_locations()
    [candidate] = candidates(moved.main)
    expect_moved(moved, candidate.commit_id)
    moved.clock.time += 5
    with pytest.raises(RuleError):
        tables.rewrite_locations()
    assert [again.commit_id for again in candidates(moved.main)] == [candidate.commit_id], (
        "the same bytes make the same candidate"
    )
    post(moved.main, moved.main.commit_of(candidate.commit_id))
    assert tables.rewrite_locations().commit.id == candidate.commit_id
    expect_moved(moved)


def test_what_is_staged_stays_staged(moved: World) -> None:
    moved.main.upload("main", "a", b"1")
    Tables(moved.main, "main").rewrite_locations()
    assert moved.main.has_staged("main")
    expect_moved(moved)


def test_a_branch_that_was_not_rewritten_is_refused_in_words(moved: World) -> None:
    moved.main.create_branch("dev", "main")
    Tables(moved.main, "main").rewrite_locations()
    with pytest.raises(InvalidError, match="rewrite-location"):
        set_property(moved, "a", "b", "dev")
    Tables(moved.main, "dev").rewrite_locations()
    set_property(moved, "a", "b", "dev")
    moved.main.merge("dev", "main")
    assert metadata(moved)["properties"]["a"] == "b"


def test_a_table_of_version_1_has_the_same_rows_in_every_snapshot(tmp_path: Path) -> None:
    def catalog(folder: Path) -> Catalog:
        properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "lake": str(folder)}
        return load_catalog("test", warehouse="sales@main", **properties)

    def rows_by_snapshot(table: Table) -> dict[int, list[int]]:
        ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
        return {number: sorted(table.scan(snapshot_id=number).to_arrow()["id"].to_pylist()) for number in ids}

    before, after = tmp_path / "before", tmp_path / "after"
    with graveler.create(before, user="ada") as lake:
        lake.repository("sales").create()
    opened = catalog(before)
    opened.create_namespace("shop")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = opened.create_table("shop.orders", rows.schema, properties={"format-version": "1"})
    for _ in range(2):
        table.append(rows)
    table.delete("id == 1")
    expected = rows_by_snapshot(table)
    opened.close()
    before.rename(after)
    with graveler.open(after, user="ada") as lake:
        lake.repository("sales").branch("main").tables.rewrite_locations()
    opened = catalog(after)
    table = opened.load_table("shop.orders")
    assert table.metadata.format_version == 1
    assert f"{before}" not in table.metadata.model_dump_json()
    assert rows_by_snapshot(table) == expected
    table.append(rows)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 2, 2]
    opened.close()
