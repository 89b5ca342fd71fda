"""The line of commits that a stream follows: a branch's commits along first parents, as ``git log --first-parent`` shows them.

Each change reaches a branch by one commit of this line: its own commits, and the merges into it. So the differences of each
commit from its first parent, one after the other, are all that has happened to the branch, each change once.
"""

from contextlib import suppress
from typing import Final, TypeAlias

from graveler.errors import GoneError, NotFoundError, PreconditionError
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID

Position: TypeAlias = CommitID
"""How far a stream has read: the ID of the last commit of which it has the changes; empty before the first commit."""

BEGINNING: Final = CommitID("")
LATEST: Final = "latest"
EARLIEST: Final = "earliest"

_PAGE: Final = 1000
_SHOWN: Final = 16


class Line:
    """What of a branch is ahead of a stream. Keeps the IDs of those commits, and asks the table for new ones alone. For one
    thread."""

    def __init__(self, repository: OpenRepository, branch: str) -> None:
        self._repository = repository
        self._branch = branch
        self._at: Position | None = None
        self._ahead: list[CommitID] = []
        """The commits after ``_at`` that the branch had when it was last looked at."""

    def start(self, ref: str) -> Position:
        """Where a stream begins that is to have all commits after ``ref``: :data:`LATEST` is the branch's head,
        :data:`EARLIEST` the place before the first commit. Errors of resolving, and :class:`PreconditionError` for a commit
        that is not on the line."""
        if ref.lower() == EARLIEST:
            return BEGINNING
        head = self._repository.branch(self._branch).commit_id
        if ref.lower() == LATEST:
            return head
        start = self._repository.commit_of(ref).id
        self.between(start, head)
        return start

    def upto(self, at: Position, limit: int | None) -> Position:
        """The end of the next batch of a stream that is ``at`` a position: the branch's head, or ``limit`` commits further. One
        table read; where the branch has moved, also about one for each 32 new commits. :class:`PreconditionError` if the
        position is not on the line any more, :class:`graveler.errors.RefNotFoundError` without the branch."""
        head = self._repository.branch(self._branch).commit_id
        if at != self._at:
            self._ahead = self._ahead[self._ahead.index(at) + 1 :] if at in self._ahead else []
            self._at = at
        last = self._ahead[-1] if self._ahead else at
        try:
            self._ahead += self._ids(last, head)
        except PreconditionError:
            if last == at:
                raise
            self._ahead = self._ids(at, head)  # the branch was moved, maybe not behind what was read
        if not self._ahead:
            return at
        return self._ahead[-1 if limit is None else min(limit, len(self._ahead)) - 1]

    def between(self, start: Position, end: str) -> list[Commit]:
        """The commits after ``start`` up to ``end``, the oldest first. About one table read for each 32.
        :class:`PreconditionError` if ``start`` is not on the line of ``end``."""
        if start == end:
            return []
        last = self._repository.commit_of(end)
        found: list[Commit] = []
        at = last.id
        most = last.generation - self._generation(start, end)  # each step goes down by one generation or more
        while len(found) < most:
            amount = min(_PAGE, most - len(found))
            page = self._repository.log(at, first_parent=True, amount=amount, limit=True).results
            found += page
            parents = page[-1].parents
            if not parents:
                break
            at = parents[0]
            if at == start:
                return found[::-1]
        passed = next((number for number, commit in enumerate(found) if commit.id == start), None)
        if passed is None and start != BEGINNING:
            raise self._left(start, end)
        return found[:passed][::-1]

    def _generation(self, start: Position, end: str) -> int:
        if start == BEGINNING:
            return -1
        try:
            return self._repository.commit_of(start).generation
        except (NotFoundError, GoneError):  # swept, since no branch led to it any more
            raise self._left(start, end) from None

    def _ids(self, start: Position, end: str) -> list[CommitID]:
        return [commit.id for commit in self.between(start, end)]

    def _left(self, start: Position, end: str) -> PreconditionError:
        """The error of a branch that was moved away from what a stream has read."""
        common = None
        with suppress(NotFoundError, GoneError):
            common = self._repository.merge_base(start, end)
        last = f"; the last commit that both have is {common.id[:_SHOWN]}" if common is not None else ""
        return PreconditionError(
            f"commit {start[:_SHOWN]}, up to which this stream has read, is not on the line of first parents of branch "
            f"{self._branch!r} ({end[:_SHOWN]}): the branch was reset or moved, or its history was cut{last}. Move the branch "
            "back, or begin a new stream: with a new checkpointLocation, and startingRef= the commit after which it is to begin"
        )
