"""Staging together with writes of a room above: what it notes of a change and the change itself, both or neither.

Ingest notes for each object the last event that it has seen. Written one after the other, a process that dies in between, or is
overtaken there, leaves a note without its change, or stages what a newer event has replaced. In one transaction neither can be.

The transaction's condition is that the branch is as it was read: so the token is still the open one, and what lands under it is
acknowledged at once, as in :mod:`graveler.lake.create`.
"""

from collections.abc import Sequence

from graveler.history.refs import Refs
from graveler.lake.branches import Branches, busy
from graveler.lake.clock import Backoff, Clock
from graveler.lake.deadline import Deadline
from graveler.lake.rules import Intent
from graveler.staging.changes import StagedChanges, StagedRecord
from graveler.storage.tables import ConditionFailedError, Tables, Write


class JointStager:
    """Stages records of one repository in one transaction with other writes."""

    def __init__(self, tables: Tables, refs: Refs, branches: Branches, staged: StagedChanges, clock: Clock) -> None:
        self._tables = tables
        self._refs = refs
        self._branches = branches
        self._staged = staged
        self._clock = clock

    def stage(
        self,
        branch: str,
        records: Sequence[StagedRecord],
        writes: Sequence[Write],
        until: Deadline,
        *,
        force: bool = False,
    ) -> None:
        """See :meth:`graveler.lake.repository.OpenRepository.stage_with`."""
        backoff = Backoff(self._clock)
        while True:
            state = self._branches.state(branch, Intent(direct=True, force=force))
            changes = [self._staged.replace_write(state.open, key, packed) for key, packed in records]
            until.check(f"staging {len(records):,} changes on branch {branch!r}")
            try:
                self._tables.transact([*writes, *changes, self._refs.unchanged_check(state)])
                return
            except ConditionFailedError as error:
                failed = {at: item for at, item in error.failures.items() if at < len(writes)}
                if failed:
                    raise ConditionFailedError(failed) from None
            if not backoff.wait():
                raise busy(branch)
