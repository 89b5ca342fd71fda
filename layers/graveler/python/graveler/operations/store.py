"""Items of operations in the table, and the compare-and-set by which workers agree on who works.

An operation's recorded end is true. Its commit is published on condition that it still runs (:meth:`Operations.running`), and an
end without a commit is written on condition that no commit exists (:meth:`Operations.end`): one of the two transactions comes
first, and the other one fails.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from graveler.errors import UNREADABLE, BusyError, CorruptError, NotFoundError
from graveler.lake.clock import Clock
from graveler.lake.committing.request_results import RequestResults
from graveler.lake.leases import LeaseWatch, wait_for
from graveler.model import RepositoryUID
from graveler.requests.importing import ImportChanges
from graveler.staging.tokens import Outcomes
from graveler.storage.tables.port import (
    Absent,
    Check,
    ConditionFailedError,
    DamagedItemError,
    Item,
    Key,
    Matches,
    Put,
    Tables,
    Value,
    Write,
)
from graveler.storage.tables.walking import pages, walk

KEEP: Final = 7 * 86_400
"""Seconds for which a finished operation can still be queried."""

_TRIES: Final = 16
_PAGE: Final = 1000

_CLAIMS: Final = b"\xfe"
_FAILURE: Final = b"\xff" * 8
"""Sort keys of the claims on parts and of a part's failure: behind those of all parts of all rounds."""

COMMITTING: Final = frozenset(("merge", "revert", "cherry-pick", "commit", "import", "rewrite", "import-listing"))
"""The kinds of operations that result in one commit, and change nothing else."""

_ENDED: Final = "expires"
"""The attribute that the item of an operation has from its end on, and not before. Every version wrote it this way."""

_RUNNER_LEASE: Final = 20.0
_MACHINE_LEASE: Final = 1_200.0
"""Seconds for which earlier versions claimed an operation each time."""


class OperationState(str, Enum):
    """The state of an operation. ``running`` includes operations whose worker has died and that no other worker has taken over
    yet."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WorkDone(msgspec.Struct, frozen=True):
    """The number of finished parts of an operation, and the ``records`` and ``bytes`` that they went through."""

    parts: int = 0
    records: int = 0
    bytes: int = 0


class Operation(msgspec.Struct, frozen=True):
    """One operation. ``request`` is the request as its kind encodes it; ``owner`` claims it for ``seconds`` after each sign of
    life, which is a new ``version``; 0 means no claim (any more). ``lease`` is what earlier versions wrote instead: until when
    the claim lasts, by the owner's clock. ``created`` and ``updated`` are Unix seconds. ``attempt`` counts the messages to begin;
    ``begun`` counts how often a worker began, and ``unseen`` the attempts since then. ``certain``: it has ended without a commit,
    and none can be published any more. ``objects`` counts progress; ``result`` is the ID of the result (a commit, a dump),
    ``error`` a sentence for a user, and ``error_kind`` the name of its class, with the ``error_fields`` of that.

    ``branch`` is the branch that it changes, if any. ``asked`` names the request's contents, and ``request_id`` is the client's
    ID of it, if any; ``told``: a waiting client has received the response. For one that works in parts, ``round`` is the current
    plan, with ``parts``, and ``records`` of ``bytes`` to read, of which those ``skipped`` were done before. ``changes`` are those
    of a completed import; a dry run has these, and no ``result``.
    """

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
    error_kind: str = ""
    branch: str = ""
    asked: str = ""
    request_id: str = ""
    told: bool = False
    round: int = 0
    parts: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    begun: int = 0
    unseen: int = 0
    certain: bool = False
    changes: ImportChanges | None = None
    skipped: WorkDone = WorkDone()
    error_fields: Mapping[str, Any] = {}

    @property
    def claim(self) -> float:
        """The length of the owner's lease in seconds; 0 if it has no owner."""
        if self.seconds or not self.lease:
            return self.seconds
        return _MACHINE_LEASE if self.owner.startswith("machine-") else _RUNNER_LEASE

    def completed(self, result: str, changes: ImportChanges | None, now: float) -> "Operation | None":
        """Return the operation completed with this result, if any; None if it is so already.

        An existing result counts: even if the operation was recorded to have ended otherwise, by a version that did not check
        before, or is of a kind whose result does not depend on it. An end that is ``certain`` stays: the commit then belongs to a
        concurrent committer, which took the changes.
        """
        if self.is_finished and (self.certain or not (result or self.state is OperationState.COMPLETED)):
            return None
        if self.state is OperationState.COMPLETED and (changes is None or self.changes is not None):
            return None
        return replace(
            self,
            state=OperationState.COMPLETED,
            result=self.result or result,
            error="",
            error_kind="",
            error_fields={},
            changes=changes,
            updated=now,
        )

    @property
    def is_waited_for(self) -> bool:
        """True if no worker has begun this attempt yet, so that none can have died of it."""
        return self.unseen > 0 or not self.owner

    def claimed(self, owner: str, seconds: float) -> "Operation":
        """Return the operation after a worker begins this attempt, or gives a sign of life."""
        begun = self.begun + (owner != self.owner or self.unseen > 0)
        return replace(self, owner=owner, lease=0.0, seconds=seconds, begun=begun, unseen=0)

    @property
    def known_by(self) -> str:
        """The request ID under which its commit is recorded (promise C4)."""
        return self.request_id or self.id

    @property
    def left(self) -> str:
        """Words for its effect after an end without a result: "nothing was changed"."""
        return "nothing was changed" if self.kind in COMMITTING else "what it had already done stays"

    @property
    def is_finished(self) -> bool:
        """True if it has ended, with or without success."""
        return self.state is not OperationState.RUNNING


class PartFailure(msgspec.Struct, frozen=True):
    """The failure of a part with an execution of its own: its ``number``, the error's name, and its cause, as the state machine
    has them."""

    number: int
    error: str
    cause: str = ""


class OperationPage(msgspec.Struct, frozen=True):
    """Some operations by ID, the errors of unreadable ones, and the ID behind which more follow (None: none do)."""

    results: list[Operation]
    damaged: list[CorruptError]
    next_after: str | None


class Operations:
    """The operations of one repository."""

    def __init__(self, tables: Tables, uid: RepositoryUID) -> None:
        self._tables = tables
        self._uid = uid
        self._partition = f"{uid}/operations"
        self._results = RequestResults(tables, uid, Outcomes(tables, uid))

    def add(self, operation: Operation) -> bool:
        """Record a new operation; return False if one with this ID exists, which then stays as it is. One table write."""
        item = _encode(operation)
        try:
            self._tables.put(self._key(operation.id), item, Absent())
        except ConditionFailedError as error:
            return error.failures.get(0) == item  # then only the response was lost
        return True

    def begin(self, operation: Operation, joins: Callable[[Operation], bool]) -> Operation:
        """Record a new operation, unless one with the same request exists and ``joins``: then return that one. Two table reads at
        most and one transaction, again after losing a race."""
        key = self._request_key(operation.asked)
        for _ in range(_TRIES):
            current_id, current = self._newest(key)
            if current is not None and joins(current):
                return current
            name: Item = {"operation": operation.id, "expires": int(operation.created) + KEEP}
            condition = Absent() if current_id is None else Matches({"operation": current_id})
            new = Put(self._key(operation.id), _encode(operation), Absent())
            try:
                self._tables.transact([new, Put(key, name, condition)])
            except ConditionFailedError:
                continue
            return operation
        raise BusyError("too many requests for the same operation at once; try again")

    def of_request(self, request_name: str) -> Operation | None:
        """Return the newest operation with this request, or None. One table read, one more if it exists."""
        return self._newest(self._request_key(request_name))[1]

    def _newest(self, key: Key) -> tuple[str | None, Operation | None]:
        item = self._tables.get(key)
        if item is None:
            return None, None
        name = str(item["operation"])
        operation_item = self._tables.get(self._key(name))
        return name, None if operation_item is None else _decode(name, operation_item)

    def note_part(self, operation: Operation, number: int, records: int, size: int) -> None:
        """Record that a part of the current round is done. Idempotent. One table write."""
        item: Item = {"records": records, "bytes": size, "expires": int(operation.created) + KEEP}
        self._tables.put(Key(self._parts_partition(operation), _place(operation.round, number)), item)

    def progress(self, operation: Operation) -> WorkDone:
        """Return how much of the current round is done. One table read for each thousand parts, none for an operation without
        parts."""
        done = operation.skipped
        for item in self._noted(operation).values() if operation.parts else ():
            done = WorkDone(
                done.parts + 1, done.records + _number(item, "records"), done.bytes + _number(item, "bytes")
            )
        # A part that was being noted while others checked which are done may have been counted twice.
        return msgspec.structs.replace(done, parts=min(done.parts, operation.parts))

    def noted_parts(self, operation: Operation) -> AbstractSet[int]:
        """Return the numbers of the parts of the current round that are noted as done. One table read for each thousand."""
        return self._noted(operation).keys()

    def _noted(self, operation: Operation) -> dict[int, Item]:
        start, end = _place(operation.round, 0), _place(operation.round + 1, 0)
        return {
            int.from_bytes(key[4:]): item
            for page in pages(self._tables, self._parts_partition(operation), start=start, end=end)
            for key, item in page
        }

    def claim_part(self, operation: Operation, number: int, beat: str, before: str | None) -> bool:
        """Claim a part of the current round by a ``beat`` that was never written, on condition that its claim was ``before``
        (None: no claim); return whether it succeeded. One table write."""
        item: Item = {"beat": beat, "expires": int(operation.created) + KEEP}
        try:
            self._tables.put(
                self._claim_key(operation, number), item, Absent() if before is None else Matches({"beat": before})
            )
        except ConditionFailedError as error:
            return error.failures.get(0) == item  # then only the response was lost
        return True

    def part_claim(self, operation: Operation, number: int) -> str | None:
        """Return the last beat of the worker on a part of the current round, or None. One table read."""
        item = self._tables.get(self._claim_key(operation, number))
        return None if item is None else str(item["beat"])

    def free_part(self, operation: Operation, number: int, beat: str) -> None:
        """Release a claim. One table write. :class:`ConditionFailedError` if another worker has claimed the part."""
        self._tables.delete(self._claim_key(operation, number), Matches({"beat": beat}))

    def part_lease(self, operation: Operation, number: int) -> str:
        """Return the name of the claim on a part of the current round, unique in the lake."""
        return f"{self._lease(operation)}/{operation.round}/{number}"

    def _claim_key(self, operation: Operation, number: int) -> Key:
        return Key(self._parts_partition(operation), _CLAIMS + _place(operation.round, number))

    def note_failure(self, operation: Operation, failure: PartFailure) -> None:
        """Record the permanent failure of a part of this attempt. Of several the last one stays. One table write."""
        packed = msgspec.msgpack.encode(failure)
        item: Item = {"failure": packed, "attempt": operation.attempt, "expires": int(operation.created) + KEEP}
        self._tables.put(Key(self._parts_partition(operation), _FAILURE), item)

    def failure(self, operation: Operation) -> PartFailure | None:
        """Return the recorded failure of a part of this attempt, or None. One table read."""
        item = self._tables.get(Key(self._parts_partition(operation), _FAILURE))
        packed = None if item is None or _number(item, "attempt") != operation.attempt else item.get("failure")
        return msgspec.msgpack.decode(packed, type=PartFailure) if isinstance(packed, bytes) else None

    def get(self, operation_id: str) -> Operation:
        """Return the operation. One table read. :class:`NotFoundError`."""
        item = self._tables.get(self._key(operation_id)) if 0 < len(operation_id) <= 128 else None
        if item is None:
            raise NotFoundError(
                f"operation {operation_id!r} not found; it never existed, or ended more than a week ago"
            )
        return _decode(operation_id, item)

    def change(self, operation_id: str, how: Callable[[Operation], Operation | None]) -> Operation:
        """Replace the operation by the result of ``how``, on condition that it has not changed meanwhile; ``how`` gets the newest
        version and returns None to leave it. One table read and one write, again after losing a race. Returns the operation as
        stored then."""
        for _ in range(_TRIES):
            now = self.get(operation_id)
            changed = how(now)
            if changed is None:
                return now
            changed = replace(changed, version=now.version + 1)
            try:
                self._tables.put(self._key(operation_id), _encode(changed), Matches({"version": now.version}))
            except ConditionFailedError:
                continue
            return changed
        raise BusyError(f"operation {operation_id!r} is being changed by too many others at once; try again")

    def end(self, operation_id: str, how: Callable[[Operation], Operation | None]) -> Operation:
        """Change the operation as :meth:`change`, for an end without a result: failed, or cancelled.

        If the commit of its request exists, the operation is completed with that commit, whatever ``how`` returns. Otherwise the
        result of ``how`` is written on condition, in the same transaction, that no commit exists yet; from then on none can be
        published. Two table reads and one transaction, again after losing a race. Read and write errors are raised, and the
        operation goes on: then no end is recorded.
        """
        for _ in range(_TRIES):
            now = self.get(operation_id)
            ended = how(now)
            if ended is None:
                return now
            commit, unchanged = self._results.look(now.known_by)
            checks: list[Write] = [unchanged]
            ended = replace(ended, certain=ended.kind in COMMITTING and commit is None)
            if commit is not None:
                ended = replace(
                    ended, state=OperationState.COMPLETED, result=commit, error="", error_kind="", error_fields={}
                )
                checks = []
            ended = replace(ended, version=now.version + 1)
            write = Put(self._key(operation_id), _encode(ended), Matches({"version": now.version}))
            try:
                self._tables.transact([write, *checks])
            except ConditionFailedError:
                continue
            return ended
        raise BusyError(f"operation {operation_id!r} is being changed by too many others at once; try again")

    def running(self, operation_id: str) -> Check:
        """Return the condition, for the transaction that publishes its commit, that the operation has not ended."""
        return Check(self._key(operation_id), Matches({_ENDED: None}))

    def commits(self, operations: Sequence[Operation]) -> list[str]:
        """Return for each operation the ID of its commit, or an empty text while it has none. One table read for each hundred
        that are not completed, and none for kinds that make no commit."""
        unfinished = [
            operation
            for operation in operations
            if operation.kind in COMMITTING and operation.state is not OperationState.COMPLETED
        ]
        commit_ids = self._results.find_many([operation.known_by for operation in unfinished])
        commits = {operation.id: commit or "" for operation, commit in zip(unfinished, commit_ids, strict=True)}
        return [
            commits.get(operation.id, operation.result if operation.kind in COMMITTING else "")
            for operation in operations
        ]

    def commit(self, operation: Operation) -> str:
        """Return the ID of its commit, as :meth:`commits`."""
        return self.commits([operation])[0]

    def is_held(self, operation: Operation, leases: LeaseWatch, silent: float = 0.0) -> bool:
        """Return whether the worker of an operation that was just read may still be at work: it gave a sign of life less than the
        claim's length and ``silent`` seconds ago, by this process's clock. No request."""
        return leases.is_held(self._lease(operation), str(operation.version), operation.claim + silent)

    def wait_for(self, operation: Operation, leases: LeaseWatch, clock: Clock, check: Callable[[], None]) -> None:
        """Wait until the operation is over, or its worker has died. :class:`HeldError` as soon as the worker gives a sign of
        life. One table read every few seconds."""

        def look() -> tuple[str, None] | None:
            now = self.get(operation.id)
            return None if now.is_finished or not now.claim else (str(now.version), None)

        wait_for(leases, clock, self._lease(operation), operation.claim, look, check)

    def _lease(self, operation: Operation) -> str:
        return f"{self._partition}/{operation.id}"

    def all(self, damaged: Callable[[CorruptError], None] | None = None) -> Iterator[Operation]:
        """Yield all operations that can still be queried, by ID; ``damaged`` is called for unreadable ones, which otherwise
        raise. One table read for each thousand."""
        for _, operation in self._read(b"", _PAGE):
            if isinstance(operation, Operation):
                yield operation
            elif damaged is None:
                raise operation
            else:
                damaged(operation)

    def page(self, after: str, amount: int) -> OperationPage:
        """Return operations that can still be queried, by ID, behind ``after``. One table read, two more for each damaged one."""
        entries = list(islice(self._read(after.encode() + b"\0" if after else b"", min(amount + 1, _PAGE)), amount + 1))
        shown = entries[:amount]
        return OperationPage(
            [entry for _, entry in shown if isinstance(entry, Operation)],
            [entry for _, entry in shown if isinstance(entry, CorruptError)],
            shown[-1][0] if len(entries) > amount else None,
        )

    def _read(self, start: bytes, page_size: int) -> Iterator[tuple[str, Operation | CorruptError]]:
        """Yield IDs and operations; for an unreadable one, the error."""
        for sort, item in walk(self._tables, self._partition, start, page_size):
            name = _name(sort)
            if isinstance(item, DamagedItemError):
                yield name, item
                continue
            try:
                yield name, _decode(name, item)
            except CorruptError as error:
                yield name, error

    def _parts_partition(self, operation: Operation) -> str:
        return f"{self._uid}/operation/{operation.id}"

    def _request_key(self, request_name: str) -> Key:
        return Key(f"{self._uid}/asked/{request_name}", b"operation")

    def _key(self, operation_id: str) -> Key:
        return Key(self._partition, operation_id.encode("utf-8", "surrogateescape"))


def _encode(operation: Operation) -> Item:
    item: dict[str, Value] = {"operation": msgspec.msgpack.encode(operation), "version": operation.version}
    if operation.is_finished:
        item[_ENDED] = int(operation.updated) + KEEP
    return item


def _place(round_number: int, part: int) -> bytes:
    return round_number.to_bytes(4) + part.to_bytes(4)


def _number(item: Item, name: str) -> int:
    value = item.get(name)
    return value if isinstance(value, int) else 0


def _name(sort: bytes) -> str:
    return sort.decode("utf-8", "surrogateescape")


def _decode(name: str, item: Item) -> Operation:
    packed = item.get("operation")
    try:
        return msgspec.msgpack.decode(packed if isinstance(packed, bytes) else b"", type=Operation)
    except UNREADABLE as error:
        raise CorruptError(
            f"the item of operation {name!r} cannot be read: {error}; restore the table from a copy"
        ) from None
