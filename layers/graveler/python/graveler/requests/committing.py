"""Requests that make commits of what a branch or a repository holds already."""

from typing import ClassVar

from graveler import model
from graveler.model import CommitID, MetarangeName, SplitParameters
from graveler.requests.base import CommitInfo, Permission, Request


class Commit(Request[model.Commit], frozen=True, kw_only=True):
    """Make the uncommitted changes of ``branch`` a commit: all at once, or not at all (promise C2).

    Cost: the head's commit, its metarange and t ranges read; the ranges that differ, the metarange and the commit record written;
    two transactions. Table reads: the branch; one for each shard to see that something is staged; one for each shard and thousand
    staged; one to see whether clean-up after older commits is due, which then takes its own; one with a request ID. Others who
    change the branch meanwhile cost a few more, but no range that did not change.

    :class:`NoChangesError`, unless ``allow_empty``; :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    can_be_long: ClassVar = True

    branch: str
    info: CommitInfo = CommitInfo()
    allow_empty: bool = False
    force: bool = False


class CommitMetarange(Request[model.Commit], frozen=True, kw_only=True):
    """Make a tree that exists as a metarange file the next commit of a branch: its contents replace all of the head's.

    The file must be younger than half a day, so that it is part of a commit before a collector could find it unused. With a
    ``parent``, only if that is the branch's head, so no concurrent commit is lost. The commit has the tree that the branch's
    split parameters make of the contents, however the file's tree is cut (law F1).

    Cost: two object reads, of the file, and as :class:`graveler.requests.merging.Merge` without reading ranges; with a ``parent``
    the branch is read twice. A metarange that names other split parameters, or none (as earlier versions wrote them), is checked:
    one read for each range that is long enough to be cut once more and that the head does not have. If it is cut otherwise, all
    of it is read and written anew, 3 µs a record and processor.

    :class:`InvalidError` for what is no name, :class:`NotFoundError`, :class:`PreconditionError` for an old file,
    :class:`NoChangesError` unless ``allow_empty``, :class:`DirtyBranchError`, :class:`BusyError`, :class:`MovedError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)

    branch: str
    metarange: MetarangeName
    parent: CommitID | None = None
    info: CommitInfo = CommitInfo()
    allow_empty: bool = False
    force: bool = False


class Rewrite(Request[model.Commit], frozen=True, kw_only=True):
    """Cut a branch's tree anew by other split parameters, as a commit that changes no object. The branch stays cut so: whoever
    commits to it or merges into it goes on with these parameters, and those of other branches stay as they are.

    Cost: the tree is read and written once, 3 µs a record and processor; one transaction. A merge or an import that brings a tree
    that is cut otherwise cuts that anew each time, so rewrite both branches of a pair. If the branch's commits say that it is cut
    so already, its ranges are read once to see whether that is true: a branch that an earlier version left cut otherwise is
    mended by this.

    :class:`InvalidError` for impossible parameters, :class:`NoChangesError` if the branch is cut so already,
    :class:`DirtyBranchError`, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    can_be_long: ClassVar = True

    branch: str
    split: SplitParameters
    info: CommitInfo = CommitInfo()
    force: bool = False
