"""Strategies that name a table: the table exists, or the merge is refused; to name it costs nothing where the merge needs it."""

from collections.abc import Callable

import pytest

from graveler.errors import InvalidError, MergeConflictError
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategies, MergeStrategy, SplitParameters
from graveler.requests.iceberg import Identifier
from tests.lake.iceberg.support import ORDERS, SCHEMA, metadata, set_property, with_table
from tests.lake.support import StoredWorld, World

Verb = Callable[..., object]


def merge(repository: OpenRepository, strategies: MergeStrategies, branch: str = "main") -> None:
    repository.merge("dev", branch, strategy=strategies)


def revert(repository: OpenRepository, strategies: MergeStrategies) -> None:
    repository.revert("main", "main", strategy=strategies)


def cherry_pick(repository: OpenRepository, strategies: MergeStrategies) -> None:
    repository.cherry_pick("main", "dev", strategy=strategies)


def preview(repository: OpenRepository, strategies: MergeStrategies, branch: str = "main") -> None:
    repository.preview_merge("dev", branch, strategies)


def named(name: str) -> MergeStrategies:
    return MergeStrategies(by_prefix=((f"_iceberg/shop/{name}.table", MergeStrategy.SOURCE_WINS),))


def contend(world: StoredWorld) -> StoredWorld:
    """Return the world after both branches gave a table's property other values."""
    world.main.create_branch("dev", "main")
    set_property(world, "a", "dev", "dev")
    set_property(world, "a", "main")
    return world


@pytest.mark.parametrize("verb", [merge, revert, cherry_pick, preview])
def test_a_strategy_for_a_table_that_no_side_has_is_refused(world: StoredWorld, verb: Verb) -> None:
    contend(world)
    head = world.main.commit_of("main")
    with pytest.raises(InvalidError, match=r"table shop\.none, which neither '.*' nor 'main' has"):
        verb(world.main, named("none"))
    assert world.main.commit_of("main") == head


@pytest.mark.parametrize("verb", [merge, preview])
def test_a_strategy_may_name_a_table_that_the_merge_does_not_need(world: StoredWorld, verb: Verb) -> None:
    repository = world.main
    for name in ("base", "both"):
        repository.create_table("main", table=Identifier(("shop",), name), definition={"schema": SCHEMA})
    repository.create_branch("dev", "main")
    for branch in ("dev", "main"):
        repository.create_table(branch, table=Identifier(("shop",), branch), definition={"schema": SCHEMA})
        repository.drop_relation(branch, relation=Identifier(("shop",), "base"))
    strategies = [named(name).by_prefix[0] for name in ("base", "both", "dev", "main")]
    verb(repository, MergeStrategies(by_prefix=tuple(strategies)))


@pytest.mark.parametrize(
    "table", [Identifier(("shop",), "orders.table2"), Identifier(("shop", "orders.table"), "items")], ids=str
)
def test_a_strategy_for_a_table_decides_about_no_other_whose_entry_begins_with_its_own(
    world: StoredWorld, table: Identifier
) -> None:
    if table.namespace != ORDERS.namespace:
        world.main.create_namespace("main", namespace=table.namespace)
    world.main.create_table("main", table=table, definition={"schema": SCHEMA})
    contend(world)
    for branch in ("dev", "main"):
        set_property(world, "a", branch, branch, table)
    strategies = named(ORDERS.name)
    (conflict,) = world.main.preview_merge("dev", "main", strategies).conflicts
    with pytest.raises(MergeConflictError) as refused:
        merge(world.main, strategies)
    assert [*refused.value.conflicts] == [conflict]
    assert conflict.path.startswith("_iceberg/shop/orders.table")
    with_both = MergeStrategies(by_prefix=(*strategies.by_prefix, (conflict.path, MergeStrategy.DEST_WINS)))
    merge(world.main, with_both)
    assert metadata(world)["properties"]["a"] == "dev"
    assert metadata(world, table=table)["properties"]["a"] == "main"


@pytest.mark.parametrize("verb", [merge, preview])
@pytest.mark.parametrize("split", [SplitParameters(), SplitParameters(1, 200, 2)])
def test_to_name_a_table_of_the_merge_costs_no_read(verb: Verb, split: SplitParameters) -> None:
    world = contend(with_table(World(split)))
    for number in range(20):
        world.main.upload("main", f"{number}", b"x")
    world.main.commit("main", "objects")
    world.main.create_branch("same", "main")
    calls = []
    for branch, strategies in (("main", MergeStrategies(MergeStrategy.SOURCE_WINS)), ("same", named(ORDERS.name))):
        client = world.counted()
        verb(client.repository, strategies, branch)
        calls.append((dict(client.tables.calls), client.objects.calls["get"]))
        assert metadata(world, branch)["properties"]["a"] == ("dev" if verb is merge else "main")
    assert calls[0] == calls[1]
