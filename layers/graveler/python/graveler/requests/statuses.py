"""Requests about statuses: the verdicts about trees that the rules of branches and tags ask for."""

from typing import Annotated, ClassVar, Literal

from graveler.model import Status, StatusState
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
