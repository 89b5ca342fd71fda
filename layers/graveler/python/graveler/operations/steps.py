"""The steps of one operation in parts, recorded: merge, commit, revert, cherry-pick, import and rewriting.

Each may be repeated and run anywhere: *plan*, *run a part*, *publish*. Besides leaving results in the object store for each other
(:mod:`graveler.operations.parts.rounds`), they record the operation's progress in the table. A worker that stays until the end
runs them all (:mod:`graveler.operations.one_process`); :mod:`graveler.operations.machine` is for one that does not.
"""

import logging
from typing import Final

from msgspec.structs import replace

from graveler.errors import GravelerError, TooLateError, may_pass
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.operations.parts.division import Sizes
from graveler.operations.parts.rounds import PartDone, Planned, open_rounds
from graveler.operations.pinned_requests import REQUESTS, decode_pinned
from graveler.operations.store import Operation, Operations, WorkDone
from graveler.requests.importing import ImportAddresses
from graveler.system.progress import ObjectProgress, no_object_progress

_log = logging.getLogger(__name__)

LAST_IMPORT: Final = ".lakefs.last.import.timestamp"
"""Repository metadata: when the newest import was committed, in Unix seconds. Clients look for it."""

MAX_ROUNDS: Final = 100
"""Number of times that the branch may move under an operation before it is given up."""


class Steps:
    """The steps of one operation, as its item was read."""

    def __init__(self, repository: OpenRepository, operation: Operation, sizes: Sizes | None = None) -> None:
        self._repository = repository
        self._operation = operation
        self._operations = Operations(repository.tables, repository.repository.uid)
        pinned = decode_pinned(operation.request, REQUESTS[operation.kind])
        self._request = pinned.request
        self._rounds = open_rounds(
            repository,
            operation.id,
            pinned,
            request_id=operation.request_id,
            began=operation.created,
            sizes=sizes,
            only_while=self._operations.running(operation.id),
        )

    def plan(self, round_number: int) -> Planned:
        """Cut the work. Cost and errors as :meth:`Rounds.plan`; one table read and one write, and one read more for each
        thousand parts of the round that are done. :class:`TooLateError` after very many rounds."""
        if round_number >= MAX_ROUNDS:
            raise TooLateError(f"the branch moved {MAX_ROUNDS} times during the {self._operation.kind}; try again")
        planned = self._rounds.plan(round_number)

        this_round = replace(self._operation, round=round_number)
        noted_parts = self._operations.noted_parts(this_round) if planned.done else frozenset()
        skipped = [load for number, load in planned.done.items() if number not in noted_parts]

        def note(now: Operation) -> Operation | None:
            noted = replace(
                now,
                round=round_number,
                parts=planned.parts,
                records=planned.load.records,
                bytes=planned.load.bytes,
                skipped=WorkDone(
                    len(skipped), sum(load.records for load in skipped), sum(load.bytes for load in skipped)
                ),
            )
            return None if noted == now or now.is_finished else noted

        self._operation = self._operations.change(self._operation.id, note)
        return planned

    def run_part(self, number: int, round_number: int, progress: ObjectProgress = no_object_progress) -> PartDone:
        """Work on a part, from 0. Cost and errors as :meth:`Rounds.run_part`; one table write."""
        done = self._rounds.run_part(number, round_number, progress)
        noted = replace(self._operation, round=round_number)
        self._operations.note_part(noted, number, done.records, done.bytes)
        return done

    def publish(self, round_number: int) -> Commit | None:
        """Join the parts and publish the commit, on condition that the operation still runs; None: another round is needed. Cost
        and errors as :meth:`Rounds.publish`; for an import one table read and one write."""
        commit = self._rounds.publish(round_number)
        if commit is not None and commit.id and isinstance(self._request, ImportAddresses):
            self._note_import(commit, force=self._request.force)
        return commit

    def _note_import(self, commit: Commit, *, force: bool) -> None:
        """Record the import's time in the repository's metadata. If the repository takes no metadata any more, the commit stays
        valid."""
        try:
            self._repository.set_metadata({LAST_IMPORT: str(commit.created)}, force=force)
        except GravelerError as error:
            if may_pass(type(error)):
                raise  # tried again, which finds the commit
            _log.warning("the time of import %s could not be stored in the repository's metadata: %s", commit.id, error)

    def give_up(self) -> None:
        """Release the branch for others, after the operation failed."""
        self._rounds.give_up()


def give_up(repository: OpenRepository, operation: Operation) -> None:
    """Release the branch for others, if the operation works in parts: it failed, or was cancelled."""
    if operation.kind in REQUESTS:
        Steps(repository, operation).give_up()
