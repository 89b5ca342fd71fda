"""Working on operations in threads of this process, for as long as it lives.

While it works, a heartbeat renews the claim, writes down the progress, and sees whether somebody asked to cancel. When the
process dies, the claim runs out, and whoever asks after the operation next takes it over.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import Final, Protocol

from msgspec.structs import replace

from graveler.errors import ForbiddenError, GravelerError, PreconditionError
from graveler.lake.clock import Clock, SystemClock
from graveler.lake.repository import OpenRepository
from graveler.operations.store import Operation, Operations, OperationState
from graveler.storage.tables import Tables

LEASE: Final = 20.0
"""Seconds without a sign of life after which a worker counts as dead."""

HEARTBEAT: Final = 1.0
"""Seconds between two signs of life, which is also how old a progress can be."""

CANCELLED: Final = "Canceled by a user"

_log = logging.getLogger(__name__)


class CancelledError(PreconditionError):
    """Somebody asked to cancel the operation."""


class GivenUpError(Exception):
    """The process is going down; somebody else will take the operation over. For this room only."""


class Report:
    """What the work tells while it goes on, from any of its threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.objects = 0
        self.bytes = 0
        self.cancelled = Event()
        self.interrupted = Event()

    def __call__(self, objects: int, size: int) -> None:
        """So many more objects (and bytes) are done. :class:`CancelledError` if there is no point in going on."""
        with self._lock:
            self.objects += objects
            self.bytes += size
        self.check()

    def check(self) -> None:
        """:class:`CancelledError` if somebody asked to cancel."""
        if self.cancelled.is_set():
            raise CancelledError(CANCELLED)
        if self.interrupted.is_set():
            raise GivenUpError


class Work(Protocol):
    """A kind of operation: does what the request asks for and returns what came of it, an ID. It may be run again from the
    beginning, with the same ``operation_id``, and must then have the effect of one (promise C4)."""

    def __call__(self, repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str: ...


class Runner:
    """Runs operations of the given ``kinds``, ``threads`` at a time; others wait. ``tables`` is the lake's. A worker
    that gives no sign of life for ``lease`` seconds counts as dead; it gives one every ``heartbeat`` seconds. Safe to share
    between threads."""

    def __init__(
        self,
        tables: Tables,
        kinds: Mapping[str, Work],
        *,
        threads: int = 4,
        clock: Clock | None = None,
        heartbeat: float = HEARTBEAT,
        lease: float = LEASE,
    ) -> None:
        self._kinds = kinds
        self._tables = tables
        self._clock = clock or SystemClock()
        self._heartbeat = heartbeat
        self._lease = lease
        self._owner = token_hex(8)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="graveler-operation")
        self._reports: dict[str, Report] = {}
        self._lock = Lock()
        self._closing = False

    def start(self, repository: OpenRepository, kind: str, request: bytes, operation_id: str = "") -> Operation:
        """Write an operation down and begin to work on it in the background. With an ID of an operation that there is, nothing
        new begins, and that one is the answer. One table write, one read more if it is there."""
        self._expect(kind)
        now = self._clock.now()
        operation = Operation(
            operation_id or token_hex(16),
            kind,
            request,
            OperationState.RUNNING,
            created=now,
            updated=now,
            owner=self._owner,
            lease=now + self._lease,
            attempt=1,
        )
        operations = self._operations(repository)
        if not operations.add(operation):
            return self.look(repository, operation.id)
        self._work(repository, operations, operation)
        return operation

    def look(self, repository: OpenRepository, operation_id: str) -> Operation:
        """How far an operation is. One table read. If its worker has died, this process takes it over: one write more.
        :class:`NotFoundError`."""
        operations = self._operations(repository)
        operation = operations.get(operation_id)
        if operation.is_finished or operation.lease > self._clock.now() or operation.kind not in self._kinds:
            return operation

        def adopt(now: Operation) -> Operation | None:
            if now.is_finished or now.lease > self._clock.now():
                return None
            return replace(
                now, owner=self._owner, lease=self._clock.now() + self._lease, attempt=now.attempt + 1, objects=0
            )

        adopted = operations.change(operation_id, adopt)
        if adopted.owner == self._owner and adopted.version > operation.version:
            self._work(repository, operations, adopted)
        return adopted

    def cancel(self, repository: OpenRepository, operation_id: str) -> Operation:
        """Ask an operation to end; at the next sign of life it does. What it built is left as garbage, and nothing was changed.
        Cancelling twice is once. One table read and one write. :class:`PreconditionError` if it has ended otherwise."""
        now = self._clock.now()
        operation = self._operations(repository).change(
            operation_id,
            lambda operation: (
                None
                if operation.is_finished
                else replace(operation, cancel=True, state=OperationState.CANCELLED, error=CANCELLED, updated=now)
            ),
        )
        if operation.state is not OperationState.CANCELLED:
            raise PreconditionError(f"operation {operation_id!r} has ended already: it {_ENDED[operation.state]}")
        with self._lock:
            report = self._reports.get(operation_id)
        if report is not None:
            report.cancelled.set()
        return operation

    def close(self) -> None:
        """Stop working; operations under way are given up, for others to take over at once."""
        with self._lock:
            self._closing = True
            reports = list(self._reports.values())
        for report in reports:
            report.interrupted.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _expect(self, kind: str) -> None:
        """:class:`ForbiddenError` for a kind that nobody here would work on."""
        if kind not in self._kinds:
            raise ForbiddenError(
                f"operations of kind {kind!r} are not run by this deployment; run it where the lake is open"
            )

    def _operations(self, repository: OpenRepository) -> Operations:
        return Operations(self._tables, repository.repository.uid)

    def _work(self, repository: OpenRepository, operations: Operations, operation: Operation) -> None:
        report = Report()
        with self._lock:
            if self._closing:
                return  # the lease runs out
            self._reports[operation.id] = report
        self._pool.submit(self._run, repository, operations, operation, report)

    def _run(self, repository: OpenRepository, operations: Operations, operation: Operation, report: Report) -> None:
        ended = Event()
        beats = Thread(
            target=self._beat, args=(operations, operation, report, ended), name="graveler-heartbeat", daemon=True
        )
        beats.start()
        try:
            result, error, state = "", "", OperationState.COMPLETED
            try:
                report.check()
                result = self._kinds[operation.kind](repository, operation.id, operation.request, report)
            except CancelledError:
                error, state = CANCELLED, OperationState.CANCELLED
            except GravelerError as failure:
                error, state = str(failure), OperationState.FAILED
            except GivenUpError:
                raise
            except Exception:  # noqa: BLE001 - the last one who can tell the user that it ended
                _log.exception("operation %s (%s) broke down", operation.id, operation.kind)
                error, state = f"internal error; the log has it under operation {operation.id}", OperationState.FAILED
            ended.set()
            beats.join()
            self._finish(operations, operation, report, state, result, error)
        except GivenUpError:
            ended.set()
            beats.join()
            operations.change(operation.id, lambda now: replace(now, lease=0.0) if self._is_mine(now) else None)
        except GravelerError as failure:
            _log.warning("operation %s: how it ended could not be written down: %s", operation.id, failure)
        finally:
            ended.set()
            with self._lock:
                self._reports.pop(operation.id, None)

    def _finish(
        self,
        operations: Operations,
        operation: Operation,
        report: Report,
        state: OperationState,
        result: str,
        error: str,
    ) -> None:
        def finish(now: Operation) -> Operation | None:
            if not self._is_mine(now) and not result:
                return None
            if now.state is OperationState.CANCELLED and not result:
                return None
            # What was published is published, also if somebody asked to cancel at the very end.
            return replace(
                now, state=state, result=result, error=error, objects=report.objects, updated=self._clock.now()
            )

        operations.change(operation.id, finish)

    def _beat(self, operations: Operations, operation: Operation, report: Report, ended: Event) -> None:
        def renew(now: Operation) -> Operation | None:
            if not self._is_mine(now):
                return None
            time = self._clock.now()
            return replace(now, lease=time + self._lease, objects=report.objects, updated=time)

        while not ended.wait(self._heartbeat):
            try:
                operation = operations.change(operation.id, renew)
            except GravelerError as error:
                _log.warning("operation %s: no sign of life could be given: %s", operation.id, error)
                continue
            if operation.state is OperationState.CANCELLED or not self._is_mine(operation):
                report.cancelled.set()  # by a user, or another worker took over since this one seemed dead
                return

    def _is_mine(self, operation: Operation) -> bool:
        return operation.owner == self._owner and not operation.is_finished


_ENDED: Final = {OperationState.COMPLETED: "is completed", OperationState.FAILED: "failed"}
