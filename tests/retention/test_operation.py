"""Collecting as an operation, and over HTTP."""

from time import monotonic

import msgspec

from graveler.operations.kinds import KINDS
from graveler.operations.runner import Runner
from graveler.operations.store import OperationState
from graveler.retention.operation import KIND, CollectRequest, collect_garbage
from graveler.retention.runs import Mode, Runs
from tests.lake.support import World
from tests.retention.support import AGE


def test_a_run_is_an_operation() -> None:
    world = World()
    world.main.upload("main", "lost", b"lost")
    world.main.reset("main")
    world.clock.time += AGE
    runner = Runner(world.tables, {**KINDS, KIND: collect_garbage}, clock=world.clock, heartbeat=0.01)
    try:
        repository = world.repository()
        started = runner.start(repository, KIND, msgspec.json.encode(CollectRequest(Mode.DELETE)), "op")
        deadline = monotonic() + 20
        while not (found := runner.look(repository, started.id)).is_finished:
            assert monotonic() < deadline
    finally:
        runner.close()
    assert found.state is OperationState.COMPLETED, found.error
    assert found.objects == 1
    assert Runs(world.objects()).summary(found.result).plan.found["object"].files == 1
