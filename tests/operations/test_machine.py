"""The steps of a state machine, run by a small interpreter: repeated, doubled, failed, they make the commit of one call."""

import json
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError, TurnKeptError, UnavailableError
from graveler.lake.clock import GRACE
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.lake.turns import PATIENT, KeptFor
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.machine import LEASE, RENEWAL, Machine, Next, Planned, Published, Task
from graveler.operations.operator import SILENT
from graveler.operations.parts.division import Sizes
from graveler.operations.pinned_requests import MERGE
from graveler.operations.steps import Steps
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import CANCELLED
from graveler.requests.importing import AddressType, ImportAddress, ImportChanges
from tests.lake.support import NAME, OwnClock, World, put
from tests.operations.support import SMALL, alone, commit_ask, diverged, merge_ask, operations, write_down
from tests.support.instruments import CountingObjects
from tests.support.pinned import Asked, pinned_import

MakeAsk = Callable[[OpenRepository], Asked]
BOTH = pytest.mark.parametrize("make_ask", [merge_ask, commit_ask])
TASK = Task(NAME, "op", 1)


class Silent:
    """Begins nothing."""

    def begin(self, repository: str, operation: Operation) -> None: ...


ROUNDS = replace(SMALL, in_place=0)
"""However little a branch has moved, there is another round."""


def machine(world: World, sizes: Sizes = SMALL) -> Machine:
    """A function that was just started: nothing is near."""
    return Machine(world.lake(), clock=world.clock, sizes=sizes)


def sent(value: msgspec.Struct) -> str:
    """What passes from state to state: JSON, far smaller than 256 KiB."""
    text = msgspec.json.encode(value).decode()
    assert len(text) < 10_000
    return text


def execute(world: World, task: Task = TASK, sizes: Sizes = SMALL) -> Iterator[str]:
    """An execution of the state machine; yields the name of each step after it, so that others may step in."""
    while True:
        planned = msgspec.json.decode(sent(machine(world, sizes).plan(task)), type=Planned)
        yield "plan"
        task = Task(planned.repository, planned.operation, planned.attempt, planned.round)
        if planned.state is not Next.PARTS:
            return
        for number in reversed(planned.numbers):
            sent(machine(world, sizes).part(task, number))
            yield "part"
        published = msgspec.json.decode(sent(machine(world, sizes).publish(task)), type=Published)
        yield "publish"
        if published.state is not Next.PLAN:
            return
        task = Task(published.repository, published.operation, published.attempt, published.round)


def begun(make_ask: MakeAsk) -> tuple[World, str]:
    """An operation that waits to be worked on, and the tree that one call makes."""
    world = World()
    diverged(world.main)
    ask = make_ask(world.main)
    tree = alone(world.main, ask)
    write_down(world, ask)
    return world, tree


def check_done(world: World, tree: str) -> None:
    done = operations(world).get("op")
    assert (done.state, done.error) == (OperationState.COMPLETED, "")
    assert world.main.branch("main").commit_id == done.result
    assert world.main.commit_of("main").metarange_id == tree
    assert [commit.message for commit in world.main.log("main").results].count("together") == 1


@BOTH
def test_an_execution_makes_the_commit_of_one_call(make_ask: MakeAsk) -> None:
    world, tree = begun(make_ask)
    steps = list(execute(world))
    assert steps[0] == "plan"
    assert steps[-1] == "publish"
    assert steps.count("part") > 2
    check_done(world, tree)
    claimed = operations(world).get("op")
    assert claimed.owner == "machine-1"
    assert list(execute(world)) == ["plan"], "one that has ended ends at once"


@BOTH
@pytest.mark.parametrize("attempt", [1, 2])
def test_parts_that_are_done_are_not_invoked_again(make_ask: MakeAsk, attempt: int) -> None:
    """Whichever they are, when the plan is made again: after an answer that was lost, or by another attempt."""
    world, _ = begun(make_ask)
    numbers = machine(world).plan(TASK).numbers
    for which in sorted({*combinations(numbers, 1), *combinations(numbers, 2), numbers[:-1], numbers, ()}):
        world, tree = begun(make_ask)
        assert machine(world).plan(TASK).numbers == numbers
        for number in which:
            machine(world).part(TASK, number)
        operations(world).change("op", lambda now: replace(now, attempt=attempt))
        task = replace(TASK, attempt=attempt)
        planned = machine(world).plan(task)
        assert planned.numbers == tuple(number for number in numbers if number not in which)
        assert operations(world).progress(operations(world).get("op")).parts == len(which)
        assert list(execute(world, task)).count("part") == len(numbers) - len(which)
        check_done(world, tree)
        assert operations(world).progress(operations(world).get("op")).parts == len(numbers)


def test_another_attempt_goes_on_with_the_round_that_the_one_before_came_to() -> None:
    world, _ = begun(merge_ask)
    operations(world).change("op", lambda now: replace(now, round=0))
    planned = machine(world).plan(TASK)
    for number in planned.numbers:
        machine(world).part(TASK, number)
    put(world.main, {f"{number:03}": "later" for number in range(1, 120, 5)})
    world.main.commit("main", "everywhere")
    published = machine(world, ROUNDS).publish(TASK)
    assert (published.state, published.round) == (Next.PLAN, 1)
    second = machine(world).plan(replace(TASK, round=1))
    machine(world).part(replace(TASK, round=1), second.numbers[0])
    operations(world).change("op", lambda now: replace(now, attempt=2))
    again = machine(world).plan(replace(TASK, attempt=2))
    assert (again.round, again.numbers) == (1, second.numbers[1:])


def test_a_plan_looks_which_parts_are_done_by_one_listing_and_the_first_one_by_none() -> None:
    world, _ = begun(merge_ask)
    objects = CountingObjects(world.objects())
    counted = Machine(Lake(world.tables, lambda _: objects, clock=world.clock), clock=world.clock, sizes=SMALL)
    listed = []
    for _ in range(3):
        numbers = counted.plan(TASK).numbers
        listed.append(objects.calls["list"])
        if numbers:
            counted.part(TASK, numbers[0])
    assert listed == [0, 1, 2]


@BOTH
@pytest.mark.parametrize("ahead", [0, 1, 2, 4])
def test_two_executions_at_once_have_the_effect_of_one(make_ask: MakeAsk, ahead: int) -> None:
    world, tree = begun(make_ask)
    one, other = execute(world), execute(world)
    for _ in range(ahead):
        next(one)
    running = [one, other]
    while running:
        running = [execution for execution in running if next(execution, None) is not None]
    check_done(world, tree)


@pytest.mark.parametrize(("sizes", "rounds"), [(SMALL, 1), (ROUNDS, 2)])
def test_a_head_that_moves_a_little_is_followed_and_else_is_another_round(sizes: Sizes, rounds: int) -> None:
    world, _ = begun(merge_ask)
    execution = execute(world, sizes=sizes)
    seen = []
    for step in execution:
        seen.append(step)
        if step == "part" and seen.count("publish") == 0 and seen.count("part") == 2:
            put(world.main, {"between": "1"})
            world.main.commit("main", "in between")
    assert seen.count("plan") == seen.count("publish") == rounds
    done = operations(world).get("op")
    assert (done.state, done.round) == (OperationState.COMPLETED, rounds - 1)
    assert operations(world).progress(done).parts == done.parts
    assert world.main.stat("main", "between").size == 1
    assert world.main.stat("main", "000").size == 3


@BOTH
@pytest.mark.parametrize("step", ["plan", "run_part", "publish"])
def test_what_may_pass_is_raised_for_the_machine_to_repeat(
    make_ask: MakeAsk, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, tree = begun(make_ask)
    real = getattr(Steps, step)
    failures = iter([UnavailableError("S3 is away"), BusyError("others"), MemoryError("too large")])

    def fails(self: Steps, *arguments: object) -> object:
        for failure in failures:
            raise failure
        return real(self, *arguments)

    monkeypatch.setattr(Steps, step, fails)
    for _ in range(3):
        with pytest.raises((UnavailableError, BusyError, MemoryError)):
            list(execute(world))
        assert operations(world).get("op").state is OperationState.RUNNING
    list(execute(world))
    check_done(world, tree)


@pytest.mark.parametrize(("make_ask", "step"), [(merge_ask, "plan"), (merge_ask, "publish"), (commit_ask, "plan")])
def test_a_step_waits_in_its_call_while_a_candidate_keeps_the_branch(make_ask: MakeAsk, step: str) -> None:
    """No try is used up. A commit has its changes from its plan on, so its publication waits for nobody."""
    world, tree = begun(make_ask)
    if step == "publish":
        for number in machine(world).plan(TASK).numbers:
            machine(world).part(TASK, number)
    turns, began = world.main.parts.turns, world.clock.time
    with turns.at("main", "candidate", keep=True) as turn:
        turn.state()

    def check() -> None:
        if world.clock.time - began < 120:
            turns.renew("main", "candidate", KeptFor("c" * 64, "etl", int(began) + 120))
        else:
            turns.release("main", "candidate")

    check()
    with pytest.raises(TurnKeptError):
        world.main.commit("main", "in a call")
    world.clock.on_sleep = check
    if step == "publish":
        machine(world).publish(TASK)
    else:
        list(execute(world))
    assert 120 <= world.clock.time - began < PATIENT
    check_done(world, tree)


@BOTH
@pytest.mark.parametrize("step", ["plan", "run_part", "publish"])
def test_what_does_not_pass_ends_the_operation_cleanly(
    make_ask: MakeAsk, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = begun(make_ask)
    head = world.main.branch("main").commit_id

    def fails(self: Steps, *arguments: object) -> None:
        raise InvalidError("this is why")

    monkeypatch.setattr(Steps, step, fails)
    list(execute(world))
    failed = operations(world).get("op")
    assert (failed.state, failed.error, failed.error_kind) == (OperationState.FAILED, "this is why", "InvalidError")
    assert world.main.branch("main").commit_id == head
    check_nobody_waits(world)


def check_nobody_waits(world: World) -> None:
    slept = world.clock.slept
    put(world.repository(), {"more": "1"})
    world.repository().commit("main", "by somebody else")
    assert world.clock.slept - slept < 1


@BOTH
def test_when_the_machine_gives_up_the_operation_has_failed_and_holds_nothing(make_ask: MakeAsk) -> None:
    world, _ = begun(make_ask)
    next(execute(world))
    machine(world).fail(TASK, "part 3 timed out, three times")
    machine(world).fail(TASK, "again")
    failed = operations(world).get("op")
    assert (failed.state, failed.error) == (OperationState.FAILED, "part 3 timed out, three times")
    check_nobody_waits(world)


def test_an_execution_that_another_attempt_has_replaced_ends() -> None:
    world, tree = begun(merge_ask)
    old = execute(world)
    next(old)
    operations(world).change("op", lambda now: replace(now, attempt=2))
    assert list(old) == ["part"] * len(list(machine(world).plan(replace(TASK, attempt=2)).numbers)) + ["publish"]
    machine(world).fail(TASK, "of the old one")
    assert operations(world).get("op").state is OperationState.RUNNING
    list(execute(world, replace(TASK, attempt=2)))
    check_done(world, tree)


@pytest.mark.parametrize("after", ["plan", "part", "publish"])
def test_a_cancelled_operation_ends_at_its_next_step(after: str) -> None:
    world, _ = begun(merge_ask)
    head = world.main.branch("main").commit_id
    seen = []
    for step in execute(world):
        seen.append(step)
        if step == after:
            operations(world).change(
                "op",
                lambda now: None if now.is_finished else replace(now, state=OperationState.CANCELLED, error=CANCELLED),
            )
    done = operations(world).get("op")
    moved = after == "publish"
    assert done.state is (OperationState.COMPLETED if moved else OperationState.CANCELLED)
    assert (world.main.branch("main").commit_id != head) == moved


def test_a_part_sees_that_it_is_cancelled_while_it_works() -> None:
    world, _ = begun(commit_ask)
    planned = machine(world).plan(TASK)
    operations(world).change("op", lambda now: replace(now, state=OperationState.CANCELLED, error=CANCELLED))
    assert machine(world).part(TASK, planned.numbers[0]).state is Next.ENDED
    assert operations(world).get("op").state is OperationState.CANCELLED


@pytest.mark.parametrize("ahead", [-86_400.0, 0.0, 86_400.0])
def test_who_works_on_steps_gives_signs_of_life_and_the_sweep_leaves_the_operation_to_it(ahead: float) -> None:
    world, _ = begun(merge_ask)
    clock = OwnClock(world.clock, ahead)
    operations(world).change("op", lambda now: replace(now, created=clock.now()))  # else its deadline is over, or never
    warm = Machine(world.lake(clock=clock), clock=clock, sizes=SMALL)
    watcher = Dispatcher(world.tables, {MERGE: Silent()}, clock=world.clock)
    warm.plan(TASK)
    claimed = operations(world).get("op")
    assert (claimed.owner, claimed.seconds) == ("machine-1", LEASE)
    for _ in range(20):
        warm.part(TASK, 0)
        assert watcher.sweep(world.main) == 0
        world.clock.time += RENEWAL - 1
    version = operations(world).get("op").version
    Machine(world.lake(clock=clock), clock=clock, sizes=SMALL).part(TASK, 0)
    assert operations(world).get("op").version == version + 1, (
        "a process that has just started cannot know who was there"
    )
    assert watcher.sweep(world.main) == 0
    world.clock.time += LEASE + SILENT - 1
    assert watcher.sweep(world.main) == 0
    world.clock.time += 1
    assert watcher.sweep(world.main) == 1
    assert operations(world).get("op").attempt == 2


def test_many_who_work_on_parts_give_one_sign_of_life() -> None:
    world, _ = begun(merge_ask)
    warm = machine(world)
    planned = warm.plan(TASK)
    version = operations(world).get("op").version
    for number in planned.numbers:
        warm.part(TASK, number)
    assert operations(world).get("op").version == version
    world.clock.time += RENEWAL
    for number in planned.numbers:
        warm.part(TASK, number)
    assert operations(world).get("op").version == version + 1


@BOTH
def test_at_the_deadline_an_operation_ends_at_its_next_step_and_nothing_is_tried_again(make_ask: MakeAsk) -> None:
    """Whichever step that is: half the grace is over when so many steps are done."""
    steps = len(list(execute(begun(make_ask)[0])))
    for done in range(steps):
        world, _ = begun(make_ask)
        head = world.main.branch("main").commit_id
        execution = execute(world)
        for _ in range(done):
            next(execution)
        world.clock.time += GRACE / 2
        left = list(execution)
        assert left[-1:] in (["plan"], ["publish"]), "no step raised, so the state machine repeats none"
        failed = operations(world).get("op")
        assert (failed.state, failed.error_kind) == (OperationState.FAILED, "TooLateError"), done
        assert world.main.branch("main").commit_id == head
        check_nobody_waits(world)


def test_what_is_gone_ends_quietly() -> None:
    world, _ = begun(merge_ask)
    nothing = replace(TASK, operation="none")
    assert machine(world).plan(nothing).state is Next.ENDED
    nowhere = replace(TASK, repository="none")
    assert machine(world).part(nowhere, 0).state is Next.ENDED
    assert machine(world).publish(nowhere).state is Next.ENDED
    machine(world).fail(nowhere, "why")


def test_what_passes_between_steps_is_plain_json() -> None:
    planned = json.loads(sent(Planned(Next.PARTS, "repo", "op", 1, 0, tuple(range(1000)))))
    assert planned["state"] == "parts"
    assert planned["numbers"][-1] == 999


def test_an_import_notes_what_it_changed_and_a_dry_run_what_it_would(tmp_path: Path) -> None:
    world = World()
    (tmp_path / "a").write_text("22")
    source = ImportAddress(AddressType.COMMON_PREFIX, f"{tmp_path.as_uri()}/", "in/")
    head = world.main.branch("main").commit_id
    for name, dry_run in (("dry", True), ("real", False)):
        write_down(world, pinned_import("main", (source,), dry_run=dry_run), name)
        list(execute(world, Task(NAME, name, 1)))
        done = operations(world).get(name)
        assert (done.state, done.changes) == (OperationState.COMPLETED, ImportChanges(added=1, added_bytes=2))
        assert bool(done.result) is not dry_run
        assert (world.main.branch("main").commit_id == head) is dry_run
    (tmp_path / "a").unlink()
    write_down(world, pinned_import("main", (source,)), "empty")
    list(execute(world, Task(NAME, "empty", 1)))
    failed = operations(world).get("empty")
    assert (failed.state, failed.error_kind) == (OperationState.FAILED, "EmptySourceError")
