"""Operations of a repository behind the HTTP API: listed, looked at, waited for, cancelled."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import UNSET, Struct

from graveler.errors import CorruptError, UnavailableError
from graveler.operations.failures import reason
from graveler.operations.store import Operation, OperationState, WorkDone
from graveler.remote.connection import Connection
from graveler.remote.errors import refusal
from graveler.remote.reading import PAGE
from graveler.wire.documents import Pagination
from graveler.wire.errors import Error
from graveler.wire.operations import OperationDocument

_FIRST_LOOK, _LONGEST_LOOK = 0.1, 5.0
"""Seconds between two looks: the first pause, and the longest."""
_CONFLICT: Final = 409


class _Page(Struct, frozen=True):
    pagination: Pagination
    results: list[OperationDocument]
    damaged: list[str] = []


def _ignore(_: Operation) -> None:
    """Tells nobody."""


class RemoteOperations:
    """The operations of one repository, as :class:`graveler.operations.store.Operations` has them. Each verb is one request
    unless it says otherwise."""

    def __init__(self, connection: Connection, repository: str) -> None:
        self._connection = connection
        self._base = ("repositories", repository, "operations")

    def all(self, damaged: Callable[[CorruptError], None] | None = None) -> Iterator[Operation]:
        """All that are worked on, or ended within a week, by ID; ``damaged`` is told of those that cannot be read, which
        otherwise raise. Cost: one request for each thousand."""
        after: str | None = ""
        while after is not None:
            page = self._connection.get(self._base, _Page, {"after": after, "amount": PAGE})
            yield from map(_operation, page.results)
            for error in map(CorruptError, page.damaged):
                if damaged is None:
                    raise error
                damaged(error)
            after = page.pagination.next_after

    def get(self, operation_id: str) -> Operation:
        """One operation. :class:`NotFoundError`."""
        return _operation(self._document(operation_id))

    def progress(self, operation: Operation) -> WorkDone:
        """How much of an operation is done; no request for one that has no parts."""
        if not operation.parts:
            return WorkDone()
        done = self._document(operation.id).progress
        return WorkDone() if done is UNSET else WorkDone(done.parts_done, done.records_done, done.bytes_done)

    def commit(self, operation: Operation) -> str:
        """The ID of its commit if that is there now, or nothing."""
        return self._document(operation.id).commit_id

    def cancel(self, operation_id: str) -> Operation:
        """End an operation: from now on it cannot commit anything. Cost: two requests. :class:`PreconditionError` if it has ended
        otherwise."""
        response = self._connection.call("DELETE", (*self._base, operation_id), passing=(_CONFLICT,))
        if response.status == _CONFLICT:
            raise refusal(_CONFLICT, response.read(Error), f"cancelling operation {operation_id!r}")
        return self.get(operation_id)

    def wait(self, operation_id: str, look: Callable[[Operation], None] = _ignore) -> Operation:
        """The operation when it is completed; ``look`` sees it as it is meanwhile. Ctrl-C leaves it going on. Cost: one request
        for each look. Its error if it fails."""
        pause = _FIRST_LOOK
        while True:
            found = self.get(operation_id)
            look(found)
            if found.state is OperationState.COMPLETED:
                return found
            if found.is_finished:
                raise reason(found) or UnavailableError(f"the server could not do it: {found.error}")
            time.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)

    def _document(self, operation_id: str) -> OperationDocument:
        return self._connection.get((*self._base, operation_id), OperationDocument)


def _operation(document: OperationDocument) -> Operation:
    """As the lake knows it. What was asked for, and who works on it, is not told."""
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
