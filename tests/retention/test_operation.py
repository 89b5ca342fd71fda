"""Collecting as an operation, and over HTTP."""

from time import monotonic

import msgspec
import pytest

from graveler.errors import PreconditionError
from graveler.ingest import operation as reconciling
from graveler.operations.kinds import KINDS
from graveler.operations.runner import Runner
from graveler.operations.store import OperationState
from graveler.operations.work import Report
from graveler.retention import report, space_operation
from graveler.retention.operation import ALL_KINDS, KIND, CollectRequest, collect_garbage
from graveler.retention.runs import Mode, Outcome, Runs
from tests.lake.support import World
from tests.retention.support import AGE, collect, keys
from tests.support.patience import PATIENCE


def test_a_run_is_an_operation() -> None:
    world = World()
    world.main.upload("main", "lost", b"lost")
    world.main.reset("main")
    world.clock.time += AGE
    runner = Runner(world.tables, ALL_KINDS, clock=world.clock, heartbeat=0.01)
    try:
        repository = world.repository()
        started = runner.start(repository, KIND, msgspec.json.encode(CollectRequest(Mode.DELETE)), "op")
        deadline = monotonic() + PATIENCE
        while not (found := runner.look(repository, started.id)).is_finished:
            assert monotonic() < deadline
    finally:
        runner.close()
    assert found.state is OperationState.COMPLETED, found.error
    assert found.objects == 1
    assert Runs(world.objects()).summary(found.result).plan.found["object"].files == 1


def test_where_pyarrow_is_missing_there_is_no_table_and_the_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a function of a deployment."""
    monkeypatch.setattr(report, "is_possible", lambda: False)
    world = World()
    world.main.upload("main", "lost", b"lost")
    world.main.reset("main")
    world.clock.time += AGE
    run = collect_garbage(world.repository(), "op", msgspec.json.encode(CollectRequest(Mode.DELETE)), Report())
    runs = Runs(world.objects())
    summary = runs.summary(run)
    assert not summary.parquet
    assert [outcome for _, outcome in runs.rows(summary.plan)] == [Outcome.DELETED]
    assert runs.report_key(run) not in keys(world, "_graveler/gc/")
    with pytest.raises(PreconditionError, match=r"needs the package 'pyarrow'"):
        collect(world)


def test_a_deployment_knows_it_and_all_others() -> None:
    assert set(ALL_KINDS) == {*KINDS, KIND, space_operation.KIND, reconciling.KIND}
