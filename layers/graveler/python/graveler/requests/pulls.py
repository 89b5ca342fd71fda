"""Requests about pull requests: proposed merges of a branch into another one, with their discussion and approvals; and the values
that they return.

Numbers of pull requests are text in requests, as lakeFS's IDs are: ``"7"``.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, ClassVar, Final, Literal

from msgspec import Struct

from graveler.model import Actor, CommitID, Lack, MergeStrategies
from graveler.requests.base import CommitInfo, Endpoint, Field, Gated, Permission, Repetition, Request

_TEMPLATE: Final = "/repositories/{repository}/pulls/{pull}"
_SQUASH: Final = Field("Merge as a commit with one parent.", wire="squash_merge")


class PullState(str, Enum):
    """The state of a pull request. A closed one can be opened again, a merged one never changes."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


StateName = Literal["open", "closed", "merged"]
StatusFilter = Literal["open", "closed", "merged", "all"]
"""The states of the pull requests in a listing; ``closed`` includes merged ones, as lakeFS's does."""


class Approval(Struct, frozen=True, omit_defaults=True):
    """An approval of a pull request, by ``principal``, called ``name``, with the credential ``key_id``; ``created`` in Unix
    seconds. It covers the commit ``commit_id`` of the source since the merge base ``base``, merged by these ``strategies`` and
    with or without ``squash``, into ``head``, or any later head of the destination that has the same objects where the source
    changed some."""

    principal: str
    name: str
    commit_id: CommitID
    base: CommitID
    head: CommitID
    key_id: str = ""
    created: int = 0
    strategies: MergeStrategies = MergeStrategies()
    squash: bool = False


class WaitingMerge(Struct, frozen=True, omit_defaults=True):
    """A merge of a pull request that waits for the rules of its destination, in the name of ``actor``. ``metadata`` are those of
    its commit, the options as of :class:`MergePullRequest`."""

    actor: Actor
    metadata: Mapping[str, str] = {}
    expected_head: CommitID | None = None
    beside_uncommitted: bool = False


class PullRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A proposal to merge the branch ``source`` into the branch ``destination``, which are identified by their *lives*: a branch
    that was deleted, made anew or renamed is another one, and the request is closed then.

    ``author`` is the name of the requester, ``principal`` tells them apart from others. ``created`` and ``closed`` in Unix
    seconds. ``reason`` says why it was closed, if nobody closed it. ``message``, ``strategies`` and ``squash`` are the terms of
    the merge, unless it states others. ``reviewers`` are the names of those who were asked to approve it. With ``when_ready`` it
    is merged as soon as the rules of the destination are fulfilled. ``candidate`` is the commit that the last merge would have
    published, if it was refused; ``lacks`` are what it lacked then, until the pull request changes. ``version`` counts changes.
    """

    number: int
    title: str
    source: str
    destination: str
    source_life: str
    destination_life: str
    state: PullState = PullState.OPEN
    description: str = ""
    author: str = ""
    principal: str = ""
    draft: bool = False
    created: int = 0
    closed: int = 0
    closed_by: str = ""
    reason: str = ""
    merged_commit: CommitID = CommitID("")
    message: str = ""
    strategies: MergeStrategies = MergeStrategies()
    squash: bool = False
    when_ready: WaitingMerge | None = None
    reviewers: tuple[str, ...] = ()
    approvals: tuple[Approval, ...] = ()
    candidate: CommitID = CommitID("")
    lacks: tuple[Lack, ...] = ()
    version: int = 1

    @property
    def id(self) -> str:
        """The number as text."""
        return str(self.number)

    @property
    def is_open(self) -> bool:
        """True for one that is neither closed nor merged."""
        return self.state is PullState.OPEN


class PullComment(Struct, frozen=True, omit_defaults=True):
    """A comment on a pull request; ``created`` in Unix seconds."""

    number: int
    text: str
    author: str = ""
    principal: str = ""
    created: int = 0


class CreatePullRequest(Request[PullRequest], frozen=True, kw_only=True):
    """Propose to merge the branch ``source`` into the branch ``destination``. Neither changes, and they need not differ yet.

    A ``draft`` cannot be merged. ``reviewers`` are names of people who are asked to approve it. ``message``, ``strategies`` and
    ``squash`` are the terms of the merge, which approvals cover. With a ``request_id``, a repeated request returns the first
    one's pull request (promise C4).

    Cost: one table read, one transaction; both again after losing a race for the number. :class:`RefNotFoundError` for a branch,
    :class:`InvalidError` for one branch on both sides and for too long a text, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "pulls.pull_changes:create_pull_request"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/pulls",
        "createPullRequest",
        body="PullRequestCreation",
        meaning="""
    The pull request to create. Graveler's own are ``draft``, ``reviewers``, and the terms of the merge: ``message``,
    ``strategy``, ``strategies`` and ``squash_merge``, as in a merge.""",
    )

    title: str
    source: Annotated[str, Field(wire="source_branch")]
    destination: Annotated[str, Field(wire="destination_branch")]
    description: Annotated[str, Field("Describe the change.", metavar="TEXT")] = ""
    draft: Annotated[bool, Field("It cannot be merged until `graveler pr ready`.")] = False
    reviewers: tuple[str, ...] = ()
    message: Annotated[str, Field("Message of the merge commit.", metavar="TEXT")] = ""
    strategies: MergeStrategies = MergeStrategies()
    squash: Annotated[bool, _SQUASH] = False
    request_id: str = ""


class UpdatePullRequest(Request[PullRequest], frozen=True, kw_only=True):
    """Change a pull request: what is None stays. ``status`` ``closed`` closes it, ``open`` opens it again, unless a branch of it
    is gone; only a merge makes it ``merged``. New ``strategies`` or another ``squash`` make its approvals stale. Closing it ends
    the candidate of a refused merge.

    Cost: two table reads, one transaction, all again after losing a race; for the candidate two reads and a write.
    :class:`PullRequestNotFoundError`; :class:`PullRequestEndedError` for a merged one, and for one that cannot be opened again;
    :class:`InvalidError`, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    implementation: ClassVar = "pulls.pull_changes:update_pull_request"
    endpoint: ClassVar = Endpoint(
        "PATCH",
        _TEMPLATE,
        "updatePullRequest",
        body="PullRequestBasic",
        meaning="""
    The changes of a pull request; what is null or missing stays. ``status`` is ``open`` or ``closed``: only a merge makes a pull
    request ``merged``. Graveler's own are ``draft``, ``reviewers``, ``message``, ``strategy``, ``strategies``, ``squash_merge``,
    and ``when_ready``: false takes back a merge that waits for the rules.""",
    )

    pull: str
    title: str | None = None
    description: str | None = None
    status: StateName | None = None
    draft: bool | None = None
    reviewers: tuple[str, ...] | None = None
    message: str | None = None
    strategies: MergeStrategies | None = None
    squash: Annotated[bool | None, Field(wire="squash_merge")] = None
    when_ready: Literal[False] | None = None


class ApprovePullRequest(Request[PullRequest], frozen=True, kw_only=True):
    """Approve a pull request: the commit ``source_commit`` of its source, which the caller looked at, since the merge base,
    merged by its terms. Approving again replaces the caller's approval.

    The approval is stale, and does not count, once the source has another commit, the merge another base or other terms, or once
    the destination has changed an object that the source changed too.

    It makes a merge that waits for it, as far as the context leaves time.

    Cost: two table reads, one transaction, and a walk of the commits that only the source has. :class:`MovedError` if the source
    has another commit; :class:`OwnApprovalError` for the author of the request or of a commit in it, by name or by principal, of
    which upper and lower case differ; :class:`PullRequestNotFoundError`, :class:`PullRequestEndedError`, :class:`InvalidError`
    for a caller without a name, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    implementation: ClassVar = "pulls.pull_approvals:approve_pull_request"
    endpoint: ClassVar = Endpoint(
        "POST",
        f"{_TEMPLATE}/approvals",
        "approvePullRequest",
        function="merge",
        body="ApprovalCreation",
        meaning="The whole ID of the source's commit that the caller looked at: 409 if the source has another one by now.",
    )

    pull: str
    source_commit: CommitID


class WithdrawApproval(Request[PullRequest], frozen=True, kw_only=True):
    """Take back the caller's approval of a pull request. Without one, nothing changes.

    Cost: two table reads, one transaction. :class:`PullRequestNotFoundError`, :class:`PullRequestEndedError`,
    :class:`InvalidError` for a caller without a name, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    implementation: ClassVar = "pulls.pull_approvals:withdraw_approval"
    endpoint: ClassVar = Endpoint("DELETE", f"{_TEMPLATE}/approvals", "withdrawApproval")

    pull: str


class CommentOnPullRequest(Request[PullComment], frozen=True, kw_only=True):
    """Comment on a pull request, whatever its state. With a ``request_id``, a repeated request returns the first one's comment
    (promise C4).

    Cost: two table reads, one transaction. :class:`PullRequestNotFoundError`; :class:`InvalidError` for an empty or too long
    text; :class:`PreconditionError` after a thousand comments; :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "pulls.pull_comments:comment_on_pull_request"
    endpoint: ClassVar = Endpoint(
        "POST",
        f"{_TEMPLATE}/comments",
        "commentOnPullRequest",
        body="CommentCreation",
        meaning="The text of a comment.",
    )

    pull: str
    text: str
    request_id: str = ""


class MergePullRequest(Gated[PullRequest], frozen=True, kw_only=True):
    """Merge a pull request: the transaction that moves the destination to the merge commit also makes the request merged. One
    that is merged already is returned as it is, whoever merged it.

    What is None is as the pull request says. With ``expected_head``, only that commit of the source. With ``when_ready``, a merge
    that only lacks a status or an approval is made by the approval or the status that fulfils the rules; until then the result is
    an open pull request. ``beside_uncommitted``, ``allow_empty`` and ``force`` are as in :class:`Merge`.

    Cost: two table reads, and :class:`Merge`. Errors as there; :class:`PullRequestNotFoundError`; :class:`PullRequestEndedError`
    for a closed one, and one whose branches are gone; :class:`PreconditionError` for a draft; :class:`RuleError`.
    """

    permission: ClassVar = Permission.WRITE
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "pulls.pull_merge:merge_pull_request"
    endpoint: ClassVar = Endpoint(
        "PUT",
        f"{_TEMPLATE}/merge",
        "mergePullRequest",
        function="merge",
        body="PullRequestMerge",
        meaning="""
    The options of the merge of a pull request, all of them graveler's own: a message and metadata of the commit, the terms of a
    merge where they are not the pull request's, ``expected_head`` (412 if the source is at another commit) and ``when_ready``:
    merge it once its rules are fulfilled; until then the ``reference`` in the response is empty.""",
    )

    pull: str
    info: CommitInfo = CommitInfo()
    strategies: MergeStrategies | None = None
    squash: Annotated[bool | None, Field(wire="squash_merge")] = None
    when_ready: Annotated[bool, Field("Merge it once the rules of its destination are fulfilled.")] = False
    expected_head: Annotated[
        CommitID | None,
        Field("Merge this commit of the source only.", option="--expect-head", metavar="COMMIT"),
    ] = None
    beside_uncommitted: Annotated[
        bool, Field("Keep the destination's uncommitted changes; fail only if the merge changes the same objects.")
    ] = False
    allow_empty: Annotated[bool, Field("Commit even if nothing changes.")] = False
    force: bool = False
