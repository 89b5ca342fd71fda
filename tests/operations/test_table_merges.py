"""A merge in parts merges tables as one call does."""

import pytest

from graveler.errors import InvalidError, MergeConflictError
from graveler.lake.repository import OpenRepository
from graveler.model import MergeStrategies, MergeStrategy
from graveler.operations.one_process import do_in_parts
from graveler.operations.work import Report
from graveler.requests.iceberg import TableChange
from tests.lake.iceberg.support import ORDERS, metadata, set_property, with_table
from tests.lake.support import World
from tests.operations.support import alone, diverged, merge_ask, operations, write_down
from tests.support.pinned import pinned_merge

pytestmark = pytest.mark.usefixtures("small_parts")


def world_with_table() -> World:
    world = with_table()
    diverged(world.main)
    world.main.merge("main", "dev")
    return world


def change_beside(repository: OpenRepository) -> None:
    """Change objects on main, which dev has not changed."""
    for number in range(2, 120, 5):
        repository.upload("main", f"{number:03}", b"later")
    repository.commit("main", "later")


def test_properties_of_both_sides_are_in_the_table() -> None:
    world = world_with_table()
    set_property(world, "a", "dev", "dev")
    set_property(world, "b", "main")
    change_beside(world.main)
    ask = merge_ask(world.main)
    one_call = alone(world.main, ask)
    write_down(world, ask)
    commit = do_in_parts(world.repository(), "op", b"", Report())
    assert world.main.commit_of(commit).metarange_id == one_call
    assert {name: metadata(world)["properties"][name] for name in "ab"} == {"a": "dev", "b": "main"}
    assert operations(world).get("op").parts > 1


def test_a_conflict_of_tables_has_its_reason() -> None:
    world = world_with_table()
    set_property(world, "a", "dev", "dev")
    set_property(world, "a", "main")
    write_down(world, merge_ask(world.main))
    with pytest.raises(MergeConflictError, match=r"table shop\.orders: "):
        do_in_parts(world.repository(), "op", b"", Report())
    assert metadata(world)["properties"]["a"] == "main"


def test_a_strategy_for_a_table_that_no_side_has_is_refused() -> None:
    world = world_with_table()
    set_property(world, "a", "dev", "dev")
    strategies = MergeStrategies(by_prefix=(("_iceberg/shop/none.table", MergeStrategy.SOURCE_WINS),))
    source_id = world.main.commit_of("dev").id
    write_down(world, pinned_merge(source="dev", source_id=source_id, destination="main", strategies=strategies))
    with pytest.raises(InvalidError, match=r"table shop\.none, which neither 'dev' nor 'main' has"):
        do_in_parts(world.repository(), "op", b"", Report())


def test_other_conflicts_are_reported_as_ever() -> None:
    world = world_with_table()
    for branch in ("dev", "main"):
        update = {"action": "set-properties", "updates": {branch: branch}}
        world.main.commit_tables(branch, tables=(TableChange(ORDERS, (), (update,)),))
        world.main.upload(branch, "002", branch.encode())
        world.main.commit(branch, branch)
    write_down(world, merge_ask(world.main))
    with pytest.raises(MergeConflictError) as error:
        do_in_parts(world.repository(), "op", b"", Report())
    assert [conflict.path for conflict in error.value.conflicts] == ["002"]
