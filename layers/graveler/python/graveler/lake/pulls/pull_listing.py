"""Pages of pull requests, and of the comments on one."""

from collections.abc import Mapping
from typing import Final

from graveler.errors import InvalidError
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.pull_sides import sides_of
from graveler.lake.pulls.pull_store import PullStore, pull_number
from graveler.model import Page
from graveler.requests.pulls import PullComment, PullRequest, PullState, StatusFilter

STATES: Final[Mapping[str, tuple[PullState, ...]]] = {
    "open": (PullState.OPEN,),
    "closed": (PullState.CLOSED, PullState.MERGED),
    "merged": (PullState.MERGED,),
    "all": tuple(PullState),
}
"""The states of each filter."""


def list_pull_requests(
    repository: RepositoryParts, status: StatusFilter, after: str, amount: int, prefix: str
) -> Page[PullRequest]:
    """See :meth:`graveler.lake.repository.OpenRepository.pull_requests`."""
    states = STATES.get(status)
    if states is None:
        raise InvalidError(f"status {status!r} of pull requests is unknown; choose one of {', '.join(STATES)}")
    _expect_amount(amount)
    store = PullStore(repository.tables, repository.uid)
    return _current(repository, store.page(states, _position(after), amount, prefix))


def list_comments(repository: RepositoryParts, pull: str, after: str, amount: int) -> Page[PullComment]:
    """See :meth:`graveler.lake.repository.OpenRepository.pull_comments`."""
    _expect_amount(amount)
    store = PullStore(repository.tables, repository.uid)
    number = store.get(pull_number(pull)).number
    return store.comments(number, _position(after) or 0, amount)


def _current(repository: RepositoryParts, page: Page[PullRequest]) -> Page[PullRequest]:
    """Return a page of pull requests as they are seen. One table read for each hundred branches of open ones, none without."""
    open_pulls = [pull for pull in page.results if pull.is_open]
    sides = {of.pull.number: of for of in sides_of(repository, open_pulls)} if open_pulls else {}
    shown = (sides[pull.number].current() if pull.number in sides else pull for pull in page.results)
    return Page(tuple(shown), page.next_after)


def _expect_amount(amount: int) -> None:
    if amount < 1:
        raise InvalidError(f"amount is {amount}; ask for at least 1")


def _position(after: str) -> int | None:
    """Return the number after which a page begins, if it is not the first one."""
    if not after:
        return None
    if not (after.isascii() and after.isdecimal() and len(after) <= 10):
        raise InvalidError(f"after={after[:80]!r} is not a number; pass the position that the previous page ended with")
    return int(after)
