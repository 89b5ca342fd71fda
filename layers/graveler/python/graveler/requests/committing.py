"""Requests that make commits from what a branch or a repository already holds."""

from typing import Annotated, ClassVar

from graveler import model
from graveler.model import CommitID, MetarangeName, SplitParameters
from graveler.requests.base import CommitInfo, Endpoint, Field, Gated, Permission, Repetition, Request


class Commit(Gated[model.Commit], frozen=True, kw_only=True):
    """Commit the uncommitted changes of ``branch``: all at once, or not at all (promise C2).

    Cost: the head's commit, its metarange and t ranges read; the ranges that differ, the metarange and the commit record written;
    two transactions. Table reads: the branch; one for each shard to see that something is staged; one for each shard and thousand
    staged changes; one to see whether clean-up after older commits is due, which then takes its own; one with a request ID.
    Concurrent changes of the branch cost a few more, but no range that did not change.

    :class:`NoChangesError`, unless ``allow_empty``; :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    can_be_long: ClassVar = True
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "committing.commit:commit"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/branches/{branch}/commits",
        "commit",
        function="commit",
        body="CommitCreation",
        meaning="The commit to create. ``date`` (Unix seconds, from 1970 to a day from now) overrides the current time.",
        needed=("message",),
        info="dated",
    )

    branch: str
    info: CommitInfo = CommitInfo()
    allow_empty: Annotated[bool, Field("Commit even if nothing changed.")] = False
    force: bool = False


class CommitMetarange(Gated[model.Commit], frozen=True, kw_only=True):
    """Make an existing tree, given as a metarange file, the next commit of a branch: its contents replace all of the head's.

    The file must be younger than half a day, so that it is part of a commit before a collector could find it unused. With a
    ``parent``, the request succeeds only if that is the branch's head, so no concurrent commit is lost. The commit has the tree
    that the branch's split parameters make of the contents, whatever the split of the file's tree (law F1).

    Cost: two object reads, of the file, and as :class:`graveler.requests.merging.Merge` without reading ranges; with a ``parent``
    the branch is read twice. A metarange that names other split parameters, or none (as earlier versions wrote them), is checked:
    one read for each range that is long enough to be split again and that the head does not have. If it is split differently, all
    of it is read and written again, 3 µs a record and processor.

    :class:`InvalidError` for an invalid name, :class:`NotFoundError`, :class:`PreconditionError` for an old file,
    :class:`NoChangesError` unless ``allow_empty``, :class:`DirtyBranchError`, :class:`BusyError`, :class:`MovedError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "committing.commit_metarange:commit_metarange"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/branches/{branch}/commits",
        "commit",
        "commit",
        "CommitCreation",
        Commit.endpoint.meaning,
        query=("metarange", "parent"),
        needed=("message",),
        info="dated",
    )

    branch: str
    metarange: Annotated[MetarangeName, Field(wire="source_metarange")]
    parent: CommitID | None = None
    info: CommitInfo = CommitInfo()
    allow_empty: bool = False
    force: bool = False


class Rewrite(Gated[model.Commit], frozen=True, kw_only=True):
    """Split a branch's tree by other split parameters, in a commit that changes no object. The branch keeps these parameters:
    later commits and merges into it use them, and other branches keep their own.

    Cost: the tree is read and written once, 3 µs a record and processor; one transaction. A merge or an import that brings a tree
    that is split differently splits that again each time, so rewrite both branches of a pair. If the branch's commits say that it
    already has these parameters, its ranges are read once to verify that: this repairs a branch that an earlier version left
    split differently.

    :class:`InvalidError` for impossible parameters, :class:`NoChangesError` if the branch is already split like this,
    :class:`DirtyBranchError`, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    can_be_long: ClassVar = True
    repetition: ClassVar = Repetition.RESULT
    implementation: ClassVar = "committing.rewrite:rewrite"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/branches/{branch}/rewrite",
        "rewriteBranch",
        function="merge",
        body="RewriteCreation",
        meaning="""
    The split parameters of the new tree: a range ends once it has ``max_size`` bytes of keys (plus 32 per key), or
    ``min_size`` bytes and a key whose hash is divisible by ``raggedness``.""",
    )

    branch: str
    split: SplitParameters
    info: CommitInfo = CommitInfo()
    force: bool = False


class PublishCandidate(Gated[model.Commit], frozen=True, kw_only=True):
    """Point the branch at an open candidate, which is named by its ID or by its commit's, and return its commit. Whoever may
    change the branch may publish it; that of a pull request is published by merging that. A repetition returns the commit again.

    Cost: five or six table reads, two commits and two metaranges; checks of graveler's own that have no verdict yet; two more
    reads and one transaction. :class:`RuleError` if something is still lacking, :class:`CandidateEndedError`,
    :class:`PreconditionError` if the branch has moved since, :class:`BusyError` while a process works on it.
    """

    permission: ClassVar = Permission.WRITE
    implementation: ClassVar = "gates.candidate_verbs:publish_candidate"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/candidates/{candidate}/publish",
        "publishCandidate",
        function="merge",
        body="CandidatePublication",
        meaning="The reason to pass by rules, if they permit that to the caller.",
    )

    candidate: str


class WithdrawCandidate(Request[None], frozen=True, kw_only=True):
    """End an open candidate, which is named by its ID or by its commit's. The changes that it holds are uncommitted changes of
    the branch again. A repetition changes nothing.

    Cost: one or two table reads, one write. :class:`ForbiddenError` for others than its maker and admins,
    :class:`CandidateEndedError`."""

    permission: ClassVar = Permission.WRITE
    implementation: ClassVar = "gates.candidate_verbs:withdraw_candidate"
    endpoint: ClassVar = Endpoint("DELETE", "/repositories/{repository}/candidates/{candidate}", "withdrawCandidate")

    candidate: str
