"""Reset: dropping uncommitted changes.

*All* of them: one transaction takes every token from the branch and opens a new one. What a writer stages meanwhile under an old
one it stages again, as after a seal.

*Some* of them: the staged items are deleted from the **open** token, in transactions that check that the branch is exactly as
it was read. So no commit has sealed the token and read it, and what no reader finds any more is not revived by a commit.

If *sealed* tokens hold some too (their commit died; a live lease is waited for), deleting from the open one would uncover them.
So first all that is to stay is brought back: for each other key, the newest item of the sealed tokens, tombstones too, is put
into the open one if that holds none, each transaction on condition that the branch is as it was read. One more on that
condition then takes the sealed tokens away.

Why nothing is lost or revived (promise C1):

- A copy changes nothing that anybody sees: it hides the same value below. If a commit publishes the sealed tokens after it, the
  copy is what the new head has: no change, just as what a late writer staged twice. If that commit publishes before, the next
  copy fails, and all is looked at again.
- A copy never replaces what was staged later. It revives nothing that another reset deleted meanwhile: that one would have had to
  take the sealed tokens away first, if they held the key, and then the branch is another one.
- What comes late into a sealed token is not acknowledged before it is staged under the open one.
- A commit that was only slow finds its token gone, reset; it published nothing, and all of its changes are on the branch.
"""

from collections.abc import Callable, Iterable
from itertools import chain

import msgspec

from graveler.history.refs import BranchState, Refs
from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.publish import HeadMovedError
from graveler.lake.restage import Restager
from graveler.lake.rules import Intent
from graveler.lake.sealing import Sealer
from graveler.staging.changes import Staged, StagedChanges
from graveler.staging.tokens import TokenState
from graveler.storage.tables import ConditionFailedError


class Resetter:
    """Drops uncommitted changes of branches of one repository."""

    def __init__(
        self, refs: Refs, branches: Branches, staged: StagedChanges, sealer: Sealer, restager: Restager, clock: Clock
    ) -> None:
        self._refs = refs
        self._branches = branches
        self._staged = staged
        self._sealer = sealer
        self._restager = restager
        self._clock = clock

    def reset_all(self, branch: str, by: str, *, force: bool = False) -> None:
        """Drop all. See :meth:`graveler.lake.repository.OpenRepository.reset`."""

        def attempt(state: BranchState) -> bool:
            if not self._staged.exists((state.open, *state.sealed)):
                return True
            if self._sealer.take(state.sealed) is None:
                return False
            opened = msgspec.structs.replace(state, open=self._staged.next_token(state.open), sealed=())
            self._move(state, opened, by)
            return True

        self._try(branch, attempt, force=force)

    def reset(self, branch: str, start: bytes, end: bytes | None, by: str, *, force: bool = False) -> None:
        """Drop those with ``start <= key < end``. See :meth:`graveler.lake.repository.OpenRepository.reset`."""

        def attempt(state: BranchState) -> bool:
            opened, older = self._find(state, start, end)
            if older:
                if self._sealer.take(state.sealed) is None:
                    return False
                state = self._bring_back(state, start, end, by)
                opened, _ = self._find(state, start, end)
            self._restager.while_unchanged(
                state, (self._staged.delete_write(state.open, key, Staged(packed)) for key, packed in opened)
            )
            return True

        self._try(branch, attempt, force=force)

    def _try(self, branch: str, attempt: Callable[[BranchState], bool], *, force: bool) -> None:
        backoff = Backoff(self._clock)
        while True:
            try:
                if attempt(self._branches.state(branch, Intent(direct=True, force=force))):
                    return
            except HeadMovedError:
                pass
            if not backoff.wait():
                raise busy(branch)

    def _find(
        self, state: BranchState, start: bytes, end: bytes | None
    ) -> tuple[Iterable[tuple[bytes, bytes | None]], bool]:
        """What the open token holds, and whether sealed ones hold any. One table read for one key; else one for each token
        and shard, and so many again for each thousand."""
        if end == start + b"\0":
            top, *older = self._staged.look((state.open, *state.sealed), start)
            return [] if top is None else [(start, top.packed)], any(found is not None for found in older)
        older_ones = bool(state.sealed) and bool(self._staged.chunk(state.sealed, start, end, 1).keys)
        return self._staged.scan([state.open], start, end), older_ones

    def _bring_back(self, state: BranchState, start: bytes, end: bytes | None, by: str) -> BranchState:
        """Take the sealed tokens away, after what they hold of other keys was staged again. :class:`HeadMovedError`."""
        newest_first = state.sealed[::-1]
        kept = chain(
            self._staged.scan(newest_first, b"", start),
            () if end is None else self._staged.scan(newest_first, end),
        )
        self._restager.stage_again(state, kept)
        return self._move(state, msgspec.structs.replace(state, sealed=()), by)

    def _move(self, state: BranchState, after: BranchState, by: str) -> BranchState:
        """Take the tokens from the branch that ``after`` does not have; the branch as it is then. One transaction.
        :class:`HeadMovedError`."""
        event = self._branches.event("reset", by)
        writes = self._refs.move_branch_writes(state, after, event)
        for token in (*state.sealed, state.open):
            if token != after.open:
                into = after.open if after.open == state.open else None  # what it held of other keys was staged again
                writes += self._branches.drop_token_writes(token, TokenState.RESET, event.operation_id, into=into)
        try:
            self._branches.change(state.name, writes, event)
        except ConditionFailedError:
            raise HeadMovedError from None
        return msgspec.structs.replace(after, moves=state.moved(event).moves)
