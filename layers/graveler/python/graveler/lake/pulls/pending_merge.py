"""The pull request of a merge. It becomes merged in the transaction that publishes the merge commit, so neither exists without
the other, whatever fails or dies."""

from collections.abc import Sequence

from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.lake.committing.publish import AlreadyDoneError
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.approvals import valid_approvals
from graveler.lake.pulls.pull_sides import mergeable, read_sides_of
from graveler.lake.pulls.pull_store import PullStore, next_version, pull_number
from graveler.model import Commit
from graveler.requests.merging import Merge
from graveler.requests.pulls import Approval, PullRequest, PullState
from graveler.storage.tables.port import Write


class PendingMerge:
    """The pull request that a merge is about to make merged. For one merge, and one thread.

    The approvals that are judged and the writes belong to one reading of it, which the writes have as their condition. So whoever
    publishes asks for the writes first, and judges then.
    """

    def __init__(self, repository: RepositoryParts, request: Merge) -> None:
        self.number = pull_number(request.pull_request)
        self._repository = repository
        self._request = request
        self._store = PullStore(repository.tables, repository.uid)
        self._pull: PullRequest | None = None
        self._is_written = False
        self._sides: tuple[Commit, Commit, Commit] | None = None
        """The source's commit, the base and the head."""

    def look(self) -> PullRequest:
        """Return the pull request as it is now: the merge will be published on condition that it stays so. To be called once the
        head to merge into has been read: then both branches are those of the pull request as long as the head stays.

        One table read. :class:`AlreadyDoneError` with its commit if it is merged; :class:`PullRequestNotFoundError`,
        :class:`PullRequestEndedError`, :class:`PreconditionError` for a draft, :class:`InvalidError` for one of other branches.
        """
        request = self._request
        sides = read_sides_of(self._repository, self.number, request.source, request.destination)
        pull = sides.pull
        if (pull.source, pull.destination) != (request.source, request.destination):
            raise InvalidError(
                f"pull request {pull.number} is from {pull.source!r} into {pull.destination!r}, and not from "
                f"{request.source!r} into {request.destination!r}"
            )
        if pull.state is PullState.MERGED:
            raise AlreadyDoneError(pull.merged_commit)
        self._pull, self._is_written = mergeable(sides), False
        return self._pull

    def expect_approvals_of(self, source: Commit, base: Commit, head: Commit) -> None:
        """Take these commits for those of the merge, which approvals have to cover. No request."""
        self._sides = source, base, head

    def approvals(self) -> tuple[Approval, ...]:
        """Return the approvals that cover the merge, of the pull request as it was read last; none before a head was chosen.
        Cost: :func:`graveler.lake.pulls.approvals.valid_approvals`."""
        if self._pull is None or self._sides is None:
            return ()
        request = self._request
        return valid_approvals(self._repository, self._pull, *self._sides, request.strategies, request.squash)

    def writes(self, commit: Commit) -> Sequence[Write]:
        """Return the writes that make the pull request merged, for the transaction that publishes the commit. Their condition is
        that it is as it was read last: by :meth:`look`, which this calls for all writes but the first ones after it."""
        pull = self.look() if self._pull is None or self._is_written else self._pull
        self._is_written = True
        merged = replace(
            pull,
            state=PullState.MERGED,
            merged_commit=commit.id,
            closed=int(self._repository.clock.now()),
            closed_by=commit.committer,
            reason="",
            message=commit.message,
            strategies=self._request.strategies,
            squash=self._request.squash,
            when_ready=None,
        )
        return self._store.change_writes(pull, next_version(pull, merged))
