"""Staging together with writes of the caller: its note of a change and the change itself, both or neither.

Ingest notes for each object the last event that it has seen. If it wrote one after the other, a process that dies in between, or
is overtaken there, would leave a note without its change, or stage what a newer event has replaced. One transaction prevents
both.

The transaction's condition is that the branch is as it was read: so the token is still the open one, and what lands under it is
acknowledged at once, as in :mod:`graveler.lake.objects.conditional`.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from graveler.lake.clock import Backoff
from graveler.lake.objects.linking import checked_record
from graveler.lake.parts import RepositoryParts
from graveler.lake.refs.branches import busy
from graveler.lake.settings.repository_settings import Intent
from graveler.model import ObjectEntry
from graveler.staging.changes import StagedRecord
from graveler.storage.tables.port import ConditionFailedError, Item, Key, Write
from graveler.tree.record import encode_key


class StagedWithWrites(Struct, frozen=True):
    """The contents of one transaction: objects and deletes, of distinct paths, and ``writes`` of the caller. At most 99
    together."""

    entries: Sequence[ObjectEntry] = ()
    deleted: Sequence[str] = ()
    writes: Sequence[Write] = ()


Decide: TypeAlias = Callable[[Sequence[Item | None]], StagedWithWrites | None]
"""Returns what to stage, given items of the caller; None to stage nothing."""


def stage_with_writes(
    repository: RepositoryParts, branch: str, keys: Sequence[Key], decide: Decide, *, force: bool = False
) -> bool:
    """Stage what ``decide`` returns for the items of the caller that are under ``keys``: objects and deletes, in one
    transaction with writes of that room. Return False if it decides to stage nothing.

    The writes' conditions require that the items are as they were read. If one fails, or the branch has changed, everything is
    retried from the read on, and ``decide`` is called again. Cost: one table read for each 98 keys, and one transaction.
    Concurrent calls on one branch, and commits there, exclude each other. :class:`BusyError`; after :class:`UnavailableError` it
    may have happened.
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
