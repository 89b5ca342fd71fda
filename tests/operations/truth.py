"""Operations of each kind that makes a commit, run by a state machine or by threads, with something happening at a request.

::

    case = CASES["merge"]
    begin = case.begun()                      # branches, and an operation that waits to be worked on
    trial = Trial(case, begin.copy(...), MACHINE, at=17, act=cancel)
    trial.run()
    trial.check()                             # what the operation says is so
"""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Semaphore, Thread
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, GravelerError, PreconditionError, UnavailableError
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import SplitParameters
from graveler.operations import one_process
from graveler.operations.checks import KIND as CHECK
from graveler.operations.checks import CheckRequest
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.dumps import KIND as DUMP
from graveler.operations.kinds import KINDS
from graveler.operations.listings import KIND as IMPORT_LISTING
from graveler.operations.listings import ImportListingRequest
from graveler.operations.machine import LEASE, Machine, Next, Task
from graveler.operations.operator import MAX_ATTEMPTS, SILENT, Operator
from graveler.operations.pinned_requests import CHERRY_PICK, COMMIT, IMPORT, MERGE, REVERT, REWRITE
from graveler.operations.runner import Runner
from graveler.operations.steps import Steps
from graveler.operations.store import Operation, Operations, OperationState
from graveler.operations.work import CANCELLED
from graveler.requests.importing import AddressType, ImportAddress
from tests.lake.faults.scenes import MemoryScene, client
from tests.lake.support import NAME, NAMESPACE, TINY, put
from tests.operations.support import SMALL
from tests.support.instruments import Boundaries, Fault
from tests.support.patience import PATIENCE
from tests.support.pinned import (
    pinned_cherry_pick,
    pinned_commit,
    pinned_import,
    pinned_merge,
    pinned_revert,
    pinned_rewrite,
)

OP: Final = "op"
TRIES: Final = 3
"""How often a state machine takes a step that fails."""

T = TypeVar("T")
By: TypeAlias = Literal["machine", "runner"]
"""Who works on an operation: the steps of a state machine, or the threads of a process."""

Ask: TypeAlias = Callable[[OpenRepository, Path], msgspec.Struct]


def _merge(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    return pinned_merge(source="dev", source_id=repository.commit_of("dev").id, destination="main")


def _revert(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    return pinned_revert(branch="main", ref="main", ref_id=repository.commit_of("main").id)


def _cherry_pick(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    return pinned_cherry_pick(branch="main", ref="dev", ref_id=repository.commit_of("dev").id)


def _commit(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    put(repository, {f"{number:03}": "new" for number in range(0, 40, 4)})
    return pinned_commit(branch="main", message="all")


def _import(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    (folder / "a").write_text("1")
    return pinned_import("main", (ImportAddress(AddressType.COMMON_PREFIX, f"{folder.as_uri()}/", "in/"),))


def _rewrite(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    return pinned_rewrite(branch="main", split=SplitParameters(min_size=600, max_size=3_000, raggedness=5))


def _dump(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    return CheckRequest()  # nothing is asked for


def _check(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    return CheckRequest()


def _import_listing(repository: OpenRepository, folder: Path) -> msgspec.Struct:
    listing = gzip.compress(b"path,physical_address,size,etag,mtime,content_type,metadata\nb,s3://other/b,3,e,1,,\n")
    repository.namespace.put("data/sent", listing)
    return ImportListingRequest("main", f"{NAMESPACE}/data/sent", "in/")


class Case(msgspec.Struct, frozen=True):
    """A kind of operation, and what one of it is asked for."""

    kind: str
    ask: Ask

    def begun(self, folder: Path, default_branch: str = "main") -> MemoryScene:
        """A repository, and an operation on its branch main that waits to be worked on."""
        scene = MemoryScene(folder)
        repository = client(scene).create_repository(NAME, NAMESPACE, default_branch=default_branch, split=TINY)
        if default_branch != "main":  # so that main can be deleted
            repository.create_branch("main", default_branch)
        put(repository, {f"{number:03}": "base" for number in range(40)})
        repository.commit("main", "base")
        repository.create_branch("dev", "main")
        for branch, begin in (("dev", 0), ("main", 1)):
            put(repository, {f"{number:03}": branch for number in range(begin, 40, 5)}, branch)
            repository.commit(branch, branch)
        request = msgspec.json.encode(self.ask(repository, folder))
        now = scene.clock.now()
        asked = Operation(OP, self.kind, request, OperationState.RUNNING, now, now, attempt=1, branch="main")
        assert Operations(scene.tables, repository.repository.uid).add(asked)
        return scene


CASES: Final = {
    case.kind: case
    for case in (
        Case(MERGE, _merge),
        Case(REVERT, _revert),
        Case(CHERRY_PICK, _cherry_pick),
        Case(COMMIT, _commit),
        Case(IMPORT, _import),
        Case(REWRITE, _rewrite),
        Case(IMPORT_LISTING, _import_listing),
    )
}

OTHERS: Final = {case.kind: case for case in (Case(DUMP, _dump), Case(CHECK, _check))}
"""Kinds that make no commit."""

RUNS: Final[list[tuple[str, By]]] = [
    (kind, by) for kind in CASES for by in ("machine", "runner") if (kind, by) != (IMPORT_LISTING, "machine")
]
"""Every kind by everybody who works on it."""


class Trial:
    """One run of an operation. ``faults`` says what happens to its requests; before request ``at``, ``act`` comes in."""

    def __init__(
        self,
        scene: MemoryScene,
        by: By,
        at: int | None = None,
        act: "Callable[[Trial], None]" = lambda _: None,
        faults: Callable[[int], Fault] = lambda _: None,
    ) -> None:
        self.scene = scene
        self.by = by
        self.told: list[str] = []
        """What was said to those who asked to cancel."""
        self.seen, self.asking = Boundaries(), Boundaries()
        """Requests of the work, and of those who ask to cancel."""
        self._acts = {} if at is None else {at: act}
        self._faults = faults
        self.clean = client(scene)
        self.main = self.clean.repository(NAME)
        self.operations = Operations(scene.tables, self.main.repository.uid)
        self.before = self.main.branch("main").commit_id

    def run(self) -> None:
        """Have it worked on by a process whose requests are counted."""
        work_on(client(self.scene, self._schedule, self.seen), self.by)

    def run_with_pauses(self, *pauses: int) -> Iterator[None]:
        """As :meth:`run`; stands still before these requests, for others to come in, who go on with the next value. Afterwards
        the work has ended."""
        back, go = Semaphore(0), Semaphore(0)

        def pause(trial: Trial) -> None:
            back.release()
            assert go.acquire(timeout=PATIENCE)

        def run() -> None:
            self.run()
            ended.set()
            back.release()

        self._acts = dict.fromkeys(pauses, pause)
        ended, thread = Event(), Thread(target=run, daemon=True)
        thread.start()
        while True:
            assert back.acquire(timeout=PATIENCE)
            if ended.is_set():
                return
            yield
            go.release()

    def recover(self) -> None:
        """What those who sweep do later: what is begun again is worked on to its end."""
        for _ in range(2 * MAX_ATTEMPTS):
            if self.operations.get(OP).is_finished:
                return
            sweeper = self._sweeper()
            sweeper.sweep(self.main)
            self.scene.clock.time += LEASE + SILENT + 1
            sweeper.sweep(self.main)
            if isinstance(sweeper, Runner):
                sweeper._pool.shutdown(wait=True)
        raise AssertionError("the operation does not end")

    def _sweeper(self) -> Operator:
        if self.by == "runner":
            return runner(self.clean)
        return Dispatcher(self.scene.tables, dict.fromkeys(KINDS, self), clock=self.scene.clock)

    def begin(self, repository: str, operation: Operation) -> None:
        """As a starter: an execution, at once."""
        execute(client(self.scene), Task(repository, operation.id, operation.attempt))

    def run_another(self) -> None:
        """Somebody else takes the operation for dead, and works on it at the same time."""
        if self.by == "machine":
            execute(client(self.scene), Task(NAME, OP, 1))
            return
        other = runner(client(self.scene))
        operation = self.operations.get(OP)
        if not operation.is_finished:
            other._begin(self.main, self.operations.change(OP, other._claimed))
        other._pool.shutdown(wait=True)

    def cancel_as_before(self) -> None:
        """What a process of the version before does, which does not look whether the commit is there."""

        def cancelled(now: Operation) -> Operation | None:
            ended = replace(now, cancel=True, state=OperationState.CANCELLED, error=CANCELLED)
            return None if now.is_finished else ended

        self.operations.change(OP, cancelled)

    def cancel(self, schedule: Callable[[str, int], Fault] = lambda *_: None) -> None:
        """Asked to cancel, and note what is said. ``schedule`` sees the requests for that."""
        lake = client(self.scene, schedule, self.asking)
        canceller = Dispatcher(lake.tables, dict.fromkeys(KINDS, self), clock=self.scene.clock)
        try:
            self.told.append(canceller.cancel(self.main, OP).state.value)
        except PreconditionError as refused:
            self.told.append(str(refused))
        except (BusyError, UnavailableError):
            pass  # nothing was said

    @property
    def landed(self) -> bool:
        """Has the branch a commit more?"""
        return client(self.scene).repository(NAME).branch("main").commit_id != self.before

    def check(self) -> None:
        """What the operation says, and what was told of it, is so: now, and when late requests have arrived."""
        ended = self.operations.get(OP)
        self.seen.deliver()
        self.asking.deliver()
        assert ended.is_finished
        assert self.landed == (ended.state is OperationState.COMPLETED), (ended.state, ended.error, self.landed)
        assert self.operations.get(OP) == ended
        self.check_shown()
        repository = client(self.scene).repository(NAME)
        log = [commit.id for commit in repository.log("main", first_parent=True).results]
        if self.landed:
            assert (ended.result, ended.error, ended.error_kind) == (log[0], "", "")
            assert log[1] == self.before, "published once"
        else:
            assert not ended.result
            assert "may" not in ended.error, "it is known by now"
        if "cancelled" in self.told:
            assert ended.state is OperationState.CANCELLED
        for said in self.told:
            assert said == "cancelled" or ended.state.value in said

    def check_shown(self) -> bool:
        """Who asks after the operation is told whether its commit is there. Is it?"""
        head, landed = client(self.scene).repository(NAME).branch("main").commit_id, self.landed
        assert self.operations.commit(self.operations.get(OP)) == (head if landed else "")
        return landed

    def _schedule(self, method: str, number: int) -> Fault:
        if number in self._acts:
            self._acts.pop(number)(self)
        return self._faults(number)


def runner(lake: Lake) -> Runner:
    """Threads of a process, which give no sign of life but the first."""
    return Runner(lake.tables, KINDS, clock=lake.clock, threads=1, heartbeat=3_600.0)


def work_on(lake: Lake, by: By) -> None:
    """Work on the operation's first attempt, to its end or until nothing helps."""
    if by == "machine":
        execute(lake, Task(NAME, OP, 1))
        return
    working = runner(lake)
    with suppress(GravelerError):  # then it did not begin
        working.look(lake.repository(NAME), OP)
    working._pool.shutdown(wait=True)


class _GaveUp(Exception):  # noqa: N818 - what a state machine does
    """A step failed again and again."""


def execute(lake: Lake, task: Task) -> None:
    """An execution of the state machine: steps that fail are taken again, and at last it gives up."""
    machine = Machine(lake, clock=lake.clock, sizes=SMALL)
    try:
        while True:
            planned = _tried(partial(machine.plan, task))
            if planned.state is not Next.PARTS:
                return
            for number in planned.numbers:
                _tried(partial(machine.part, task, number))
            published = _tried(partial(machine.publish, task))
            if published.state is not Next.PLAN:
                return
            task = replace(task, round=published.round)
    except _GaveUp as gave_up:
        with suppress(_GaveUp):  # the sweep finds it
            _tried(partial(machine.fail, task, f"it was retried: {gave_up}"))


def _tried(take: Callable[[], T]) -> T:
    for _ in range(TRIES - 1):
        with suppress(GravelerError):
            return take()
    try:
        return take()
    except GravelerError as error:
        raise _GaveUp(str(error)) from None


@contextmanager
def small_parts_in_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small parts, one after the other: requests come in one order."""
    whole = Steps.__init__

    def small(self: Steps, repository: OpenRepository, operation: Operation, sizes: object = None) -> None:
        whole(self, repository, operation, SMALL)

    with monkeypatch.context() as patch:
        patch.setattr(Steps, "__init__", small)
        patch.setattr(one_process, "AT_ONCE", 1)
        yield
