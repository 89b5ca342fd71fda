"""Operations from the client's point of view: start, join, query and cancel them, and find those whose workers died."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from secrets import token_hex
from typing import ClassVar, Final

from msgspec.structs import replace

from graveler.errors import CorruptError, ForbiddenError, InvalidError, PreconditionError, UnavailableError
from graveler.lake.clock import Clock, SystemClock
from graveler.lake.leases import LeaseWatch
from graveler.lake.repository import OpenRepository
from graveler.operations.store import COMMITTING, Operation, Operations, OperationState
from graveler.operations.work import CANCELLED
from graveler.storage.tables.port import Tables

MAX_ATTEMPTS: Final = 5
"""Number of times that workers begin an operation. If the last of them dies, too, the operation fails."""

SILENT: Final = 60.0
"""Seconds without a sign, after a claim ran out or before the first one, from which on a sweep considers an operation dead."""

LONGEST_WAIT: Final = 12 * 3600.0
"""Seconds for which an attempt may wait for a worker, for example in a queue behind others."""

_UNSEEN: Final = 3
"""Number of consecutive attempts that no worker took up, after which only the message of the last one is sent again: a further
attempt would take the place of the one that waits in a queue."""

MAX_REQUEST_BYTES: Final = 300_000
"""Maximum size in bytes of an operation's request, as its kind encodes it: it is stored in one item of the table."""

_log = logging.getLogger(__name__)


class Operator(ABC):
    """Starts operations of the given ``kinds``. ``tables`` is the lake's. Safe to share between threads."""

    _hands_over: ClassVar[bool] = True
    """True if other workers do the work, which begin later."""

    def __init__(self, tables: Tables, kinds: Collection[str], *, clock: Clock | None = None) -> None:
        self._tables = tables
        self._known = frozenset(kinds)
        self._clock = clock or SystemClock()
        self._leases = LeaseWatch(self._clock)

    def start(
        self, repository: OpenRepository, kind: str, request: bytes, operation_id: str = "", *, branch: str = ""
    ) -> Operation:
        """Record an operation and make a worker begin. If an operation with this ID exists, return it; nothing new begins. One
        table write, one read more if it exists. ``branch`` is the branch that it changes. :class:`ForbiddenError` for a kind that
        this deployment does not run."""
        operation = self._new(kind, request, operation_id, branch=branch)
        if not Operations(self._tables, repository.repository.uid).add(operation):
            return self._joined(repository, self.look(repository, operation.id))
        self._begin(repository, operation)
        return operation

    def ask(
        self,
        repository: OpenRepository,
        kind: str,
        request: bytes,
        request_name: str,
        *,
        joins: Callable[[Operation], bool],
        branch: str = "",
        request_id: str = "",
    ) -> Operation:
        """Start an operation as :meth:`start`, unless one with the same ``request_name`` exists and ``joins`` accepts it: then
        return that one. ``request_id`` is the client's ID of the request (promise C4). Two table reads at most and one
        transaction."""
        operation = self._new(kind, request, "", branch=branch, request_name=request_name, request_id=request_id)
        current = Operations(self._tables, repository.repository.uid).begin(operation, joins)
        if current.id != operation.id:
            return self._joined(repository, current)
        self._begin(repository, operation)
        return operation

    def of_request(self, repository: OpenRepository, request_name: str) -> Operation | None:
        """Return the newest operation with this ``request_name``, or None. One table read, one more if it
        exists."""
        return Operations(self._tables, repository.repository.uid).of_request(request_name)

    def look(self, repository: OpenRepository, operation_id: str) -> Operation:
        """Return the present state of an operation. One table read. :class:`NotFoundError`."""
        return Operations(self._tables, repository.repository.uid).get(operation_id)

    def cancel(self, repository: OpenRepository, operation_id: str) -> Operation:
        """End an operation; its worker notices at the next sign of life. From now on its commit cannot be published; what it
        built is left as garbage. If the commit exists already, the operation is completed. Cancelling twice has the effect of
        once. Two table reads and one transaction. :class:`PreconditionError` if it has ended otherwise."""
        now = self._clock.now()

        def cancelled(current: Operation) -> Operation | None:
            if current.is_finished:
                return None
            return replace(current, cancel=True, state=OperationState.CANCELLED, error=CANCELLED, updated=now)

        operation = Operations(self._tables, repository.repository.uid).end(operation_id, cancelled)
        if operation.state is not OperationState.CANCELLED:
            result = f", with commit {operation.result}" if operation.result and operation.kind in COMMITTING else ""
            raise PreconditionError(
                f"operation {operation_id!r} has already ended: it {_ENDED[operation.state]}{result}"
            )
        return operation

    def sweep(self, repository: OpenRepository, only: Collection[str] | None = None) -> int:
        """Find operations whose workers died, and return their number. Operations that have begun often are marked as failed;
        others begin again, as do those that no worker has taken up. A worker has died if an earlier sweep by this process found
        the same sign of life, the claim's length and a minute ago. ``only`` limits it to these IDs. An operation that cannot be
        begun, or read, is left to the next sweep, and does not stop the others. One table read for each thousand operations; two
        and two writes for each dead one."""
        dead = 0
        for operation in Operations(self._tables, repository.repository.uid).all(self._damaged):
            if operation.is_finished or (only is not None and operation.id not in only):
                continue
            if not self._is_dead(repository, operation, SILENT):
                continue
            dead += 1
            try:
                self._revive(repository, operation)
            except Exception:  # noqa: BLE001 - of another service, or of one operation
                _log.exception("operation %s could not be restarted; the next sweep will try again", operation.id)
        return dead

    def _revive(self, repository: OpenRepository, operation: Operation) -> None:
        """Restart or give up a dead operation. Only a worker that has begun can have died: a message that was sent does not
        count."""
        if operation.is_waited_for and operation.unseen >= _UNSEEN and self._hands_over:
            if self._clock.now() - operation.updated < LONGEST_WAIT:
                self._begin(repository, operation)  # a message for the same attempt, since the first may have been lost
            else:
                self._give_up(repository, operation)
        elif operation.begun >= MAX_ATTEMPTS and not operation.is_waited_for:
            self._give_up(repository, operation)
        else:
            self._begin_again(repository, operation, SILENT)

    @staticmethod
    def _damaged(error: CorruptError) -> None:
        _log.error("an operation cannot be swept: %s", error)

    def running(self, repository: OpenRepository) -> dict[str, int]:
        """Return the operations that have not ended and seem to have a worker, as far as this process knows, with their versions.
        One table read for each thousand."""
        all_of_them = Operations(self._tables, repository.repository.uid).all(self._damaged)
        alive = (operation for operation in all_of_them if not operation.is_finished and operation.kind in self._known)
        return {
            operation.id: operation.version for operation in alive if not self._is_dead(repository, operation, SILENT)
        }

    @abstractmethod
    def close(self) -> None:
        """Stop working on operations, if this process does."""

    @abstractmethod
    def _claimed(self, operation: Operation) -> Operation:
        """Return the operation, claimed by the worker that is to begin."""

    @abstractmethod
    def _begin(self, repository: OpenRepository, operation: Operation) -> None:
        """Make a worker begin."""

    def _joined(self, repository: OpenRepository, operation: Operation) -> Operation:
        """Handle a repeated request for an existing operation."""
        del repository
        return operation

    def _new(
        self, kind: str, request: bytes, operation_id: str, *, branch: str, request_name: str = "", request_id: str = ""
    ) -> Operation:
        if kind not in self._known:
            raise ForbiddenError(
                f"operations of kind {kind!r} are not run by this deployment; run it on the lake itself"
            )
        if len(request) > MAX_REQUEST_BYTES:
            raise InvalidError(
                f"the request has {len(request):,} bytes, but an operation can store at most {MAX_REQUEST_BYTES:,}; "
                "split it into several requests"
            )
        now = self._clock.now()
        return self._claimed(
            Operation(
                operation_id or token_hex(16),
                kind,
                request,
                OperationState.RUNNING,
                created=now,
                updated=now,
                attempt=1,
                branch=branch,
                asked=request_name,
                request_id=request_id,
            )
        )

    def _is_dead(self, repository: OpenRepository, operation: Operation, silent: float) -> bool:
        """Return whether the operation has given no sign of life for so long, by this process's clock, as it was watched here."""
        held = Operations(self._tables, repository.repository.uid).is_held(operation, self._leases, silent)
        return operation.kind in self._known and not held

    def _begin_again(self, repository: OpenRepository, operation: Operation, silent: float = 0.0) -> Operation:
        """Make a new worker begin a dead operation. If several callers find it, one succeeds."""

        def adopt(now: Operation) -> Operation | None:
            if now.is_finished or not self._is_dead(repository, now, silent):
                return None
            return self._claimed(replace(now, attempt=now.attempt + 1, objects=0, updated=self._clock.now()))

        adopted = Operations(self._tables, repository.repository.uid).change(operation.id, adopt)
        self._is_dead(repository, adopted, silent)  # watched from now on
        if adopted.attempt == operation.attempt + 1 and adopted.version == operation.version + 1:
            self._begin(repository, adopted)
        return adopted

    def _give_up(self, repository: OpenRepository, operation: Operation) -> None:
        reason = f"its workers died {operation.begun} times; the logs show why"
        if operation.is_waited_for:
            reason = f"no worker has started it in {LONGEST_WAIT / 3600:.0f} hours; check the workers"
        reason = f"{reason}; {operation.left}. Start it again"

        def fail(now: Operation) -> Operation | None:
            if now.is_finished or now.attempt != operation.attempt or not self._is_dead(repository, now, SILENT):
                return None
            kind = UnavailableError.__name__
            return replace(now, state=OperationState.FAILED, error=reason, error_kind=kind, updated=self._clock.now())

        Operations(self._tables, repository.repository.uid).end(operation.id, fail)


_ENDED: Final = {OperationState.COMPLETED: "is completed", OperationState.FAILED: "failed"}
