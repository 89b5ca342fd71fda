"""Operations run to an end whatever happens to the process that works on them, and have the effect of one run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import msgspec
import pytest
from msgspec.structs import replace

from graveler.errors import ForbiddenError, InvalidError, NotFoundError, PreconditionError
from graveler.lake.repository import OpenRepository
from graveler.operations.one_process import do_in_parts
from graveler.operations.pinned_requests import IMPORT
from graveler.operations.runner import LEASE, Runner
from graveler.operations.store import Operation, Operations, OperationState
from graveler.operations.work import CANCELLED, Report, Work
from graveler.requests.importing import AddressType, ImportAddress
from tests.lake.support import World, paths, put
from tests.support.patience import PATIENCE
from tests.support.pinned import pinned_import


class Step:
    """Work that tells that it began, goes on when it is let go, and then does as it is told."""

    def __init__(self, result: str = "done", error: Exception | None = None) -> None:
        self.began, self.let_go = Event(), Event()
        self.result, self.error, self.runs = result, error, 0

    def __call__(self, repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
        self.runs += 1
        self.began.set()
        while not self.let_go.wait(0.01):
            report(1, 10)
        if self.error is not None:
            raise self.error
        return self.result


@contextmanager
def runner(world: World, work: Work, *, heartbeat: float = 0.01) -> Iterator[Runner]:
    made = Runner(world.tables, {"step": work}, clock=world.clock, heartbeat=heartbeat)
    try:
        yield made
    finally:
        made.close()


def operations(world: World) -> Operations:
    return Operations(world.tables, world.main.repository.uid)


def ended(world: World, operation_id: str) -> Operation:
    """The operation when it has come to an end; waits for it."""
    never = Event()
    for _ in range(int(PATIENCE / 0.01)):
        operation = operations(world).get(operation_id)
        if operation.is_finished:
            return operation
        never.wait(0.01)
    raise AssertionError(f"{operation_id} does not end")


def test_an_operation_runs_in_the_background_and_tells_what_came_of_it() -> None:
    world, step = World(), Step()
    with runner(world, step) as one:
        started = one.start(world.main, "step", b"request")
        assert step.began.wait(PATIENCE)
        assert one.look(world.main, started.id).state is OperationState.RUNNING
        step.let_go.set()
        operation = ended(world, started.id)
    assert (operation.state, operation.result, operation.error) == (OperationState.COMPLETED, "done", "")


@pytest.mark.parametrize(
    ("error", "says"), [(InvalidError("this is why"), "this is why"), (ZeroDivisionError(), "internal error")]
)
def test_an_operation_that_fails_says_why(error: Exception, says: str) -> None:
    world, step = World(), Step(error=error)
    step.let_go.set()
    with runner(world, step) as one:
        operation = ended(world, one.start(world.main, "step", b"").id)
    assert operation.state is OperationState.FAILED
    assert says in operation.error


def test_a_cancelled_operation_ends_and_cannot_be_completed() -> None:
    world, step = World(), Step()
    with runner(world, step) as one:
        started = one.start(world.main, "step", b"")
        assert step.began.wait(PATIENCE)
        assert one.cancel(world.main, started.id).state is OperationState.CANCELLED
        one.cancel(world.main, started.id)  # twice is once
    assert operations(world).get(started.id).error == CANCELLED
    assert step.runs == 1


def test_a_worker_of_another_process_sees_that_it_is_cancelled() -> None:
    world, step = World(), Step()
    with runner(world, step) as one, runner(world, Step()) as other:
        started = one.start(world.main, "step", b"")
        assert step.began.wait(PATIENCE)
        other.cancel(world.main, started.id)
        one._pool.shutdown(wait=True)  # it ends though nobody lets it go
    assert operations(world).get(started.id).state is OperationState.CANCELLED


def test_what_has_ended_cannot_be_cancelled() -> None:
    world, step = World(), Step()
    step.let_go.set()
    with runner(world, step) as one:
        started = one.start(world.main, "step", b"")
        ended(world, started.id)
        with pytest.raises(PreconditionError, match="is completed"):
            one.cancel(world.main, started.id)


def test_the_same_id_is_the_same_operation() -> None:
    world, step = World(), Step()
    step.let_go.set()
    with runner(world, step) as one:
        first = one.start(world.main, "step", b"a", "id")
        ended(world, first.id)
        assert one.start(world.main, "step", b"b", "id").state is OperationState.COMPLETED
    assert step.runs == 1


@pytest.mark.parametrize("ahead", [-86_400.0, 0.0, 300.0, 86_400.0])
@pytest.mark.parametrize("earlier_version", [False, True])
def test_whoever_asks_takes_over_from_a_worker_that_died(ahead: float, *, earlier_version: bool) -> None:
    world, second = World(), Step("second")
    second.let_go.set()
    now = world.clock.now() + ahead
    died = Operation("id", "step", b"", OperationState.RUNNING, now, now, owner="gone", attempt=0)
    died = replace(died, lease=now + LEASE) if earlier_version else replace(died, seconds=LEASE)
    operations(world).add(died)
    with runner(world, second) as one:
        assert one.look(world.main, "id").owner == "gone"  # its claim may hold
        world.clock.time += LEASE - 1
        operations(world).change("id", lambda now: now)
        assert one.look(world.main, "id").owner == "gone", "it was alive"
        world.clock.time += LEASE - 1
        assert one.look(world.main, "id").owner == "gone"
        world.clock.time += 1
        assert one.look(world.main, "id").attempt == 1
        assert ended(world, "id").result == "second"


def test_a_worker_that_goes_down_leaves_the_operation_to_others_at_once() -> None:
    world, step, second = World(), Step(), Step("second")
    second.let_go.set()
    with runner(world, step) as one:
        started = one.start(world.main, "step", b"")
        assert step.began.wait(PATIENCE)
    with runner(world, second) as other:
        other.look(world.main, started.id)
        assert ended(world, started.id).result == "second"


def test_a_kind_that_nobody_here_works_on_is_refused() -> None:
    world = World()
    with runner(world, Step()) as one, pytest.raises(ForbiddenError, match="'other'"):
        one.start(world.main, "other", b"", "id")
    with pytest.raises(NotFoundError):
        operations(world).get("id")


def test_unknown_operations_are_not_found() -> None:
    world = World()
    with runner(world, Step()) as one:
        for name in ("x", "", "y" * 2000, "\udcff"):
            with pytest.raises(NotFoundError):
                one.look(world.main, name)


def test_an_import_survives_its_worker_and_is_one_commit(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    world = World()
    put(world.main, {"in/old": "1", "else": "1"})
    world.main.commit("main", "before")
    source = ImportAddress(AddressType.COMMON_PREFIX, f"file://{tmp_path}/", "in")
    request = msgspec.json.encode(pinned_import("main", (source,), "take over", "me", {"k": "v"}))
    # A first worker published, and died before it could say so.
    operations(world).add(Operation("id", IMPORT, request, OperationState.RUNNING, world.clock.now(), 0, owner="gone"))
    commit = do_in_parts(world.main, "id", request, Report())
    made = Runner(world.tables, {IMPORT: do_in_parts}, clock=world.clock)
    made.look(world.main, "id")
    assert ended(world, "id").result == commit
    made.close()
    assert paths(world.main) == ["else", "in/a"]
    assert [c.message for c in world.main.log("main").results] == ["take over", "before", "Repository created"]
