"""Merges of branches that gave tables, views and namespaces names: a name means one table, and a table has one name."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from graveler.errors import MergeConflictError, NoChangesError
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.linked_files import FOLDER_FIELD
from graveler.lake.iceberg.table_states import UUID_FIELD
from graveler.model import MergeStrategies, MergeStrategy
from graveler.requests.iceberg import Identifier, Relation
from graveler.sdk.iceberg_tables import Tables
from tests.lake.iceberg.support import ORDERS, SCHEMA, VIEW_DEFINITION, keys, set_property
from tests.lake.support import StoredWorld

Work = Callable[[StoredWorld, str], object]


def named(name: str) -> Identifier:
    *namespace, last = name.split(".")
    return Identifier(tuple(namespace), last)


def rename(old: str, new: str, kind: Relation = "table") -> Work:
    return lambda world, branch: world.main.rename_relation(
        branch, relation=named(old), destination=named(new), kind=kind
    )


def drop(name: str) -> Work:
    return lambda world, branch: world.main.drop_relation(branch, relation=named(name))


def create(name: str) -> Work:
    return lambda world, branch: world.main.create_table(branch, table=named(name), definition={"schema": SCHEMA})


def view(name: str) -> Work:
    return lambda world, branch: world.main.create_view(branch, view=named(name), definition=VIEW_DEFINITION)


def change(name: str, property_name: str = "a") -> Work:
    return lambda world, branch: set_property(world, property_name, branch, branch, named(name))


def drop_namespace(name: str) -> Work:
    return lambda world, branch: world.main.drop_namespace(branch, namespace=tuple(name.split(".")))


def create_namespace(name: str) -> Work:
    return lambda world, branch: world.main.create_namespace(branch, namespace=tuple(name.split(".")))


def squash_dev(world: StoredWorld, _: str) -> None:
    world.main.merge("dev", "main", squash=True)


def do(*work: Work) -> Work:
    return lambda world, branch: [step(world, branch) for step in work]


def change_both(world: StoredWorld, source: Work, destination: Work) -> None:
    """Make the table shop.items, too, and change the world on dev (the source) and on main."""
    create("shop.items")(world, "main")
    create_namespace("empty")(world, "main")
    world.main.create_branch("dev", "main")
    source(world, "dev")
    destination(world, "main")


def names(world: StoredWorld, ref: str = "main") -> set[str]:
    return {path.removeprefix("_iceberg/") for path in keys(world, ref) if "/.files/" not in path}


def uuids(world: StoredWorld, ref: str = "main") -> dict[str, str | None]:
    return {entry.path: entry.metadata.get(UUID_FIELD) for entry in world.main.objects(ref, "_iceberg/shop/")}


def check_links(world: StoredWorld, ref: str = "main") -> None:
    """Check that each table has the links of its files, and that there is no link without a table."""
    tables = list(Tables(world.main, ref).list())
    assert [violation for table in tables for violation in table.check()] == []
    folders = tuple(table.entry.metadata[FOLDER_FIELD] for table in tables)
    links = [path for path in keys(world, ref) if path.startswith("_iceberg/.files/")]
    assert [path for path in links if not path.startswith(folders)] == []


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
    "a new table that the destination renamed after a squash merge": (
        do(create("shop.a"), change("shop.a")),
        do(squash_dev, rename("shop.a", "shop.b")),
        "table shop.a: the source has it under this name, and the destination as table shop.b",
    ),
    "a new table that the source renamed after a squash merge": (
        do(create("shop.a"), squash_dev, rename("shop.a", "shop.b"), change("shop.b")),
        change("shop.a"),
        "table shop.b: the source has it under this name, and the destination as table shop.a",
    ),
    "a new view that the destination renamed after a squash merge": (
        view("shop.a"),
        do(squash_dev, rename("shop.a", "shop.b", "view")),
        "view shop.a: the source has it under this name, and the destination as view shop.b",
    ),
    "renamed and dropped": (
        rename("shop.orders", "shop.a"),
        drop("shop.orders"),
        "table shop.orders: the source renamed it to table shop.a, and the destination dropped it",
    ),
    "renamed, changed and dropped": (
        do(rename("shop.orders", "shop.a"), change("shop.a")),
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
        do(create("shop.a"), change("shop.a")),
        view("shop.a"),
        "shop.a: the source has a new table, and the destination a new view of this name",
    ),
    "orphan table": (
        do(create("empty.a"), change("empty.a")),
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
def test_names_that_both_sides_changed_in_two_ways_are_conflicts(world: StoredWorld, name: str) -> None:
    source, destination, sentence = CONFLICTS[name]
    change_both(world, source, destination)
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
def test_a_strategy_leaves_the_names_of_one_side(world: StoredWorld, name: str, strategy: MergeStrategy) -> None:
    change_both(world, *CONFLICTS[name][:2])
    side = "dev" if strategy is MergeStrategy.SOURCE_WINS else "main"
    expected = keys(world, side), uuids(world, side)
    world.main.merge("dev", "main", strategy=MergeStrategies(strategy))
    assert (keys(world), uuids(world)) == expected
    check_links(world)


RENAMINGS: dict[str, tuple[Work, Work]] = {
    "renamed and changed": (rename("shop.orders", "shop.a"), change("shop.orders")),
    "changed and renamed": (change("shop.orders"), rename("shop.orders", "shop.z")),
    "changed, and renamed and changed": (
        change("shop.orders", "x"),
        do(rename("shop.orders", "shop.a"), change("shop.a")),
    ),
    "renamed and changed on both sides": (
        do(rename("shop.orders", "shop.a"), change("shop.a", "x")),
        do(rename("shop.orders", "shop.a"), change("shop.a", "y")),
    ),
    "two tables": (
        do(rename("shop.orders", "shop.z"), change("shop.items", "x")),
        do(rename("shop.items", "shop.a"), change("shop.orders", "y")),
    ),
}
RENAMED_BY_BOTH = do(rename("shop.orders", "shop.z"), change("shop.z", "x"))
MADE_ANEW = do(rename("shop.orders", "shop.z"), change("shop.z", "y"), create("shop.orders"), change("shop.orders"))
RENAMINGS |= {
    "renamed on both sides, and made anew by the destination": (RENAMED_BY_BOTH, MADE_ANEW),
    "renamed on both sides, and made anew by the source": (MADE_ANEW, RENAMED_BY_BOTH),
}
RESOLVED = [pytest.param(*works, MergeStrategy.NONE, id=name) for name, works in RENAMINGS.items()] + [
    pytest.param(*works[:2], strategy, id=f"{name}, {strategy.value}")
    for name, works in CONFLICTS.items()
    for strategy in (MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS)
]


@pytest.mark.parametrize(("source", "destination", "strategy"), RESOLVED)
def test_a_preview_shows_what_the_merge_does_to_the_entries(
    world: StoredWorld, source: Work, destination: Work, strategy: MergeStrategy
) -> None:
    change_both(world, source, destination)
    previewed = world.main.previewed_merge("dev", "main", MergeStrategies(strategy))
    changes = [part.change for part in previewed.changes(amount=1000).results]
    pages = [
        part.change
        for change in ("", *(change.path for change in changes))
        for part in previewed.changes(after=change, amount=1).results
    ]
    before = world.main.commit_of("main").id
    with suppress(NoChangesError):
        world.main.merge("dev", "main", strategy=MergeStrategies(strategy))
    diff = world.main.diff(before, "main", amount=1000).results
    assert [part for part in changes if "/.files/" not in part.path] == [
        part for part in diff if "/.files/" not in part.path
    ]
    assert pages == changes


@pytest.mark.parametrize("strategy", MergeStrategy)
@pytest.mark.parametrize("works", [(RENAMED_BY_BOTH, MADE_ANEW), (MADE_ANEW, RENAMED_BY_BOTH)], ids=["main", "dev"])
def test_a_table_that_one_side_made_where_both_had_renamed_one_stays(
    world: StoredWorld, works: tuple[Work, Work], strategy: MergeStrategy
) -> None:
    change_both(world, *works)
    tables = {(path, uuid) for branch in ("dev", "main") for path, uuid in uuids(world, branch).items()}
    world.main.merge("dev", "main", strategy=MergeStrategies(strategy))
    assert set(uuids(world).items()) == tables
    document = CatalogReader(world.main.parts, "main").load(named("shop.z")).document
    assert {"x", "y"} <= document["properties"].keys()
    check_links(world)


RENAME = rename("shop.orders", "shop.a")
REMAKE = do(change("shop.orders"), drop("shop.orders"), create("shop.orders"))


@pytest.mark.parametrize(
    ("loser", "winner", "dropped", "changed"),
    [(RENAME, REMAKE, "shop.a", "shop.orders"), (REMAKE, RENAME, "shop.orders", "shop.a")],
    ids=["renamed, and made anew by the winner", "made anew, and renamed by the winner"],
)
@pytest.mark.parametrize(("source", "destination"), [("dev", "main"), ("main", "dev")])
def test_the_table_of_a_winner_stays_when_the_loser_drops_another_one_that_had_its_name(
    world: StoredWorld, loser: Work, winner: Work, dropped: str, changed: str, source: str, destination: str
) -> None:
    change_both(world, loser, winner)
    world.main.merge("dev", "main", strategy=MergeStrategies(MergeStrategy.DEST_WINS))
    check_links(world)
    drop(dropped)(world, "dev")
    change(changed)(world, "main")
    expected = uuids(world)
    assert len(expected) == 2
    world.main.merge(source, destination, allow_empty=True)
    assert uuids(world, destination) == expected
    check_links(world, destination)


def test_one_new_name_on_both_sides_has_the_changes_of_both(world: StoredWorld) -> None:
    change_both(
        world,
        do(rename("shop.orders", "shop.a"), change("shop.a", "x")),
        do(rename("shop.orders", "shop.a"), change("shop.a", "y")),
    )
    world.main.merge("dev", "main")
    assert names(world) == {"empty.namespace", "shop.namespace", "shop/a.table", "shop/items.table"}
    document = CatalogReader(world.main.parts, "main").load(named("shop.a")).document
    assert {"x", "y"} <= document["properties"].keys()


def test_a_swap_that_one_side_alone_made_is_taken(world: StoredWorld) -> None:
    change_both(world, SWAP, create("shop.other"))
    before = {name: world.main.stat("main", f"_iceberg/shop/{name}.table").metadata for name in ("orders", "items")}
    world.main.merge("dev", "main")
    after = {name: world.main.stat("main", f"_iceberg/shop/{name}.table").metadata for name in ("orders", "items")}
    assert after == {"orders": before["items"], "items": before["orders"]}


def test_namespaces_and_tables_of_both_sides_are_all_there(world: StoredWorld) -> None:
    change_both(world, do(create_namespace("a"), create("a.x")), do(create_namespace("b"), create("b.x")))
    world.main.merge("dev", "main")
    assert {"a/x.table", "b/x.table", f"shop/{ORDERS.name}.table"} <= names(world)
