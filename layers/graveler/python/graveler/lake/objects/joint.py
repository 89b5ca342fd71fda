"""Staging together with writes of a room above: what it notes of a change and the change itself, both or neither.

Ingest notes for each object the last event that it has seen. Written one after the other, a process that dies in between, or is
overtaken there, leaves a note without its change, or stages what a newer event has replaced. In one transaction neither can be.

The transaction's condition is that the branch is as it was read: so the token is still the open one, and what lands under it is
acknowledged at once, as in :mod:`graveler.lake.objects.create`.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from graveler.lake.clock import Backoff
from graveler.lake.objects.linking import checked_record
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.lake.settings.rules import Intent
from graveler.model import ObjectEntry
from graveler.staging.changes import StagedRecord
from graveler.storage.tables import ConditionFailedError, Item, Key, Write
from graveler.tree.record import encode_key


class Beside(Struct, frozen=True):
    """What is staged in one transaction: objects and deletes, of distinct paths, and ``writes`` of a room above. At most 99
    together."""

    entries: Sequence[ObjectEntry] = ()
    deleted: Sequence[str] = ()
    writes: Sequence[Write] = ()


Decide: TypeAlias = Callable[[Sequence[Item | None]], Beside | None]
"""From items of a room above to what is staged; None: nothing is."""


def stage_beside(
    repository: RepositoryParts, branch: str, keys: Sequence[Key], decide: Decide, *, force: bool = False
) -> bool:
    """Stage what ``decide`` says by the items of a room above that are under ``keys``: objects and deletes, in one transaction
    with writes of that room. False if it says to stage nothing.

    The writes' conditions hold that the items are as they were read. If one fails, or the branch has changed, all begins anew
    with reading, and ``decide`` is asked again. Cost: one table read for each 98 keys, and one transaction. Those who do so on
    one branch, and commits there, exclude each other. :class:`BusyError`; after :class:`UnavailableError` it may have happened.
    """
    backoff, deadline = Backoff(repository.clock), repository.deadlines.begin()
    while True:
        state, items = repository.branches.state_beside(branch, keys, Intent(direct=True, force=force))
        decided = decide(items)
        if decided is None:
            return False
        now = repository.clock.now()
        records: list[StagedRecord] = [checked_record(repository, branch, entry, now) for entry in decided.entries]
        records += [(encode_key(path), None) for path in decided.deleted]
        changes = [repository.staged.replace_write(state.open, key, packed) for key, packed in records]
        deadline.check(f"staging {len(records):,} changes on branch {branch!r}")
        try:
            repository.tables.transact([*decided.writes, *changes, repository.refs.unchanged_check(state)])
            return True
        except ConditionFailedError:
            if not backoff.wait():
                raise busy(branch) from None
