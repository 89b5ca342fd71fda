"""A long merge into a branch that others change every few seconds lands after one or two rounds, and no finished part is
invoked again."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from threading import Event, Thread
from typing import Final

import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, DirtyBranchError
from graveler.lake.clock import Clock
from graveler.lake.turns import KEPT, PATIENT, Turn
from graveler.model import ObjectEntry
from graveler.operations.machine import Machine, Next, Task
from graveler.operations.parts.division import Sizes
from graveler.operations.store import OperationState
from tests.lake.support import NAME, FakeClock, OwnClock, World, put, texts
from tests.operations.support import operations, write_down
from tests.support.campaigns import WHOLE
from tests.support.instruments import Fault
from tests.support.patience import PATIENCE
from tests.support.pinned import pinned_merge

PARTS: Final = 1_000 if WHOLE else 120
"""Into about how many parts a merge is cut here; as many as there can be in ``make soak``."""

BATCHES: Final = 25
PART_SECONDS: Final = 9.6
REQUEST_SECONDS: Final = 0.02
EVERY: Final = 5.0
"""Seconds between two changes by others."""


class WaitsError(BaseException):
    """A client would have to wait, and goes away instead, to come again."""


class Impatient(OwnClock):
    """Of a client that does not wait."""

    def sleep(self, seconds: float) -> None:
        raise WaitsError


class Busy:
    """A branch that others change every :data:`EVERY` seconds of a clock on which each request of the operation's steps takes its
    time, and each batch of parts. ``changed`` are the objects that each of the others changes."""

    def __init__(self, sizes: Sizes, changed: int) -> None:
        self.world = World()
        self.changed = changed
        self.count = PARTS * 20
        self.invoked: Counter[str] = Counter()
        self.landed = self.waited = 0
        self._due = self.world.clock.time
        self._inside = False
        self._link("main", range(self.count), "base")
        self.world.main.create_branch("dev", "main")
        self._link("dev", range(0, self.count, 4), "dev")
        self._link("main", range(2, self.count, 4), "main")
        ask = pinned_merge(
            source="dev", source_id=self.world.main.commit_of("dev").id, destination="main", message="together"
        )
        write_down(self.world, ask)
        self._machine = Machine(self.world.lake(self._request), clock=self.world.clock, sizes=sizes)

    def _link(self, branch: str, numbers: range, version: str) -> str:
        entries = [ObjectEntry(f"{number:06}", f"s3://elsewhere/{version}", 1, "0" * 32, 1) for number in numbers]
        self.world.main.link_many(branch, entries)
        return self.world.main.commit(branch, version).id

    def _request(self, request: str, number: int) -> Fault:
        del request, number
        if not self._inside:  # others are other machines
            self.passes(REQUEST_SECONDS)
        return None

    def passes(self, seconds: float) -> None:
        """Time goes on, and others with it."""
        until = self.world.clock.time + seconds
        while self._due <= until:
            self.world.clock.time = max(self.world.clock.time, self._due)
            self._due += EVERY
            self._inside = True
            try:
                self.change()
            finally:
                self._inside = False
        self.world.clock.time = max(self.world.clock.time, until)

    def change(self) -> None:
        """Somebody else merges into main, or would have to wait. None of these objects is changed by another."""
        number = self.landed + self.waited
        client = self.world.repository(clock=Impatient(self.world.clock))
        name = f"side-{number}"
        client.create_branch(name, "main")
        step = max(4, self.count // self.changed // 4 * 4)
        self._link(name, range(1 + number * 4 % step, self.count, step), name)
        try:
            client.merge(name, "main", message=name)
        except WaitsError:
            self.waited += 1
        else:
            self.landed += 1

    def run(self, rounds: int = 4) -> int:
        """An execution of the state machine; in how many rounds it ended."""
        task = Task(NAME, "op", 1)
        for number in range(1, rounds + 1):
            planned = self._machine.plan(task)
            self.invoked["plan"] += 1
            assert planned.state is Next.PARTS, operations(self.world).get("op").error
            task = Task(NAME, "op", 1, planned.round)
            for batch in self._batches(planned.numbers):
                for part in batch:
                    assert self._machine.part(task, part).state is Next.PUBLISH, operations(self.world).get("op").error
                    self.invoked["part"] += 1
                self.passes(PART_SECONDS)
            published = self._machine.publish(task)
            self.invoked["publish"] += 1
            if published.state is Next.ENDED:
                return number
            task = Task(NAME, "op", 1, published.round)
        raise AssertionError(f"no end after {rounds} rounds")

    @staticmethod
    def _batches(numbers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        size = -(-PARTS // BATCHES)
        return (numbers[start : start + size] for start in range(0, len(numbers), size))

    def check(self) -> None:
        """It has landed, once, on what others had landed before; and all of theirs is there, and all of its own."""
        done = operations(self.world).get("op")
        assert (done.state, done.error) == (OperationState.COMPLETED, "")
        main = self.world.repository()
        merged = main.commit_of(done.result)
        main.create_branch("alone", merged.parents[0])
        assert main.merge("dev", "alone").metarange_id == merged.metarange_id
        assert operations(self.world).progress(done).parts == done.parts


def test_a_branch_that_moves_every_five_seconds_takes_a_large_merge_in_one_round() -> None:
    busy = Busy(Sizes(records=1, parts=PARTS), changed=1)
    assert busy.run() == 1
    busy.check()
    parts = operations(busy.world).get("op").parts
    assert parts > 0.7 * PARTS
    assert busy.invoked == {"plan": 1, "part": parts, "publish": 1}
    assert busy.landed >= BATCHES * PART_SECONDS / EVERY, "it did move all the time"


def test_a_branch_on_which_everything_changes_every_five_seconds_takes_it_in_two_rounds() -> None:
    """After the first one the operation keeps its turn, and others wait."""
    busy = Busy(Sizes(records=1, parts=PARTS, in_place=PARTS), changed=PARTS // 4)
    assert busy.run() == 2
    busy.check()
    parts = operations(busy.world).get("op").parts
    assert busy.invoked["part"] <= 2 * parts
    assert (busy.invoked["plan"], busy.invoked["publish"]) == (2, 2)
    assert busy.waited > 0
    landed = busy.landed
    busy.passes(EVERY)
    assert busy.landed == landed + 1, "and then they go on"


def test_only_parts_that_others_changed_are_invoked_again() -> None:
    """Each of the others changes one object; for the first round's end that is too much to be followed at once."""
    busy = Busy(Sizes(records=1, parts=PARTS, in_place=60), changed=1)
    assert busy.run() == 2
    busy.check()
    parts = operations(busy.world).get("op").parts
    again = busy.invoked["part"] - parts
    assert 0 < again <= 2 * (busy.landed + 1), "a change may touch two parts"
    assert again < parts


def kept(*, in_place: int = 0) -> tuple[World, Machine, Task, tuple[int, ...]]:
    """An operation whose second round is planned, so that it keeps its turn; and the parts of that."""
    world = World()
    put(world.main, {f"{number:03}": "base" for number in range(60)})
    world.main.commit("main", "base")
    world.main.create_branch("dev", "main")
    put(world.main, {f"{number:03}": "dev" for number in range(0, 60, 4)}, "dev")
    world.main.commit("dev", "dev")
    put(world.main, {f"{number:03}": "main" for number in range(2, 60, 4)})
    world.main.commit("main", "main")
    write_down(
        world,
        pinned_merge(source="dev", source_id=world.main.commit_of("dev").id, destination="main", message="together"),
    )
    machine = Machine(world.lake(), clock=world.clock, sizes=Sizes(records=10, parts=4, in_place=0))
    task = Task(NAME, "op", 1)
    for number in machine.plan(task).numbers:
        machine.part(task, number)
    moved(world, "first")
    assert machine.publish(task).round == 1
    machine = Machine(world.lake(), clock=world.clock, sizes=Sizes(records=10, parts=4, in_place=in_place))
    second = Task(NAME, "op", 1, 1)
    return world, machine, second, machine.plan(second).numbers


def moved(world: World, name: str, files: Mapping[str, str] | None = None, clock: Clock | None = None) -> None:
    """Somebody else merges into main."""
    client = world.repository(clock=clock)
    client.create_branch(name, "main")
    put(client, dict(files or {"001": name, "041": name}), name)
    client.commit(name, name)
    client.merge(name, "main", message=name)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_who_dies_with_its_turn_holds_a_branch_up_for_a_short_time(steps: int) -> None:
    world, machine, task, numbers = kept()
    for number in numbers[:steps]:
        machine.part(task, number)
    began = world.clock.time
    moved(world, "later")
    assert KEPT <= world.clock.time - began < KEPT + 1, "less than the patience of those who wait"
    began = world.clock.time
    moved(world, "and-later")
    assert world.clock.time == began


@pytest.mark.parametrize("how", ["publish", "fail", "conflict"])
def test_who_ends_gives_its_turn_back(how: str) -> None:
    world, machine, task, numbers = kept(in_place=10**6)
    with pytest.raises(WaitsError):
        moved(world, "early", clock=Impatient(world.clock))
    if how == "fail":
        machine.fail(task, "whatever")
    elif how == "conflict":
        state = world.main.parts.branches.state("main")
        put(world.main, {"000": "conflict"}, "early")
        conflicting = world.main.commit("early", "against dev")
        event = world.main.parts.branches.event("merge", "")
        world.tables.transact(
            world.main.parts.refs.move_branch_writes(state, replace(state, commit_id=conflicting.id), event)
        )
        for number in numbers:
            machine.part(task, number)
        machine.publish(task)
        assert operations(world).get("op").error_kind == "MergeConflictError"
    else:
        for number in numbers:
            machine.part(task, number)
        assert machine.publish(task).state is Next.ENDED
        assert operations(world).get("op").state is OperationState.COMPLETED
    moved(world, "later", {"003": "later"}, clock=Impatient(world.clock))
    assert world.tables.query(f"{world.main.repository.uid}/turns").items == []


def test_a_turn_that_was_lost_is_taken_again_and_the_operation_lands() -> None:
    world, machine, task, numbers = kept(in_place=10**6)
    moved(world, "later")  # waits until the operation seems dead, and removes its ticket
    for number in numbers:
        machine.part(task, number)
    assert machine.publish(task).state is Next.ENDED
    assert operations(world).get("op").state is OperationState.COMPLETED
    assert texts(world.main)["001"] == "later"
    assert texts(world.main)["000"] == "dev"


def test_a_commit_that_waits_for_a_kept_turn_goes_first_when_its_changes_stand_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the merge would be refused because of changes that its own turn keeps from being committed."""
    world, machine, task, numbers = kept(in_place=10**6)
    for number in numbers:
        machine.part(task, number)
    in_line, aside = Event(), Event()
    join, step_aside = Turn._join, Turn.step_aside

    def joins(turn: Turn, waiting: dict[str, int]) -> bool:
        if joined := join(turn, waiting):
            in_line.set()
        return joined

    def steps_aside(turn: Turn) -> bool:
        if stepped := step_aside(turn):
            aside.set()
        return stepped

    monkeypatch.setattr(Turn, "_join", joins)
    monkeypatch.setattr(Turn, "step_aside", steps_aside)
    client = world.repository(clock=WaitsFor(world.clock, lambda: aside.wait(PATIENCE)))
    put(client, {"003": "staged"})
    commit = Thread(target=client.commit, args=("main", "theirs"))
    commit.start()
    waits = WaitsFor(world.clock, commit.join)
    try:
        assert in_line.wait(PATIENCE)
        sizes = Sizes(records=10, parts=4)
        assert Machine(world.lake(clock=waits), clock=waits, sizes=sizes).publish(task).state is Next.ENDED
    finally:
        aside.set()
        commit.join()
    done = operations(world).get("op")
    assert (done.state, done.error) == (OperationState.COMPLETED, "")
    assert [one.message for one in world.main.log("main", first_parent=True).results][:2] == ["together", "theirs"]
    assert texts(world.main)["003"] == "staged"


class WaitsFor(OwnClock):
    """Of a client that waits for what another one does, and for no time."""

    def __init__(self, shared: FakeClock, wait: Callable[[], object]) -> None:
        super().__init__(shared)
        self._until = wait

    def sleep(self, seconds: float) -> None:
        self._until()


def test_an_operation_waits_longer_for_another_one_than_a_call_does() -> None:
    world, *_ = kept()
    turns = world.main.parts.turns
    held = world.tables.query(f"{turns.uid}/turns", start=b"main\0\0").items[0][0].removeprefix(b"main\0").decode()
    world.clock.on_sleep = lambda: turns.renew("main", held)
    waited = []
    for ticket in ("", "another"):
        began = world.clock.time
        with turns.at("main", ticket) as turn, pytest.raises(BusyError):
            turn.state()
        waited.append(round(world.clock.time - began))
    assert waited == [30, PATIENT]


def test_changes_that_nobody_is_about_to_commit_stand_in_the_way_as_ever() -> None:
    world, machine, task, numbers = kept(in_place=10**6)
    for number in numbers:
        machine.part(task, number)
    put(world.repository(), {"003": "staged"})
    machine.publish(task)
    assert operations(world).get("op").error_kind == DirtyBranchError.__name__
