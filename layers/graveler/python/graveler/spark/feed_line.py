"""The line of commits that a stream follows: a branch's commits along first parents, as in ``git log --first-parent``.

Each change reaches a branch by one commit of this line: its own commits, and the merges into it. So the differences of each
commit from its first parent, in sequence, are the complete history of the branch, with each change once.
"""

from contextlib import suppress
from typing import Final, TypeAlias

from graveler.errors import GoneError, NotFoundError, PreconditionError
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID

Position: TypeAlias = CommitID
"""A stream's position: the ID of the last commit whose changes it has read; empty before the first commit."""

BEGINNING: Final = CommitID("")
LATEST: Final = "latest"
EARLIEST: Final = "earliest"

_PAGE: Final = 1000
_SHOWN: Final = 16


class Line:
    """The commits of a branch that are ahead of a stream. Caches their IDs, and queries the table only for new ones. For one
    thread."""

    def __init__(self, repository: OpenRepository, branch: str) -> None:
        self._repository = repository
        self._branch = branch
        self._at: Position | None = None
        self._ahead: list[CommitID] = []
        """The commits after ``_at`` when the branch was last read."""

    def start(self, ref: str) -> Position:
        """Return the start of a stream that will have all commits after ``ref``: :data:`LATEST` is the branch's head,
        :data:`EARLIEST` the position before the first commit. Errors of resolving, and :class:`PreconditionError` for a commit
        that is not on the line."""
        if ref.lower() == EARLIEST:
            return BEGINNING
        head = self._repository.branch(self._branch).commit_id
        if ref.lower() == LATEST:
            return head
        start = self._repository.commit_of(ref).id
        self.between(start, head)
        return start

    def upto(self, position: Position, limit: int | None) -> Position:
        """Return the end of the next batch of a stream at ``position``: the branch's head, or ``limit`` commits further. One
        table read; if the branch has moved, also about one per 32 new commits. :class:`PreconditionError` if the position is no
        longer on the line, :class:`graveler.errors.RefNotFoundError` without the branch."""
        head = self._repository.branch(self._branch).commit_id
        if position != self._at:
            self._ahead = self._ahead[self._ahead.index(position) + 1 :] if position in self._ahead else []
            self._at = position
        last = self._ahead[-1] if self._ahead else position
        try:
            self._ahead += self._ids(last, head)
        except PreconditionError:
            if last == position:
                raise
            self._ahead = self._ids(
                position, head
            )  # the branch was moved, perhaps to a commit before those already read
        if not self._ahead:
            return position
        return self._ahead[-1 if limit is None else min(limit, len(self._ahead)) - 1]

    def between(self, start: Position, end: str) -> list[Commit]:
        """Return the commits after ``start`` up to ``end``, oldest first. About one table read per 32. :class:`PreconditionError`
        if ``start`` is not on the line of ``end``."""
        if start == end:
            return []
        last = self._repository.commit_of(end)
        commits: list[Commit] = []
        commit_id = last.id
        most = last.generation - self._generation(start, end)  # each step goes down by at least one generation
        while len(commits) < most:
            amount = min(_PAGE, most - len(commits))
            page = self._repository.log(commit_id, first_parent=True, amount=amount, limit=True).results
            commits += page
            parents = page[-1].parents
            if not parents:
                break
            commit_id = parents[0]
            if commit_id == start:
                return commits[::-1]
        passed = next((number for number, commit in enumerate(commits) if commit.id == start), None)
        if passed is None and start != BEGINNING:
            raise self._left(start, end)
        return commits[:passed][::-1]

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
        """Return the error for a branch that was moved off the line that a stream has read."""
        common = None
        with suppress(NotFoundError, GoneError):
            common = self._repository.merge_base(start, end)
        last = f"; the last commit that both have is {common.id[:_SHOWN]}" if common is not None else ""
        return PreconditionError(
            f"commit {start[:_SHOWN]}, the last one that this stream has read, is not among the first parents of branch "
            f"{self._branch!r} ({end[:_SHOWN]}): the branch was reset or moved, or its history was truncated{last}. Move the "
            "branch "
            "back, or start a new stream with a new checkpointLocation, and startingRef= set to the commit to start after"
        )
