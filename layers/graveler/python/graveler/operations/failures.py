"""Why an operation ended, as the error that its verb would have raised."""

from graveler import errors
from graveler.errors import GravelerError
from graveler.operations.store import Operation, OperationState
from graveler.operations.work import CancelledError


def reason(operation: Operation) -> GravelerError | None:
    """The error by which an operation failed or was cancelled; None for what nobody expected, which ``error`` tells of."""
    if operation.state is OperationState.CANCELLED:
        return CancelledError(f"operation {operation.id} was cancelled; nothing was changed")
    return of_kind(operation.error_kind, operation.error)


def of_kind(name: str, message: str) -> GravelerError | None:
    """The error whose class has this name, saying ``message``; None if it is none of ours."""
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, GravelerError)):
        return None
    error = kind.__new__(kind)
    error.args = (message,)
    return error
