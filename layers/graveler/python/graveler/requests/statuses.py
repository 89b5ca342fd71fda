"""Requests about statuses: the verdicts about trees that the rules of branches and tags ask for, and the trial of checks."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from graveler.model import CheckTrial, Status, StatusState
from graveler.requests.base import Endpoint, Field, Permission, Request


class PostStatus(Request[Status], frozen=True, kw_only=True):
    """Post a verdict about the tree of ``commit`` under a ``name``: whoever commits the same tree has it, too. With ``of`` commit
    it is about that commit alone, for a check that reads its message, author or metadata. ``commit`` is any ref; name the commit
    that was checked, since a branch may have moved.

    The name has at most 100 bytes, the description 1,000, the ``url`` (``https`` or ``http``) 2,000. ``expires`` is the number of
    seconds for which the status is valid, at most 366 days; 0 if it has no end. A later status of the same poster takes the place
    of an earlier one of this name. Of the statuses of others none changes. The same status, posted again, changes nothing.

    A success makes the merge of a pull request that waits for it, as far as the context leaves time.

    Cost: resolving, the commit; two table reads and one write, one read more for a success. :class:`RefNotFoundError`,
    :class:`ExpiredCommitError`, :class:`InvalidError` for a status that cannot be one, or too many; :class:`BusyError`.
    """

    permission: ClassVar = Permission.CHECK
    refs: ClassVar = ("commit",)
    implementation: ClassVar = "gates.posting:post_status"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/commits/{commit_id}/statuses",
        "postStatus",
        function="merge",
        body="StatusCreation",
        meaning="""
    The status to post. ``state`` is ``success``, ``failure``, ``error`` or ``pending``. ``expires`` is the number of seconds for
    which it is valid, at most 366 days; 0 if it has no end. ``of``: ``tree``, or ``commit`` if the check has read the message,
    author or metadata of the commit.""",
    )

    commit: Annotated[str, Field(wire="commit_id")]
    name: str
    state: StatusState
    description: Annotated[str, Field("The verdict in words.", metavar="TEXT")] = ""
    url: Annotated[str, Field("The address of the details.", metavar="URL")] = ""
    expires: int = 0
    of: Literal["tree", "commit"] = "tree"


class RunChecks(Request[CheckTrial], frozen=True, kw_only=True):
    """Make the checks in the rules of ``branch`` on the commit of ``ref``, as if it were to be published there: all of them, or
    those of the names ``checks``. Nothing is published, and no status is posted; verdicts are used again, and kept, as those of a
    candidate. A branch that does not exist yet has no earlier state.

    ``base`` is compared with; by default the branch's commit, or if that is ``ref``'s, its first parent. With ``definitions``, by
    name, these checks are made instead of those of the rules, which over HTTP is up to an admin. Commands and functions are the
    entries in the settings of the process that runs them.

    Cost: resolving the refs; a table read for the rules; for each check the records that it reads, one table read for a verdict
    that is there, else 3 table requests and the run. A check that cannot be made has the state ``error``.
    :class:`RefNotFoundError`; :class:`InvalidError` for a branch without checks, an unknown name, or a definition that no rule
    can have; :class:`BusyError` if the context leaves too little time.
    """

    permission: ClassVar = Permission.WRITE
    refs: ClassVar = ("ref",)
    implementation: ClassVar = "gates.checks.trial:try_checks"
    endpoint: ClassVar = Endpoint(
        "POST",
        "/repositories/{repository}/settings/rules/checks",
        "runChecks",
        function="merge",
        body="CheckRun",
        meaning="""
    The checks to make on the commit of ``ref``, as if it were to be published on ``branch``: those of the branch's rules, of them
    the names in ``checks``. An admin may send ``definitions`` of others, by name, instead.""",
    )

    ref: str
    branch: str
    base: str = ""
    checks: tuple[str, ...] = ()
    definitions: Mapping[str, Mapping[str, Any]] = {}
