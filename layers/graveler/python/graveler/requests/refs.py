"""Requests that make, move and remove branches and tags. Who asks, for the reference log, is in the context."""

from typing import ClassVar

from graveler.model import Branch, CommitID, Tag
from graveler.requests.base import Permission, Request


class CreateBranch(Request[Branch], frozen=True, kw_only=True):
    """Point a new branch at the commit of ``source``.

    With an ``owner``, a hidden branch belongs to the transaction of this name, which has to renew it
    (:class:`RenewBranch`) every :data:`graveler.history.owners.RENEWAL` seconds: otherwise the garbage collector deletes it.

    Cost: resolving, one table read and one transaction, whatever the lake's size. :class:`AlreadyExistsError`,
    :class:`InvalidError` for the name, :class:`RefNotFoundError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)
    refs: ClassVar = ("source",)

    name: str
    source: str
    hidden: bool = False
    owner: str = ""
    force: bool = False


class RenewBranch(Request[None], frozen=True, kw_only=True):
    """Show that the transaction ``owner`` still works on its hidden branch. Cost: one table write. :class:`RefNotFoundError` if
    the branch is gone, or is not the owner's any more."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)

    name: str
    owner: str


class ReleaseBranch(Request[None], frozen=True, kw_only=True):
    """Keep a hidden branch when the transaction ``owner`` ends: no collector deletes it from then on. Cost: one table write."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)

    name: str
    owner: str


class DeleteBranch(Request[None], frozen=True, kw_only=True):
    """Remove a branch and its uncommitted changes; with ``at``, only if that commit is its head.

    Cost: one table read, one transaction. :class:`ForbiddenError` for the default branch and for a protected one,
    :class:`MovedError` for another head.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)

    name: str
    at: CommitID | None = None
    force: bool = False


class RenameBranch(Request[Branch], frozen=True, kw_only=True):
    """Give a branch another name; its uncommitted changes go with it. The reference log of before stays under the old name. What
    is staged is staged again under a token that the old name never had, so that a process which still knows the old name cannot
    change it. A commit or merge at work on it fails, and loses nothing.

    Cost: three table reads, two transactions, and one read for each token of the branch and its shards; one table write for each
    25 staged, one read for each thousand. While that lasts, changes of the branch wait. :class:`ForbiddenError` for the default
    branch, :class:`AlreadyExistsError`, :class:`InvalidError` for the new name.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("old", "new")

    old: str
    new: str
    force: bool = False


class HardReset(Request[Branch], frozen=True, kw_only=True):
    """Move a branch to the commit of any ref. What was committed since stays in the table, and :class:`Undo` goes back to it.

    Cost: resolving, the branch; one table read for each token and shard to see that nothing is staged; the head's commit and
    metarange if something is; one transaction; nothing at all if the branch is there already. Waits for a commit that is at work.
    :class:`DirtyBranchError` while there are uncommitted changes, :class:`RefNotFoundError` also for a commit that has expired,
    :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    refs: ClassVar = ("ref",)

    branch: str
    ref: str
    force: bool = False


class Undo(Request[Branch], frozen=True, kw_only=True):
    """Move a branch back to where it was before what moved it last, as its reference log has it: a commit, merge, import, hard
    reset, or an undo itself. With a ``request_id``, a repeated call changes nothing, and returns what the first one did, while
    the branch was not moved a hundred times since.

    Cost: two table reads, and :class:`HardReset`. :class:`NotFoundError` if nothing has moved it since it was created, as far
    back as the log goes; :class:`PreconditionError` if it is being moved right now; those of :class:`HardReset`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)

    branch: str
    request_id: str = ""
    force: bool = False


class CreateTag(Request[Tag], frozen=True, kw_only=True):
    """Name the commit of ``ref``. Cost: resolving and one transaction. Errors as of :class:`CreateBranch`."""

    permission: ClassVar = Permission.WRITE
    refs: ClassVar = ("ref",)

    name: str
    ref: str
    force: bool = False


class DeleteTag(Request[None], frozen=True, kw_only=True):
    """Remove a tag. Cost: one table read, one transaction. :class:`RefNotFoundError`."""

    permission: ClassVar = Permission.WRITE

    name: str
    force: bool = False
