"""The items that operations leave in the table, and the compare-and-set by which workers agree whose turn it is."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

import msgspec

from graveler.errors import BusyError, CorruptError, NotFoundError
from graveler.model import RepositoryUID
from graveler.storage.tables import Absent, ConditionFailedError, Item, Key, Matches, Tables, Value

KEEP: Final = 7 * 86_400
"""Seconds for which a finished operation can still be asked after."""

_TRIES: Final = 16


class OperationState(str, Enum):
    """How far an operation is. ``running`` includes those whose worker has died and that nobody took over yet."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Operation(msgspec.Struct, frozen=True):
    """One operation. ``request`` is what is asked for, as its kind encodes it; ``lease`` until when ``owner`` claims it,
    ``created`` and ``updated`` are Unix seconds. ``objects`` counts progress; ``result`` is the ID of what was made (a commit, a
    dump), ``error`` a sentence for a user."""

    id: str
    kind: str
    request: bytes
    state: OperationState
    created: float
    updated: float
    owner: str = ""
    lease: float = 0.0
    attempt: int = 0
    objects: int = 0
    result: str = ""
    error: str = ""
    cancel: bool = False
    version: int = 0

    @property
    def is_finished(self) -> bool:
        """Has it come to an end, whichever?"""
        return self.state is not OperationState.RUNNING


class Operations:
    """The operations of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._partition = f"{uid}/operations"

    def add(self, operation: Operation) -> bool:
        """Write down a new one; False if there is one with this ID, which then stays as it is. One table write."""
        try:
            self._tables.put(self._key(operation.id), _encode(operation), Absent())
        except ConditionFailedError:
            return False
        return True

    def get(self, operation_id: str) -> Operation:
        """The operation. One table read. :class:`NotFoundError`."""
        item = self._tables.get(self._key(operation_id)) if 0 < len(operation_id) <= 128 else None
        if item is None:
            raise NotFoundError(f"operation {operation_id!r} not found; it never was, or ended over a week ago")
        return _decode(item)

    def change(self, operation_id: str, how: Callable[[Operation], Operation | None]) -> Operation:
        """Replace the operation by what ``how`` makes of it, on condition that nobody did so meanwhile; ``how`` sees the newest
        and says None to leave it. One table read and one write, again after losing a race. The result is as stored then."""
        for _ in range(_TRIES):
            now = self.get(operation_id)
            changed = how(now)
            if changed is None:
                return now
            changed = msgspec.structs.replace(changed, version=now.version + 1)
            try:
                self._tables.put(self._key(operation_id), _encode(changed), Matches({"version": now.version}))
            except ConditionFailedError:
                continue
            return changed
        raise BusyError(f"operation {operation_id!r} is being changed by too many at once; try again")

    def all(self) -> Iterator[Operation]:
        """All operations that can still be asked after, by ID. One table read for each thousand."""
        start = b""
        while True:
            page = self._tables.query(self._partition, start=start)
            for _, item in page.items:
                yield _decode(item)
            if not page.more:
                return
            start = page.items[-1][0] + b"\0"

    def _key(self, operation_id: str) -> Key:
        return Key(self._partition, operation_id.encode("utf-8", "surrogateescape"))


def _encode(operation: Operation) -> Item:
    item: dict[str, Value] = {"operation": msgspec.msgpack.encode(operation), "version": operation.version}
    if operation.is_finished:
        item["expires"] = int(operation.updated) + KEEP
    return item


def _decode(item: Item) -> Operation:
    packed = item.get("operation")
    try:
        return msgspec.msgpack.decode(packed if isinstance(packed, bytes) else b"", type=Operation)
    except msgspec.MsgspecError as error:
        raise CorruptError(f"the item of an operation cannot be read: {error}; restore the table from a copy") from None
