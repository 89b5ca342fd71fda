"""Creating and changing pull requests. Each change is on condition of the version that it was based on."""

from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import Final

from msgspec.structs import replace

from graveler.errors import BusyError, GravelerError, InvalidError, RefNotFoundError, UnavailableError
from graveler.lake.clock import Backoff
from graveler.lake.context import Context
from graveler.lake.deadline import StoppedError
from graveler.lake.gates.candidates import Candidates
from graveler.lake.opening.repositories import check_same, repository_key
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.approvals import actor_of
from graveler.lake.pulls.pull_sides import PullSides, closed_by_loss, ended, read_sides
from graveler.lake.pulls.pull_store import PullStore, next_version, pull_number, result_number
from graveler.lake.text import utf8
from graveler.model import Actor, CandidateState
from graveler.requests import pulls as requests
from graveler.requests.pulls import PullRequest, PullState
from graveler.staging.tokens import life_of
from graveler.storage.tables.port import ConditionFailedError, Write

MAX_TITLE: Final = 255
MAX_DESCRIPTION: Final = 64 * 1024
MAX_MESSAGE: Final = 64 * 1024
MAX_NAME: Final = 255
"""The longest texts, in bytes of UTF-8."""
MAX_PEOPLE: Final = 100
"""The most reviewers, and the most approvals."""
_MAX_STRATEGIES: Final = 100


def create_pull_request(
    repository: RepositoryParts, request: requests.CreatePullRequest, context: Context
) -> PullRequest:
    """See :class:`graveler.requests.pulls.CreatePullRequest`."""
    if request.source == request.destination:
        raise InvalidError(
            f"source and destination of a pull request are the same branch {request.source!r}; name two branches"
        )
    actor = actor_of(context)
    draft = PullRequest(
        number=0,
        title=request.title,
        source=request.source,
        destination=request.destination,
        source_life="",
        destination_life="",
        description=request.description,
        author=actor.name,
        principal=actor.principal,
        draft=request.draft,
        created=int(repository.clock.now()),
        message=request.message,
        strategies=request.strategies,
        squash=request.squash,
        reviewers=_unique(request.reviewers),
    )
    check_pull(draft)
    store = PullStore(repository.tables, repository.uid)
    backoff = Backoff(repository.clock)
    while True:
        mark = token_hex(8)
        earlier, pull, writes = _creation(repository, store, request, draft, mark)
        if earlier is not None:
            return store.get(earlier)
        if context.only_while is not None:
            writes.append(context.only_while)
        try:
            repository.tables.transact(writes)
            return pull
        except ConditionFailedError as error:
            if store.has_mark(store.key(pull.number), mark):
                return pull  # a retry within the adapter came upon its own first attempt
            if context.only_while is not None and len(writes) - 1 in error.failures:
                raise StoppedError("creating the pull request was stopped; nothing was changed") from None
            if not backoff.wait():
                raise BusyError("too many pull requests are being created at once; try again") from None
        except UnavailableError:
            if not store.has_mark(store.key(pull.number), mark):
                raise
            return pull


def _creation(
    repository: RepositoryParts, store: PullStore, request: requests.CreatePullRequest, draft: PullRequest, mark: str
) -> tuple[int | None, PullRequest, list[Write]]:
    """Return the number of the pull request that this request has created before; else the one to create, and its writes. One
    table read."""
    refs = repository.refs
    keys = [store.last_key, refs.branch_key(request.source), refs.branch_key(request.destination)]
    result_keys = [store.result_key(request.request_id, "pull")] if request.request_id else []
    last, of_source, of_destination, of_repository, *results = repository.tables.get_many(
        [*keys, repository_key(repository.name), *result_keys]
    )
    check_same(repository.uid, repository.name, of_repository)
    if results and (earlier := result_number(results[0])) is not None:
        return earlier, draft, []
    lives = []
    for name, item in ((request.source, of_source), (request.destination, of_destination)):
        state = refs.decode_branch(name, item)
        if state is None:
            raise RefNotFoundError(name, kind="branch")
        lives.append(life_of(state.open))
    number = (result_number(last) or 0) + 1
    pull = replace(draft, number=number, source_life=lives[0], destination_life=lives[1])
    writes = store.create_writes(pull, last, mark)
    if request.request_id:
        writes.append(store.result_write(request.request_id, "pull", number, repository.clock.now()))
    return None, pull, writes


def update_pull_request(
    repository: RepositoryParts, request: requests.UpdatePullRequest, context: Context
) -> PullRequest:
    """See :class:`graveler.requests.pulls.UpdatePullRequest`."""
    if request.status == PullState.MERGED.value:
        raise InvalidError("the status of a pull request cannot be set to merged; merge it instead")

    def update(sides: PullSides) -> PullRequest:
        pull = sides.pull
        if pull.state is PullState.MERGED:
            raise ended(pull)
        fields = ("title", "description", "draft", "message", "strategies", "squash")
        changes = {name: value for name in fields if (value := getattr(request, name)) is not None}
        if request.reviewers is not None:
            changes["reviewers"] = _unique(request.reviewers)
        changed = replace(pull, **changes, lacks=())  # nobody knows before the next merge
        if request.when_ready is False:
            changed = replace(changed, when_ready=None)
        check_pull(changed)
        return _with_status(sides, changed, request.status, actor_of(context), int(repository.clock.now()))

    changed = change_pull(repository, pull_number(request.pull), update)
    if changed.state is PullState.CLOSED and changed.candidate:
        _withdraw_candidate(repository, changed)
    return changed


def _withdraw_candidate(repository: RepositoryParts, pull: PullRequest) -> None:
    """End the candidate of a closed pull request, if it is open: nothing could publish it. A close that is repeated does this,
    too, since the first one may have died before."""
    with suppress(RefNotFoundError):  # it has expired
        store = Candidates(repository.tables, repository.uid)
        row = store.find(pull.candidate, repository.commits)
        if row.in_progress and row.candidate.pull_request == pull.number:
            reason = f"pull request {pull.number} was closed"
            store.end(row, CandidateState.WITHDRAWN, reason, repository.clock.now())


def _with_status(sides: PullSides, changed: PullRequest, status: str | None, actor: Actor, now: int) -> PullRequest:
    """Return a pull request, closed or opened again."""
    if status == PullState.CLOSED.value and changed.is_open:
        return replace(changed, state=PullState.CLOSED, closed=now, closed_by=actor.name, reason="", when_ready=None)
    if status == PullState.OPEN.value and not changed.is_open:
        if sides.loss:
            raise ended(replace(sides.pull, reason=f"{sides.loss}, so it cannot be opened again"))
        return replace(changed, state=PullState.OPEN, closed=0, closed_by="", reason="")
    return changed


def change_pull(repository: RepositoryParts, number: int, change: Callable[[PullSides], PullRequest]) -> PullRequest:
    """Change a pull request by a function of it and its branches, and return it as it is then. If it turns out that a branch of
    it is gone, it is closed, whatever the function says.

    Cost: two table reads, one transaction; none if nothing changes; all again after losing a race. :class:`BusyError`, and errors
    of the function.
    """
    store = PullStore(repository.tables, repository.uid)
    backoff = Backoff(repository.clock)
    while True:
        sides = read_sides(repository, number)
        refused: GravelerError | None = None
        try:
            changed = change(sides)
        except GravelerError as error:
            refused, changed = error, sides.pull
        if sides.pull.is_open and sides.loss and changed.is_open:
            changed = closed_by_loss(changed, sides.loss, int(repository.clock.now()))
        if changed != sides.pull:
            stored = _stored(repository, store, sides.pull, next_version(sides.pull, changed))
            if stored is None:
                if not backoff.wait():
                    raise BusyError(f"pull request {number} is being changed by too many at once; try again")
                continue
            changed = stored
        if refused is not None:
            raise refused
        return changed


def _stored(repository: RepositoryParts, store: PullStore, old: PullRequest, new: PullRequest) -> PullRequest | None:
    """Store a changed pull request and return it; None if it has changed since."""
    try:
        repository.tables.transact(store.change_writes(old, new))
    except ConditionFailedError:
        return new if store.get(old.number) == new else None
    except UnavailableError:
        if store.get(old.number) != new:
            raise
    return new


def check_pull(pull: PullRequest) -> None:
    """Check the texts of a pull request and their number. :class:`InvalidError`."""
    if not pull.title.strip():
        raise InvalidError("the title of a pull request is empty; give it one")
    texts = (("title", pull.title, MAX_TITLE), ("description", pull.description, MAX_DESCRIPTION))
    for kind, text, most in (*texts, ("message", pull.message, MAX_MESSAGE)):
        check_length(f"the {kind} of a pull request", text, most)
    if len(pull.reviewers) > MAX_PEOPLE:
        raise InvalidError(f"{len(pull.reviewers)} reviewers are too many; ask at most {MAX_PEOPLE}")
    for name in pull.reviewers:
        check_length("the name of a reviewer", name, MAX_NAME)
        if not name.strip():
            raise InvalidError("the name of a reviewer is empty; leave it out")
    if len(pull.strategies.by_prefix) > _MAX_STRATEGIES:
        raise InvalidError(
            f"{len(pull.strategies.by_prefix)} strategies by prefix are too many for a pull request; give at most "
            f"{_MAX_STRATEGIES}"
        )


def check_length(kind: str, text: str, most: int) -> None:
    """Check that a text has at most ``most`` bytes of UTF-8. :class:`InvalidError`."""
    size = len(utf8(kind, text))
    if size > most:
        raise InvalidError(f"{kind} has {size:,} bytes, but at most {most:,} are allowed; shorten it")


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
