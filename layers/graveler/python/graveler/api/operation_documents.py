"""Background operations as JSON."""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from graveler.api.call import Call
from graveler.api.response import Response, json_response
from graveler.lake.repository import OpenRepository
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests.importing import ImportChanges

SAYS_WHERE: Final[Mapping[str, str]] = {"location": "of an answer 202: where to ask after the operation"}


class OperationProgress(Struct, frozen=True):
    """How far an operation in parts is: what was planned, and what of it is done. ``bytes`` are of ranges, not of objects."""

    parts: int
    parts_done: int
    records: int
    records_done: int
    bytes: int
    bytes_done: int
    round: int


class OperationDocument(Struct, frozen=True):
    """A background operation. Times are Unix seconds; ``attempt`` counts how often word was sent to begin; ``result`` is what it
    made (of a merge, commit or import the commit; of a dump its ID), ``error`` why it ended, and ``error_kind`` what kind of
    error that was (``ConflictError``, ``EmptySourceError``, …). ``changes`` are those of an import that is completed; a dry run
    has these, and no ``result``. ``commit_id`` is the commit of a merge, commit or import if it is there now, else empty,
    whatever the state; of one that failed or was cancelled, the commit of somebody else that took its changes."""

    id: str
    kind: str
    state: OperationState
    created: int
    updated: int
    objects: int
    commit_id: str
    result: str
    error: str
    branch: str = ""
    attempt: int = 0
    error_kind: str = ""
    progress: OperationProgress | UnsetType = UNSET
    changes: ImportChanges | UnsetType = UNSET


def operations_of(call: Call, repository: OpenRepository) -> Operations:
    """The operations of a repository. No request."""
    return Operations(call.lake.tables, repository.repository.uid)


def operation_document(operations: Operations, operation: Operation, commit: str | None = None) -> OperationDocument:
    """The operation as it is. One table read if it works in parts; another one for its ``commit``, unless that is given or the
    operation is completed."""
    progress: OperationProgress | UnsetType = UNSET
    if operation.parts:
        done = operations.progress(operation)
        progress = OperationProgress(
            operation.parts,
            done.parts,
            operation.records,
            done.records,
            operation.bytes,
            done.bytes,
            operation.round,
        )
    return OperationDocument(
        operation.id,
        operation.kind,
        operation.state,
        int(operation.created),
        int(operation.updated),
        operation.objects,
        operations.commit(operation) if commit is None else commit,
        operation.result,
        operation.error,
        operation.branch,
        operation.attempt,
        operation.error_kind,
        progress,
        operation.changes or UNSET,
    )


def accepted(operations: Operations, repository: str, operation: Operation) -> Response:
    """202: it is worked on, and where to ask after it."""
    from urllib.parse import quote  # most requests are answered at once

    where = f"/api/v1/repositories/{quote(repository, safe='')}/operations/{operation.id}"
    headers = {"location": where, "preference-applied": "respond-async"}
    return json_response(operation_document(operations, operation), 202, headers)
