"""Withdrawing a put whose write is refused: a refusal is raised only once the put provably has no effect (promise C1).

The fate of the put depends on that of its token:

- *Still open:* the replaced item is put back, in one transaction, on condition that the put's own item is still there and that
  the token is open. So no commit has read it, and no other value is lost. If another writer has overwritten it meanwhile, and is
  refused too, that one restores it: wait for that, for a moment.
- *Published in a commit:* the commit either took the put or not; its tree shows which. A put of the object that the head already
  had leaves the head's record as it was, so objects are compared, not records.
- *Reset in part, or renamed:* the token's contents were staged again under another one. If that holds what the put had replaced,
  or something else and is still open, the put was not copied, or is overwritten: by a write that is made firm first, since it
  might be withdrawn itself.
- *Dropped, since it held no change:* nothing was lost if the put replaced nothing, and hid nothing under an older token of the
  branch. *Reset* as a whole, or *deleted* with its branch: everything under it is gone.
- *Sealed:* a commit may be reading it right now. The outcome is unknown.

A put that replaced the same record has changed nothing, whatever became of it.

As long as a put stands in the place of a record, the garbage collector does not see the record's object. So for an object that is
not young, a trace is left (:mod:`graveler.lake.objects.traces`) before its record comes back, and the object has to exist; while
a collector is working, which may have read all traces already, the record does not come back.
"""

from collections.abc import Callable, Sequence

from graveler.errors import GravelerError, NotFoundError, UnavailableError
from graveler.history.refs import Refs
from graveler.lake.clock import Backoff, Clock
from graveler.lake.reading.differences import changes_anything
from graveler.model import CommitID, Token
from graveler.staging.changes import Placed, StagedChanges, record_of
from graveler.staging.tokens import Outcomes, TokenState
from graveler.storage.tables.port import ConditionFailedError, Tables

_PATIENCE = 1.0
"""Seconds to wait for other writers that have overwritten an item and may be refused too."""

Committed = Callable[[CommitID, bytes], bytes | None]
"""Returns the packed record that a commit has for a key."""

KeepObject = Callable[[bytes, bytes], bool]
"""Returns whether the object of a packed record that was briefly invisible exists, and stays."""


class Withdrawer:
    """Withdraws puts on branches of one repository."""

    def __init__(
        self,
        tables: Tables,
        refs: Refs,
        staged: StagedChanges,
        outcomes: Outcomes,
        committed: Committed,
        keep_object: KeepObject,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._refs = refs
        self._staged = staged
        self._outcomes = outcomes
        self._committed = committed
        self._keep_object = keep_object
        self._clock = clock

    def withdraw(self, branch: str, placed: Sequence[Placed]) -> bool:
        """Withdraw puts; return whether all of them provably have no effect. Two or three requests for each, two table
        requests and one of the object store more if it has replaced the record of an object that is not young; several more if
        others put the same key concurrently. Errors of table and store count as no proof."""
        try:
            return all(put.replaced_same or self._take_back(branch, put) for put in reversed(placed))
        except GravelerError:
            return False  # the caller reports an unknown outcome, and why the write was refused

    def is_gone(self, token: Token) -> bool:
        """Return whether a token was deleted with its branch, so that nothing under it is ever read. One table read."""
        outcome = self._outcomes.get(token)
        return outcome is not None and outcome.state is TokenState.DELETED

    def _take_back(self, branch: str, put: Placed) -> bool:
        backoff = Backoff(self._clock, patience=_PATIENCE)
        replaced = None if put.replaced is None else record_of(put.replaced)
        is_kept = replaced is None
        while True:
            state = self._refs.branch(branch)
            if state is None or state.open != put.token:
                return self._had_no_effect(put)
            if not put.is_certain:
                return False
            if replaced is not None and not is_kept:
                if not self._keep_object(put.key, replaced):
                    return False
                is_kept = True
            if state.renaming is None:
                try:
                    self._tables.transact(
                        [self._staged.take_back_write(put), self._refs.accepting_check(branch, put.token)]
                    )
                    return True
                except (ConditionFailedError, UnavailableError):
                    # A lost response, or a faster writer: the next look shows the current item.
                    if self._staged.item(put.token, put.key) == put.replaced:
                        now = self._refs.branch(branch)
                        if now is not None and now.open == put.token and now.renaming is None:
                            return True
            if not backoff.wait():
                return False

    def _had_no_effect(self, put: Placed) -> bool:
        """Return whether a put whose token is no longer open provably had no effect."""
        outcome = self._outcomes.get(put.token)
        if outcome is None or outcome.state is TokenState.SEALED:
            return False
        if outcome.into is not None:
            again = self._staged.item(outcome.into, put.key)
            if put.is_certain and again == put.replaced:
                return True
            overwritten = again is None or record_of(again) != put.packed
            return (
                overwritten
                and self._staged.make_firm(outcome.into, put.key, again)
                and self._outcomes.get(outcome.into) is None
            )
        if outcome.state is TokenState.PUBLISHED and outcome.commit_id is not None:
            try:
                return changes_anything(self._committed(outcome.commit_id, put.key), put.packed)
            except NotFoundError:
                return False
        if outcome.state is TokenState.DROPPED:
            return outcome.alone and put.is_certain and put.replaced is None
        return outcome.state in (TokenState.RESET, TokenState.DELETED)
