"""Merges of branches that gave tables, views and namespaces names: a name means one table, and a table has one name."""

from collections.abc import Callable

import pytest

from graveler.errors import MergeConflictError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.model import MergeStrategies, MergeStrategy
from graveler.requests.iceberg import Identifier
from tests.lake.iceberg.support import ORDERS, SCHEMA, keys, set_property, with_table
from tests.lake.support import World

Work = Callable[[World, str], object]


def named(name: str) -> Identifier:
    *namespace, last = name.split(".")
    return Identifier(tuple(namespace), last)


def rename(old: str, new: str) -> Work:
    return lambda world, branch: world.main.rename_relation(branch, relation=named(old), destination=named(new))


def drop(name: str) -> Work:
    return lambda world, branch: world.main.drop_relation(branch, relation=named(name))


def create(name: str) -> Work:
    return lambda world, branch: world.main.create_table(branch, table=named(name), definition={"schema": SCHEMA})


def view(name: str) -> Work:
    version = {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["shop"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }
    definition = {"schema": {**SCHEMA, "schema-id": 0}, "view-version": version, "properties": {}}
    return lambda world, branch: world.main.create_view(branch, view=named(name), definition=definition)


def change(name: str, property_name: str = "a") -> Work:
    return lambda world, branch: set_property(world, property_name, branch, branch, named(name))


def drop_namespace(name: str) -> Work:
    return lambda world, branch: world.main.drop_namespace(branch, namespace=tuple(name.split(".")))


def create_namespace(name: str) -> Work:
    return lambda world, branch: world.main.create_namespace(branch, namespace=tuple(name.split(".")))


def do(*work: Work) -> Work:
    return lambda world, branch: [step(world, branch) for step in work]


def world_with(source: Work, destination: Work) -> World:
    """Return a world with the tables shop.orders and shop.items, changed on dev (the source) and on main."""
    world = with_table()
    create("shop.items")(world, "main")
    create_namespace("empty")(world, "main")
    world.main.create_branch("dev", "main")
    source(world, "dev")
    destination(world, "main")
    return world


def names(world: World, ref: str = "main") -> set[str]:
    return {path.removeprefix("_iceberg/") for path in keys(world, ref) if "/.files/" not in path}


SWAP = do(rename("shop.orders", "shop.x"), rename("shop.items", "shop.orders"), rename("shop.x", "shop.items"))

CONFLICTS: dict[str, tuple[Work, Work, str]] = {
    "two names": (
        rename("shop.orders", "shop.a"),
        rename("shop.orders", "shop.b"),
        "table shop.orders: the source renamed it to table shop.a, and the destination to table shop.b",
    ),
    "two names and two changes": (
        do(rename("shop.orders", "shop.a"), change("shop.a")),
        do(rename("shop.orders", "shop.b"), change("shop.b")),
        "table shop.orders: the source renamed it to table shop.a, and the destination to table shop.b",
    ),
    "renamed and dropped": (
        rename("shop.orders", "shop.a"),
        drop("shop.orders"),
        "table shop.orders: the source renamed it to table shop.a, and the destination dropped it",
    ),
    "dropped and renamed": (
        drop("shop.orders"),
        rename("shop.orders", "shop.b"),
        "table shop.orders: the destination renamed it to table shop.b, and the source dropped it",
    ),
    "a name that the other made": (
        rename("shop.orders", "shop.a"),
        create("shop.a"),
        "table shop.a: both sides have a new table of this name, and they are two",
    ),
    "one name for two tables": (
        rename("shop.orders", "shop.a"),
        rename("shop.items", "shop.a"),
        "table shop.a: both sides have a new table of this name, and they are two",
    ),
    "swapped and changed": (
        SWAP,
        change("shop.orders"),
        "table shop.orders: the source renamed it to shop.items and has another one here, and the destination changed it",
    ),
    "a table and a view": (
        create("shop.a"),
        view("shop.a"),
        "shop.a: the source has a new table, and the destination a new view of this name",
    ),
    "orphan table": (
        create("empty.a"),
        drop_namespace("empty"),
        "namespace empty: the destination dropped it, and the source made table empty.a in it",
    ),
    "a namespace that is gone from below a view": (
        drop_namespace("empty"),
        do(create_namespace("empty.below"), view("empty.below.a")),
        "namespace empty: the source dropped it, and the destination made namespace empty.below, view empty.below.a in it",
    ),
    "a table renamed into a namespace that is gone": (
        rename("shop.orders", "empty.orders"),
        drop_namespace("empty"),
        "namespace empty: the destination dropped it, and the source made table empty.orders in it",
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_names_that_both_sides_changed_in_two_ways_are_conflicts(name: str) -> None:
    source, destination, sentence = CONFLICTS[name]
    world = world_with(source, destination)
    head = world.main.commit_of("main")
    with pytest.raises(MergeConflictError) as refused:
        world.main.merge("dev", "main")
    assert f"; {sentence}; nothing was changed" in str(refused.value)
    assert world.main.commit_of("main") == head
    conflicts = [conflict.path for conflict in refused.value.conflicts]
    assert [conflict.path for conflict in world.main.preview_merge("dev", "main").conflicts] == conflicts
    assert len(conflicts) == 1


@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.parametrize("strategy", [MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS])
def test_a_strategy_leaves_the_names_of_one_side(name: str, strategy: MergeStrategy) -> None:
    world = world_with(*CONFLICTS[name][:2])
    expected = names(world, "dev" if strategy is MergeStrategy.SOURCE_WINS else "main")
    world.main.merge("dev", "main", strategy=MergeStrategies(strategy))
    assert names(world) == expected


def test_one_new_name_on_both_sides_has_the_changes_of_both() -> None:
    world = world_with(
        do(rename("shop.orders", "shop.a"), change("shop.a", "x")),
        do(rename("shop.orders", "shop.a"), change("shop.a", "y")),
    )
    world.main.merge("dev", "main")
    assert names(world) == {"empty.namespace", "shop.namespace", "shop/a.table", "shop/items.table"}
    document = CatalogReader(world.main.parts, "main").load(named("shop.a")).document
    assert {"x", "y"} <= document["properties"].keys()


def test_a_swap_that_one_side_alone_made_is_taken() -> None:
    world = world_with(SWAP, create("shop.other"))
    before = {name: world.main.stat("main", f"_iceberg/shop/{name}.table").metadata for name in ("orders", "items")}
    world.main.merge("dev", "main")
    after = {name: world.main.stat("main", f"_iceberg/shop/{name}.table").metadata for name in ("orders", "items")}
    assert after == {"orders": before["items"], "items": before["orders"]}


def test_namespaces_and_tables_of_both_sides_are_all_there() -> None:
    world = world_with(do(create_namespace("a"), create("a.x")), do(create_namespace("b"), create("b.x")))
    world.main.merge("dev", "main")
    assert {"a/x.table", "b/x.table", f"shop/{ORDERS.name}.table"} <= names(world)
