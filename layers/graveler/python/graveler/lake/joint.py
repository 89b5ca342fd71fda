"""Staging together with writes of a room above: what it notes of a change and the change itself, both or neither.

Ingest notes for each object the last event that it has seen. Written one after the other, a process that dies in between, or is
overtaken there, leaves a note without its change, or stages what a newer event has replaced. In one transaction neither can be.

The transaction's condition is that the branch is as it was read: so the token is still the open one, and what lands under it is
acknowledged at once, as in :mod:`graveler.lake.create`.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from graveler.history.refs import Refs
from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.deadline import Deadlines
from graveler.lake.rules import Intent
from graveler.staging.changes import StagedChanges, StagedRecord
from graveler.storage.tables import ConditionFailedError, Item, Key, Tables, Write

Decide: TypeAlias = Callable[[Sequence[Item | None]], tuple[Sequence[StagedRecord], Sequence[Write]] | None]
"""From items to the records that are staged and what else is written; None: nothing is."""


class JointStager:
    """Stages records of one repository in one transaction with other writes."""

    def __init__(
        self,
        tables: Tables,
        refs: Refs,
        branches: Branches,
        staged: StagedChanges,
        clock: Clock,
        deadlines: Deadlines,
    ) -> None:
        self._tables = tables
        self._refs = refs
        self._branches = branches
        self._staged = staged
        self._clock = clock
        self._deadlines = deadlines

    def stage(self, branch: str, keys: Sequence[Key], decide: Decide, *, force: bool = False) -> bool:
        """See :meth:`graveler.lake.repository.OpenRepository.stage_beside`."""
        backoff, until = Backoff(self._clock), self._deadlines.begin()
        while True:
            state, items = self._branches.state_beside(branch, keys, Intent(direct=True, force=force))
            decided = decide(items)
            if decided is None:
                return False
            records, writes = decided
            changes = [self._staged.replace_write(state.open, key, packed) for key, packed in records]
            until.check(f"staging {len(records):,} changes on branch {branch!r}")
            try:
                self._tables.transact([*writes, *changes, self._refs.unchanged_check(state)])
                return True
            except ConditionFailedError:
                if not backoff.wait():
                    raise busy(branch) from None
