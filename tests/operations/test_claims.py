"""A part is not begun again as long as its worker is alive."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from threading import Event, Thread
from typing import Any

import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError
from graveler.lake.clock import Clock
from graveler.operations.claims import BEAT, LEASE, PartClaims
from graveler.operations.machine import Machine, Next, Task
from graveler.operations.steps import Steps
from graveler.operations.store import OperationState
from graveler.operations.work import CANCELLED
from tests.lake.support import NAME, World
from tests.operations.support import SMALL, diverged, merge_ask, operations, write_down
from tests.support.patience import PATIENCE

TASK = Task(NAME, "op", 1)


class Died(BaseException):
    """A process was killed: it tells nobody."""


class Scene:
    """An operation that is planned, and how often which part was begun."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.world = World()
        diverged(self.world.main)
        write_down(self.world, merge_ask(self.world.main))
        self.numbers = self.machine().plan(TASK).numbers
        self.began: list[int] = []
        self.meanwhile: Callable[[], object] = lambda: None
        run = Steps.run_part

        def runs(steps: Steps, number: int, *arguments: Any) -> Any:
            self.began.append(number)
            self.meanwhile()
            return run(steps, number, *arguments)

        patch.setattr(Steps, "run_part", runs)

    def machine(self, clock: Clock | None = None) -> Machine:
        """A function that was just started."""
        clock = clock or self.world.clock
        return Machine(self.world.lake(clock=clock), clock=clock, sizes=SMALL)


def test_a_part_that_is_alive_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, as long as it gives signs of life; who asks is told to come again."""
    scene = Scene(monkeypatch)
    store, operation = operations(scene.world), operations(scene.world).get("op")

    def ask_again() -> None:
        scene.meanwhile = lambda: None
        for _ in range(5):
            scene.world.clock.on_sleep = alive
            with pytest.raises(BusyError, match="part 1 of operation 'op' is being worked on"):
                scene.machine().part(TASK, 1)
            scene.world.clock.time += 900

    def alive() -> None:
        beat = store.part_claim(operation, 1)
        assert beat is not None
        assert store.claim_part(operation, 1, f"{beat}+", beat)

    scene.meanwhile = ask_again
    assert scene.machine().part(TASK, 1).state is Next.PUBLISH
    assert scene.began == [1]


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_part_whose_process_died_is_begun_again_soon(monkeypatch: pytest.MonkeyPatch, attempt: int) -> None:
    scene = Scene(monkeypatch)

    def dies() -> None:
        raise Died

    scene.meanwhile = dies
    monkeypatch.setattr("graveler.operations.store.Operations.free_part", lambda *_: None)
    with pytest.raises(Died):
        scene.machine().part(TASK, 2)
    monkeypatch.undo()
    operations(scene.world).change("op", lambda now: replace(now, attempt=attempt))
    began = scene.world.clock.time
    assert scene.machine().part(replace(TASK, attempt=attempt), 2).state is Next.PUBLISH
    assert LEASE <= scene.world.clock.time - began < 2 * LEASE
    began = scene.world.clock.time
    assert scene.machine().part(replace(TASK, attempt=attempt), 3).state is Next.PUBLISH
    assert scene.world.clock.time == began, "others are not waited for"


@pytest.mark.parametrize("error", [None, BusyError("others"), InvalidError("for good"), RuntimeError("unexpected")])
def test_who_ends_however_leaves_no_claim(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    scene = Scene(monkeypatch)

    def ends() -> None:
        scene.meanwhile = lambda: None
        if error is not None:
            raise error

    scene.meanwhile = ends
    with suppress(BusyError, RuntimeError):
        scene.machine().part(TASK, 0)
    began = scene.world.clock.time
    assert operations(scene.world).part_claim(operations(scene.world).get("op"), 0) is None
    scene.machine().part(TASK, 0)
    assert scene.world.clock.time == began


def test_who_waits_for_one_that_seems_dead_sees_that_the_operation_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch)
    store = operations(scene.world)
    assert store.claim_part(store.get("op"), 0, "somebody", None)

    def cancel() -> None:
        scene.world.clock.time += 5
        store.change(
            "op",
            lambda now: None if now.is_finished else replace(now, state=OperationState.CANCELLED, error=CANCELLED),
        )

    scene.world.clock.on_sleep = cancel
    assert scene.machine().part(TASK, 0).state is Next.ENDED
    assert scene.began == []


def test_signs_of_life_are_given_while_a_part_is_worked_on() -> None:
    """By a thread, with a clock whose every wait is over as soon as this test says so."""
    world = World()
    diverged(world.main)
    write_down(world, merge_ask(world.main))
    store = operations(world)
    operation = store.get("op")
    due, seen = Event(), Event()

    class Ticks:
        """Real threads, no real time."""

        def now(self) -> float:
            return world.clock.now()

        def monotonic(self) -> float:
            return world.clock.monotonic()

        def sleep(self, seconds: float) -> None:
            world.clock.sleep(seconds)

        def wait(self, event: Event, seconds: float) -> bool:
            assert seconds == BEAT < LEASE / 2
            seen.set()
            due.wait(PATIENCE)
            due.clear()
            return event.is_set()

        def repeating(self, seconds: float, work: Callable[[], None]) -> AbstractContextManager[None]:
            return world.clock.repeating(seconds, work)

    over = Event()
    beats: list[str | None] = []

    def works() -> None:
        with PartClaims(Ticks()).working_on(store, operation, 0, lambda: None):
            over.wait(PATIENCE)
            due.set()

    worker = Thread(target=works)
    worker.start()
    for _ in range(3):
        assert seen.wait(PATIENCE)
        seen.clear()
        beats.append(store.part_claim(operation, 0))
        due.set()
    assert seen.wait(PATIENCE)
    over.set()
    due.set()
    worker.join(PATIENCE)
    assert len(set(beats)) == 3
    assert None not in beats
    assert store.part_claim(operation, 0) is None
