"""Commit: seal, apply, publish. The protocol of ``docs/concurrency.md``, in the form that was searched exhaustively."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from secrets import token_hex
from typing import Final

import msgspec

from graveler.errors import (
    ChangesHeldError,
    GravelerError,
    NoChangesError,
    PreconditionError,
    RefNotFoundError,
    TooMuchWorkError,
)
from graveler.history.commits import check_info, new_commit_from_info
from graveler.history.refs import BranchState
from graveler.history.split_parameters import split_of
from graveler.lake.clock import Polls
from graveler.lake.committing.partial_result import commit_terms, keep
from graveler.lake.committing.publish import HeadMovedError, drop_tokens, once, publish
from graveler.lake.committing.sealing import Sealed, end_holders, holding, own_token, seal, take_sealed
from graveler.lake.context import NOBODY, Context
from graveler.lake.deadline import Deadline
from graveler.lake.gates.gate import GateTerms
from graveler.lake.gates.passage import ROUNDS, Attempt, Passage, Publication
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Actor, Commit, SplitParameters, Token
from graveler.requests import committing as requests
from graveler.staging.changes import StagedChanges
from graveler.staging.tokens import TokenOutcome, TokenState
from graveler.storage.tables.port import Check
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.apply import Change, Interval, apply, reapply
from graveler.tree.record import object_size
from graveler.tree.tree import Tree, Trees
from graveler.tree.writer import StoppedError

_AHEAD: Final = 50_000
"""The number of changes to look at before they are used."""

_TOLD: Final = 1000
"""The number of changes after which progress is told."""


class RestagedError(Exception):
    """Another process took the own token for that of a dead commit, and staged its changes again: they are uncommitted, or
    another commit has sealed them. Seal again. For the verbs of this room only."""


def commit(repository: RepositoryParts, request: requests.Commit, context: Context) -> Commit:
    """See :class:`graveler.requests.committing.Commit`."""
    branch, info = request.branch, request.info
    check_info(info, repository.clock.now())
    operation = token_hex(16)
    passage = _passage(repository, request, context)
    intent = Intent(direct=True, force=request.force, accept=passage.accept)

    def make() -> Commit:
        first_token: Token | None = None
        while True:
            deadline = repository.deadlines.begin()
            try:
                sealed = seal(repository, branch, operation, info.request_id, intent)
            except ChangesHeldError as held:
                candidate = passage.resume()  # of an earlier call of this request
                if candidate is not None:
                    with suppress(HeadMovedError):
                        return passage.finish(candidate, lambda: Publication(request_id=info.request_id))
                if not passage.give_up(resumed=candidate is not None) and not passage.end_unguarded(held.candidate):
                    raise
                continue
            first_token = first_token or sealed.own_token
            attempt = _Attempt(repository.split, repository.staged, repository.trees, operation, context)
            try:
                return _publish(repository, request, operation, sealed, deadline, attempt.build, passage)
            except RestagedError:
                continue
            except NoChangesError:
                new_commit = (
                    None if first_token in (None, sealed.own_token) else commit_of_changes(repository, first_token)
                )
                if new_commit is None:
                    raise
                return new_commit

    new_commit = once(repository, info.request_id, make)
    # A good time to clean up after old commits. A failure here only lets the table grow and is retried at the next
    # commit, so it must not fail a commit that was made.
    with suppress(GravelerError):
        repository.cleanup.sweep(repository.staged, repository.clock.now())
    return new_commit


def seal_once(repository: RepositoryParts, request: requests.Commit, operation: str) -> Sealed:
    """Return the changes to commit, as :func:`seal` for a step of an operation, which is patient; if this operation has already
    sealed some, return those. One more table read."""
    intent = Intent(direct=True, force=request.force)
    state = repository.branches.state(request.branch, intent)
    token = own_token(repository, state, operation)
    if token is None:
        return seal(repository, request.branch, operation, request.info.request_id, intent, patient=True)
    tokens = state.sealed[: state.sealed.index(token) + 1]
    return Sealed(msgspec.structs.replace(state, sealed=tokens), token)


def publish_built(
    repository: RepositoryParts,
    request: requests.Commit,
    operation: str,
    tokens: tuple[Token, ...],
    token: Token | None,
    build: "Build",
    deadline: Deadline,
    only_while: Check | None = None,
    actor: Actor = NOBODY,
    leave: float = 0.0,
) -> Commit:
    """Publish a commit of sealed tokens whose tree was built elsewhere; ``build`` returns it for a head and for those tokens that
    are still on the branch. ``only_while`` as of :func:`publish`, ``leave`` as of :func:`holding`, ``actor`` of the request. Cost
    and errors as :func:`commit` after building."""

    passage = _passage(repository, request, Context(actor=actor))
    intent = Intent(direct=False, force=True, accept=passage.accept)  # the verb began before

    def make() -> Commit:
        state = msgspec.structs.replace(repository.branches.state(request.branch, intent), sealed=tokens)
        return _publish(
            repository,
            request,
            operation,
            Sealed(state, token),
            deadline,
            build,
            passage,
            look=True,
            only_while=only_while,
            leave=leave,
        )

    return once(repository, request.info.request_id, make)


def _passage(repository: RepositoryParts, request: requests.Commit, context: Context) -> Passage:
    terms = GateTerms(request=request, actor=context.actor, direct=True, stop=context.stop)
    return Passage(repository, request.branch, "commit", terms)


def _publish(
    repository: RepositoryParts,
    request: requests.Commit,
    operation: str,
    sealed: Sealed,
    deadline: Deadline,
    build: "Build",
    passage: Passage,
    *,
    look: bool = False,
    only_while: Check | None = None,
    leave: float = 0.0,
) -> Commit:
    """Publish a commit of the sealed tokens that no other commit has. ``look``: the branch may have changed since. ``leave`` as
    of :func:`holding`."""
    publication = Publication(request_id=request.info.request_id, condition=only_while)
    for _ in range(ROUNDS):
        with holding(repository, sealed.own_token, operation, request.info.request_id, leave):
            result = _publish_or_prepare(
                repository, request, operation, sealed, deadline, build, passage, publication, look=look
            )
        if isinstance(result, Commit):
            return result
        with suppress(HeadMovedError):
            return passage.finish(result, lambda: publication)
        look = True
    raise busy(request.branch)


def _publish_or_prepare(
    repository: RepositoryParts,
    request: requests.Commit,
    operation: str,
    sealed: Sealed,
    deadline: Deadline,
    build: "Build",
    passage: Passage,
    publication: Publication,
    *,
    look: bool,
) -> Commit | Attempt:
    """Publish the commit, and return it; where rules guard the branch, return it as a candidate instead, which holds the
    tokens."""
    branch, info = request.branch, request.info
    polls = Polls(repository.clock)
    state: BranchState | None = _look_again(repository, passage) if look else sealed.state
    while True:
        if sealed.own_token is not None and (state is None or sealed.own_token not in state.sealed):
            return taken_by_another(repository, branch, sealed.own_token)
        if state is None:
            raise RefNotFoundError(branch, "the branch no longer exists", "branch")
        # The branch's oldest: none was sealed before these. (Oldest first: if a newer one was published earlier, an
        # older one could overwrite it later, promise C1.)
        tokens = tuple(token for token in state.sealed if token in sealed.tokens)
        if not tokens and not request.allow_empty:
            raise no_changes(branch)
        adopted = take_sealed(
            repository, tuple(token for token in tokens if token != sealed.own_token), candidate=passage.newest_id
        )
        if adopted is not None:
            head = repository.branches.commit(state.commit_id)
            before = repository.trees.load(head.metarange)
            tree = build(head, before, tokens)
            try:
                if tree.id() == before.id() and not request.allow_empty:
                    drop_tokens(repository, state, tokens, operation)
                    raise no_changes(branch)
                saved = repository.trees.save(tree)
                now = repository.clock.now()
                if passage.gate:
                    commit = new_commit_from_info(info, [head], saved, now, token_hex(16))
                    held = _outcomes(repository, tokens, passage.newest_id)
                    return passage.prepare(state, head, commit, (before, tree), deadline, tokens=held)
                commit = new_commit_from_info(info, [head], saved, now, operation)
                publish(
                    repository,
                    state,
                    commit,
                    "commit",
                    deadline,
                    applied=tokens,
                    request_id=info.request_id,
                    adopted={outcome.request for outcome in adopted if outcome.request},
                    condition=publication.condition,
                )
                return commit
            except HeadMovedError:
                pass
        # Else the owner of an older token is alive: publish after it.
        if not polls.wait():
            raise busy(branch)
        state = _look_again(repository, passage)


def _look_again(repository: RepositoryParts, passage: Passage) -> BranchState | None:
    """Return the branch, with the rules that guard it by now."""
    return repository.branches.find(passage.name, Intent(direct=False, force=True, accept=passage.accept))


def _outcomes(repository: RepositoryParts, tokens: tuple[Token, ...], candidate: str) -> dict[Token, TokenOutcome]:
    """Return the outcomes of sealed tokens that a new candidate may hold, instead of this earlier ``candidate``. Another one may
    have taken them, the own token too, while the tree was built. :class:`HeadMovedError` if one has none, is not sealed any more,
    or may still be held; :class:`ChangesHeldError`. A table read, and as :func:`end_holders`."""
    outcomes = dict(zip(tokens, repository.outcomes.get_many(tokens), strict=True)) if tokens else {}
    if any(outcome is None or outcome.state is not TokenState.SEALED for outcome in outcomes.values()):
        raise HeadMovedError
    outcome_of = {token: outcome for token, outcome in outcomes.items() if outcome is not None}
    if not end_holders(repository, outcome_of.values(), candidate):
        raise HeadMovedError
    return outcome_of


def taken_by_another(repository: RepositoryParts, branch: str, token: Token) -> Commit:
    """Return the commit of the own token, which is not on the branch any more. :class:`RestagedError`."""
    outcome = repository.outcomes.get(token)
    if outcome is not None and outcome.state is TokenState.RESTAGED:
        _, outcome = repository.outcomes.follow(token)
        if outcome is None or outcome.state is TokenState.SEALED:
            raise RestagedError
    if outcome is not None and outcome.commit_id is not None:
        return repository.commits.get(outcome.commit_id)
    if outcome is not None and outcome.state is TokenState.DROPPED:
        raise no_changes(branch)
    ended = {TokenState.RESET: "reset", TokenState.DELETED: "deleted"}
    # A token that is still sealed moved with its branch to another name, where the next commit takes it.
    happened = "renamed" if outcome is None else ended.get(outcome.state, "renamed")
    raise PreconditionError(f"branch {branch!r} was {happened} while it was being committed; nothing was committed")


def commit_of_changes(repository: RepositoryParts, token: Token | None) -> Commit | None:
    """Return the commit that has the changes that an own token held, if there is one. A table read for each token that held
    them, and the commit's."""
    outcome = None if token is None else repository.outcomes.follow(token)[1]
    return None if outcome is None or outcome.commit_id is None else repository.commits.get(outcome.commit_id)


Build = Callable[[Commit, Tree, tuple[Token, ...]], Tree]
"""Returns a head's tree with the changes of these tokens (the oldest first)."""


class _Attempt:
    """Builds the tree of staged changes on a head; on another head it rebuilds only where the heads differ (promise C6)."""

    def __init__(
        self,
        split: SplitParameters,
        staged: StagedChanges,
        trees: Trees,
        operation: str,
        context: Context,
    ) -> None:
        self._split = split
        self._staged = staged
        self._trees = trees
        self._operation = operation
        self._limit = context.limit
        self._stop = context.stop
        self._progress = context.progress
        self._tokens: tuple[Token, ...] = ()
        self._head: Tree | None = None
        self._result: Tree | None = None
        self._cut: SplitParameters | None = None

    def build(self, commit: Commit, head: Tree, tokens: tuple[Token, ...]) -> Tree:
        """Return ``head`` with the changes staged under ``tokens`` (the oldest first), unsettled. :class:`TooMuchWorkError`."""
        changes = staged_changes(self._staged, tokens)
        split = split_of(commit, self._split)
        try:
            if self._head is None or self._result is None or tokens != self._tokens or split != self._cut:
                everything = changes((None, None))
                if self._progress is not no_object_progress:
                    everything = _told(everything, self._progress)
                if self._limit is not None:
                    is_hint = self._stop is not None
                    everything = _within(self._limit, head, everything, self._operation, is_hint=is_hint)
                result = apply(head, everything, split, self._stop, settle=False)
            else:
                self._result.settle()  # if no part of it was published, it was never saved
                result = reapply(self._head, self._result, head, changes, split, self._stop, settle=False)
        except StoppedError as stopped:
            partial_result = keep(self._trees, stopped, commit_terms(tokens, split), (head,))
            raise TooMuchWorkError("committing", operation=self._operation, partial_result=partial_result) from None
        self._head, self._result, self._tokens, self._cut = head, result, tokens, split
        return result


def staged_changes(staged: StagedChanges, tokens: tuple[Token, ...]) -> Callable[[Interval], Iterable[Change]]:
    """Return a function that yields the changes of an interval that are staged under ``tokens`` (the oldest first)."""

    def changes(interval: Interval) -> Iterable[Change]:
        after, upto = interval
        start = b"" if after is None else after + b"\0"
        return staged.scan(tokens[::-1], start, None if upto is None else upto + b"\0")

    return changes


def _within(limit: int, tree: Tree, changes: Iterable[Change], operation: str, *, is_hint: bool) -> Iterator[Change]:
    """Yield the changes. :class:`TooMuchWorkError` once applying them would take reading more than ``limit`` records; before the
    first of them is used, if some ten thousand changes are enough to see that; with ``is_hint``, only then."""
    return chain.from_iterable(_batches_within(limit, tree, iter(changes), operation, is_hint=is_hint))


def _batches_within(
    limit: int, tree: Tree, source: Iterator[Change], operation: str, *, is_hint: bool
) -> Iterator[Iterable[Change]]:
    records, previous = 0, -1
    while batch := list(islice(source, _AHEAD)):
        keys = [key for key, _ in batch]
        records += len(keys)
        begin = 0
        while begin < len(keys) and (number := bisect_left(tree.lasts, keys[begin])) < len(tree):
            if number != previous:
                records += tree.info(number).count
            previous = number
            begin = bisect_right(keys, tree.lasts[number], begin)
        if records > limit:
            raise TooMuchWorkError("committing", records, limit, operation)
        yield batch
        if is_hint:
            yield source


def _told(changes: Iterable[Change], progress: ObjectProgress) -> Iterator[Change]:
    """Yield the changes, and tell how many there were, and the bytes of the new objects among them."""
    return chain.from_iterable(_told_batches(iter(changes), progress))


def _told_batches(source: Iterator[Change], progress: ObjectProgress) -> Iterator[Iterable[Change]]:
    while some := list(islice(source, _TOLD)):
        yield some
        progress(len(some), sum(object_size(packed) for _, packed in some if packed is not None))


def no_changes(branch: str) -> NoChangesError:
    """Return the error for a commit without changes."""
    return NoChangesError(
        f"nothing to commit on branch {branch!r}: it has no uncommitted changes (anything staged there is the "
        "same as in its last commit); upload, link or delete something first"
    )
