"""Pull requests together with their branches, which are the same ones only as long as they live under their names."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import PreconditionError
from graveler.history.refs import BranchState
from graveler.lake.opening.repositories import check_same, repository_key
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.pull_errors import PullRequestEndedError
from graveler.lake.pulls.pull_store import PullStore
from graveler.requests.pulls import PullRequest, PullState
from graveler.staging.tokens import life_of
from graveler.storage.tables.port import Key


class PullSides(Struct, frozen=True):
    """A pull request and its branches as they were read, None for one that does not exist."""

    pull: PullRequest
    source: BranchState | None
    destination: BranchState | None

    @property
    def loss(self) -> str:
        """The reason why the branches are not those of the pull request any more; empty if they are."""
        pull = self.pull
        sides = (
            ("source", pull.source, pull.source_life, self.source),
            ("destination", pull.destination, pull.destination_life, self.destination),
        )
        for side, name, life, state in sides:
            if state is None:
                return f"its {side}, branch {name!r}, was deleted or renamed"
            if life_of(state.open) != life:
                return f"its {side} was deleted or renamed, and another branch is called {name!r} now"
        return ""

    def current(self) -> PullRequest:
        """Return the pull request as it is seen: one that is open, and has lost a branch, is closed."""
        if not self.pull.is_open or not self.loss:
            return self.pull
        return closed_by_loss(self.pull, self.loss, 0)

    def opened(self) -> PullRequest:
        """Return the pull request if it is open. :class:`PullRequestEndedError`."""
        pull = self.current()
        if not pull.is_open:
            raise ended(pull)
        return pull


def ended(pull: PullRequest) -> PullRequestEndedError:
    """Return the error for a pull request that is not open."""
    reason = pull.reason or (f"merged as {pull.merged_commit[:16]}" if pull.merged_commit else "")
    return PullRequestEndedError(pull.id, pull.state.value, f": {reason}" if reason else "")


def mergeable(sides: PullSides) -> PullRequest:
    """Return the pull request if it may be merged. :class:`PullRequestEndedError`, :class:`PreconditionError`."""
    pull = sides.opened()
    if pull.draft:
        raise PreconditionError(
            f"pull request {pull.number} is a draft, and cannot be merged; mark it as ready first (graveler pr ready)"
        )
    return pull


def read_sides(repository: RepositoryParts, number: int) -> PullSides:
    """Return a pull request and its branches. Two table reads. :class:`PullRequestNotFoundError`,
    :class:`RepositoryNotFoundError`."""
    pull = PullStore(repository.tables, repository.uid).get(number)
    return sides_of(repository, [pull])[0]


def read_sides_of(repository: RepositoryParts, number: int, source: str, destination: str) -> PullSides:
    """Return a pull request and its branches, whose names the caller knows. One table read. Errors as :func:`read_sides`."""
    store = PullStore(repository.tables, repository.uid)
    keys = [store.key(number), *_branch_keys(repository, source, destination), repository_key(repository.name)]
    item, of_source, of_destination, of_repository = repository.tables.get_many(keys)
    check_same(repository.uid, repository.name, of_repository)
    refs = repository.refs
    return PullSides(
        store.decode(number, item),
        refs.decode_branch(source, of_source),
        refs.decode_branch(destination, of_destination),
    )


def sides_of(repository: RepositoryParts, pulls: Sequence[PullRequest]) -> list[PullSides]:
    """Return pull requests with their branches. One table read for each hundred branches. :class:`RepositoryNotFoundError`."""
    names = {name for pull in pulls for name in (pull.source, pull.destination)}
    keys = {name: repository.refs.branch_key(name) for name in names}
    of_repository, *items = repository.tables.get_many([repository_key(repository.name), *keys.values()])
    check_same(repository.uid, repository.name, of_repository)
    states = {name: repository.refs.decode_branch(name, item) for name, item in zip(keys, items, strict=True)}
    return [PullSides(pull, states[pull.source], states[pull.destination]) for pull in pulls]


def closed_by_loss(pull: PullRequest, loss: str, now: int) -> PullRequest:
    """Return a pull request that has lost a branch, for this reason, as it is stored: closed."""
    return replace(pull, state=PullState.CLOSED, reason=loss, closed=now, when_ready=None)


def _branch_keys(repository: RepositoryParts, *names: str) -> list[Key]:
    return [repository.refs.branch_key(name) for name in names]
