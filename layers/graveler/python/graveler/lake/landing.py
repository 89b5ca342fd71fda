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
from graveler.lake.applications import Applications, check_application
from graveler.lake.clean_heads import CleanHeads, Staging
from graveler.lake.clock import Clock
from graveler.lake.deadline import Deadline, Deadlines
from graveler.lake.publish import HeadMovedError, Publisher
from graveler.lake.rules import Intent
from graveler.lake.turns import Turn, Turns
from graveler.model import Application, Commit, CommitID, MetarangeName
from graveler.requests.base import CommitInfo
from graveler.storage.tables import Check, Put
from graveler.tree.tree import Tree, Trees


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


class Lander:
    """Lands trees on branches of one repository."""

    def __init__(
        self,
        heads: CleanHeads,
        publisher: Publisher,
        applications: Applications,
        trees: Trees,
        turns: Turns,
        clock: Clock,
        deadlines: Deadlines,
    ) -> None:
        self._heads = heads
        self._publisher = publisher
        self._applications = applications
        self._trees = trees
        self._turns = turns
        self._clock = clock
        self._deadlines = deadlines

    def done_before(self, request_id: str) -> Commit | None:
        """The commit that a request with this id has made already (promise C4). One table read, none without an id."""
        return self._publisher.commit_of(request_id)

    def written_before(self, landing: Landing) -> Commit | None:
        """The commit in which the branch got this version of the landing's application already (promise C4). Cost as of
        :meth:`Applications.look`; no request where it has none."""
        self._refuse_early(landing)
        return self._numbered(landing).done

    def look(self, landing: Landing, *, keep: bool = False) -> tuple[Commit, Tree]:
        """The branch's head and its tree, once a tree could land there. Cost and errors as :meth:`CleanHeads.wait_for`. ``keep``:
        from now on it is this operation's turn, until it lands or gives up."""
        with self._turns.at(landing.branch, landing.ticket, keep=keep) as turn:
            _, head, before, _ = self._head(turn, landing)
        return head, before

    def land(
        self,
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
        until = deadline or self._deadlines.begin()
        operation = token_hex(16)
        self._refuse_early(landing)

        def make() -> Commit:
            numbered = self._numbered(landing)
            if numbered.done is not None:
                return numbered.done
            build = prepare()
            with self._turns.at(landing.branch, landing.ticket, meanwhile=meanwhile) as turn:
                while True:
                    state, head, before, staged = self._head(turn, landing)
                    if (done := numbered.in_history_of(head)) is not None:
                        return done
                    draft = build(head, before)
                    if staged is Staging.CHANGES:
                        self._heads.expect_apart(state, before, draft.tree, landing.why, landing.replaced)
                    commit = self._commit(landing, head, draft, self._saved(draft), operation)
                    try:
                        self._publisher.publish(
                            state,
                            commit,
                            landing.verb,
                            until,
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

        return self._publisher.once(landing.info.request_id, make)

    def rehearse(self, landing: Landing, prepare: Callable[[], Build]) -> Commit:
        """The commit that :meth:`land` would make on the head as it is, without its ID: nothing names it, and the branch stays
        where it is. What was built is garbage. Errors as of :meth:`land`, except those of publishing."""
        self._refuse_early(landing)
        build = prepare()
        head, before = self.look(landing)
        draft = build(head, before)
        return replace(self._commit(landing, head, draft, draft.tree.name(), ""), id=CommitID(""))

    def keeping(self, landing: Landing) -> AbstractContextManager[None]:
        """While the body works, the turn stays an operation's that has kept it. A table write when it begins and when it ends,
        and every few seconds."""
        return self._turns.keeping(landing.branch, landing.ticket)

    def let_go(self, landing: Landing) -> None:
        """The operation ends without landing, and gives its turn back. One table write."""
        self._turns.let_go(landing.branch, landing.ticket)

    def _head(self, turn: Turn, landing: Landing) -> tuple[BranchState, Commit, Tree, Staging]:
        if landing.beside:
            return self._heads.wait_beside(turn, landing.branch, landing.intent)
        while True:
            try:
                found = self._heads.wait_for(turn, landing.branch, landing.why, landing.intent)
            except DirtyBranchError:
                if not turn.step_aside():
                    raise
                continue  # whoever would commit what is staged had to wait for a turn that was kept
            return *found, Staging.NOTHING

    def _numbered(self, landing: Landing) -> "_Numbered":
        return _Numbered(self._applications, landing.branch, landing.application)

    def _commit(self, landing: Landing, head: Commit, draft: Draft, name: MetarangeName, operation: str) -> Commit:
        parents = [head, *draft.merged]
        return commit_saying(landing.info, parents, name, self._clock.now(), operation, draft.cuts)

    def _saved(self, draft: Draft) -> MetarangeName:
        """The tree's metarange, durable. One object write, unless it is another commit's."""
        name = draft.tree.name()
        return name if name in draft.there else self._trees.save(draft.tree)

    def _refuse_early(self, landing: Landing) -> None:
        """What cannot be said in a commit is refused before the work."""
        check_info(landing.info, self._clock.now())
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
