"""Dispatcher of operations to other workers: this process records an operation, and makes a worker begin.

A function stops as soon as it has responded, so nothing may be left to its threads. A :class:`Starter` makes a worker begin: by a
message to a queue, or an execution of a state machine.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from graveler.errors import UnavailableError
from graveler.lake.clock import Clock
from graveler.lake.repository import OpenRepository
from graveler.operations.operator import Operator
from graveler.operations.store import Operation
from graveler.storage.tables.port import Tables


class Starter(Protocol):
    """Makes a worker begin with operations."""

    def begin(self, repository: str, operation: Operation) -> None:
        """Make a worker begin with an operation of the repository of this name. A repeated call for the same ``attempt`` need not
        start anything new: an execution named by ``operation.id`` and ``operation.attempt`` will do. Returns at once.
        :class:`graveler.errors.UnavailableError`: then the sweep tries again."""
        ...


def cannot_begin(operation: Operation, error: Exception) -> UnavailableError:
    """Return the error of a starter that cannot reach the workers."""
    return UnavailableError(
        f"operation {operation.id!r} is recorded, but no worker could be notified: {error}. It will start later by itself"
    )


class Dispatcher(Operator):
    """Records operations and makes the ``starters`` of their kinds begin; works on none itself."""

    def __init__(self, tables: Tables, starters: Mapping[str, Starter], *, clock: Clock | None = None) -> None:
        super().__init__(tables, starters, clock=clock)
        self._starters = starters

    def close(self) -> None:
        """Do nothing: this process works on no operations."""

    def _claimed(self, operation: Operation) -> Operation:
        """Return the operation without an owner, until a worker begins."""
        return replace(operation, unseen=operation.unseen + 1)

    def _begin(self, repository: OpenRepository, operation: Operation) -> None:
        self._starters[operation.kind].begin(repository.repository.name, operation)

    def _joined(self, repository: OpenRepository, operation: Operation) -> Operation:
        """Make a worker begin again, unless the operation has ended: the first caller may have died before doing so."""
        if not operation.is_finished:
            self._begin(repository, operation)
        return operation
