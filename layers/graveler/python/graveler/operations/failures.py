"""Why an operation ended, as the error that its verb would have raised."""

from collections.abc import Mapping
from typing import Any

from graveler import errors
from graveler.error_codes import make
from graveler.errors import GravelerError
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import CancelledError


def reason(operation: Operation) -> GravelerError | None:
    """The error by which an operation failed or was cancelled; None for what nobody expected, which ``error`` tells of."""
    if operation.state is OperationState.CANCELLED:
        return CancelledError(f"operation {operation.id} was cancelled; {operation.left}")
    return of_kind(operation.error_kind, operation.error, operation.error_fields)


def kind_of(error: GravelerError) -> str:
    """The name that :func:`of_kind` knows it by: that of its class, or of the nearest one above that is public."""
    names = (kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) == kind)
    return next(names)


def of_kind(name: str, message: str, fields: Mapping[str, Any]) -> GravelerError | None:
    """The error whose class has this name, with these fields, saying ``message``; None if it is none of ours. Fields that are
    not there, as in what earlier versions wrote, are blank."""
    kind = class_of(name)
    return None if kind is None else make(kind, fields, message)


def class_of(name: str) -> type[GravelerError] | None:
    """The class of this name among the public ones."""
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, GravelerError) else None
