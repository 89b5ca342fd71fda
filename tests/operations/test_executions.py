"""Random executions of the state machine's own definition, in which everything goes wrong: calls are throttled or killed, or
their answers are lost; requests fail, hang or arrive twice; payloads come again; executions end silently, or two run at once;
clocks differ; and others change the branch, cancel and sweep. The operation's final state is true.

``GRAVELER_EXECUTIONS=n`` runs that many; ``make soak`` runs thousands.
"""

import os
from collections.abc import Generator
from contextlib import suppress
from random import Random
from typing import Any, Final

import msgspec
import pytest

from graveler.errors import BusyError, GravelerError, NoChangesError, PreconditionError, UnavailableError
from graveler.functions.operate_entry import Step, take
from graveler.lake.repository import OpenRepository
from graveler.lake.turns import KEPT
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.machine import LEASE, Machine
from graveler.operations.operator import LONGEST_WAIT, SILENT
from graveler.operations.pinned_requests import COMMIT, MERGE
from graveler.operations.store import Operation, OperationState
from infra.state_machine import definition
from tests.lake.support import NAME, Died, OwnClock, World, put, texts
from tests.operations.support import SMALL, commit_ask, diverged, merge_ask, operations, write_down
from tests.support.campaigns import seed
from tests.support.instruments import Boundaries, Fault
from tests.support.state_machine import TOO_LARGE, Execution, Refused

EXECUTIONS: Final = int(os.environ.get("GRAVELER_EXECUTIONS", "12"))
BATCH: Final = 4
"""Of one test."""

FAULTS: Final[tuple[Fault, ...]] = ("fail_before", "refuse", "fail_after", "repeat", "late")
NOT_CALLED: Final = ("Lambda.TooManyRequestsException", "Lambda.ServiceException", "States.Timeout", TOO_LARGE)
KILLED: Final = ("Sandbox.Timedout", "Runtime.ExitError", "Lambda.Unknown")
"""How Step Functions names it: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html"""

Steps = Generator[str, None, str]


class Process:
    """What runs one call after the other, with what it keeps between them, until it dies. Its requests go as ``rough`` says."""

    def __init__(self, world: World, random: Random, rough: float) -> None:
        self.alive = True
        self.boundaries: list[Boundaries] = []
        self._random = random
        self._rough = rough
        self._left: int | None = None
        lake = world.lake(self._request, clock=OwnClock(world.clock, random.uniform(-30, 30)))
        self.boundaries.append(lake.tables.boundaries)  # type: ignore[attr-defined]
        self.machine = Machine(lake, clock=lake.clock, sizes=SMALL)

    def take(self, payload: dict[str, Any], dies_at: int | None) -> dict[str, Any]:
        """A call; :class:`Died` at its request ``dies_at``."""
        self._left = dies_at
        return take(self.machine, msgspec.convert(payload, Step))

    def calm(self) -> None:
        """From now on nothing fails."""
        self._rough, self._left = 0.0, None

    def _request(self, method: str, number: int) -> Fault:
        del method, number
        if self._left is not None:
            if self._left == 0:
                self.alive = False
                raise Died
            self._left -= 1
        return self._random.choice(FAULTS) if self._random.random() < self._rough else None


class History:
    """An operation from its beginning to its end."""

    def __init__(self, name: str) -> None:
        self.random = Random(name)
        self.rough = self.random.choice([0.0, 0.05, 0.2, 0.5])
        """How much of everything goes wrong."""
        self.world = World()
        diverged(self.world.main, 60)
        self.dev = texts(self.world.main, "dev")
        self.base = self.world.main.branch("main").commit_id
        self.merges = self.random.random() < 0.5
        make = merge_ask if self.merges else commit_ask
        ask = make(self.world.main)
        self.deltas: dict[str, dict[str, str]] = {}
        """What each commit by others changed."""
        self.kind = MERGE if self.merges else COMMIT
        self.executions: list[tuple[Execution, Steps]] = []
        self.sent: list[dict[str, Any]] = []
        self.processes: list[Process] = []
        self.under_way: list[Boundaries] = []
        self.told: list[str] = []
        self.ended: Operation | None = None
        self.said: list[str] = []
        """What happened, to read when something is wrong."""
        self.operator = Dispatcher(
            self.world.tables, {self.kind: self}, clock=OwnClock(self.world.clock, self.random.uniform(-30, 30))
        )
        self.whole = texts(self.world.main)
        """Of the branch, with what is staged."""
        asked = write_down(self.world, ask)
        with suppress(UnavailableError):  # then a sweep finds it
            self.begin(NAME, asked)

    def begin(self, repository: str, operation: Operation) -> None:
        """An execution, which nobody may need."""
        if self.random.random() < self.rough / 2:
            raise UnavailableError("Step Functions is away")
        at_once = self.random.choice([1, 3])
        execution = Execution(
            definition("operate", at_once=at_once), self._called, wait=self._wait, choose=self.random.randrange
        )
        data = {"repository": repository, "operation": operation.id, "attempt": operation.attempt, "round": 0}
        self.executions.append((execution, execution.steps(data)))
        self.said.append(f"begins attempt {operation.attempt}")

    def run(self) -> None:
        for _ in range(self.random.randrange(10, 80)):
            self._one()
            self._look()
        self._settle()
        self.check()

    def _one(self) -> None:
        others = {
            self._again: 1 + 4 * self.rough,
            self._others: 2.0,
            self._cancel: 0.15,
            self._sweep: 1.0,
            self._passes: 1.0,
            self._ends_unsaid: 2 * self.rough,
            self._arrive: 1.0,
        }
        act = self.random.choices([self._goes_on, *others], [20, *others.values()])[0]
        act()

    def _called(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The function, as the service calls it."""
        happens = self.random.random()
        if happens < self.rough / 4:
            raise Refused(self.random.choices(NOT_CALLED, [8, 4, 4, 1])[0])
        self.sent.append(payload)
        answer = self._take(payload)
        if happens > 1 - self.rough / 8:
            raise Refused("Lambda.SdkClientException")  # it answered, and nobody heard it
        return answer

    def _take(self, payload: dict[str, Any]) -> dict[str, Any]:
        if not self.processes or self.random.random() < 0.3:
            self.processes.append(Process(self.world, self.random, self.rough / 20))
        process = self.random.choice(self.processes)
        dies_at = self.random.randrange(40) if self.random.random() < self.rough / 4 else None
        self.said.append(f"{payload['step']} {payload.get('number', '')} of {payload['attempt']}/{payload['round']}")
        try:
            return process.take(payload, dies_at)
        except Died:
            self.said.append("  died")
            self.processes.remove(process)
            self.under_way += process.boundaries
            raise Refused(self.random.choice(KILLED)) from None
        except GravelerError as error:
            self.said.append(f"  {type(error).__name__}: {error}")
            raise

    def _wait(self, seconds: float) -> None:
        self.world.clock.time += self.random.uniform(0, seconds)

    def _goes_on(self) -> None:
        """One of the executions: a call more."""
        if not self.executions:
            return
        chosen = self.random.choice(self.executions)
        try:
            next(chosen[1])
        except StopIteration:
            self.executions.remove(chosen)
        except (Refused, GravelerError):  # it ends, and nobody notes it
            self.executions.remove(chosen)

    def _again(self) -> None:
        """A call comes once more, late."""
        if self.sent:
            with suppress(Refused, GravelerError):
                self._take(self.random.choice(self.sent))

    def _others(self) -> None:
        """Somebody else changes the branch: a little, rarely what the merge changes too; or stages something; or commits."""
        number = len(self.deltas)
        name = f"others-{number}"
        key = f"x{number:03}" if self.random.random() < 0.6 else f"{self.random.randrange(60):03}"
        if self.merges and int(key[1:]) % 5 == 0 and self.random.random() < 0.9:
            key = f"x{number:03}"
        if self.merges:
            client = self.world.repository()
            client.create_branch(name, "main")
            put(client, {key: name}, name)
            client.commit(name, name)
            self.deltas[f"Merge {name}"] = {key: name}
            with suppress(BusyError):
                client.merge(name, "main", message=f"Merge {name}")
                self.said.append(f"{name} changes {key}")
            return
        put(self.world.repository(), {key: name})
        self.whole[key] = name
        self.deltas[name] = {}
        self.said.append(f"{name} stages {key}")
        if self.random.random() < 0.2:
            with suppress(BusyError, NoChangesError):
                self.world.repository().commit("main", name)
                self.said.append(f"{name} commits")

    def _cancel(self) -> None:
        try:
            self.told.append(self.operator.cancel(self.world.main, "op").state.value)
        except PreconditionError as refused:
            self.told.append(str(refused))
        self.said.append(f"cancel: {self.told[-1]}")

    def _sweep(self) -> None:
        self.operator.sweep(self.world.main)

    def _passes(self) -> None:
        self.world.clock.time += self.random.choice([1.0, 20.0, 90.0, LEASE + SILENT + 1])

    def _ends_unsaid(self) -> None:
        """States.Runtime, or the execution's own time: nothing catches those."""
        if self.executions:
            self.executions.remove(self.random.choice(self.executions))
            self.said.append("an execution ends unsaid")

    def _arrive(self) -> None:
        """Requests that hung arrive."""
        for boundaries in self.under_way + [one for process in self.processes for one in process.boundaries]:
            boundaries.deliver()

    def _look(self) -> None:
        """An end is one for good."""
        now = operations(self.world).get("op")
        if self.ended is None and now.is_finished:
            self.ended = now
        elif self.ended is not None:
            assert now == self.ended

    def _settle(self) -> None:
        """Nothing fails any more; in the end somebody has worked on it, or it was given up."""
        self.rough = 0.0
        for process in self.processes:
            process.calm()
        for _ in range(40):
            while self.executions:
                self._goes_on()
            if operations(self.world).get("op").is_finished:
                break
            self._sweep()
            self.world.clock.time += LEASE + SILENT + 31
        self._arrive()
        for payload in self.random.sample(self.sent, min(len(self.sent), 10)):
            with suppress(Refused, GravelerError):
                self._take(payload)
        self._look()

    def check(self) -> None:
        ended = operations(self.world).get("op")
        assert ended.is_finished, f"not after {LONGEST_WAIT / 3600:.0f} hours"
        main = self.world.repository()
        log = [commit for commit in main.log("main", first_parent=True).results if commit.id != self.base]
        log = log[: [commit.id for commit in main.log("main", first_parent=True).results].index(self.base)]
        landed = [commit for commit in log if commit.message == "together"]
        assert bool(ended.result) == (ended.state is OperationState.COMPLETED), (ended.state, ended.error)
        if self.merges or landed:
            assert [commit.id for commit in landed] == ([ended.result] if ended.result else [])
        elif ended.result:  # the next commit takes the changes of an operation whose claim on them ran out
            assert ended.result in [commit.id for commit in log]
        by_others = [""] if self.merges or landed else ["", *(commit.id for commit in log)]
        assert operations(self.world).commit(ended) in ([ended.result] if ended.result else by_others)
        if "cancelled" in self.told:
            assert ended.state is OperationState.CANCELLED
        for said in self.told:
            assert said == "cancelled" or ended.state.value in said
        if self.merges:
            self._check_merges(main, [commit.id for commit in reversed(log)])
        else:
            assert texts(main) == self.whole, "whoever commits it, all that was staged is there"
        slept = self.world.clock.slept
        put(main, {"more": "1"})
        main.commit("main", "by somebody else")
        assert self.world.clock.slept - slept < 2 * KEPT
        if not self.merges:
            assert texts(main, main.branch("main").commit_id) == {**self.whole, "more": "1"}

    def _check_merges(self, main: OpenRepository, commits: list[str]) -> None:
        """Each commit has what the one before had, and its own."""
        own = {path: text for path, text in self.dev.items() if text == "dev"}
        before = texts(main, self.base)
        for commit in commits:
            message = main.commit_of(commit).message
            after = {**before, **(own if message == "together" else self.deltas[message])}
            assert texts(main, commit) == after
            before = after


@pytest.mark.parametrize("batch", range(-(-EXECUTIONS // BATCH)))
def test_whatever_happens_an_operation_ends_and_its_end_is_so(batch: int) -> None:
    for number in range(batch * BATCH, min(EXECUTIONS, (batch + 1) * BATCH)):
        history = History(f"{seed()}-{number}")
        try:
            history.run()
        except BaseException as error:
            error.add_note("\n".join([f"history {number} of seed {seed()}:", *history.said]))
            raise
