"""Puts that came too late for their token: which of them are put again, and over what.

A put under a token that was sealed meanwhile may be seen by others before its writer knows: as a change of the sealed token, or
in the commit that took it. If somebody has replaced it then on a condition, such as its ETag, it took effect before that, and
putting it again would overwrite its replacement. So a conditional write marks the item of a sealed token that it replaces
(:mod:`graveler.lake.objects.conditional`), and the writer of a late put looks:

- *Marked:* it is done.
- *Taken by a commit,* or overwritten under its own token, and not what the branch has any more: nobody knows who has seen it. If
  there have been conditional writes on the branch, the outcome is unknown.
- *Else* nobody has replaced it: it is put again under the open token, over exactly the item that was there **before** this look.

In most cases nothing is there, and so the price of a late put is one read more.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from graveler.errors import NotFoundError, UnavailableError
from graveler.history.refs import BranchState, Refs
from graveler.lake.objects.withdrawal import Committed
from graveler.lake.reading.differences import changes_anything
from graveler.model import Commit, CommitID
from graveler.staging.changes import Placed, StagedChanges, is_marked_replaced, is_own, record_of
from graveler.staging.tokens import Outcomes, TokenOutcome, TokenState
from graveler.storage.tables.port import Item


class Repetition(Struct, frozen=True):
    """The repetition of a late put under the open token: over exactly the item ``over``, or where none is (None)."""

    over: Item | None


class LatePuts:
    """Judges late puts on branches of one repository."""

    def __init__(
        self,
        refs: Refs,
        staged: StagedChanges,
        outcomes: Outcomes,
        committed: Committed,
        commit: Callable[[CommitID], Commit],
    ) -> None:
        self._refs = refs
        self._staged = staged
        self._outcomes = outcomes
        self._committed = committed
        self._commit = commit

    def judge(self, branch: str, placed: Sequence[Placed], state: BranchState) -> Repetition | None:
        """Return how to repeat puts of one record, all too late, on a branch that was ``state`` afterwards; None if they took
        effect and have been replaced since.

        Two table reads; if another change of the path is staged, or commits were faster, also a read of the branch, and of the
        trees of commits that may have taken the puts. :class:`UnavailableError` if it is unknown whether they took effect.
        """
        over = self._staged.item(state.open, placed[-1].key)  # before the marks: none can be set below an item
        items, outcomes = self._staged.items_and_outcomes(placed, self._outcomes)
        if any(is_marked_replaced(item, put) for put, item in zip(placed, items, strict=True)):
            return None
        is_overwritten = not all(is_own(item, put) for put, item in zip(placed, items, strict=True))
        if is_overwritten or not _is_on_top(placed[-1], outcomes[-1], over, state):
            now = self._refs.branch(branch)
            is_seen = now is None or bool(now.conditional)
            pairs = zip(placed, outcomes, strict=True)
            if is_seen and (is_overwritten or any(self._was_taken(put, outcome) for put, outcome in pairs)):
                raise UnavailableError(
                    "others have changed the same object at the same time, and may have seen this one"
                )
        return Repetition(over)

    def _was_taken(self, put: Placed, outcome: TokenOutcome | None) -> bool:
        """Return whether a commit may have taken a put, or another token its item."""
        if outcome is None:
            return False
        if outcome.into is not None:
            again = self._staged.item(outcome.into, put.key)
            return again is not None and not is_own(again, put)
        if outcome.state is not TokenState.PUBLISHED or outcome.commit_id is None:
            return False
        try:
            if changes_anything(self._committed(outcome.commit_id, put.key), put.packed):
                return False
            if put.packed is not None or (put.replaced is not None and record_of(put.replaced) is not None):
                return True
            # A tombstone over nothing: who has seen that there is nothing has not seen the tombstone.
            parents = self._commit(outcome.commit_id).parents[:1]
            return any(self._committed(parent, put.key) is not None for parent in parents)
        except NotFoundError:
            return True


def _is_on_top(put: Placed, outcome: TokenOutcome | None, over: Item | None, state: BranchState) -> bool:
    """Return whether nothing newer than a put can have been on the branch: no item under the open token, which followed that of
    the put, and no other head than the commit of that."""
    if over is not None:
        return False
    if state.sealed:
        return state.sealed[-1] == put.token
    return outcome is not None and outcome.state is TokenState.PUBLISHED and outcome.commit_id == state.commit_id
