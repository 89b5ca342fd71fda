"""Posting and reading the statuses of commits."""

from msgspec.structs import replace

from graveler.errors import ExpiredCommitError, ForbiddenError, InvalidError
from graveler.history.expressions import resolve
from graveler.lake.context import Context
from graveler.lake.gates.standing import counting
from graveler.lake.gates.statuses import GRAVELER, Statuses, is_current
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, CommitID, Status, StatusState
from graveler.requests.statuses import PostStatus


def post_status(repository: RepositoryParts, request: PostStatus, context: Context) -> Status:
    """See :class:`graveler.requests.statuses.PostStatus`."""
    actor = context.actor
    if actor.principal == GRAVELER:
        raise ForbiddenError(f"{GRAVELER!r} posts the verdicts of graveler's own checks; post under another name")
    commit_id = resolve(request.commit, repository.refs, repository.commits).commit_id
    commit = repository.branches.commit(commit_id)
    if repository.commits.has_expired(commit_id):
        raise ExpiredCommitError(commit_id)
    now = int(repository.clock.now())
    status = Status(
        request.name,
        _state(request.state),
        request.description,
        request.url,
        by=actor.name,
        principal=actor.principal,
        key_id=actor.key_id,
        created=now,
        expires=now + _seconds(request.expires) if request.expires else 0,
        commit_id=_commit_of(request, commit_id),
    )
    tree = Statuses(repository.tables, repository.uid).post(commit.metarange, [status])
    if status.state is StatusState.SUCCESS:
        # Few statuses are the last ones that a merge waits for.
        from graveler.lake.pulls.pull_merge import merge_candidate_when_ready

        merge_candidate_when_ready(repository, commit, context)
    identity = (status.name, status.principal, status.commit_id)
    return next(
        _shown(posted) for posted in tree.statuses if (posted.name, posted.principal, posted.commit_id) == identity
    )


def statuses_of(repository: RepositoryParts, commit: Commit) -> tuple[Status, ...]:
    """Return the statuses of a commit and of its tree that count: which have not expired, and whose poster's key or rule has not
    ended. Two table reads, one without statuses."""
    now = repository.clock.now()
    current = [
        status
        for status in Statuses(repository.tables, repository.uid).read(commit.metarange).statuses
        if status.commit_id in ("", commit.id) and is_current(status, now)
    ]
    standing = counting(repository.tables, (status.key_id for status in current))
    return tuple(_shown(status) for status in current if status.key_id in standing)


def _shown(status: Status) -> Status:
    """Return a status without the ID of its poster's key, which is an admin's business, and the digest of its check."""
    return replace(status, key_id="", check="")


def _state(state: StatusState | str) -> StatusState:
    try:
        return StatusState(state)
    except ValueError:
        states = ", ".join(choice.value for choice in StatusState)
        raise InvalidError(f"{str(state)[:100]!r} is not the state of a status; use one of {states}") from None


def _seconds(seconds: int) -> int:
    if seconds < 0:
        raise InvalidError(f"expires={seconds} is no number of seconds for which a status is valid; use 0 for no end")
    return seconds


def _commit_of(request: PostStatus, commit_id: CommitID) -> CommitID:
    """Return the commit that the status is about; empty for its tree."""
    if request.of not in ("tree", "commit"):
        raise InvalidError(f"a status is of a tree or of a commit, not of {request.of!r}")
    return commit_id if request.of == "commit" else CommitID("")
