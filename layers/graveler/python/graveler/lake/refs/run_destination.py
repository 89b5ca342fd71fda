"""The destination of the run in which this process works (``graveler run``): only the run's publication changes that branch.

A program of a run may reach the lake past its gateway, by the command line or a ``graveler://`` address. A write to the
destination would not belong to the run's transaction, and would stay if that fails.
"""

from typing import TYPE_CHECKING, Any, Final

from graveler.errors import ForbiddenError

if TYPE_CHECKING:
    from graveler.requests.base import Request  # msgspec, which help does without

DESTINATIONS: Final[set[tuple[str, str]]] = set()
"""Identities of repositories, each with the name of a branch."""

_SEPARATOR: Final = " "


def destination_text(identity: str, branch: str) -> str:
    """Return the text of a destination, for :func:`protect_destination` in another process."""
    return f"{identity}{_SEPARATOR}{branch}"


def protect_destination(text: str) -> None:
    """Refuse requests of this process that change the destination of its run."""
    identity, _, branch = text.rpartition(_SEPARATOR)
    DESTINATIONS.add((identity, branch))


def expect_elsewhere(identity: str, request: "Request[Any]") -> None:
    """Raise :class:`ForbiddenError` for a request that changes the destination of a run. No request."""
    for field in request.changes:
        branch = getattr(request, field)
        if (identity, branch) in DESTINATIONS:
            raise ForbiddenError(
                f"branch {branch!r} is the destination of the run in which this program works, and its run publishes all of its "
                "writes at the end, or none; write to the run's bucket, or to the branch that GRAVELER_REPO names"
            )
