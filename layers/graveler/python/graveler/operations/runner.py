"""Runner of operations in threads of this process.

While an operation runs, a heartbeat renews its claim, records its progress, and checks for cancellation. If the process dies, the
claim runs out, and the next process that queries the operation, or sweeps, takes it over.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import Any, Final

from msgspec.structs import replace

from graveler.errors import AnswerLostError, GravelerError, UnavailableError
from graveler.lake.clock import Clock
from graveler.lake.repository import OpenRepository
from graveler.operations.failures import kind_of
from graveler.operations.operator import Operator
from graveler.operations.store import COMMITTING, Operation, Operations, OperationState
from graveler.operations.work import CANCELLED, CancelledError, GivenUpError, Report, Work
from graveler.storage.tables.port import Tables
from graveler.values.error_codes import fields_of

LEASE: Final = 20.0
"""Seconds without a sign of life after which a worker counts as dead."""

HEARTBEAT: Final = 1.0
"""Seconds between two signs of life, which is also the maximum age of a reported progress."""

_log = logging.getLogger(__name__)


class Runner(Operator):
    """A runner of operations of the given ``kinds``, ``threads`` at a time; others wait. A worker that gives no sign of life for
    ``lease`` seconds counts as dead; it gives one every ``heartbeat`` seconds."""

    _hands_over = False

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
        super().__init__(tables, kinds, clock=clock)
        self._kinds = kinds
        self._heartbeat = heartbeat
        self._lease = lease
        self._owner = token_hex(8)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="graveler-operation")
        self._reports: dict[str, Report] = {}
        self._lock = Lock()
        self._closing = False

    def look(self, repository: OpenRepository, operation_id: str) -> Operation:
        """Return the present state of an operation. One table read. If its worker has died, this process takes it over: one write
        more. It has died if this process has seen the same sign of life for the claim's length; the call does not wait for that.
        :class:`NotFoundError`."""
        operation = super().look(repository, operation_id)
        if operation.is_finished or not self._is_dead(repository, operation, 0.0):
            return operation
        return self._begin_again(repository, operation)

    def cancel(self, repository: OpenRepository, operation_id: str) -> Operation:
        """See :meth:`Operator.cancel`. An operation running in this process ends at once."""
        operation = super().cancel(repository, operation_id)
        with self._lock:
            report = self._reports.get(operation_id)
        if report is not None:
            report.cancelled.set()
        return operation

    def close(self) -> None:
        """Stop working; running operations are given up, for other processes to take over at once."""
        with self._lock:
            self._closing = True
            reports = list(self._reports.values())
        for report in reports:
            report.interrupted.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _claimed(self, operation: Operation) -> Operation:
        return replace(operation, unseen=1).claimed(self._owner, self._lease)

    def _begin(self, repository: OpenRepository, operation: Operation) -> None:
        self._work(repository, Operations(self._tables, repository.repository.uid), operation)

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
            try:
                report.check()
                result = self._kinds[operation.kind](repository, operation.id, operation.request, report)
            except GivenUpError:
                raise
            except Exception as failure:  # noqa: BLE001 - the last place that can report the end to the user
                end = self._failed(operation, failure)
                ended.set()
                beats.join()
                operations.end(
                    operation.id, lambda now: replace(end(now), objects=report.objects) if self._is_mine(now) else None
                )
            else:
                ended.set()
                beats.join()
                operations.change(operation.id, lambda now: self._completed(now, result, report))
        except GivenUpError:
            ended.set()
            beats.join()
            operations.change(operation.id, lambda now: replace(now, seconds=0.0) if self._is_mine(now) else None)
        except GravelerError as failure:
            _log.warning("operation %s: its outcome could not be stored: %s", operation.id, failure)
        finally:
            ended.set()
            with self._lock:
                self._reports.pop(operation.id, None)

    def _failed(self, operation: Operation, failure: Exception) -> Callable[[Operation], Operation]:
        """Return a function that gives the operation its state after a failure, or after it was cancelled."""
        kind, fields = "", dict[str, Any]()
        if isinstance(failure, CancelledError):
            state, error = OperationState.CANCELLED, CANCELLED
        elif isinstance(failure, GravelerError):
            state, error, kind, fields = OperationState.FAILED, str(failure), kind_of(failure), fields_of(failure)
            if isinstance(failure, AnswerLostError) and operation.kind in COMMITTING:  # known once that is written
                error, kind = f"{error}. A later check showed that nothing was changed", UnavailableError.__name__
        else:
            _log.error("operation %s (%s) failed unexpectedly", operation.id, operation.kind, exc_info=failure)
            error = f"internal error; see operation {operation.id} in the log"
            state = OperationState.FAILED

        def end(now: Operation) -> Operation:
            return replace(
                now, state=state, error=error, error_kind=kind, error_fields=fields, updated=self._clock.now()
            )

        return end

    def _completed(self, now: Operation, result: str, report: Report) -> Operation | None:
        if not self._is_mine(now) and not result:
            return None
        done = now.completed(result, report.changes, self._clock.now())
        return None if done is None else replace(done, objects=report.objects)

    def _beat(self, operations: Operations, operation: Operation, report: Report, ended: Event) -> None:
        def renew(now: Operation) -> Operation | None:
            if not self._is_mine(now):
                return None
            return replace(now, objects=report.objects, updated=self._clock.now())

        while not ended.wait(self._heartbeat):
            try:
                operation = operations.change(operation.id, renew)
            except GravelerError as error:
                _log.warning("operation %s: the sign of life could not be written: %s", operation.id, error)
                continue
            if operation.state is OperationState.CANCELLED or not self._is_mine(operation):
                report.cancelled.set()  # by a user, or another worker took over since this one seemed dead
                return

    def _is_mine(self, operation: Operation) -> bool:
        return operation.owner == self._owner and not operation.is_finished
