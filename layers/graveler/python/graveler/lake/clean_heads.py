"""Finding a branch's head for what must not mix with uncommitted changes: merge and import."""

from enum import Enum
from secrets import token_hex

from graveler.errors import DirtyBranchError
from graveler.history.refs import BranchState
from graveler.lake.branches import Branches
from graveler.lake.differences import changes_anything
from graveler.lake.publish import HeadMovedError, Publisher
from graveler.lake.rules import Intent
from graveler.lake.sealing import Sealer
from graveler.lake.turns import Turn
from graveler.model import Commit, Token
from graveler.staging.changes import StagedChanges
from graveler.tree.tree import Tree, Trees


class Staging(Enum):
    """What the staged records of a branch amount to."""

    NOTHING = 1
    NO_CHANGE = 2
    CHANGES = 3


class CleanHeads:
    """Finds the heads of branches of one repository on which nothing is staged."""

    def __init__(
        self,
        branches: Branches,
        staged: StagedChanges,
        sealer: Sealer,
        publisher: Publisher,
        trees: Trees,
    ) -> None:
        self._branches = branches
        self._staged = staged
        self._sealer = sealer
        self._publisher = publisher
        self._trees = trees

    def wait_for(
        self, turn: Turn, branch: str, operation: str, intent: Intent | None = None
    ) -> tuple[BranchState, Commit, Tree]:
        """The branch, its head and the head's tree, once it is this ``turn``, no commit is at work on it and nothing is staged.

        One table read of the branch, as :meth:`Turn.state`, one for each token and shard to see that nothing is staged.
        :class:`DirtyBranchError` if something is that changes the head. What is staged and changes nothing (tombstones over
        nothing, values that the head has already) is put aside first: it is older than what the operation brings, and must not
        hide it. That costs two transactions more. With an ``intent``, :class:`ForbiddenError` if the repository's settings
        refuse it.
        """
        while True:
            state = turn.state(intent)
            if self._sealer.take(state.sealed) is not None:
                head, tree = self._head(state)
                found = self._look((state.open, *state.sealed[::-1]), tree)
                if found is Staging.CHANGES:
                    raise DirtyBranchError(branch, operation)
                if found is Staging.NOTHING:
                    return state, head, tree
                turn.wait(ticket=not self._put_aside(turn, branch))
            else:
                turn.wait()

    def _put_aside(self, turn: Turn, branch: str) -> bool:
        """Take tokens from the branch that hold no change. Sealed first, so that a change that is staged meanwhile goes to the
        new token and is not lost with the old one (promise C1). False, and nothing is done, if there is one after all."""
        operation = token_hex(16)
        sealed = self._sealer.seal_in(turn, operation)
        try:
            with self._sealer.holding(sealed.own, operation):
                state = self._branches.state(branch)
                others = tuple(token for token in sealed.tokens if token != sealed.own)
                if state.sealed[: len(sealed.tokens)] != sealed.tokens or self._sealer.take(others) is None:
                    raise HeadMovedError
                _, tree = self._head(state)
                if self._look(sealed.tokens[::-1], tree) is Staging.CHANGES:
                    raise HeadMovedError
                self._publisher.drop(state, sealed.tokens, operation)
                return True
        except HeadMovedError:
            return False  # look again

    def _head(self, state: BranchState) -> tuple[Commit, Tree]:
        head = self._branches.commit(state.commit_id)
        return head, self._trees.load(head.metarange)

    def _look(self, tokens: tuple[Token, ...], tree: Tree) -> Staging:
        """What is staged under tokens (the newest first). Stops at the first change."""
        found = Staging.NOTHING
        for key, packed in self._staged.scan(tokens):
            if changes_anything(tree.get(key), packed):
                return Staging.CHANGES
            found = Staging.NO_CHANGE
        return found
