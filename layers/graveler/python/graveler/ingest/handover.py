"""The port for commits that are too much for one call, implemented by whatever runs long operations."""

from typing import Protocol

from msgspec import Struct

from graveler.errors import GravelerError
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID
from graveler.operations.pinned_requests import Pinned
from graveler.requests.committing import Commit
from graveler.tree.writer import Stop


class Look(Struct, frozen=True):
    """The state of a commit that was handed over: made (``commit_id``), failed (``failure``), or neither while it runs."""

    commit_id: CommitID | None = None
    failure: GravelerError | None = None


class LongCommits(Protocol):
    """The hand-over of commits that are too much for one call: those known to read more than ``limit`` records, and those for
    which its time is too short."""

    @property
    def limit(self) -> int:
        """Records that the call itself may read, as far as their number is known in advance."""
        ...

    def stop(self) -> Stop | None:
        """Return the signal on which a commit that starts now leaves the rest to an operation; None: no time limit. ``limit``
        applies in any case."""
        ...

    def begin(self, repository: OpenRepository, pinned: Pinned[Commit]) -> str:
        """Hand a commit over and return the operation's ID. A repeated call for the same request ID returns the running
        operation. The commit is identified by that request ID (promise C4)."""
        ...

    def look(self, repository: OpenRepository, operation_id: str) -> Look:
        """Return its state. One table read."""
        ...
