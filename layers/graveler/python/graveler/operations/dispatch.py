"""Operations that others work on: this process writes them down, and has somebody begin.

A function stands still as soon as it has answered, so nothing may be left to its threads. Who begins, and how, is a
:class:`Starter`: a message to a queue, an execution of a state machine.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from graveler.errors import UnavailableError
from graveler.lake.clock import Clock
from graveler.lake.repository import OpenRepository
from graveler.operations.operator import Operator
from graveler.operations.store import Operation
from graveler.storage.tables import Tables


class Starter(Protocol):
    """Has somebody work on operations."""

    def begin(self, repository: str, operation: Operation) -> None:
        """Have somebody work on an operation of the repository of this name. Asked again for the same ``attempt`` of it, nothing
        new needs to begin: an execution named by ``operation.id`` and ``operation.attempt`` will do. Returns at once.
        :class:`graveler.errors.UnavailableError`: then whoever sweeps asks again."""
        ...


def cannot_begin(operation: Operation, error: Exception) -> UnavailableError:
    """What a starter raises that cannot reach those who work."""
    return UnavailableError(
        f"operation {operation.id!r} is written down, but nobody can be told to begin: {error}. It begins later by itself"
    )


class Dispatcher(Operator):
    """Writes operations down and has the ``starters`` of their kinds begin; works on none itself."""

    def __init__(self, tables: Tables, starters: Mapping[str, Starter], *, clock: Clock | None = None) -> None:
        super().__init__(tables, starters, clock=clock)
        self._starters = starters

    def close(self) -> None:
        """Nothing is worked on here."""

    def _claimed(self, operation: Operation) -> Operation:
        """Nobody's until somebody begins."""
        return replace(operation, unseen=operation.unseen + 1)

    def _begin(self, repository: OpenRepository, operation: Operation) -> None:
        self._starters[operation.kind].begin(repository.repository.name, operation)

    def _joined(self, repository: OpenRepository, operation: Operation) -> Operation:
        """Word is sent again, if it has not ended: the first one's may have died before."""
        if not operation.is_finished:
            self._begin(repository, operation)
        return operation
