"""Ingest commits that are too much for one call, run as operations: ingest's port, implemented with that of operations."""

from collections.abc import Callable
from hashlib import sha256

import msgspec

from graveler.api.background import failure
from graveler.errors import GravelerError, NotFoundError, UnavailableError
from graveler.ingest.handover import Look
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID
from graveler.operations.operator import Operator
from graveler.operations.pinned_requests import COMMIT, Pinned
from graveler.operations.store import OperationState
from graveler.requests.committing import Commit
from graveler.tree.writer import Stop


class OperationCommits:
    """The hand-over of commits to an operator: those known to read more than ``limit`` records, and those that have used half of
    the ``seconds_left`` they had at the start (docs/design/0009-handing-over-by-time.md); without a time limit, only those that
    read more than ``limit``."""

    def __init__(self, operator: Operator, limit: int, seconds_left: Callable[[], float] | None = None) -> None:
        self._operator = operator
        self._limit = limit
        self._seconds_left = seconds_left

    @property
    def limit(self) -> int:
        """See :class:`graveler.ingest.handover.LongCommits`."""
        return self._limit

    def stop(self) -> Stop | None:
        """See :class:`graveler.ingest.handover.LongCommits`."""
        seconds_left = self._seconds_left
        if seconds_left is None:
            return None
        half = seconds_left() / 2
        return lambda: seconds_left() <= half

    def begin(self, repository: OpenRepository, pinned: Pinned[Commit]) -> str:
        """See :class:`graveler.ingest.handover.LongCommits`. Cost and errors as :meth:`Operator.ask`."""
        request_id = pinned.request.info.request_id
        operation = self._operator.ask(
            repository,
            COMMIT,
            msgspec.json.encode(pinned),
            sha256(f"ingest {request_id}".encode()).hexdigest()[:32],
            joins=lambda operation: not operation.is_finished,
            branch=pinned.request.branch,
            request_id=request_id,
        )
        return operation.id

    def look(self, repository: OpenRepository, operation_id: str) -> Look:
        """See :class:`graveler.ingest.handover.LongCommits`."""
        try:
            operation = self._operator.look(repository, operation_id)
        except NotFoundError as error:  # it ended over a week ago; its commit, if any, is found by the request's ID
            return Look(failure=UnavailableError(str(error)))
        if operation.state is OperationState.COMPLETED:
            return Look(CommitID(operation.result))
        if not operation.is_finished:
            return Look()
        reason = failure(operation)
        return Look(failure=reason if isinstance(reason, GravelerError) else UnavailableError(str(reason)))
