"""Staging again, under a branch's open token, the contents of sealed tokens whose commits died or failed.

A copy has no visible effect, since it hides the same value below; it never replaces what was staged later; and it is
made only while the branch is as it was read (:mod:`graveler.lake.objects.reset` says why nothing is lost or revived, promise C1).

Sealed tokens that are too many for the transaction of one commit leave their branch this way: their contents are staged again,
and then one transaction takes them from the branch. Each token's item says under which token its changes are now, and so does
the item of the request that had sealed it; the request's result is the commit that takes the changes (promise C4).
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from graveler.history.refs import BranchState
from graveler.lake.committing.publish import HeadMovedError
from graveler.lake.parts import RepositoryParts
from graveler.staging.changes import firm_write
from graveler.staging.tokens import TokenState
from graveler.storage.tables.port import (
    MAX_TRANSACTION_WRITES,
    Check,
    ConditionFailedError,
    Delete,
    Item,
    Matches,
    Put,
    Write,
)

_BATCH_WRITES: Final = MAX_TRANSACTION_WRITES - 1
_BATCH_BYTES: Final = 2_000_000
"""Bytes of records in one transaction. The limit is 4 MB, including deleted items: one record more, keys and names fit
besides."""


def empty_sealed(repository: RepositoryParts, state: BranchState, operation: str) -> None:
    """Take the sealed tokens from the branch, after staging their contents again; no commit may be working on them.

    Reads what is staged under them, and writes it once more: one transaction for each 99 changes; two table reads and one
    transaction besides. May be repeated after a crash at any point. :class:`HeadMovedError` if the branch is not as it was
    read.
    """
    stage_again(repository, state, repository.staged.scan(state.sealed[::-1]))
    outcomes = repository.outcomes.get_many(state.sealed)
    requests = {outcome.request for outcome in outcomes if outcome is not None and outcome.request}
    writes = repository.refs.move_branch_writes(
        state, msgspec.structs.replace(state, sealed=()), None, amid_conditional=True
    )
    for token in state.sealed:
        writes += repository.branches.drop_token_writes(token, TokenState.RESTAGED, operation, into=state.open)
    results = repository.results
    for request, item in results.undone(requests).items():
        writes.append(results.token_write(request, state.open, repository.clock.now(), item))
    try:
        repository.tables.transact(writes)
    except ConditionFailedError:
        raise HeadMovedError from None


def stage_again(repository: RepositoryParts, state: BranchState, records: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Put records under the open token, unless it already has that key, as :func:`while_unchanged`."""
    while_unchanged(
        repository, state, (repository.staged.put_write(state.open, key, packed, None) for key, packed in records)
    )


def while_unchanged(repository: RepositoryParts, state: BranchState, writes: Iterable[Put | Delete]) -> None:
    """Make writes, except those whose own condition fails, as long as the branch equals ``state``
    (:class:`HeadMovedError`). One transaction for each 99, and one for each failure on a single put, which is made firm: it
    has to stay, even if its write is refused (:mod:`graveler.lake.objects.withdrawal`)."""
    check = repository.refs.unchanged_check(state)
    for batch in _batches(writes):
        pending: list[Write] = list(batch)
        while pending:
            try:
                repository.tables.transact([*pending, check])
                break
            except ConditionFailedError as error:
                if len(pending) in error.failures:
                    raise HeadMovedError from None
                failed = error.failures
                pending = [
                    write
                    for number, write in enumerate(pending)
                    if number not in failed or _is_free_again(repository, write, failed[number], check)
                ]


def _is_free_again(repository: RepositoryParts, write: Write, item: Item | None, check: Check) -> bool:
    """Return whether to retry a write whose condition failed on ``item``. It is given up only for an item that stays: one
    that its writer may still withdraw is made firm, in one transaction. :class:`HeadMovedError`."""
    firm = firm_write(write.key, item)
    if firm is None:
        return False
    try:
        repository.tables.transact([firm, check])
    except ConditionFailedError as error:
        if 1 in error.failures:
            raise HeadMovedError from None
        return True
    return False


def _batches(writes: Iterable[Put | Delete]) -> Iterator[list[Put | Delete]]:
    batch: list[Put | Delete] = []
    size = 0
    for write in writes:
        batch.append(write)
        size += _record_bytes(write)
        if len(batch) == _BATCH_WRITES or size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _record_bytes(write: Put | Delete) -> int:
    """Return the size in bytes of the record that a write puts, or deletes."""
    if isinstance(write, Put):
        record = write.item.get("record")
    else:
        record = write.condition.attributes.get("record") if isinstance(write.condition, Matches) else None
    return len(record) if isinstance(record, bytes) else 0
