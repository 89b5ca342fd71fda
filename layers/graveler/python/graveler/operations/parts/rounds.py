"""The rounds of an operation in parts, each of three steps: plan, run a part, publish."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Final

import msgspec

from graveler.lake.deadline import Deadline
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID
from graveler.operations.parts.division import AnotherRoundError, PartedWork, Sizes
from graveler.operations.parts.part_files import PartFiles
from graveler.operations.pinned_requests import LongRequest, Pinned
from graveler.storage.tables.port import Check
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.parts import Load

_DOING: Final = "the operation"

_SHARED_PART: Final = 4_000_000
"""Records to read for one part when several processes share the work on each part."""


class Planned(msgspec.Struct, frozen=True):
    """A summary of a plan: the number of parts, the work of all of them together, and the ``done`` parts by number, with the work
    of each."""

    parts: int
    load: Load
    done: Mapping[int, Load] = {}

    @property
    def left(self) -> tuple[int, ...]:
        """The numbers of the parts that are not done."""
        return tuple(number for number in range(self.parts) if number not in self.done)


class PartDone(msgspec.Struct, frozen=True):
    """The numbers of ``records`` and ``bytes`` (logical size) that a part processed."""

    records: int
    bytes: int


class Rounds:
    """The rounds of one operation. Each step may be repeated, and run in another process than the one before; parts also
    concurrently. Publishing twice returns the same commit (promise C4). No step begins after ``deadline``
    (:class:`TooLateError`), except one that finds the commit."""

    def __init__(
        self,
        work: PartedWork,
        files: PartFiles,
        sizes: Sizes,
        commit_of: Callable[[CommitID], Commit],
        deadline: Deadline,
    ) -> None:
        self._deadline = deadline
        self._commit_of = commit_of
        self._work = work
        self._files = files
        self._sizes = sizes

    def plan(self, round_number: int = 0) -> Planned:
        """Divide the work, on the branch's current head; a round that is already planned stays as it is.

        One object write; what the kind of verb needs to read metaranges and head. To find the finished parts, one listing (a
        request for each 1,000), but none for a first plan. Errors as those of the verb.
        """
        self._deadline.check(_DOING)
        plan = self._files.plan(round_number)
        is_first = plan is None and round_number == 0
        if plan is None:
            before = self._files.expect_plan(round_number - 1) if round_number > 0 else None
            plan = self._files.keep_plan(round_number, self._work.plan(self._sizes, before))
        return Planned(len(plan.parts), plan.load, {} if is_first else self._files.done(plan))

    def run_part(self, number: int, round_number: int = 0, progress: ObjectProgress = no_object_progress) -> PartDone:
        """Work on part ``number`` (from 0) of a round; a finished one stays as it is.

        Two object reads and one write, besides what the part reads and writes; in a round that is not the first one two table
        writes, and one every few seconds.
        """
        self._deadline.check(_DOING)
        plan = self._files.expect_plan(round_number)
        part = plan.parts[number]
        result = self._files.result(part)
        if result is None:
            with self._work.keeping() if round_number else nullcontext():
                result = self._work.run(plan, number, progress)
            self._files.keep_result(part, result)
        else:
            progress(result.records, result.bytes)
        return PartDone(result.records, result.bytes)

    def publish(self, round_number: int = 0) -> Commit | None:
        """Join the parts and publish the commit. If the branch has moved on a little, the changes there are processed in
        the same step; return None if they are more than :attr:`Sizes.in_place`, and another round is needed.

        An object read for each part, once; what lies at seams; the metarange and the commit record written; one transaction.
        :class:`NotFoundError` while a part is not done; errors as those of the verb.
        """
        plan = self._files.expect_plan(round_number)

        if plan.done is not None:
            return self._commit_of(plan.done)
        try:
            return self._work.publish(plan, lambda: self._files.expect_results(plan), self._sizes)
        except AnotherRoundError:
            return None

    def give_up(self) -> None:
        """Release the branch for others: the operation will not continue."""
        self._work.give_up()


def open_rounds(
    repository: OpenRepository,
    operation_id: str,
    pinned: Pinned[LongRequest],
    *,
    request_id: str = "",
    began: float,
    sizes: Sizes | None = None,
    only_while: Check | None = None,
) -> Rounds:
    """Open a verb that is worked on in parts. Its files lie under ``operation_id``; ``request_id`` (or else ``operation_id``)
    identifies its commit. ``began`` (Unix seconds) is when the work on the operation began: it has to be published within half
    the grace period. ``only_while`` is a condition of the transaction that publishes it; if it fails,
    :class:`graveler.lake.deadline.StoppedError`. A cherry-pick reads its commit; otherwise no request."""
    from graveler.operations.parts.work_of_request import open_work, ticket_of  # not on the path of a cold start

    parts = repository.parts
    deadline = parts.deadlines.begin(began)
    work = open_work(parts, pinned, request_id or operation_id, deadline, only_while, ticket_of(operation_id))
    files = PartFiles(repository.namespace, operation_id)
    sizes = sizes or (Sizes(records=_SHARED_PART) if parts.workers > 1 else Sizes())
    return Rounds(work, files, sizes, parts.branches.commit, deadline)
