"""The commit that a rule's policy asks for: made once, whoever dies, and however many find it due.

1. What is pending is taken aside, under a number (compare-and-set).
2. The ordinary commit, with a request id of the rule and that number: whoever repeats it gets the same commit.
3. What was taken is forgotten, unless somebody did so already.

A process that dies after 1 or 2 leaves it to the next one that looks at the rule, which goes on from there.
"""

from contextlib import suppress
from typing import Final

import msgspec

from graveler.errors import BusyError, NoChangesError
from graveler.ingest.pending import NO_WINDOW, Amount, Pending, Taken, decode_pending, pending_key
from graveler.ingest.rules import Rule
from graveler.ingest.windows import spelled
from graveler.lake.clock import Backoff, Clock
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.storage.tables import ConditionFailedError, Tables

COMMITTER: Final = "ingest"


class AutoCommitter:
    """Commits what rules have staged."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    def pending(self, repository: OpenRepository, rule: Rule) -> Pending:
        """What a rule has staged. One table read."""
        return decode_pending(self._tables.get(pending_key(repository.repository.uid, rule.id)))

    def commit_if_due(self, repository: OpenRepository, rule: Rule) -> list[Commit]:
        """Finish the commit that somebody began, and make the one that is due. One table read; for each commit, two table reads,
        two writes and :meth:`OpenRepository.commit`, of which those errors are."""
        return self._commit(repository, rule, NO_WINDOW)

    def commit_before(self, repository: OpenRepository, rule: Rule, window: int) -> list[Commit]:
        """As :meth:`commit_if_due`; what is pending of windows before ``window`` is due."""
        return self._commit(repository, rule, window)

    def _commit(self, repository: OpenRepository, rule: Rule, window: int) -> list[Commit]:
        made: list[Commit] = []
        backoff = Backoff(self._clock)
        key = pending_key(repository.repository.uid, rule.id)
        while True:
            pending = self.pending(repository, rule)
            if pending.taken is not None:
                made += self._finish(repository, rule, pending.taken)
                continue
            amount = pending.amount
            reason = amount.due(rule.commit, self._clock.now())
            if not reason and amount.changes and NO_WINDOW != amount.window < window:
                reason = "window"
            if not reason:
                return made
            number = pending.number + 1
            after = Pending(Amount(), Taken(number, pending.amount, reason), number)
            write = after.put_write(key, pending)
            try:
                self._tables.put(write.key, write.item, write.condition)
            except ConditionFailedError:
                if not backoff.wait():
                    raise BusyError(
                        f"ingest rule {rule.name!r} is being changed by too many at once; try again"
                    ) from None

    def _finish(self, repository: OpenRepository, rule: Rule, taken: Taken) -> list[Commit]:
        made: list[Commit] = []
        with suppress(NoChangesError):  # somebody else's commit has taken it, or it was no change
            made.append(
                repository.commit(
                    rule.branch,
                    _filled(rule.message, rule, taken),
                    committer=COMMITTER,
                    metadata={name: _filled(value, rule, taken) for name, value in rule.metadata.items()},
                    request_id=f"ingest-{rule.id}-{taken.number}",
                )
            )
        key = pending_key(repository.repository.uid, rule.id)
        backoff = Backoff(self._clock)
        while True:
            pending = self.pending(repository, rule)
            if pending.taken is None or pending.taken.number != taken.number:
                return made
            write = msgspec.structs.replace(pending, taken=None).put_write(key, pending)
            try:
                self._tables.put(write.key, write.item, write.condition)
                return made
            except ConditionFailedError:
                if not backoff.wait():
                    return made  # whoever looks next finishes it


def _filled(template: str, rule: Rule, taken: Taken) -> str:
    window = taken.amount.window
    return template.format_map(
        {
            "rule": rule.name,
            "branch": rule.branch,
            "source": rule.source,
            "objects": taken.amount.objects,
            "deleted": taken.amount.deleted,
            "window": "" if window == NO_WINDOW else spelled(window),
            "reason": taken.reason,
        }
    )
