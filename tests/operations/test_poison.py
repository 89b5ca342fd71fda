"""A part on which every worker dies: the operation ends with the reason, has changed nothing and blocks nothing; others
continue."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from graveler.functions.operate_entry import Step, take
from graveler.lake.repository import OpenRepository
from graveler.operations import one_process
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.machine import LEASE, Machine
from graveler.operations.one_process import do_in_parts
from graveler.operations.operator import MAX_ATTEMPTS, SILENT
from graveler.operations.parts.rounds import PartDone
from graveler.operations.steps import Steps
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import Report
from infra import state_machine
from tests.lake.support import NAME, Died, World, put, texts
from tests.operations.support import SMALL, alone, commit_ask, diverged, merge_ask, operations, write_down
from tests.support.campaigns import share
from tests.support.pinned import Asked
from tests.support.state_machine import Execution, Refused

MakeAsk = Callable[[OpenRepository], Asked]
BOTH = pytest.mark.parametrize("make_ask", [merge_ask, commit_ask])
KILLED: Final = "Runtime.ExitError"
TRIES: Final = 5
"""Of what nobody expected: once, and four times more."""


class Poison:
    """Functions, one for each call, of which that dies which works on one part: at its request ``dies_at``."""

    def __init__(self, world: World, number: int, dies_at: int) -> None:
        self.world, self.number, self.dies_at = world, number, dies_at
        self.deaths = 0
        self.cured = False

    def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
        step = msgspec.convert(payload, Step)
        seen = iter(range(1_000_000))

        def dies(_: str, __: int) -> None:
            if step.step == "part" and step.number == self.number and not self.cured and next(seen) == self.dies_at:
                raise Died

        machine = Machine(self.world.lake(dies), clock=self.world.clock, sizes=SMALL)
        try:
            return take(machine, step)
        except Died:
            self.deaths += 1
            raise Refused(KILLED) from None


def task(operation_id: str, attempt: int = 1) -> dict[str, Any]:
    return {"repository": NAME, "operation": operation_id, "attempt": attempt, "round": 0}


def requests_of_a_part(make_ask: MakeAsk) -> int:
    """How many requests the last of some parts takes."""
    world = World()
    diverged(world.main)
    write_down(world, make_ask(world.main))
    made: list[int] = []

    def counted(payload: dict[str, Any]) -> dict[str, Any]:
        requests: list[str] = []
        machine = Machine(world.lake(lambda method, _: requests.append(method)), clock=world.clock, sizes=SMALL)
        answer = take(machine, msgspec.convert(payload, Step))
        if payload["step"] == "part":
            made.append(len(requests))
        return answer

    Execution(state_machine.definition("operate", at_once=1), counted).run(task("op"))
    return min(made)


MOMENTS: Final = {make_ask: range(requests_of_a_part(make_ask)) for make_ask in (merge_ask, commit_ask)}


@pytest.mark.parametrize("apart", [False, True], ids=["inline", "apart"])
@pytest.mark.parametrize(
    ("make_ask", "dies_at"),
    [
        (make_ask, dies_at)
        for make_ask, moments in MOMENTS.items()
        for dies_at in share(moments, 6, f"poison {make_ask.__name__}")
    ],
)
def test_a_part_that_kills_every_function_ends_its_operation_and_no_other(
    make_ask: MakeAsk, dies_at: int, *, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if apart:
        monkeypatch.setattr(state_machine, "INLINE", 1)
    world = World()
    diverged(world.main)
    world.main.create_branch("elsewhere", "main")
    ask = make_ask(world.main)
    tree, head, before = alone(world.main, ask), world.main.branch("main").commit_id, texts(world.main)
    write_down(world, ask)
    poison = Poison(world, 1, dies_at)
    machine = state_machine.definition("operate", at_once=2)
    execution = Execution(
        machine, poison, wait=lambda seconds: setattr(world.clock, "time", world.clock.time + seconds)
    )
    assert execution.run(task("op")) == "GivenUp"
    assert poison.deaths == TRIES
    failed = operations(world).get("op")
    assert failed.state is OperationState.FAILED
    assert KILLED in failed.error
    assert "nothing was changed" in failed.error
    assert world.main.branch("main").commit_id == head
    assert texts(world.main) == before, "what was staged is as it was"
    put(world.main, {"more": "1"}, "elsewhere")
    slept = world.clock.slept
    world.main.commit("elsewhere", "by somebody else")
    poison.cured = True
    write_down(world, ask, "again")
    assert Execution(machine, poison).run(task("again")) == "Ended"
    again = operations(world).get("again")
    assert (again.state, again.error) == (OperationState.COMPLETED, "")
    assert world.main.commit_of("main").metarange_id == tree
    assert world.clock.slept - slept < LEASE, "nobody waits for what has failed"
    assert [one.message for one in world.main.log("main").results].count("together") == 1
    assert poison.deaths == TRIES


class Worker:
    """Whoever is told to begin, and dies over one part; what is left of it is its claim."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.begun: list[tuple[str, int]] = []

    def begin(self, repository: str, operation: Operation) -> None:
        self.begun.append((operation.id, operation.attempt))
        claimed = operations(self.world).change(operation.id, lambda now: now.claimed(f"{operation.attempt}", 20.0))
        try:
            commit = do_in_parts(self.world.repository(), claimed.id, b"", Report())
        except Died:
            return
        now = self.world.clock.now()
        operations(self.world).change(operation.id, lambda found: found.completed(commit, None, now))


@BOTH
def test_a_part_that_kills_every_process_is_given_up_after_some_and_keeps_no_other_waiting(
    make_ask: MakeAsk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, run = Steps.__init__, Steps.run_part
    monkeypatch.setattr(
        Steps, "__init__", lambda self, repository, operation: whole(self, repository, operation, SMALL)
    )
    deaths: list[int] = []
    cured = False

    def run_part(self: Steps, number: int, *arguments: Any) -> PartDone:
        if number == 1 and self._operation.id == "op" and not cured:
            deaths.append(number)
            raise Died
        return run(self, number, *arguments)

    monkeypatch.setattr(Steps, "run_part", run_part)
    monkeypatch.setattr(one_process, "give_up", lambda *_: pytest.fail("who is killed does nothing"))
    world = World()
    diverged(world.main)
    world.main.create_branch("elsewhere", "main")
    ask = make_ask(world.main)
    tree, head = alone(world.main, ask), world.main.branch("main").commit_id
    worker = Worker(world)
    operator = Dispatcher(world.tables, {"merge": worker, "commit": worker}, clock=world.clock)
    asked = write_down(world, ask)
    worker.begin(NAME, asked)
    for _ in range(2 * MAX_ATTEMPTS):
        operator.sweep(world.main)
        world.clock.time += 20.0 + SILENT + 1
    assert len(deaths) == MAX_ATTEMPTS
    failed = operations(world).get("op")
    assert (failed.state, failed.error_kind) == (OperationState.FAILED, "UnavailableError")
    assert f"died {MAX_ATTEMPTS} times" in failed.error
    assert operator.sweep(world.main) == 0
    assert world.main.branch("main").commit_id == head
    cured = True
    worker.begin(NAME, write_down(world, ask, "again"))
    assert operations(world).get("again").state is OperationState.COMPLETED
    assert world.main.commit_of("main").metarange_id == tree


def test_who_looks_after_a_part_that_died_waits_for_its_claim_alone() -> None:
    """Each time it is begun again, the claim of the one before is in the way: for its length, once."""
    world = World()
    diverged(world.main)
    write_down(world, merge_ask(world.main))
    poison = Poison(world, 1, 12)
    poison({"step": "plan", **task("op")})
    for number in range(1, 4):
        with pytest.raises(Refused):
            poison({"step": "part", "number": 1, **task("op")})
        assert poison.deaths == number
        assert world.clock.slept <= 10.0 * number


def test_lost_answers_of_a_part_cost_time_and_nothing_else() -> None:
    """It was done each time, and nobody heard it: then the operation has failed, and the next one works as if nothing was."""
    world = World()
    diverged(world.main)
    ask = merge_ask(world.main)
    tree = alone(world.main, ask)
    write_down(world, ask)
    lost: list[int] = []

    def unheard(payload: dict[str, Any]) -> dict[str, Any]:
        answer = take(Machine(world.lake(), clock=world.clock, sizes=SMALL), msgspec.convert(payload, Step))
        if payload["step"] == "part" and payload["number"] == 1:
            lost.append(1)
            raise Refused("Lambda.SdkClientException")
        return answer

    machine = state_machine.definition("operate", at_once=2)
    assert Execution(machine, unheard).run(task("op")) == "GivenUp"
    assert len(lost) == TRIES
    failed = operations(world).get("op")
    assert failed.state is OperationState.FAILED
    assert "SdkClientException" in failed.error
    write_down(world, ask, "again")
    again = Machine(world.lake(), clock=world.clock, sizes=SMALL)
    assert Execution(machine, lambda payload: take(again, msgspec.convert(payload, Step))).run(task("again")) == "Ended"
    assert world.main.commit_of("main").metarange_id == tree
