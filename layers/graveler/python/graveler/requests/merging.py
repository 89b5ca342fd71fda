"""Requests that bring commits from elsewhere into a branch: three-way merges."""

from typing import Annotated, ClassVar, Final

from graveler import model
from graveler.model import Application, CommitID, MergeStrategies
from graveler.requests.base import CommitInfo, Endpoint, Field, Gated, Permission, Repetition

_ALLOW_EMPTY: Final = Field("Commit even if nothing changes.")


class Merge(Gated[model.Commit], frozen=True, kw_only=True):
    """Bring what ``source`` changed since the common base into the branch ``destination``, as a commit with two parents.

    Uncommitted changes of the source stay out. ``strategies`` decide conflicts, one for all paths or by prefix. With ``squash``,
    the commit has one parent, as if the changes had been made here. With ``allow_empty``, there may be nothing to merge. If the
    destination has changed below one of ``unchanged_prefixes`` since the base, :class:`TouchedError`: for a caller that replaces
    everything below it. With an ``application``, a version that is already in the branch's history, or an older one, changes
    nothing, and the commit that brought it is returned, or that of a later version, however long ago and whether or not the
    source still exists (promise C4). That costs one table read. With ``beside_uncommitted``, uncommitted changes of the
    destination stay as they are, and refuse the merge only if it would change the same object, or below ``unchanged_prefixes``:
    that costs reading the staged changes twice.

    With ``expected_head``, the ID of a commit that was checked, the merge brings exactly that commit, and is refused if the
    source names another one by now. With ``expected_destination``, it is refused if the destination has another head when the
    commit lands, so that the merged tree is one that the caller could foresee. Neither costs a request.

    With ``pull_request``, the number of an open pull request from the source into the destination, that becomes merged together
    with the merge; if it is already, nothing changes, and its commit is returned. That costs one table read for each head that
    the destination turns out to have. :class:`graveler.requests.pulls.MergePullRequest` is the verb for it.

    Cost: resolving the source and finding the base; three metaranges and the ranges that both sides changed read; the ranges that
    are new, the metarange, unless it is the head's or the source's, and the commit record written; one transaction. Two table
    reads to see that nothing is staged at the destination (one for each token and shard); two transactions more if the staged
    changes have no effect.

    :class:`MergeConflictError` lists all conflicts, in key order, and nothing was changed; :class:`NoChangesError`,
    :class:`DirtyBranchError`, :class:`BusyError`; :class:`UnexpectedHeadError`, and :class:`InvalidError` for an expected commit
    that is not a whole commit ID, or a strategy for the path of a table that neither side nor the base has.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("destination",)
    refs: ClassVar = ("source",)
    can_be_long: ClassVar = True
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "merging.merge:merge"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/refs/{source}/merge/{destination}",
        "mergeIntoBranch",
        function="merge",
        body="Merge",
        meaning="""
    The options of a merge. Graveler's own are: ``strategies``, by prefix, with ``strategy`` for all other paths;
    ``untouched``, prefixes below which the destination must be unchanged since the base, else 409; and ``application``: a version
    that the destination already has is not merged again. With ``beside_uncommitted``, uncommitted changes of the destination
    block the merge only if it would change the same objects, or if they are below ``untouched``. ``expected_head`` and
    ``expected_destination`` are commit IDs: if the source, or the destination, is at another commit, 412. ``pull_request`` is the
    ID of the pull request that becomes merged by it; use mergePullRequest instead.""",
    )

    source: str
    destination: str
    info: CommitInfo = CommitInfo()
    strategies: MergeStrategies = MergeStrategies()
    force: bool = False
    allow_empty: Annotated[bool, _ALLOW_EMPTY] = False
    squash: Annotated[bool, Field("Create a commit with one parent.", wire="squash_merge")] = False
    unchanged_prefixes: Annotated[tuple[str, ...], Field(wire="untouched")] = ()
    application: Application | None = None
    beside_uncommitted: Annotated[
        bool, Field("Keep BRANCH's uncommitted changes; fail only if the merge changes the same objects.")
    ] = False
    expected_head: Annotated[
        CommitID | None,
        Field(
            "Merge this commit of SOURCE only; fail if SOURCE is at another one.",
            option="--expect-head",
            metavar="COMMIT",
        ),
    ] = None
    expected_destination: Annotated[
        CommitID | None,
        Field("Fail if BRANCH is at another commit than this one.", option="--expect-destination", metavar="COMMIT"),
    ] = None
    pull_request: str = ""


class Replay(Gated[model.Commit], frozen=True, kw_only=True):
    """The common base of :class:`Revert` and :class:`CherryPick`. ``parent_number`` (from 1) selects the parent with which a
    merge is compared; 0 is the only one. ``strategies`` decide conflicts as in :class:`Merge`: the source is the commit that is
    picked, or for a revert the state before it; the destination is the branch."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    refs: ClassVar = ("ref",)
    can_be_long: ClassVar = True
    repetition: ClassVar = Repetition.RESULT

    branch: str
    ref: str
    parent_number: Annotated[
        int,
        Field(
            "For a merge commit: use its changes relative to its Nth parent.", option="--parent", metavar="N", least=1
        ),
    ] = 0
    info: CommitInfo = CommitInfo()
    strategies: MergeStrategies = MergeStrategies()
    force: bool = False
    allow_empty: Annotated[bool, _ALLOW_EMPTY] = False


class Revert(Replay, frozen=True, kw_only=True):
    """Revert on a branch what one commit changed, as a commit. Cost: as :class:`Merge`.

    :class:`MergeConflictError` where the branch changed the same objects since, unless a strategy decides;
    :class:`NoChangesError` unless ``allow_empty``, :class:`DirtyBranchError`, :class:`InvalidError` for the parent
    and the strategies, :class:`BusyError`.
    """

    implementation: ClassVar = "merging.replay:revert"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/branches/{branch}/revert",
        "revertBranch",
        function="merge",
        body="RevertCreation",
        meaning="""
    The commit to revert. ``parent_number`` (from 1) selects the parent against which a merge is reverted; 0 is the only parent
    of an ordinary commit. Graveler's own are ``strategy`` and ``strategies``, as in a merge whose source is the state before the
    commit.""",
        needed=("parent_number",),
        info="overrides",
    )


class CherryPick(Replay, frozen=True, kw_only=True):
    """Apply to a branch what one commit changed elsewhere, as a commit with its message and metadata, unless ``info`` overrides
    them. Cost and errors as :class:`Revert`.
    """

    implementation: ClassVar = "merging.replay:cherry_pick"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/branches/{branch}/cherry-pick",
        "cherryPick",
        function="merge",
        body="CherryPickCreation",
        meaning="""
    The commit to apply to the branch. ``parent_number`` is as for a revert; null means 0. Graveler's own are ``strategy`` and
    ``strategies``, as in a merge whose source is the commit.""",
        info="overrides",
    )
