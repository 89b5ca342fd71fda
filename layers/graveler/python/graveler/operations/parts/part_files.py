"""Files in the object store by which the steps of an operation in parts communicate: plans, and results of parts.

    _graveler/operations/<operation>/plans/<round>    where it is divided, on which head
    _graveler/operations/<operation>/parts/<name>     the ranges of one part's tree, or its conflicts

The name of a part depends on everything that the part depends on. So when the head has moved and the work is planned again
(another *round*), parts where nothing moved have their old names, and are already there. Nothing here is needed once the
operation has ended; it is collected as garbage then, and not before, since an operation ends within half the grace period.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from graveler.errors import UNREADABLE, CorruptError, InvalidError, NotFoundError
from graveler.model import CommitID, MetarangeName, SplitParameters, Token
from graveler.storage.objects.port import ObjectConditionError, ObjectMissingError, Objects
from graveler.storage.objects.tree_files import FOLDER
from graveler.tree.apply import Interval
from graveler.tree.merge import TreeConflict
from graveler.tree.parts import Load

T = TypeVar("T")

OPERATIONS: Final = f"{FOLDER}/operations"

_READ_AT_ONCE: Final = 16


class PlannedPart(msgspec.Struct, frozen=True, array_like=True):
    """One part: its interval of keys, what is to be read there, and the name of its result."""

    interval: Interval
    load: Load
    name: str


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """The division of work. ``head`` is the commit of the branch that it builds on, ``trees`` are the metaranges that parts read.
    For a commit, ``tokens`` are those whose changes it takes, the oldest first, ``own`` the one that it has sealed itself;
    ``rest``: there were more than one commit could take, which only the previous version writes, and then the work is planned
    again; ``earlier`` is not read any more. ``done`` is a commit that has already been made, if nothing is left to do. For a
    merge, ``recut``: the source has other split parameters than the head. ``split`` are the head's split parameters (None: see
    its commit)."""

    parts: tuple[PlannedPart, ...]
    head: CommitID = CommitID("")
    trees: tuple[MetarangeName, ...] = ()
    tokens: tuple[Token, ...] = ()
    own: Token | None = None
    rest: bool = False
    earlier: str = ""
    done: CommitID | None = None
    recut: bool = False
    split: SplitParameters | None = None

    @property
    def load(self) -> Load:
        """The sum of what is to be read."""
        total = Load()
        for part in self.parts:
            total += part.load
        return total


class PartResult(msgspec.Struct, frozen=True, array_like=True):
    """The ranges of a part's tree (last keys and packed descriptions), or its conflicts; how many ``records`` of how many
    ``bytes`` were processed."""

    lasts: list[bytes]
    packed: list[bytes]
    conflicts: tuple[TreeConflict, ...] = ()
    records: int = 0
    bytes: int = 0


class PartFiles:
    """The files of one operation."""

    def __init__(self, objects: Objects, operation_id: str) -> None:
        if not operation_id or "/" in operation_id:
            raise InvalidError(f"{operation_id!r} is not the ID of an operation")
        self._objects = objects
        self._folder = f"{OPERATIONS}/{operation_id}"

    def plan(self, number: int) -> Plan | None:
        """Return the plan of a round, if there is one. One object read."""
        try:
            return _decode(self._objects.get(self._plan_key(number)), Plan, self._plan_key(number))
        except ObjectMissingError:
            return None

    def expect_plan(self, number: int) -> Plan:
        """Return the plan of a round. One object read. :class:`NotFoundError`."""
        plan = self.plan(number)
        if plan is None:
            raise NotFoundError(f"{self._plan_key(number)} does not exist; plan the operation first, round {number}")
        return plan

    def keep_plan(self, number: int, plan: Plan) -> Plan:
        """Store the plan of a round, unless there is one: then that one counts. Return the one that counts. One object write."""
        try:
            self._objects.put(self._plan_key(number), _encode(plan), if_absent=True)
        except ObjectConditionError:
            return self.expect_plan(number)
        return plan

    def done(self, plan: Plan) -> dict[int, Load]:
        """Return the finished parts of a plan, by their numbers, and what was to be read for each. An object listing: one request
        for each 1,000 parts that are done in all rounds."""
        folder = f"{self._folder}/parts/"
        names = {stored.key.removeprefix(folder) for stored in self._objects.list(folder)}
        return {number: part.load for number, part in enumerate(plan.parts) if part.name in names}

    def result(self, part: PlannedPart) -> PartResult | None:
        """Return the result of a part, if it is done. One object read."""
        key = f"{self._folder}/parts/{part.name}"
        try:
            return _decode(self._objects.get(key), PartResult, key)
        except ObjectMissingError:
            return None

    def expect_result(self, part: PlannedPart) -> PartResult:
        """Return the result of a part. One object read. :class:`NotFoundError`."""
        result = self.result(part)
        if result is None:
            raise NotFoundError(
                f"{self._folder}/parts/{part.name} does not exist; run this part of the operation first"
            )
        return result

    def expect_results(self, plan: Plan) -> list[PartResult]:
        """Return the results of all parts of a plan, in order. One object read for each, for many parts several at a time.
        :class:`NotFoundError`."""
        if len(plan.parts) <= _READ_AT_ONCE:
            return [self.expect_result(part) for part in plan.parts]
        with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="graveler-results") as pool:
            return list(pool.map(self.expect_result, plan.parts))

    def keep_result(self, part: PlannedPart, result: PartResult) -> None:
        """Store the result of a part. One object write."""
        self._objects.put(f"{self._folder}/parts/{part.name}", _encode(result))

    def _plan_key(self, number: int) -> str:
        return f"{self._folder}/plans/{number:04}"


_encode: Final = msgspec.msgpack.Encoder().encode


def _decode(data: bytes, kind: type[T], key: str) -> T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except UNREADABLE as error:
        raise CorruptError(f"{key} cannot be read ({error}); start the operation again") from None
