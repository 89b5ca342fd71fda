"""The steps of operations in parts for a stateless worker: a state machine whose steps are functions.

::

    plan ── parts ──> part, part, part … ──> publish ── commit ──> done
      ^                                         │
      └────────────── another round ────────────┘        any permanent failure: fail

Each step gets repository, operation, attempt and round, and returns a small value for the next one; its ``state`` says which that
is. Everything else is in the object store and the table. A step may run twice, also concurrently. A permanent failure (such as a
conflict) is noted in the operation's item, and the step returns ``ended``; a failure that may pass is raised, for the state
machine to retry: :class:`graveler.errors.BusyError`, :class:`graveler.errors.UnavailableError`, and any unexpected error. When it
gives up, it calls :meth:`Machine.fail`.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import GravelerError, NotFoundError, RepositoryNotFoundError, UnavailableError, may_pass
from graveler.lake.clock import Clock, SystemClock
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.operations.claims import PartClaims
from graveler.operations.failures import kind_of
from graveler.operations.parts.division import Sizes
from graveler.operations.steps import Steps, give_up
from graveler.operations.store import Operation, Operations, OperationState, PartFailure
from graveler.operations.work import CANCELLED, CancelledError, Report
from graveler.requests.importing import Imported
from graveler.values.error_codes import fields_of

LEASE: Final = 300.0
"""Seconds after a sign of life in which an operation counts as worked on: longer than the state machine's pause before it retries
a step that broke down."""

RENEWAL: Final = 60.0
"""Seconds between two signs of life, while steps of an operation are worked on."""

T = TypeVar("T")

_REMEMBERED: Final = 100

_log = logging.getLogger(__name__)


class Next(str, Enum):
    """The step that comes next."""

    PARTS = "parts"
    PUBLISH = "publish"
    PLAN = "plan"
    ENDED = "ended"


class Task(Struct, frozen=True):
    """The operation and its position, passed between steps. ``attempt`` is that of the operation's item when this execution was
    started: an older execution ends at its next step."""

    repository: str
    operation: str
    attempt: int
    round: int = 0


class Planned(Struct, frozen=True):
    """The result of *plan*: ``state`` is ``parts``, with the ``numbers`` of the unfinished parts of this ``round``; or
    ``ended``."""

    state: Next
    repository: str
    operation: str
    attempt: int
    round: int = 0
    numbers: tuple[int, ...] = ()


class PartDone(Struct, frozen=True):
    """The result of a part: ``state`` is ``publish``, or ``ended`` (then *publish* returns that too)."""

    state: Next
    records: int = 0


class Published(Struct, frozen=True):
    """The result of *publish*: ``state`` is ``ended``, or ``plan``, for another ``round``."""

    state: Next
    repository: str
    operation: str
    attempt: int
    round: int = 0


class Machine:
    """A runner of single steps on the repositories of a lake. ``sizes`` sets the size of parts."""

    def __init__(self, lake: Lake, *, clock: Clock | None = None, sizes: Sizes | None = None) -> None:
        self._lake = lake
        self._clock = clock or SystemClock()
        self._sizes = sizes
        self._renewed = _Renewals(self._clock)
        self._claims = PartClaims(self._clock)

    def plan(self, task: Task) -> Planned:
        """Cut the work of a round. Cost: as :meth:`Steps.plan`, two table reads and one write."""

        def plan(repository: OpenRepository, operation: Operation) -> Planned:
            number = max(task.round, operation.round)  # the round that an earlier attempt reached
            planned = Steps(repository, operation, self._sizes).plan(number)
            return replace(ended, state=Next.PARTS, round=number, numbers=planned.left)

        ended = Planned(Next.ENDED, task.repository, task.operation, task.attempt, task.round)
        return self._take(task, plan) or ended

    def part(self, task: Task, number: int) -> PartDone:
        """Work on a part. :class:`BusyError` while another process does. Cost: as :meth:`Steps.run_part`, two table reads, one
        write a minute for all workers on the operation, and as :meth:`PartClaims.working_on`."""

        def run(repository: OpenRepository, operation: Operation) -> PartDone:
            operations = Operations(self._lake.tables, repository.repository.uid)
            report = Watch(operations, operation, self._clock)
            with self._claims.working_on(operations, replace(operation, round=task.round), number, report.check):
                done = Steps(repository, operation, self._sizes).run_part(number, task.round, report)
            return PartDone(Next.PUBLISH, done.records)

        return self._take(task, run) or PartDone(Next.ENDED)

    def publish(self, task: Task) -> Published:
        """Join the parts and publish. Cost: as :meth:`Steps.publish`, three table reads and two writes."""

        def publish(
            repository: OpenRepository, operation: Operation
        ) -> tuple[OpenRepository, Operation, Commit | None]:
            return repository, operation, Steps(repository, operation, self._sizes).publish(task.round)

        ended = Published(Next.ENDED, task.repository, task.operation, task.attempt, task.round)
        published = self._take(task, publish)
        if published is None:
            return ended
        repository, operation, commit = published
        if commit is None:
            return replace(ended, state=Next.PLAN, round=task.round + 1)
        self._complete(repository, operation, commit)
        return ended

    def note(self, task: Task, failure: PartFailure) -> None:
        """Note the permanent failure of a part, for :meth:`noted`: if parts have executions of their own, it is reported nowhere
        else. Does nothing if the operation has ended, or another attempt is at work. Cost: two table reads and two writes."""
        opened = self._open(task)
        if opened is not None:
            repository, operation = opened
            _log.error(
                "operation %s, part %d failed: %s: %s", operation.id, failure.number, failure.error, failure.cause
            )
            Operations(self._lake.tables, repository.repository.uid).note_failure(operation, failure)

    def noted(self, task: Task) -> PartFailure | None:
        """Return the noted failure of a part of this attempt, or None. Cost: three table reads and a write."""
        opened = self._open(task)
        if opened is None:
            return None
        repository, operation = opened
        return Operations(self._lake.tables, repository.repository.uid).failure(operation)

    def fail(self, task: Task, reason: str) -> None:
        """Note that the state machine gave up, ``reason`` in words for a user. If a try has published, the operation is completed
        instead, and otherwise none will: :meth:`Operations.end`. Does nothing if the operation has ended, or another attempt is
        at work. Cost: three table reads and one transaction; for a commit some more."""
        opened = self._open(task)
        if opened is not None:
            repository, operation = opened
            _log.error("operation %s (%s) was abandoned: %s", operation.id, operation.kind, reason)
            self._fail(repository, operation, UnavailableError(reason))
            self._let_go(repository, operation)

    def _open(self, task: Task) -> tuple[OpenRepository, Operation] | None:
        """Return the operation, claimed for a while; None if it has ended, is gone with its repository, or has passed to another
        execution."""
        try:
            repository = self._lake.repository(task.repository)
        except RepositoryNotFoundError:
            return None
        operations = Operations(self._lake.tables, repository.repository.uid)

        try:
            operation = self._renew(operations, task)
        except NotFoundError:
            return None
        if operation.is_finished or operation.attempt != task.attempt:
            return None
        return repository, operation

    def _renew(self, operations: Operations, task: Task) -> Operation:
        """Claim the operation for a while, or give a sign of life if this process has seen none for some time. One table read,
        now and then one write."""
        owner = f"machine-{task.attempt}"

        def claim(now: Operation) -> Operation | None:
            if now.is_finished or now.attempt != task.attempt:
                return None
            if now.owner == owner and now.seconds == LEASE and not self._renewed.is_due(now):
                return None
            return replace(now.claimed(owner, LEASE), updated=self._clock.now())

        renewed = operations.change(task.operation, claim)
        self._renewed.saw(renewed)
        return renewed

    def _take(self, task: Task, step: Callable[[OpenRepository, Operation], T]) -> T | None:
        """Take a step, giving signs of life, and return its result; None if the operation has ended, maybe by this step."""
        opened = self._open(task)
        if opened is None:
            return None
        repository, operation = opened
        operations = Operations(self._lake.tables, repository.repository.uid)

        def renew() -> None:
            try:
                self._renew(operations, task)
            except GravelerError as error:
                _log.warning("operation %s: the sign of life could not be written: %s", task.operation, error)

        with self._clock.repeating(RENEWAL, renew):
            try:
                return step(repository, operation)
            except GravelerError as error:
                self._settle(repository, operation, error)
                return None

    def _settle(self, repository: OpenRepository, operation: Operation, error: GravelerError) -> None:
        """Note a permanent error; raise one that may pass."""
        if may_pass(type(error)):
            raise error
        if not isinstance(error, CancelledError):
            self._fail(repository, operation, error)
        self._let_go(repository, operation)

    def _let_go(self, repository: OpenRepository, operation: Operation) -> None:
        try:
            give_up(repository, operation)
        except GravelerError as error:  # it runs out by itself
            _log.warning("operation %s: the changes that it held could not be released: %s", operation.id, error)

    def _complete(self, repository: OpenRepository, operation: Operation, commit: Commit) -> None:
        now = self._clock.now()
        changes = commit.changes if isinstance(commit, Imported) else None
        Operations(self._lake.tables, repository.repository.uid).change(
            operation.id, lambda current: current.completed(commit.id, changes, now)
        )

    def _fail(self, repository: OpenRepository, operation: Operation, error: GravelerError) -> None:
        now = self._clock.now()

        def fail(current: Operation) -> Operation | None:
            if current.is_finished:
                return None
            return replace(
                current,
                state=OperationState.FAILED,
                error=str(error),
                error_kind=kind_of(error),
                error_fields=fields_of(error),
                updated=now,
            )

        Operations(self._lake.tables, repository.repository.uid).end(operation.id, fail)


class _Renewals:
    """The times when this process last saw operations change: any worker on an operation gives a sign of life for all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def saw(self, operation: Operation) -> None:
        """Note that the operation was read, or written, just now."""
        with self._lock:
            sighting = self._seen.pop(operation.id, None)
            if sighting is None or sighting[0] != operation.version:
                sighting = (operation.version, self._clock.monotonic())
            self._seen[operation.id] = sighting
            while len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)

    def is_due(self, operation: Operation) -> bool:
        """Return whether this process has seen no sign of life in the last :data:`RENEWAL` seconds."""
        with self._lock:
            sighting = self._seen.get(operation.id)
        if sighting is None:
            return True
        return sighting[0] == operation.version and self._clock.monotonic() - sighting[1] >= RENEWAL


class Watch(Report):
    """A report that checks for cancellation every few seconds while a part is worked on."""

    def __init__(self, operations: Operations, operation: Operation, clock: Clock, every: float = 5.0) -> None:
        super().__init__()
        self._operations = operations
        self._operation = operation
        self._clock = clock
        self._every = every
        self._next = clock.monotonic() + every

    def check(self) -> None:
        """Raise :class:`CancelledError` if the operation was cancelled. A table read every few seconds."""
        now = self._clock.monotonic()
        if now >= self._next:
            self._next = now + self._every
            if self._operations.get(self._operation.id).state is OperationState.CANCELLED:
                raise CancelledError(CANCELLED)
