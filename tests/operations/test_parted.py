"""Merges and commits as operations of this process: joined, repeated, cancelled, swept, with the effect of one call."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from threading import Event

import msgspec
import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, CorruptError, InvalidError, TooLateError, UnavailableError
from graveler.lake.repository import OpenRepository
from graveler.operations import steps
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.kinds import KINDS
from graveler.operations.one_process import do_in_parts
from graveler.operations.operator import LONGEST_WAIT, MAX_ATTEMPTS, SILENT, Operator
from graveler.operations.parts import joined_parts
from graveler.operations.parts.rounds import PartDone
from graveler.operations.pinned_requests import COMMIT, MERGE
from graveler.operations.runner import Runner
from graveler.operations.steps import Steps
from graveler.operations.store import Operation, OperationState, WorkDone
from graveler.operations.sweeper import LOOK, Sweeper, sweep, sweep_and_watch
from graveler.operations.work import CancelledError, Report
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Key
from graveler.tree.parts import Load
from tests.lake.support import OwnClock, World, put, texts
from tests.operations.support import (
    alone,
    commit_ask,
    diverged,
    ended,
    merge_ask,
    operations,
    write_down,
)
from tests.support.patience import PATIENCE
from tests.support.pinned import Asked

MakeAsk = Callable[[OpenRepository], Asked]

BOTH = pytest.mark.parametrize("make_ask", [merge_ask, commit_ask])


pytestmark = pytest.mark.usefixtures("small_parts")


@contextmanager
def runner(world: World) -> Iterator[Runner]:
    made = Runner(world.tables, KINDS, clock=world.clock, heartbeat=0.01)
    try:
        yield made
    finally:
        made.close()


class Noted:
    """A starter that only notes what it is told."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str, int]] = []
        self.fails = False

    def begin(self, repository: str, operation: Operation) -> None:
        if self.fails:
            raise UnavailableError("the queue is away")
        self.begun.append((repository, operation.id, operation.attempt))


@BOTH
def test_an_operation_makes_the_commit_of_one_call_and_tells_how_far_it_is(make_ask: MakeAsk) -> None:
    world = World()
    diverged(world.main)
    ask = make_ask(world.main)
    one_call = alone(world.main, ask)
    with runner(world) as operator:
        kind = MERGE if make_ask is merge_ask else COMMIT
        started = operator.start(world.repository(), kind, msgspec.json.encode(ask), "op", branch="main")
        done = ended(world)
    assert (done.state, done.error) == (OperationState.COMPLETED, "")
    commit = world.main.commit_of("main")
    assert (commit.id, commit.metarange_id, commit.message) == (done.result, one_call, "together")
    assert (started.branch, done.parts, done.round) == ("main", 6 if kind == MERGE else done.parts, 0)
    progress = operations(world).progress(done)
    assert progress.parts == done.parts > 2
    assert progress.records > 0
    assert operations(world).progress(started) == WorkDone()


@BOTH
def test_work_that_was_broken_off_anywhere_goes_on_with_the_first_part_that_is_not_done(
    make_ask: MakeAsk, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    diverged(world.main)
    ask = make_ask(world.main)
    one_call = alone(world.main, ask)
    write_down(world, ask)
    worked: list[int] = []
    run, deaths = Steps.run_part, iter([KeyboardInterrupt])  # the process ends: nobody is told

    def dies(self: Steps, number: int, *arguments: object) -> PartDone:
        if len(worked) == 2:
            for death in deaths:
                raise death
        worked.append(number)
        return run(self, number, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Steps, "run_part", dies)
    with pytest.raises(KeyboardInterrupt):
        do_in_parts(world.repository(), "op", b"", Report())
    before = operations(world).progress(operations(world).get("op"))
    assert before.parts == 2
    written = {found.key for found in world.objects().list("_graveler/operations/op/parts/")}
    commit = do_in_parts(world.repository(), "op", b"", Report())
    assert world.main.commit_of(commit).metarange_id == one_call
    assert {key: world.objects().head(key).modified for key in written}
    assert do_in_parts(world.repository(), "op", b"", Report()) == commit, "published once"
    assert [one.message for one in world.main.log("main").results].count("together") == 1


@BOTH
@pytest.mark.parametrize("step", ["plan", "run_part", "publish"])
@pytest.mark.parametrize("error", [BusyError, UnavailableError])
def test_what_passes_is_tried_again_at_every_step(
    make_ask: MakeAsk, step: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    diverged(world.main)
    write_down(world, make_ask(world.main))
    real = getattr(Steps, step)
    failures = iter([error("not now"), error("not now")])

    def fails(self: Steps, *arguments: object) -> object:
        for failure in failures:
            raise failure
        return real(self, *arguments)

    monkeypatch.setattr(Steps, step, fails)
    commit = do_in_parts(world.repository(), "op", b"", Report())
    assert world.main.branch("main").commit_id == commit
    assert world.clock.slept >= 2.5


@BOTH
@pytest.mark.parametrize("step", ["plan", "run_part", "publish"])
def test_a_failure_is_noted_with_its_kind_changes_nothing_and_holds_nothing(
    make_ask: MakeAsk, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    diverged(world.main)
    ask = make_ask(world.main)
    head = world.main.branch("main").commit_id

    def fails(self: Steps, *arguments: object) -> None:
        raise InvalidError("this is why")

    monkeypatch.setattr(Steps, step, fails)
    with runner(world) as operator:
        kind = MERGE if make_ask is merge_ask else COMMIT
        operator.start(world.repository(), kind, msgspec.json.encode(ask), "op")
        done = ended(world)
    assert (done.state, done.error, done.error_kind) == (OperationState.FAILED, "this is why", "InvalidError")
    assert world.main.branch("main").commit_id == head
    slept = world.clock.slept
    put(world.main, {"more": "1"})
    world.repository().commit("main", "by somebody else")
    assert world.clock.slept - slept < 1, "nobody has to wait for what the operation had sealed"


def test_conflicts_are_told_as_by_the_verb() -> None:
    world = World()
    diverged(world.main)
    put(world.main, {"000": "main"})
    world.main.commit("main", "conflict")
    with runner(world) as operator:
        operator.start(world.repository(), MERGE, msgspec.json.encode(merge_ask(world.main)), "op")
        done = ended(world)
    assert (done.state, done.error_kind) == (OperationState.FAILED, "MergeConflictError")
    assert "1 conflict ('000')" in done.error


def test_a_cancelled_operation_stops_at_the_next_part(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    diverged(world.main)
    head = world.main.branch("main").commit_id
    write_down(world, merge_ask(world.main))
    report = Report()
    run, ran = Steps.run_part, []

    def cancels(self: Steps, number: int, *arguments: object) -> PartDone:
        ran.append(number)
        report.cancelled.set()
        return run(self, number, arguments[0])  # type: ignore[arg-type]

    monkeypatch.setattr(Steps, "run_part", cancels)
    with pytest.raises(CancelledError):
        do_in_parts(world.repository(), "op", b"", report)
    assert ran == [0]
    assert world.main.branch("main").commit_id == head


def test_a_branch_that_keeps_moving_ends_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    diverged(world.main)
    write_down(world, merge_ask(world.main))
    monkeypatch.setattr(steps, "MAX_ROUNDS", 3)
    monkeypatch.setattr(joined_parts, "load_in", lambda *_: Load(10**9))  # so that nothing is little
    publish, numbers = Steps.publish, iter(range(3))

    def moves(self: Steps, round_number: int) -> object:
        if (number := next(numbers, None)) is not None:
            put(world.main, {f"more/{number}": "1"})
            world.main.commit("main", "in between")
        return publish(self, round_number)

    monkeypatch.setattr(Steps, "publish", moves)
    with pytest.raises(TooLateError, match="moved 3 times"):
        do_in_parts(world.repository(), "op", b"", Report())
    monkeypatch.setattr(steps, "MAX_ROUNDS", 10)
    do_in_parts(world.repository(), "op", b"", Report())
    assert texts(world.main)["000"] == "dev"
    assert texts(world.main)["more/2"] == "1"


def test_the_same_is_asked_for_once_and_by_two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world, starter = World(), Noted()
    one, other = (Dispatcher(world.tables, {"work": starter}, clock=world.clock) for _ in range(2))
    first = one.ask(world.main, "work", b"", "same", joins=lambda _: True, request_id="r", branch="b")
    again = other.ask(world.main, "work", b"", "same", joins=lambda _: True)
    assert again == first
    assert (first.request_id, first.branch, first.asked) == ("r", "b", "same")
    assert one.of_request(world.main, "same") == first
    assert one.of_request(world.main, "other") is None
    assert starter.begun == [("repo", first.id, 1)] * 2, "word is sent again: it may have been lost"
    new = one.ask(world.main, "work", b"", "same", joins=lambda _: False)
    assert new.id != first.id
    assert one.of_request(world.main, "same") == new

    def meanwhile(found: Operation) -> bool:
        if found.id == new.id:  # another process is faster
            others.append(other.ask(world.main, "work", b"", "same", joins=lambda _: False))
        return found.id != new.id

    others: list[Operation] = []
    assert one.ask(world.main, "work", b"", "same", joins=meanwhile) == others[0]


def test_word_that_could_not_be_sent_is_sent_by_the_sweep() -> None:
    world, starter = World(), Noted()
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    starter.fails = True
    with pytest.raises(UnavailableError):
        operator.start(world.main, "work", b"", "op")
    starter.fails = False
    assert operator.sweep(world.main) == 0, "it was written down a moment ago"
    world.clock.time += SILENT
    assert sweep(world.lake(), operator) == 1
    assert starter.begun == [("repo", "op", 2)]
    assert operator.sweep(world.main) == 0
    operator.close()


def claimed(world: World, name: str) -> Operation:
    """Somebody begins to work on it."""
    return operations(world).change(name, lambda now: now.claimed(f"worker {now.attempt}", 10.0))


def test_the_sweep_begins_dead_operations_again_and_gives_up_after_some_times() -> None:
    world, starter = World(), Noted()
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    operator.start(world.main, "work", b"", "dead")
    operator.start(world.main, "work", b"", "alive")
    claimed(world, "dead")
    assert operator.sweep(world.main) == 0, "who has just started watches"
    for attempt in range(2, MAX_ATTEMPTS + 1):
        world.clock.time += SILENT + 11
        operations(world).change("alive", lambda now: replace(now, seconds=10.0))
        assert operator.sweep(world.main) == 1
        assert operations(world).get("dead").attempt == attempt
        claimed(world, "dead")
        assert operator.sweep(world.main) == 0
    world.clock.time += SILENT + 11
    operations(world).change("alive", lambda now: replace(now, seconds=10.0))
    assert operator.sweep(world.main) == 1
    dead = operations(world).get("dead")
    assert (dead.state, dead.error_kind) == (OperationState.FAILED, "UnavailableError")
    assert "died 5 times" in dead.error
    assert operations(world).get("alive").attempt == 1
    assert [attempt for _, name, attempt in starter.begun if name == "dead"] == [1, 2, 3, 4, 5]


class Picky(Noted):
    """A starter that cannot begin some."""

    def __init__(self, *refused: str, error: Exception) -> None:
        super().__init__()
        self.refused = set(refused)
        self.error = error

    def begin(self, repository: str, operation: Operation) -> None:
        if operation.id in self.refused:
            raise self.error
        super().begin(repository, operation)


@pytest.mark.parametrize("error", [UnavailableError("the queue is away"), KeyError("nobody expected this")])
@pytest.mark.parametrize("refused", [["a"], ["b"], ["c"], ["a", "b", "c"]])
@pytest.mark.parametrize("worked_on", [False, True])
def test_what_cannot_be_begun_keeps_no_other_waiting_and_is_not_called_dead(
    refused: list[str], error: Exception, *, worked_on: bool
) -> None:
    world, starter = World(), Picky(*refused, error=error)
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    for name in ("a", "b", "c"):
        with suppress(UnavailableError, KeyError):
            operator.start(world.main, "work", b"", name)
        if worked_on:
            claimed(world, name)
    operator.sweep(world.main)
    free = {"a", "b", "c"} - set(refused)
    for _ in range(3 * MAX_ATTEMPTS):
        world.clock.time += SILENT + 11
        starter.begun.clear()
        assert operator.sweep(world.main) == 3
        assert {name for _, name, _ in starter.begun} == free
        for name in ("a", "b", "c"):
            assert operations(world).get(name).state is OperationState.RUNNING
    starter.refused.clear()
    world.clock.time += SILENT + 11
    starter.begun.clear()
    operator.sweep(world.main)
    for _, name, attempt in starter.begun:
        assert claimed(world, name).attempt == attempt, "who begins now works on it"
        assert operations(world).get(name).begun == 1 + worked_on
    assert len(starter.begun) == 3


@pytest.mark.parametrize("place", ["0", "m", "z"])
@pytest.mark.parametrize("bytes_too", [False, True])
def test_an_operation_that_cannot_be_read_keeps_no_other_waiting(place: str, *, bytes_too: bool) -> None:
    world, starter = World(), Noted()
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    for name in ("a", "o"):
        operator.start(world.main, "work", b"", name)
    spoil(world, Key(f"{world.main.repository.uid}/operations", place.encode()), bytes_too=bytes_too)
    assert sweep(world.lake(), operator) == 0
    world.clock.time += SILENT + 1
    assert sweep(world.lake(), operator) == 2
    assert {name for _, name, _ in starter.begun} == {"a", "o"}
    with pytest.raises(CorruptError, match=place):
        operations(world).get(place)
    operations(world).change("a", lambda now: replace(now, state=OperationState.COMPLETED))
    assert sweep_and_watch(world.lake(), operator) == 1


@pytest.mark.parametrize("place", ["0", "q", "z"])
@pytest.mark.parametrize("bytes_too", [False, True])
def test_a_repository_that_cannot_be_read_keeps_no_other_waiting(place: str, *, bytes_too: bool) -> None:
    world, starter = World(), Noted()
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    operator.start(world.main, "work", b"", "op")
    spoil(world, Key("repositories", place.encode()), bytes_too=bytes_too)
    assert sweep_and_watch(world.lake(), operator) == 1
    assert [name for _, name, _ in starter.begun] == ["op", "op"]


def test_a_process_that_does_not_stay_watches_until_it_knows() -> None:
    world, starter = World(), Noted()
    kinds = {"work": starter}
    for name in ("dead", "alive", "waiting"):
        Dispatcher(world.tables, kinds, clock=world.clock).start(world.main, "work", b"", name)
    for name in ("dead", "alive"):
        operations(world).change(name, lambda now: replace(now, owner="somebody", seconds=300.0))

    def renew() -> None:
        operations(world).change("alive", lambda now: now)

    world.clock.on_sleep = renew
    began = world.clock.time
    assert sweep_and_watch(world.lake(), Dispatcher(world.tables, kinds, clock=world.clock)) == 2
    assert 300.0 + SILENT <= world.clock.time - began < 300.0 + SILENT + 2 * LOOK
    assert {name: operations(world).get(name).attempt for name in ("dead", "alive", "waiting")} == {
        "dead": 2,
        "alive": 1,
        "waiting": 2,
    }
    for name in ("dead", "waiting"):
        operations(world).change(name, lambda now: replace(now, state=OperationState.COMPLETED))
    began = world.clock.time
    assert sweep_and_watch(world.lake(), Dispatcher(world.tables, kinds, clock=world.clock)) == 0
    assert world.clock.time - began <= LOOK, "a sign of life is enough"
    operations(world).change("alive", lambda now: replace(now, state=OperationState.COMPLETED))
    began = world.clock.time
    assert sweep_and_watch(world.lake(), Dispatcher(world.tables, kinds, clock=world.clock)) == 0
    assert world.clock.time == began


def spoil(world: World, key: Key, *, bytes_too: bool) -> None:
    """An item that no reader understands; or bytes that are no item."""
    world.tables.put(key, {"operation": b"what?"})
    if bytes_too:
        assert isinstance(world.tables, MemoryTables)
        world.tables.partitions[key.partition][1][key.sort] = b"what?"


@pytest.mark.parametrize("ahead", [-86_400.0, 0.0, 86_400.0])
def test_what_waits_for_its_first_worker_is_begun_again_and_given_up_only_after_hours(ahead: float) -> None:
    """Behind many others in a queue: nobody has died of it. The clock of who asked for it does not matter."""
    world, starter = World(), Noted()
    asking = Dispatcher(world.tables, {"work": starter}, clock=OwnClock(world.clock, ahead))
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    asking.start(world.main, "work", b"", "op")
    assert operator.sweep(world.main) == 0
    for number in range(2, 3 * MAX_ATTEMPTS):
        world.clock.time += 900
        assert operator.sweep(world.main) == 1
        assert operations(world).get("op").state is OperationState.RUNNING
        assert starter.begun[-1] == ("repo", "op", min(number, 3))
        assert len(starter.begun) == number
    world.clock.time += LONGEST_WAIT
    assert operator.sweep(world.main) == 1
    found = operations(world).get("op")
    assert (found.state, found.error_kind, found.attempt) == (OperationState.FAILED, "UnavailableError", 3)
    assert "no worker has started it in 12 hours" in found.error


def test_what_has_waited_for_long_is_tried_several_times_all_the_same() -> None:
    world, starter = World(), Noted()
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    operator.start(world.main, "work", b"", "op")
    for _ in range(2 * MAX_ATTEMPTS):
        world.clock.time += 900
        operator.sweep(world.main)
    before = len(starter.begun)
    while operations(world).get("op").state is OperationState.RUNNING:
        claimed(world, "op")
        operator.sweep(world.main)
        world.clock.time += 900
        operator.sweep(world.main)
    assert [attempt for *_, attempt in starter.begun[before:]] == [4, 5, 6, 7]
    assert "died 5 times" in operations(world).get("op").error


@pytest.mark.parametrize("stored", [True, False])
def test_operations_of_the_version_before_go_on(*, stored: bool) -> None:
    """It counted attempts alone, and drops what it does not know."""
    world, starter = World(), Noted()
    operator = Dispatcher(world.tables, {"work": starter}, clock=world.clock)
    operator.start(world.main, "work", b"", "op")
    before = Operation("op", "work", b"", OperationState.RUNNING, 0, 0, owner="machine-4", attempt=4, seconds=10.0)
    operations(world).change("op", lambda now: before if stored else replace(now, owner="machine-1", unseen=0))
    attempt = operations(world).get("op").attempt
    for number in range(1, MAX_ATTEMPTS + 1):
        operator.sweep(world.main)
        world.clock.time += SILENT + 11
        assert operator.sweep(world.main) == 1
        assert starter.begun[-1] == ("repo", "op", attempt + number)
        claimed(world, "op")
    operator.sweep(world.main)
    world.clock.time += SILENT + 11
    operator.sweep(world.main)
    assert operations(world).get("op").state is OperationState.FAILED


def test_who_serves_a_lake_ends_what_a_dead_process_began() -> None:
    world = World()
    diverged(world.main)
    ask = merge_ask(world.main)
    one_call = alone(world.main, ask)
    write_down(world, ask)
    with runner(world) as operator:
        assert operator.sweep(world.main) == 0
        world.clock.time += SILENT + 1
        swept = Event()

        class Told(Operator):
            """Tells when it was asked."""

            def sweep(self, repository: OpenRepository, only: Collection[str] | None = None) -> int:
                found = operator.sweep(repository, only)
                swept.set()
                return found

            def close(self) -> None: ...

            def _claimed(self, operation: Operation) -> Operation:
                raise NotImplementedError

            def _begin(self, repository: OpenRepository, operation: Operation) -> None:
                raise NotImplementedError

        sweeper = Sweeper(world.lake(), Told(world.tables, ()), every=0.01)
        assert swept.wait(PATIENCE)
        done = ended(world)
        sweeper.close()
    assert (done.state, done.attempt) == (OperationState.COMPLETED, 2)
    assert world.main.commit_of(done.result).metarange_id == one_call


def test_operations_are_listed_in_pages() -> None:
    world = World()
    for name in ("a", "b", "c"):
        operations(world).add(Operation(name, "work", b"", OperationState.RUNNING, 0, 0))
    first = operations(world).page("", 2)
    assert ([one.id for one in first.results], first.next_after) == (["a", "b"], "b")
    rest = operations(world).page("b", 2)
    assert ([one.id for one in rest.results], rest.next_after) == (["c"], None)
