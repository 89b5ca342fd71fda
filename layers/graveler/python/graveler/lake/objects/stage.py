"""Staging: putting changes where the next commit finds them.

The order of the calls keeps promise C1: put the item, *then* read the branch and repository again; the change is acknowledged
only if the token is still the open one. A late item stays where it is, since withdrawing it could lose an older,
acknowledged value that it replaced.

Others may have seen a late item, and replaced it on a condition. So before it is put again, its writer looks
(:mod:`graveler.lake.objects.late_puts`); if it was replaced it is done, and is acknowledged without being put again.

A refused write has no effect, whatever the reason. The read after the put decides whether a rule refuses it, and the put may have
replaced something by then. So the put returns what it replaced, and the refusal is raised only once that is back
(:mod:`graveler.lake.objects.withdrawal`); if this cannot be shown, the error says that the outcome is unknown. A batch does not
learn what it replaces. It therefore always looks before it puts; a refusal after that is raised as an unknown outcome.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from graveler.errors import AnswerLostError, ForbiddenError, GravelerError, InvalidError, NotFoundError
from graveler.history.refs import BranchState
from graveler.lake.clock import Backoff, Clock
from graveler.lake.deadline import Deadline
from graveler.lake.refs.branches import Branches, busy
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Settings, Token
from graveler.staging.changes import Placed, StagedChanges, StagedRecord
from graveler.staging.tokens import same_branch
from graveler.values.reserved_paths import expect_free

if TYPE_CHECKING:
    from graveler.lake.objects.late_puts import LatePuts
    from graveler.lake.objects.withdrawal import Withdrawer

Accept = Callable[[Settings], None]
"""Raises for settings of the repository that refuse a change, by rules of the caller."""

_PAGE: Final = 1000
"""The number of records that one read of the branch acknowledges."""


class Stager:
    """Stages records on branches of one repository. Remembers open tokens between calls as hints, and always verifies them."""

    def __init__(
        self,
        branches: Branches,
        staged: StagedChanges,
        clock: Clock,
        withdrawer: "Callable[[], Withdrawer]",
        late_puts: "Callable[[], LatePuts]",
    ) -> None:
        self._branches = branches
        self._staged = staged
        self._clock = clock
        self._withdrawer = withdrawer
        self._late_puts = late_puts
        self._open: dict[str, Token] = {}

    def expect(self, branch: str, *, force: bool = False) -> None:
        """Check that the branch accepts staged changes, as far as this process knows. One table read the first time, which
        :meth:`stage` then saves. :class:`RefNotFoundError`, :class:`ForbiddenError`."""
        if branch not in self._open:
            state = self._branches.state(branch, Intent(direct=True, force=force))
            if not force:
                self._open[branch] = state.open

    def forget(self) -> None:
        """Forget all tokens after a change of rules, or a move of a branch: the next staging on a branch reads it first."""
        self._open.clear()

    def stage(
        self,
        branch: str,
        records: Sequence[StagedRecord],
        deadline: Deadline,
        *,
        force: bool = False,
        accept: Accept | None = None,
    ) -> None:
        """Stage records of distinct keys; None for the packed bytes writes a tombstone. ``deadline`` is the deadline of the work
        that found or made their objects: :class:`BusyError` past it.

        One record: one table write, then one table read; before that another read, if this process did not know the branch's open
        token. Several: one table read, then one table write for each 25 and one table read for each thousand. If the token turns
        out to be sealed, once more from the start, and two reads more for one record.

        :class:`ForbiddenError` and :class:`RefNotFoundError`: the write has had no effect (of several thousand records, the last
        thousand at most; those before them are staged). Ensuring that costs a refused write one transaction at least.
        :class:`AnswerLostError`: it may have had an effect. A token is remembered only if its use was not forced, so a write
        is refused before it is put, except while the process does not know of the rule yet. An exception of ``accept`` for
        the repository's settings refuses the write in the same way.
        """
        if not records:
            return
        expect_free(key for key, _ in records)
        if len(records) == 1:
            self._stage_one(branch, records[0], deadline, Intent(direct=True, force=force, accept=accept))
            return
        intent = Intent(direct=True, force=force, accept=accept)
        token = self._branches.state(branch, intent).open
        for start in range(0, len(records), _PAGE):
            token = self._stage_page(branch, token, records[start : start + _PAGE], deadline, intent)

    def _stage_one(self, branch: str, record: StagedRecord, deadline: Deadline, intent: Intent) -> None:
        token = self._open.get(branch)
        if token is None:
            token = self._branches.state(branch, intent).open
        self._put(branch, token, record, [], None, deadline, intent)

    def _put(
        self,
        branch: str,
        token: Token,
        record: StagedRecord,
        placed: list[Placed],
        state: BranchState | None,
        deadline: Deadline,
        intent: Intent,
    ) -> None:
        """Stage a record under a token that was open a moment ago. ``placed`` are its puts so far, all of them too late; the
        branch was ``state`` afterwards."""
        backoff = Backoff(self._clock)
        looked_at = self._branches.keys(branch)
        while True:
            try:
                deadline.check(f"staging a change on branch {branch!r}")
                put: Placed | None
                if placed:
                    assert state is not None
                    repetition = self._late_puts().judge(branch, placed, state)
                    if repetition is None:
                        return
                    put, items = self._staged.put_over_and_look(token, *record, repetition.over, looked_at)
                else:
                    put, items = self._staged.put_and_look(token, *record, looked_at)
                if put is not None:
                    placed.append(put)
                state = self._seen(branch, self._branches.judge(branch, items, intent), intent)
            except (ForbiddenError, NotFoundError):
                self._open.pop(branch, None)
                if not self._withdrawer().withdraw(branch, placed):
                    raise _unclear(branch, "then it was refused") from None
                raise
            except GravelerError as error:
                self._open.pop(branch, None)
                if not placed:
                    raise
                raise _unclear(branch, str(error)) from error
            if state.open == token:
                if put is not None:
                    return
            elif not _is_of(token, state):
                # The token is of an earlier branch of this name, which may live on under another one.
                if not self._withdrawer().withdraw(branch, placed):
                    raise _unclear(branch, "the branch was deleted or renamed, and created again")
                placed.clear()
            token = state.open
            if not backoff.wait():
                raise busy(branch) if not placed else _unclear(branch, str(busy(branch)))

    def _stage_page(
        self, branch: str, token: Token, records: Sequence[StagedRecord], deadline: Deadline, intent: Intent
    ) -> Token:
        """Stage a batch under a token that was open a moment ago; return the token that is open now. One that was too late is
        repeated as single puts if there have been conditional writes on the branch: four requests for each record."""
        backoff = Backoff(self._clock)
        deadline.check(f"staging {len(records):,} changes on branch {branch!r}")
        while True:
            try:
                self._staged.put_many(token, records)
                state = self._look(branch, intent)
                deadline.check(f"staging {len(records):,} changes on branch {branch!r}")
            except InvalidError:
                raise  # all are checked before the first is written
            except GravelerError as error:
                raise _unclear(branch, str(error)) from error
            if state.open == token:
                return token
            if _is_of(token, state) and state.conditional:
                for record in records:
                    self._put(branch, state.open, record, [Placed.of_batch(token, *record)], state, deadline, intent)
                return state.open
            if not _is_of(token, state) and not self._withdrawer().is_gone(token):
                raise _unclear(branch, "the branch was renamed, and created again")
            token = state.open
            if not backoff.wait():
                raise _unclear(branch, str(busy(branch)))

    def _look(self, branch: str, intent: Intent) -> BranchState:
        """Return the branch, after a put. One table read."""
        try:
            return self._seen(branch, self._branches.state(branch, intent), intent)
        except GravelerError:
            self._open.pop(branch, None)
            raise

    def _seen(self, branch: str, state: BranchState, intent: Intent) -> BranchState:
        if intent.force:
            self._open.pop(branch, None)
        else:
            self._open[branch] = state.open
        return state


def _is_of(token: Token, state: BranchState) -> bool:
    """Return whether a token is or was this branch's, under its current name."""
    return same_branch(token, state.open) or token in state.sealed


def _unclear(branch: str, reason: str) -> AnswerLostError:
    """Return the error for a change that was put, if it is unknown whether it counts."""
    return AnswerLostError(
        f"a change was written to branch {branch!r}, but may or may not be staged there: {reason.rstrip('.')}. Check "
        "the branch, then try again"
    )
