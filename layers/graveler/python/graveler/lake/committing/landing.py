"""Landing a tree on a branch: the loop that merge, revert, cherry-pick and import share.

Each builds its own tree on the branch's head and publishes it on condition of that head; if the head moved meanwhile, it is
rebuilt on the new one (promise C6: unchanged ranges are not even opened then).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from secrets import token_hex

import msgspec
from msgspec.structs import replace

from graveler.errors import DirtyBranchError
from graveler.history.commits import check_info, new_commit_from_info
from graveler.history.refs import BranchState
from graveler.lake.committing.applications import check_application
from graveler.lake.committing.clean_heads import Staging, expect_apart, wait_for_clean_head, wait_for_head
from graveler.lake.committing.publish import HeadMovedError, NotePublishing, Publishing, once, publish
from graveler.lake.context import Context
from graveler.lake.deadline import Deadline
from graveler.lake.gates.gate import GateTerms
from graveler.lake.gates.passage import NO_COMMIT, ROUNDS, Attempt, Passage, Publication
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.lake.turns import Turn
from graveler.model import Application, Commit, CommitID, MetarangeName
from graveler.requests.base import CommitInfo
from graveler.storage.tables.port import Check, Put, Write
from graveler.tree.tree import Tree


class Landing(msgspec.Struct, frozen=True):
    """The parameters of a commit that lands: ``verb`` for the reference log, ``doing`` for a refusal ("merging 'a' into it"),
    ``info`` for the commit; ``intent`` is for the check of the repository's settings; ``application`` identifies a numbered
    write. ``beside_uncommitted``: staged changes may stay on the branch, as long as they are apart from the tree's changes and
    from the prefixes ``replaced``. ``only_while`` is one more condition for publishing. ``note`` learns whether the commit is
    published. ``gate`` is what rules about the branch judge. ``accompanying`` returns more writes for the transaction that
    publishes; if a condition of theirs fails, the branch is read again. ``ticket`` is the name under which an operation keeps its
    turn over its steps. Once ``stop`` returns true, it waits for the branch no longer (:class:`BusyError`)."""

    branch: str
    verb: str
    doing: str
    info: CommitInfo
    intent: Intent = Intent(direct=False)
    application: Application | None = None
    beside_uncommitted: bool = False
    replaced: Sequence[str] = ()
    only_while: Check | None = None
    gate: GateTerms = GateTerms()
    note: NotePublishing | None = None
    accompanying: Callable[[Commit], Sequence[Write]] | None = None
    ticket: str = ""
    stop: Callable[[], bool] | None = None

    def by(self, context: Context) -> "Landing":
        """Return the landing as one that the actor of this context asks for, within its limits."""
        return replace(self, gate=replace(self.gate, actor=context.actor, stop=context.stop))


class Draft(msgspec.Struct, frozen=True):
    """A tree built on a head, which may be unsettled. ``merged`` are parents besides the head; ``required_commits`` are commits
    that were built on and that no branch is known to hold, so they must not have expired. ``cuts`` are the tree's split
    parameters, if they are not the head's. ``durable`` are metaranges that need not be written if the tree turns out to be one of
    them: those of the head and of ``required_commits``. ``source`` and ``base`` are those of a merge."""

    tree: Tree
    merged: Sequence[Commit] = ()
    required_commits: Sequence[CommitID] = ()
    cuts: str | None = None
    durable: Sequence[MetarangeName] = ()
    source: CommitID = NO_COMMIT
    base: CommitID = NO_COMMIT


Build = Callable[[Commit, Tree], Draft]
"""Returns the draft for a head and its tree."""


def written_before(repository: RepositoryParts, landing: Landing) -> Commit | None:
    """Return the commit in which the branch already got this version of the landing's application (promise C4). Cost as of
    :meth:`Applications.look`; no request without an application."""
    _refuse_early(repository, landing)
    return _Numbered(repository, landing).done


def look_at_head(repository: RepositoryParts, landing: Landing, *, keep: bool = False) -> tuple[Commit, Tree]:
    """Return the branch's head and its tree, once a tree could land there. Cost and errors as :func:`wait_for_clean_head`.
    ``keep``: from now on this operation keeps the turn, until it lands or gives up."""
    with repository.turns.at(landing.branch, landing.ticket, keep=keep) as turn:
        _, head, before, _ = _head(repository, turn, landing)
    return head, before


def land(
    repository: RepositoryParts,
    landing: Landing,
    prepare: Callable[[], Build],
    deadline: Deadline | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Commit:
    """Build a tree on the branch's head, publish it, and return its commit.

    ``prepare`` is called once, before the branch is read; the function that it returns builds on a head, and is called again if
    the head moved. With a request ID, a repeated request returns the first one's commit, and so does a repeated version of an
    application, after any time (promise C4).
    ``deadline`` is that of work that began earlier; ``meanwhile`` is as of :meth:`Turns.at`. :class:`DirtyBranchError`,
    :class:`ForbiddenError`, :class:`BusyError`, :class:`StoppedError`, and errors of the two functions: nothing was changed then.
    """
    deadline = deadline or repository.deadlines.begin()
    _refuse_early(repository, landing)
    passage = Passage(repository, landing.branch, landing.verb, landing.gate)
    guarded = replace(landing, intent=replace(landing.intent, accept=passage.accept))

    def make() -> Commit:
        numbered = _Numbered(repository, landing)
        if numbered.done is not None:
            return numbered.done
        build = prepare()
        for number in range(ROUNDS):
            ticket = "" if landing.ticket else passage.ticket(number)
            with passage.queueing(ticket):
                with repository.turns.at(
                    landing.branch,
                    landing.ticket or ticket,
                    keep=bool(ticket),
                    meanwhile=meanwhile,
                    patient=bool(landing.ticket),
                    stop=landing.stop,
                ) as turn:
                    result = _land_in_turn(repository, turn, guarded, passage, build, numbered, deadline)
                if isinstance(result, Commit):
                    passage.report_admitted()
                    return result
                with suppress(HeadMovedError), passage.keeping_turn(result, ticket):
                    return passage.finish(result, partial(_publication, landing, numbered, result.commit))
            if passage.has_kept_turn:
                break
            numbered.read()
        raise passage.moved_error()

    return once(repository, landing.info.request_id, make)


def _land_in_turn(
    repository: RepositoryParts,
    turn: Turn,
    landing: Landing,
    passage: Passage,
    build: Build,
    numbered: "_Numbered",
    deadline: Deadline,
) -> Commit | Attempt:
    """Build on the head and publish, again if it moves, and return the commit; where rules guard the branch and something is
    lacking, return the candidate instead: nobody waits for the branch while it is checked."""
    operation = token_hex(16)
    while True:
        state, head, before, staged = _head(repository, turn, landing)
        if (done := numbered.in_history_of(head)) is not None:
            return done
        draft = build(head, before)
        if staged is Staging.CHANGES:
            draft.tree.settle()
            expect_apart(repository, state, before, draft.tree, landing.doing, landing.replaced)
        commit = _commit(repository, landing, head, draft, _saved(repository, draft), operation)
        publication = _publication(landing, numbered, commit, turn.release_writes())
        try:
            if passage.gate:
                operation = token_hex(16)  # of the next candidate
                publication.note(Publishing.BEGUN)  # the candidate needs what was written, and may be published later
                attempt = passage.prepare(
                    state,
                    head,
                    commit,
                    (before, draft.tree),
                    deadline,
                    source=draft.source,
                    base=draft.base,
                    required_commits=draft.required_commits,
                )
                if attempt.commit.id != commit.id:  # an earlier candidate of the same request
                    publication = _publication(landing, numbered, attempt.commit, turn.release_writes())
                published = passage.finish_at_once(attempt, publication)
                if published is None:
                    return attempt
                commit = published
            else:
                publish(
                    repository,
                    state,
                    commit,
                    landing.verb,
                    deadline,
                    required_commits=draft.required_commits,
                    request_id=publication.request_id,
                    extra_writes=publication.extra_writes,
                    condition=publication.condition,
                    note=publication.note,
                )
            turn.mark_released()
            return commit
        except HeadMovedError:
            turn.wait()
            numbered.read()


def _publication(landing: Landing, numbered: "_Numbered", commit: Commit, release: Sequence[Write] = ()) -> Publication:
    """Return what the landing adds to the transaction that publishes this commit."""
    accompanying = landing.accompanying(commit) if landing.accompanying is not None else ()
    return Publication(
        request_id=landing.info.request_id,
        extra_writes=[*release, *numbered.writes(commit), *accompanying],
        condition=landing.only_while,
        note=landing.note or (lambda _: None),
    )


def rehearse(repository: RepositoryParts, landing: Landing, prepare: Callable[[], Build]) -> Commit:
    """Return the commit that :func:`land` would make on the current head, without its ID: nothing refers to it, and the branch
    stays where it is. What was built is garbage. Errors as of :func:`land`, except those of publishing."""
    _refuse_early(repository, landing)
    build = prepare()
    head, before = look_at_head(repository, landing)
    draft = build(head, before)
    return replace(_commit(repository, landing, head, draft, draft.tree.name(), ""), id=CommitID(""))


def keeping_turn(repository: RepositoryParts, landing: Landing) -> AbstractContextManager[None]:
    """Renew the turn that an operation has kept while the body works. A table write when it begins and when it ends,
    and every few seconds."""
    return repository.turns.keeping(landing.branch, landing.ticket)


def give_back_turn(repository: RepositoryParts, landing: Landing) -> None:
    """Give up the kept turn of an operation that ends without landing. One table write."""
    repository.turns.release(landing.branch, landing.ticket)


def _head(repository: RepositoryParts, turn: Turn, landing: Landing) -> tuple[BranchState, Commit, Tree, Staging]:
    if landing.beside_uncommitted:
        return wait_for_head(repository, turn, landing.branch, landing.intent)
    while True:
        try:
            clean_head = wait_for_clean_head(repository, turn, landing.branch, landing.doing, landing.intent)
        except DirtyBranchError:
            if not turn.step_aside():
                raise
            continue  # a commit of the staged changes had to wait for the kept turn
        return *clean_head, Staging.NOTHING


def _commit(
    repository: RepositoryParts, landing: Landing, head: Commit, draft: Draft, name: MetarangeName, operation: str
) -> Commit:
    parents = [head, *draft.merged]
    return new_commit_from_info(landing.info, parents, name, repository.clock.now(), operation, draft.cuts)


def _saved(repository: RepositoryParts, draft: Draft) -> MetarangeName:
    """Return the tree's metarange, durable. One object write, unless it is another commit's."""
    name = draft.tree.name()
    return name if name in draft.durable else repository.trees.save(draft.tree)


def _refuse_early(repository: RepositoryParts, landing: Landing) -> None:
    """Refuse what a commit cannot contain, before the work."""
    check_info(landing.info, repository.clock.now())
    if landing.application is not None:
        check_application(landing.application)


class _Numbered:
    """The state of the application whose numbered write lands; empty, and without requests, if there is none."""

    def __init__(self, repository: RepositoryParts, landing: Landing) -> None:
        self._applications = repository.applications
        self._branch = landing.branch
        self._application = landing.application
        self.done = self.read()
        """The commit of an earlier attempt, found before the work."""

    def read(self) -> Commit | None:
        """Read what the application wrote last. :meth:`Applications.written`."""
        if self._application is None:
            return None
        self._last, done = self._applications.look(self._branch, self._application)
        return done

    def in_history_of(self, head: Commit) -> Commit | None:
        """Return the commit that already holds this version, if it is in the head's history."""
        if self._application is None:
            return None
        return self._applications.covers(self._last, self._application, head.id)

    def writes(self, commit: Commit) -> Sequence[Put]:
        """Return the writes for the transaction that publishes the commit."""
        if self._application is None:
            return ()
        return [self._applications.write(self._branch, self._application, commit.id, self._last)]
