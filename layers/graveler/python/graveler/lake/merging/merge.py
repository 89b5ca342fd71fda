"""Merge: bring what one ref changed since the common base into a branch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from graveler.errors import InvalidError, NoChangesError, TouchedError, UnexpectedHeadError
from graveler.history.commits import is_commit_id
from graveler.history.graph import merge_base
from graveler.lake.committing.landing import Landing
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateTerms
from graveler.lake.merging.inputs import commit_at_beside, trees_of
from graveler.lake.merging.three_way import Choose, MergePlan, ThreeWay, land_three_way
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.blame import keys_of_prefix
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Commit, CommitID, MergeStrategy
from graveler.requests.merging import Merge
from graveler.tree.has_difference import differ

if TYPE_CHECKING:
    from graveler.lake.pulls.pending_merge import PendingMerge

STRATEGY_KEY: Final = ".lakefs.merge.strategy"
"""The metadata key of a merge commit for its strategy; clients of lakeFS expect this name, and ``default`` for none."""
_NONE: Final = "default"


def merge(repository: RepositoryParts, request: Merge, context: Context) -> Commit:
    """See :class:`graveler.requests.merging.Merge`."""
    return land_three_way(repository, plan_merge(repository, request), context)


def plan_merge(repository: RepositoryParts, request: Merge, source_id: CommitID | None = None) -> MergePlan:
    """Return the plan of a merge. See :class:`graveler.requests.merging.Merge`. ``source_id`` is the source's commit at
    the time of the request, if that was earlier. No request yet."""
    source, destination, info = request.source, request.destination, request.info
    for expected in (request.expected_head, request.expected_destination):
        if expected is not None and not is_commit_id(expected):
            raise InvalidError(f"{expected!r} is not a whole commit ID, so a merge cannot expect it")
    metadata = {**info.metadata, STRATEGY_KEY: request.strategies.default.value or _NONE}
    message = info.message or f"Merge '{source}' into '{destination}'"
    landing = Landing(
        destination,
        "merge",
        f"merging {source!r} into it",
        replace(info, message=message, metadata=metadata),
        Intent(direct=False, force=request.force),
        request.application,
        request.beside_uncommitted,
        request.unchanged_prefixes,
        gate=GateTerms(request=request, strategies=request.strategies, source=source),
    )
    pending = _pending(repository, request)
    if pending is not None:
        gate = replace(landing.gate, pull_request=pending.number, approvals=pending.approvals)
        landing = replace(landing, accompanying=pending.writes, gate=gate)

    def begin() -> Choose:
        # The source is fixed when the merge begins.
        other = (
            commit_at_beside(repository, source, destination)
            if source_id is None
            else repository.branches.commit(source_id)
        )
        _expect(source, request.expected_head, other)

        def choose(head: Commit) -> ThreeWay:
            if pending is not None:
                pending.look()  # first: a repetition has nothing to merge
            _expect(destination, request.expected_destination, head)
            base = base_of_merge(repository, source, other, destination, head, allow_empty=request.allow_empty)
            _check_unchanged(repository, source, destination, base, head, request.unchanged_prefixes)
            if pending is not None:
                pending.expect_approvals_of(other, base, head)
            merged = () if request.squash or other.id == head.id else (other,)
            return ThreeWay(base, other, request.strategies, merged, (other.id,))

        return choose

    return MergePlan(landing, begin, source, destination)


def _pending(repository: RepositoryParts, request: Merge) -> "PendingMerge | None":
    """Return the pull request that the merge is of, if it is one's. No request."""
    if not request.pull_request:
        return None
    from graveler.lake.pulls.pending_merge import PendingMerge  # most merges are of none

    return PendingMerge(repository, request)


def strategy_of(merged: Commit) -> MergeStrategy:
    """Return the strategy of a merge commit, by its metadata. Those of earlier versions say nothing for none."""
    named = merged.metadata.get(STRATEGY_KEY, _NONE)
    return MergeStrategy.NONE if named == _NONE else MergeStrategy(named)


def _expect(ref: str, expected: CommitID | None, commit: Commit) -> None:
    if expected is not None and commit.id != expected:
        raise UnexpectedHeadError(ref, expected, commit.id)


def _check_unchanged(
    repository: RepositoryParts, source: str, destination: str, base: Commit, head: Commit, prefixes: Sequence[str]
) -> None:
    if not prefixes:
        return
    before, now = trees_of(repository, base, head)
    for prefix in prefixes:
        keys = keys_of_prefix(prefix)
        if differ(before, now, keys.start, keys.end):
            raise TouchedError(source, destination, prefix)


def base_of_merge(
    repository: RepositoryParts, source: str, other: Commit, destination: str, head: Commit, *, allow_empty: bool
) -> Commit:
    """Return the common base of a merge. :class:`InvalidError` without one; :class:`NoChangesError` if there is nothing to merge,
    and it may not be empty."""
    base = merge_base(repository.commits, other.id, head.id)
    if base is None:
        raise InvalidError(f"{source!r} and {destination!r} have no common history, so there is no base for a merge")
    if base == other.id and not allow_empty:
        raise NoChangesError(f"nothing to merge: {destination!r} already has all commits of {source!r}")
    return repository.commits.get(base)
