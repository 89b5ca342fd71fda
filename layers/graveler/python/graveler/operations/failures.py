"""Errors of ended operations: the ones that their verbs would have raised."""

from collections.abc import Mapping
from typing import Any

from graveler import errors
from graveler.errors import GravelerError
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import CancelledError
from graveler.values.error_codes import make


def reason(operation: Operation) -> GravelerError | None:
    """Return the error by which an operation failed or was cancelled; None for an unexpected one, which ``error`` describes."""
    if operation.state is OperationState.CANCELLED:
        return CancelledError(f"operation {operation.id} was cancelled; {operation.left}")
    return of_kind(operation.error_kind, operation.error, operation.error_fields)


def kind_of(error: GravelerError) -> str:
    """Return the name by which :func:`of_kind` finds an error's class: its own, or that of its nearest public base class."""
    names = (kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) == kind)
    return next(names)


def of_kind(name: str, message: str, fields: Mapping[str, Any]) -> GravelerError | None:
    """Return the error whose class has this name, with these fields and this ``message``; None if it is not one of ours. Missing
    fields, as in operations of earlier versions, are blank."""
    kind = class_of(name)
    return None if kind is None else make(kind, fields, message)


def class_of(name: str) -> type[GravelerError] | None:
    """Return the public error class of this name, or None."""
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, GravelerError) else None
