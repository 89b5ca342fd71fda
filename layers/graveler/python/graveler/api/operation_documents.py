"""Background operations as JSON."""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, UnsetType

from graveler.api.response import Response, json_response
from graveler.operations.failures import class_of, reason
from graveler.operations.store import Operation, Operations, OperationState
from graveler.operations.work import CancelledError
from graveler.wire.error_documents import UNEXPECTED_CODE, Error
from graveler.wire.operation_documents import OperationDocument, OperationProgress

SAYS_WHERE: Final[Mapping[str, str]] = {"location": "in a 202 response: where to check the operation's status"}


def operation_document(operations: Operations, operation: Operation, commit: str | None = None) -> OperationDocument:
    """Return the operation's current document. One table read if it works in parts; another one for its ``commit``, unless that
    is given or the operation is completed."""
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


def accepted(operations: Operations, repository: str, operation: Operation, base_path: str) -> Response:
    """Return a 202, with the address of the operation below ``base_path``."""
    from urllib.parse import quote  # most requests are answered at once

    where = f"{base_path}api/v1/repositories/{quote(repository, safe='')}/operations/{operation.id}"
    headers = {"location": where, "preference-applied": "respond-async"}
    return json_response(operation_document(operations, operation), 202, headers)


def failure_document(operation: Operation, words: str = "") -> Error:
    """Return why an operation failed or was cancelled, as an API error; ``words`` are those that published clients compare."""
    if operation.state is OperationState.CANCELLED:
        return Error(operation.error, str(reason(operation)), CancelledError.code)
    message, detail = (words, operation.error) if words else (operation.error, "")
    kind = class_of(operation.error_kind)
    return Error(message, detail, UNEXPECTED_CODE if kind is None else kind.code, operation.error_fields)
