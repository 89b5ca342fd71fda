"""Landing a tree on a branch: the loop that merge, revert, cherry-pick and import share.

Each builds its own tree on the branch's head and publishes it on condition of that head; when the head moved meanwhile, it is
built again on the new one (promise C6: what did not change is not even opened then).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from secrets import token_hex

import msgspec
from msgspec.structs import replace

from graveler.errors import DirtyBranchError
from graveler.history.commits import check_info, commit_saying
from graveler.history.refs import BranchState
from graveler.lake.committing.applications import Applications, applications_of, check_application
from graveler.lake.committing.clean_heads import Staging, expect_apart, wait_for_clean_head, wait_for_head
from graveler.lake.committing.publish import HeadMovedError, once, publish
from graveler.lake.deadline import Deadline
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.rules import Intent
from graveler.lake.turns import Turn
from graveler.model import Application, Commit, CommitID, MetarangeName
from graveler.requests.base import CommitInfo
from graveler.storage.tables import Check, Put
from graveler.tree.tree import Tree


class Landing(msgspec.Struct, frozen=True):
    """What is to be said of a commit that lands: ``verb`` for the reference log, ``why`` for a refusal ("merging 'a' into it"),
    ``info`` for the commit; ``intent`` is what the repository's settings allow or refuse; ``application``
    is whose numbered write this is. ``beside``: what is staged on the branch may stay there, as long as it is apart from what the
    tree changes and from the prefixes ``replaced``. ``only_while``: it is published on this condition, too. ``ticket`` names that
    by which an operation keeps its turn over its steps."""

    branch: str
    verb: str
    why: str
    info: CommitInfo
    intent: Intent = Intent(direct=False)
    application: Application | None = None
    beside: bool = False
    replaced: Sequence[str] = ()
    only_while: Check | None = None
    ticket: str = ""


class Draft(msgspec.Struct, frozen=True):
    """A tree built on a head. ``merged`` are parents besides the head; ``alive`` are commits that were built on and that no
    branch is known to hold, so that they must not have expired. ``cuts``: the tree is not cut as the head's, but so. ``there``
    are metaranges that need not be written, should the tree come out as one of them: those of the head and of ``alive``."""

    tree: Tree
    merged: Sequence[Commit] = ()
    alive: Sequence[CommitID] = ()
    cuts: str | None = None
    there: Sequence[MetarangeName] = ()


Build = Callable[[Commit, Tree], Draft]
"""Builds on a head and its tree."""


def written_before(repository: RepositoryParts, landing: Landing) -> Commit | None:
    """The commit in which the branch got this version of the landing's application already (promise C4). Cost as of
    :meth:`Applications.look`; no request where it has none."""
    _refuse_early(repository, landing)
    return _numbered(repository, landing).done


def look_at_head(repository: RepositoryParts, landing: Landing, *, keep: bool = False) -> tuple[Commit, Tree]:
    """The branch's head and its tree, once a tree could land there. Cost and errors as :func:`wait_for_clean_head`. ``keep``:
    from now on it is this operation's turn, until it lands or gives up."""
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
    """The commit of a tree that is built on the branch's head.

    ``prepare`` is called once, before the branch is looked at; what it returns builds on a head, and is called again when
    the head moved. With a request id, a repeated request returns the first one's commit, and so does a repeated version of an
    application, after whatever time (promise C4).
    ``deadline`` is that of work that began before; ``meanwhile`` is as of :meth:`Turns.at`. :class:`DirtyBranchError`,
    :class:`ForbiddenError`, :class:`BusyError`, :class:`StoppedError`, and what those two raise: then nothing was changed.
    """
    deadline = deadline or repository.deadlines.begin()
    operation = token_hex(16)
    _refuse_early(repository, landing)

    def make() -> Commit:
        numbered = _numbered(repository, landing)
        if numbered.done is not None:
            return numbered.done
        build = prepare()
        with repository.turns.at(landing.branch, landing.ticket, meanwhile=meanwhile) as turn:
            while True:
                state, head, before, staged = _head(repository, turn, landing)
                if (done := numbered.in_history_of(head)) is not None:
                    return done
                draft = build(head, before)
                if staged is Staging.CHANGES:
                    expect_apart(repository, state, before, draft.tree, landing.why, landing.replaced)
                commit = _commit(repository, landing, head, draft, _saved(repository, draft), operation)
                try:
                    publish(
                        repository,
                        state,
                        commit,
                        landing.verb,
                        deadline,
                        sources=draft.alive,
                        request_id=landing.info.request_id,
                        besides=[*turn.leaving(), *numbered.writes(commit)],
                        only_while=landing.only_while,
                    )
                    turn.left()
                    return commit
                except HeadMovedError:
                    turn.wait()
                    numbered.read()

    return once(repository, landing.info.request_id, make)


def rehearse(repository: RepositoryParts, landing: Landing, prepare: Callable[[], Build]) -> Commit:
    """The commit that :func:`land` would make on the head as it is, without its ID: nothing names it, and the branch stays
    where it is. What was built is garbage. Errors as of :func:`land`, except those of publishing."""
    _refuse_early(repository, landing)
    build = prepare()
    head, before = look_at_head(repository, landing)
    draft = build(head, before)
    return replace(_commit(repository, landing, head, draft, draft.tree.name(), ""), id=CommitID(""))


def keeping_turn(repository: RepositoryParts, landing: Landing) -> AbstractContextManager[None]:
    """While the body works, the turn stays an operation's that has kept it. A table write when it begins and when it ends,
    and every few seconds."""
    return repository.turns.keeping(landing.branch, landing.ticket)


def give_back_turn(repository: RepositoryParts, landing: Landing) -> None:
    """The operation ends without landing, and gives its turn back. One table write."""
    repository.turns.let_go(landing.branch, landing.ticket)


def _head(repository: RepositoryParts, turn: Turn, landing: Landing) -> tuple[BranchState, Commit, Tree, Staging]:
    if landing.beside:
        return wait_for_head(repository, turn, landing.branch, landing.intent)
    while True:
        try:
            found = wait_for_clean_head(repository, turn, landing.branch, landing.why, landing.intent)
        except DirtyBranchError:
            if not turn.step_aside():
                raise
            continue  # whoever would commit what is staged had to wait for a turn that was kept
        return *found, Staging.NOTHING


def _numbered(repository: RepositoryParts, landing: Landing) -> "_Numbered":
    return _Numbered(applications_of(repository), landing.branch, landing.application)


def _commit(
    repository: RepositoryParts, landing: Landing, head: Commit, draft: Draft, name: MetarangeName, operation: str
) -> Commit:
    parents = [head, *draft.merged]
    return commit_saying(landing.info, parents, name, repository.clock.now(), operation, draft.cuts)


def _saved(repository: RepositoryParts, draft: Draft) -> MetarangeName:
    """The tree's metarange, durable. One object write, unless it is another commit's."""
    name = draft.tree.name()
    return name if name in draft.there else repository.trees.save(draft.tree)


def _refuse_early(repository: RepositoryParts, landing: Landing) -> None:
    """What cannot be said in a commit is refused before the work."""
    check_info(landing.info, repository.clock.now())
    if landing.application is not None:
        check_application(landing.application)


class _Numbered:
    """What is known of the application whose numbered write lands; nothing, and no request, where there is none."""

    def __init__(self, applications: Applications, branch: str, application: Application | None) -> None:
        self._applications = applications
        self._branch = branch
        self._application = application
        self.done = self.read()
        """The commit of an earlier try, found before the work."""

    def read(self) -> Commit | None:
        """Look what the application wrote last. :meth:`Applications.written`."""
        if self._application is None:
            return None
        self._last, done = self._applications.look(self._branch, self._application)
        return done

    def in_history_of(self, head: Commit) -> Commit | None:
        """The commit that holds this version already, if the head has it."""
        if self._application is None:
            return None
        return self._applications.covers(self._last, self._application, head.id)

    def writes(self, commit: Commit) -> Sequence[Put]:
        """What goes into the transaction that publishes the commit."""
        if self._application is None:
            return ()
        return [self._applications.write(self._branch, self._application, commit.id, self._last)]
