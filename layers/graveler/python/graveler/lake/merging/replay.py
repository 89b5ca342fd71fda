"""Revert and cherry-pick: one commit's changes taken back, or made again, on a branch.

Both are three-way merges into the branch. To revert commit ``c`` with parent ``p``: base ``c``, source ``p``. To pick it: base
``p``, source ``c``.
"""

from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.lake.committing.landing import Landing
from graveler.lake.committing.publish import commit_of_request
from graveler.lake.context import Context
from graveler.lake.gates.gate import GateTerms
from graveler.lake.merging.inputs import commit_at
from graveler.lake.merging.three_way import Choose, MergePlan, ThreeWay, land_three_way
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Commit, CommitID
from graveler.requests.merging import CherryPick, Revert

ORIGIN_KEY = "cherry-pick-origin"
COMMITTER_KEY = "cherry-pick-committer"


def revert(repository: RepositoryParts, request: Revert, context: Context) -> Commit:
    """See :class:`graveler.requests.merging.Revert`."""
    return land_three_way(repository, plan_revert(repository, request), context)


def cherry_pick(repository: RepositoryParts, request: CherryPick, context: Context) -> Commit:
    """See :class:`graveler.requests.merging.CherryPick`."""
    done = commit_of_request(repository, request.info.request_id)  # the ref may be gone by now
    if done is not None:
        return done
    return land_three_way(repository, plan_cherry_pick(repository, request), context)


def plan_revert(repository: RepositoryParts, request: Revert, ref_id: CommitID | None = None) -> MergePlan:
    """Return the plan of a revert. See :class:`graveler.requests.merging.Revert`. ``ref_id`` is the ref's commit at the
    time of the request, if that was earlier. No request yet."""
    branch, ref = request.branch, request.ref
    info = replace(request.info, message=request.info.message or f"Revert {ref}")
    gate = GateTerms(request=request, strategies=request.strategies, may_roll_back=True)
    intent = Intent(direct=False, force=request.force)
    landing = Landing(branch, "revert", f"reverting {ref!r} on it", info, intent, gate=gate)
    nothing = f"nothing to revert: branch {branch!r} has none of the changes of {ref!r}"

    def begin() -> Choose:
        commit = _at(repository, ref, ref_id)
        before = _parent(repository, commit, ref, request.parent_number)
        return _always(ThreeWay(commit, before, request.strategies))

    return MergePlan(landing, begin, ref, branch, "" if request.allow_empty else nothing)


def plan_cherry_pick(repository: RepositoryParts, request: CherryPick, ref_id: CommitID | None = None) -> MergePlan:
    """Return the plan of a cherry-pick. See :class:`graveler.requests.merging.CherryPick`. ``ref_id`` as for
    :func:`plan_revert`. Reads the commit."""
    branch, ref = request.branch, request.ref
    commit = _at(repository, ref, ref_id)
    parent = _parent(repository, commit, ref, request.parent_number)
    metadata = {
        **commit.metadata,
        **request.info.metadata,
        ORIGIN_KEY: commit.id,
        COMMITTER_KEY: commit.committer,
    }
    info = replace(request.info, message=request.info.message or commit.message, metadata=metadata)
    gate = GateTerms(request=request, strategies=request.strategies)
    intent = Intent(direct=False, force=request.force)
    landing = Landing(branch, "cherry-pick", f"picking {ref!r} onto it", info, intent, gate=gate)
    nothing = f"nothing to pick: branch {branch!r} already has all changes of {ref!r}"
    chosen = _always(ThreeWay(parent, commit, request.strategies))
    return MergePlan(landing, lambda: chosen, ref, branch, "" if request.allow_empty else nothing)


def _at(repository: RepositoryParts, ref: str, ref_id: CommitID | None) -> Commit:
    return commit_at(repository, ref) if ref_id is None else repository.branches.commit(ref_id)


def _parent(repository: RepositoryParts, commit: Commit, ref: str, number: int) -> Commit | None:
    """Return the parent to compare with: the only one, or the one named; None for the first commit of a history."""
    count = len(commit.parents)
    if number == 0 and count > 1:
        raise InvalidError(
            f"{ref!r} is a merge of {count} commits; choose the parent to compare with, by parent 1 (the branch merged into) or "
            f"parent {count}"
        )
    if number < 0 or number > count:
        raise InvalidError(f"{ref!r} has {count} parent{'s' if count != 1 else ''}, so there is no parent {number}")
    return repository.branches.commit(commit.parents[max(number - 1, 0)]) if count else None


def _always(chosen: ThreeWay) -> Choose:
    """Return the same inputs for every head. Objects of the source come back, so its commit must not have expired."""
    required = () if chosen.source is None else (chosen.source.id,)
    return lambda _: replace(chosen, required_commits=required)
