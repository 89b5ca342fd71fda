"""Why an operation ended, as the error that its verb would have raised."""

from collections.abc import Mapping
from typing import Any

from graveler import errors
from graveler.errors import GravelerError
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import CancelledError
from graveler.wire.errors import UNEXPECTED_CODE, Error, make


def reason(operation: Operation) -> GravelerError | None:
    """The error by which an operation failed or was cancelled; None for what nobody expected, which ``error`` tells of."""
    if operation.state is OperationState.CANCELLED:
        return CancelledError(f"operation {operation.id} was cancelled; {operation.left}")
    return of_kind(operation.error_kind, operation.error, operation.error_fields)


def document(operation: Operation, words: str = "") -> Error:
    """Why an operation failed or was cancelled, as the API says it; ``words`` are those that published clients compare."""
    if operation.state is OperationState.CANCELLED:
        return Error(operation.error, str(reason(operation)), CancelledError.code)
    message, detail = (words, operation.error) if words else (operation.error, "")
    kind = _class(operation.error_kind)
    return Error(message, detail, UNEXPECTED_CODE if kind is None else kind.code, operation.error_fields)


def kind_of(error: GravelerError) -> str:
    """The name that :func:`of_kind` knows it by: that of its class, or of the nearest one above that is public."""
    names = (kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) == kind)
    return next(names)


def of_kind(name: str, message: str, fields: Mapping[str, Any]) -> GravelerError | None:
    """The error whose class has this name, with these fields, saying ``message``; None if it is none of ours. Fields that are
    not there, as in what earlier versions wrote, are blank."""
    kind = _class(name)
    return None if kind is None else make(kind, fields, message)


def _class(name: str) -> type[GravelerError] | None:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, GravelerError) else None
