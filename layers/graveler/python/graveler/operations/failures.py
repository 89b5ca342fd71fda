"""Why an operation ended, as the error that its verb would have raised."""

from graveler import errors
from graveler.errors import GravelerError
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import CancelledError


def reason(operation: Operation) -> GravelerError | None:
    """The error by which an operation failed or was cancelled; None for what nobody expected, which ``error`` tells of."""
    if operation.state is OperationState.CANCELLED:
        return CancelledError(f"operation {operation.id} was cancelled; {operation.left}")
    return of_kind(operation.error_kind, operation.error)


def kind_of(error: GravelerError) -> str:
    """The name that :func:`of_kind` knows it by: that of its class, or of the nearest one above that is public."""
    names = (kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) == kind)
    return next(names)


def of_kind(name: str, message: str) -> GravelerError | None:
    """The error whose class has this name, saying ``message``; None if it is none of ours. What its attributes told is not
    known any more: texts and lists are empty."""
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, GravelerError)):
        return None
    error = _blank(kind)
    error.args = (message,)
    return error


def _blank(kind: type[GravelerError]) -> GravelerError:
    if kind.__init__ is Exception.__init__:
        return kind()
    from inspect import Parameter, signature  # few operations fail

    needed = [one for one in signature(kind).parameters.values() if one.default is Parameter.empty]
    return kind(*(0 if one.annotation is int else "" for one in needed))
