"""Files of operations in the object store are safe while these run, and garbage afterwards."""

import pytest

from graveler.operations.one_process import do_in_parts
from graveler.operations.steps import Steps
from graveler.operations.store import OperationState
from graveler.operations.work import Report
from tests.lake.support import World
from tests.operations.support import SMALL, alone, diverged, merge_ask, operations, write_down
from tests.retention.support import AGE, check_live, collect, keys

FILES = "_graveler/operations/"


def test_files_of_an_operation_are_collected_when_it_must_be_over() -> None:
    world = World()
    diverged(world.main)
    write_down(world, merge_ask(world.main))
    do_in_parts(world.repository(), "op", b"", Report())
    files = keys(world, FILES)
    collect(world)
    assert keys(world, FILES) == files != set()
    world.clock.time += AGE
    collect(world)
    assert keys(world, FILES) == set()
    check_live(world)


@pytest.mark.parametrize("done", [1, 2])
def test_a_collection_between_two_parts_takes_nothing_away(done: int) -> None:
    world = World()
    diverged(world.main)
    world.clock.time += AGE  # what both sides have is old
    ask = merge_ask(world.main)
    tree = alone(world.main, ask)
    operation = write_down(world, ask)
    steps = Steps(world.repository(), operation, SMALL)
    planned = steps.plan(0)
    for number in range(done):
        steps.run_part(number, 0)
    world.main.delete_branch("alone")
    world.clock.time += 3600
    collect(world)
    world.clock.time += 3600
    later = Steps(world.repository(), operations(world).get("op"), SMALL)
    for number in range(planned.parts):
        later.run_part(number, 0)
    collect(world)
    commit = later.publish(0)
    assert commit is not None
    assert commit.metarange_id == tree
    world.clock.time += AGE
    collect(world)
    check_live(world)
    assert operations(world).get("op").state is OperationState.RUNNING  # nobody has said otherwise
