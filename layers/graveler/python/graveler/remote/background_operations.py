"""Operations of a repository behind the HTTP API: list, inspect, wait for, cancel."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import UNSET

from graveler.errors import CorruptError, UnavailableError
from graveler.operations.failures import reason
from graveler.operations.store import Operation, OperationState, WorkDone
from graveler.remote.connection import Connection
from graveler.remote.error_responses import refusal
from graveler.wire.error_documents import Error
from graveler.wire.operation_documents import OperationDocument, OperationList

_FIRST_LOOK, _LONGEST_LOOK = 0.1, 5.0
"""Seconds between two polls: the first pause, and the longest."""
_CONFLICT: Final = 409


def _ignore(_: Operation) -> None:
    """Do nothing."""


class RemoteOperations:
    """The operations of one repository, with the verbs of :class:`graveler.operations.store.Operations`. Each is one request
    unless stated otherwise."""

    def __init__(self, connection: Connection, repository: str) -> None:
        self._connection = connection
        self._base = ("repositories", repository, "operations")

    def all(self, damaged: Callable[[CorruptError], None] | None = None) -> Iterator[Operation]:
        """Yield all operations that are running or ended within a week, by ID; ``damaged`` receives the errors of unreadable
        ones, which otherwise are raised. Cost: one request per thousand."""
        for page in self._connection.pages(self._base, OperationList):
            yield from map(_operation, page.results)
            for error in map(CorruptError, page.damaged):
                if damaged is None:
                    raise error
                damaged(error)

    def get(self, operation_id: str) -> Operation:
        """Return one operation. :class:`NotFoundError`."""
        return _operation(self._document(operation_id))

    def progress(self, operation: Operation) -> WorkDone:
        """Return how much of an operation is done; no request for one without parts."""
        if not operation.parts:
            return WorkDone()
        done = self._document(operation.id).progress
        return WorkDone() if done is UNSET else WorkDone(done.parts_done, done.records_done, done.bytes_done)

    def commit(self, operation: Operation) -> str:
        """Return the ID of its commit if that exists by now, or an empty string."""
        return self._document(operation.id).commit_id

    def cancel(self, operation_id: str) -> Operation:
        """Cancel an operation: from now on it cannot commit anything. Cost: two requests. :class:`PreconditionError` if it has
        already ended otherwise."""
        response = self._connection.call("DELETE", (*self._base, operation_id), passing=(_CONFLICT,))
        if response.status == _CONFLICT:
            raise refusal(_CONFLICT, response.read(Error), f"cancelling operation {operation_id!r}")
        return self.get(operation_id)

    def wait(self, operation_id: str, look: Callable[[Operation], None] = _ignore) -> Operation:
        """Wait for an operation and return it once completed; ``look`` receives its state at each poll. After Ctrl-C it
        continues. Cost: one request per poll. Raises the operation's error if it fails."""
        pause = _FIRST_LOOK
        while True:
            operation = self.get(operation_id)
            look(operation)
            if operation.state is OperationState.COMPLETED:
                return operation
            if operation.is_finished:
                raise reason(operation) or UnavailableError(f"the server failed: {operation.error}")
            time.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)

    def _document(self, operation_id: str) -> OperationDocument:
        return self._connection.get((*self._base, operation_id), OperationDocument)


def _operation(document: OperationDocument) -> Operation:
    """Return it as the lake's own value, without the request and the worker, which the API does not expose."""
    planned = document.progress
    return Operation(
        document.id,
        document.kind,
        b"",
        document.state,
        document.created,
        document.updated,
        attempt=document.attempt,
        objects=document.objects,
        result=document.result,
        error=document.error,
        error_kind=document.error_kind,
        branch=document.branch,
        round=0 if planned is UNSET else planned.round,
        parts=0 if planned is UNSET else planned.parts,
        records=0 if planned is UNSET else planned.records,
        bytes=0 if planned is UNSET else planned.bytes,
        changes=None if document.changes is UNSET else document.changes,
    )
