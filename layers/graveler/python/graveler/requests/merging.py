"""Requests that bring commits from elsewhere into a branch: three-way merges."""

from typing import ClassVar

from graveler import model
from graveler.model import Application, CommitID, MergeStrategies
from graveler.requests.base import CommitInfo, Permission, Repetition, Request


class Merge(Request[model.Commit], frozen=True, kw_only=True):
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

    Cost: resolving the source and finding the base; three metaranges and the ranges that both sides changed read; the ranges that
    are new, the metarange, unless it is the head's or the source's, and the commit record written; one transaction. Two table
    reads to see that nothing is staged at the destination (one for each token and shard); two transactions more if the staged
    changes have no effect.

    :class:`MergeConflictError` lists all conflicts, in key order, and nothing was changed; :class:`NoChangesError`,
    :class:`DirtyBranchError`, :class:`BusyError`; :class:`UnexpectedHeadError`, and :class:`InvalidError` for an expected commit
    that is not a whole commit ID.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("destination",)
    refs: ClassVar = ("source",)
    can_be_long: ClassVar = True
    repetition: ClassVar = Repetition.RESULT

    source: str
    destination: str
    info: CommitInfo = CommitInfo()
    strategies: MergeStrategies = MergeStrategies()
    squash: bool = False
    allow_empty: bool = False
    force: bool = False
    unchanged_prefixes: tuple[str, ...] = ()
    application: Application | None = None
    beside_uncommitted: bool = False
    expected_head: CommitID | None = None
    expected_destination: CommitID | None = None


class Replay(Request[model.Commit], frozen=True, kw_only=True):
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
    parent_number: int = 0
    info: CommitInfo = CommitInfo()
    strategies: MergeStrategies = MergeStrategies()
    allow_empty: bool = False
    force: bool = False


class Revert(Replay, frozen=True, kw_only=True):
    """Revert on a branch what one commit changed, as a commit. Cost: as :class:`Merge`.

    :class:`MergeConflictError` where the branch changed the same objects since, unless a strategy decides;
    :class:`NoChangesError` unless ``allow_empty``, :class:`DirtyBranchError`, :class:`InvalidError` for the parent,
    :class:`BusyError`.
    """


class CherryPick(Replay, frozen=True, kw_only=True):
    """Apply to a branch what one commit changed elsewhere, as a commit with its message and metadata, unless ``info`` overrides
    them. Cost and errors as :class:`Revert`.
    """
