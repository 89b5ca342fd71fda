"""Requests that create, move and remove branches and tags. The context holds the requester, for the reference log."""

from typing import Annotated, ClassVar

from graveler.model import Branch, CommitID, Tag
from graveler.requests.base import Endpoint, Field, Gated, Permission, Repetition, Request


class CreateBranch(Gated[Branch], frozen=True, kw_only=True):
    """Point a new branch at the commit of ``source``.

    With an ``owner``, a hidden branch belongs to the transaction of this name, which has to renew it
    (:class:`RenewBranch`) every :data:`graveler.history.owners.RENEWAL` seconds: otherwise the garbage collector deletes it.

    Cost: resolving, one table read and one transaction, whatever the lake's size. :class:`AlreadyExistsError`,
    :class:`InvalidError` for the name, :class:`RefNotFoundError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)
    refs: ClassVar = ("source",)
    repetition: ClassVar = Repetition.RESPONSE
    implementation: ClassVar = "refs.create_delete:create_branch"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/branches",
        "createBranch",
        body="BranchCreation",
        meaning="""
    The branch to create. ``source`` is any ref expression. A hidden branch may have an ``owner``: a transaction, which must
    renew the branch's lease.""",
    )

    name: str
    source: str
    hidden: Annotated[bool, Field("List it by `branch list --all` only.")] = False
    force: bool = False
    owner: str = ""


class RenewBranch(Request[None], frozen=True, kw_only=True):
    """Renew the hidden branch of the transaction ``owner``, which still works on it. Cost: one table write.
    :class:`RefNotFoundError` if the branch is gone, or is no longer the owner's."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)
    implementation: ClassVar = "refs.create_delete:renew_branch"
    endpoint: ClassVar = Endpoint(
        "PUT",
        "/repositories/{repository}/branches/{branch}/lease",
        "renewLease",
        body="LeaseRenewal",
        meaning="The transaction that works on the branch: the ``owner`` given when the branch was created.",
    )

    name: Annotated[str, Field(wire="branch")]
    owner: str


class ReleaseBranch(Request[None], frozen=True, kw_only=True):
    """Keep a hidden branch when the transaction ``owner`` ends: no collector deletes it from then on. Cost: one table write."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)
    implementation: ClassVar = "refs.create_delete:release_branch"
    endpoint: ClassVar = Endpoint("DELETE", "/repositories/{repository}/branches/{branch}/lease", "releaseLease")

    name: Annotated[str, Field(wire="branch")]
    owner: str


class DeleteBranch(Gated[None], frozen=True, kw_only=True):
    """Remove a branch and its uncommitted changes; with ``at``, only if that commit is its head.

    Cost: one table read, one transaction. :class:`ForbiddenError` for the default branch and for a protected one,
    :class:`MovedError` for another head.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("name",)
    implementation: ClassVar = "refs.create_delete:delete_branch"
    endpoint: ClassVar = Endpoint("DELETE", "/repositories/{repository}/branches/{branch}", "deleteBranch")

    name: Annotated[str, Field(wire="branch")]
    force: bool = False
    at: CommitID | None = None


class RenameBranch(Gated[Branch], frozen=True, kw_only=True):
    """Rename a branch; its uncommitted changes go with it. Its earlier reference log stays under the old name. The staged changes
    are staged again under a token that the old name never had, so that a process which still knows the old name cannot
    change it. A concurrent commit or merge on it fails, and loses nothing.

    Cost: three table reads, two transactions, and one read for each token of the branch and its shards; one table write for each
    25 staged changes, one read for each thousand. Meanwhile, changes of the branch wait. :class:`ForbiddenError` for the default
    branch, :class:`AlreadyExistsError`, :class:`InvalidError` for the new name.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("old", "new")
    repetition: ClassVar = Repetition.RESPONSE
    implementation: ClassVar = "refs.rename:rename"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/branches/{branch}/rename",
        "renameBranch",
        body="RenameCreation",
        meaning="The new name of a branch.",
    )

    old: Annotated[str, Field(wire="branch")]
    new: Annotated[str, Field(wire="name")]
    force: bool = False


class HardReset(Gated[Branch], frozen=True, kw_only=True):
    """Move a branch to the commit of any ref. Later commits stay in the table, and :class:`Undo` goes back to them. With a
    ``request_id``, a repeated call moves nothing, also if ``ref`` is relative to the branch, and returns the result of the first
    one, as long as the branch has moved fewer than a hundred times since.

    Cost: resolving, the branch; one table read for each token and shard to see that nothing is staged; the head's commit and
    metarange if something is; one transaction; nothing at all if the branch is there already. Waits for a commit in progress.
    :class:`DirtyBranchError` while there are uncommitted changes, :class:`RefNotFoundError` also for a commit that has expired,
    :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    refs: ClassVar = ("ref",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "refs.move:hard_reset"
    endpoint: ClassVar = Endpoint("PUT", "/repositories/{repository}/branches/{branch}/hard_reset", "hardResetBranch")

    branch: str
    ref: str
    request_id: str = ""
    force: bool = False


class Undo(Gated[Branch], frozen=True, kw_only=True):
    """Move a branch back to where it was before its last move, according to its reference log: a commit, merge, import, hard
    reset, or an undo itself. With a ``request_id``, a repeated call changes nothing, and returns the result of the first one, as
    long as the branch has moved fewer than a hundred times since.

    Cost: two table reads, and :class:`HardReset`. :class:`NotFoundError` if the branch has not moved since it was created, as far
    back as the log goes; :class:`PreconditionError` if it is being moved right now; those of :class:`HardReset`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "refs.move:undo"
    endpoint: ClassVar = Endpoint("POST", "/repositories/{repository}/branches/{branch}/undo", "undoBranch")

    branch: str
    request_id: str = ""
    force: bool = False


class CreateTag(Gated[Tag], frozen=True, kw_only=True):
    """Create a tag for the commit of ``ref``. Cost: resolving and one transaction. Errors as of :class:`CreateBranch`."""

    permission: ClassVar = Permission.WRITE
    refs: ClassVar = ("ref",)
    repetition: ClassVar = Repetition.RESPONSE
    implementation: ClassVar = "refs.create_delete:create_tag"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/tags",
        "createTag",
        body="TagCreation",
        meaning="The tag to create. ``ref`` is any ref expression.",
    )

    name: Annotated[str, Field(wire="id")]
    ref: str
    force: bool = False


class DeleteTag(Gated[None], frozen=True, kw_only=True):
    """Remove a tag. Cost: one table read, one transaction. :class:`RefNotFoundError`."""

    permission: ClassVar = Permission.WRITE
    implementation: ClassVar = "refs.create_delete:delete_tag"
    endpoint: ClassVar = Endpoint("DELETE", "/repositories/{repository}/tags/{tag}", "deleteTag")

    name: Annotated[str, Field(wire="tag")]
    force: bool = False
