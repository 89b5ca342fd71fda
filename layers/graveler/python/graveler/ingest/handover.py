"""Commits that are too much for one call: what ingest wants of those who work on long operations, whoever they are."""

from typing import Protocol

from msgspec import Struct

from graveler.errors import GravelerError
from graveler.lake.in_parts.pinned import Pinned
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID
from graveler.requests.committing import Commit
from graveler.tree.writer import Stop


class Look(Struct, frozen=True):
    """How far a commit is that was handed over: made (``commit_id``), failed (``failure``), or neither: it is worked on."""

    commit_id: CommitID | None = None
    failure: GravelerError | None = None


class LongCommits(Protocol):
    """Has commits made that are too much for one call: those that are seen to read more than ``limit`` records, and those for
    which its time is too short."""

    @property
    def limit(self) -> int:
        """Records that the call itself may read, as far as that is seen beforehand."""
        ...

    def stop(self) -> Stop | None:
        """The sign by which a commit that begins now leaves the rest to an operation; None: time does not count, and ``limit``
        counts in any case."""
        ...

    def begin(self, repository: OpenRepository, what: Pinned[Commit]) -> str:
        """Hand a commit over; returns the operation's ID. Asked again for the same request ID while it is worked on, that one
        is the answer. The commit is known by that ID (promise C4)."""
        ...

    def look(self, repository: OpenRepository, operation_id: str) -> Look:
        """How far it is. One table read."""
        ...
