"""Pages of pull requests as they are seen."""

from collections.abc import Mapping
from typing import Final

from graveler.errors import InvalidError
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.pull_sides import sides_of
from graveler.model import Page
from graveler.requests.pulls import PullRequest, PullState

_STATES: Final[Mapping[str, tuple[PullState, ...]]] = {
    "open": (PullState.OPEN,),
    "closed": (PullState.CLOSED, PullState.MERGED),
    "merged": (PullState.MERGED,),
    "all": tuple(PullState),
}


def states_of(status: str) -> tuple[PullState, ...]:
    """Return the states of the pull requests with this status. :class:`InvalidError` for an unknown one."""
    states = _STATES.get(status)
    if states is None:
        raise InvalidError(f"status {status!r} of pull requests is unknown; choose one of {', '.join(_STATES)}")
    return states


def current_page(repository: RepositoryParts, page: Page[PullRequest]) -> Page[PullRequest]:
    """Return a page of pull requests as they are seen. One table read for each hundred branches of open ones, none without."""
    open_pulls = [pull for pull in page.results if pull.is_open]
    sides = {of.pull.number: of for of in sides_of(repository, open_pulls)} if open_pulls else {}
    shown = (sides[pull.number].current() if pull.number in sides else pull for pull in page.results)
    return Page(tuple(shown), page.next_after)
