"""The default repository and branch of a command, for its arguments without ``lakefs://``."""

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from graveler.cli.lake_options import lake_options, set_lake_options

if TYPE_CHECKING:
    from graveler.location.environment import DefaultPlace, Named


class Default(NamedTuple):
    """A repository, and "" or its branch."""

    repository: str
    branch: str


_USED: "Final[ContextVar[DefaultPlace | None]]" = ContextVar("_USED", default=None)
"""The default repository that the command has used."""


def begin_command(named: "Named | None") -> None:
    """Begin a command whose options name this lake, or none."""
    set_lake_options(named)
    _USED.set(None)


def default() -> Default | None:
    """Return the default repository; None if there is none, or no lake. :class:`InvalidError` for names that cannot be; also the
    other errors of :func:`graveler.location.environment.find_default`."""
    from graveler.errors import InvalidError, NotFoundError
    from graveler.history.names import check_branch, check_repository
    from graveler.location.environment import find_default

    try:
        place = find_default(lake_options())
    except NotFoundError:
        place = None  # opening the lake reports that there is none
    _USED.set(place)
    if place is None:
        return None
    try:
        branch = check_branch(place.branch) if place.branch else ""
        return Default(check_repository(place.repository), branch)
    except InvalidError as error:
        raise InvalidError(f"{place.by} names no repository or branch: {error}") from None


def used_default() -> str:
    """Return a sentence on the default repository that the command used, for the report of an error; "" if it used none."""
    place = _USED.get()
    if place is None:
        return ""
    address = f"{place.repository}/{place.branch}" if place.branch else place.repository
    return f"The default repository, lakefs://{address}, comes from {place.by}"


def unbound() -> str:
    """Return a sentence on a repository that an older version stored for no lake in particular; "" without one."""
    from graveler.location.environment import unbound_default

    place = unbound_default(lake_options())
    if place is None:
        return ""
    address = f"{place.repository}/{place.branch}" if place.branch else place.repository
    return (
        f"; {place.by} names lakefs://{address} but no lake, so it counts for none: `graveler use lakefs://{address}` chooses it "
        "here"
    )


def default_branch(place: Default) -> str:
    """Return the default branch: the one that is set, else the repository's own, for a read of the lake's table."""
    if place.branch:
        return place.branch
    from graveler.cli.locations import open_repository

    return open_repository(lake_options(), place.repository).repository.default_branch
