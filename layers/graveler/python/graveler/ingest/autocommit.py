"""The commit that a rule's policy asks for: made once, whoever dies, and however many find it due.

1. What is pending is taken aside, under a number (compare-and-set).
2. The ordinary commit, with a request id that was drawn with it: whoever repeats it gets the same commit.
3. What was taken is forgotten, unless somebody did so already.

A process that dies after 1 or 2 leaves it to the next one that looks at the rule, which goes on from there.

A commit that reads more than one call may (:class:`graveler.ingest.handover.LongCommits`) becomes an operation, whose ID is noted
beside what was taken: 3 is done by whoever looks at the rule when it has ended. Should it fail, the next look begins another.
"""

from typing import Final

import msgspec

from graveler.errors import BusyError, NoChangesError, TooMuchWorkError
from graveler.ingest.handover import LongCommits
from graveler.ingest.pending import NO_WINDOW, Amount, Pending, Taken, decode_pending, pending_key, take
from graveler.ingest.rules import Rule
from graveler.ingest.windows import spelled
from graveler.lake.clock import Backoff, Clock
from graveler.lake.context import Context
from graveler.lake.in_parts.pinned import Pinned
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.requests import committing as requests
from graveler.requests.base import CommitInfo
from graveler.storage.tables import ConditionFailedError, Tables

COMMITTER: Final = "ingest"


class AutoCommitter:
    """Commits what rules have staged. Without ``long``, a commit is made in the call however long it takes."""

    def __init__(self, tables: Tables, clock: Clock, long: LongCommits | None = None) -> None:
        self._tables = tables
        self._clock = clock
        self._long = long

    def pending(self, repository: OpenRepository, rule: Rule) -> Pending:
        """What a rule has staged. One table read."""
        key = pending_key(repository.repository.uid, rule.id)
        return decode_pending(key, self._tables.get(key))

    def commit_if_due(self, repository: OpenRepository, rule: Rule) -> list[Commit]:
        """Finish the commit that somebody began, and make the one that is due; of one that is worked on as an operation there is
        nothing to tell yet. One table read; for each commit, two table reads, two writes and :class:`Commit`, of
        which those errors are; for an operation one table read more, and its error if it failed."""
        made: list[Commit] = []
        backoff = Backoff(self._clock)
        key = pending_key(repository.repository.uid, rule.id)
        while True:
            pending = self.pending(repository, rule)
            if pending.taken is not None:
                if not self._finish(repository, rule, pending.taken, made):
                    return made
                continue
            taken = take(pending, rule.commit, self._clock.now())
            if taken is None:
                return made
            after = msgspec.structs.replace(pending, amount=Amount(), taken=taken, number=taken.number)
            write = after.put_write(key, pending)
            try:
                self._tables.put(write.key, write.item, write.condition)
            except ConditionFailedError:
                if not backoff.wait():
                    raise BusyError(
                        f"ingest rule {rule.name!r} is being changed by too many at once; try again"
                    ) from None

    def _finish(self, repository: OpenRepository, rule: Rule, taken: Taken, made: list[Commit]) -> bool:
        """Make the commit of what was taken, and forget that; False if somebody works on it."""
        try:
            if taken.operation:
                commit = self._handed_over(repository, rule, taken)
            else:
                commit = self._commit_taken(repository, rule, taken)
            if commit is None:
                return False
            made.append(commit)
        except NoChangesError:
            pass  # somebody else's commit has taken it, or it was no change
        return self._note(repository, rule, taken, None)

    def _commit_taken(self, repository: OpenRepository, rule: Rule, taken: Taken) -> Commit | None:
        """The commit; None if it is so much that it was handed over."""
        message = _filled(rule.message, rule, taken)
        metadata = {name: _filled(value, rule, taken) for name, value in rule.metadata.items()}
        info = CommitInfo(message, COMMITTER, metadata, request_id=taken.request_id(rule.id))
        request = requests.Commit(branch=rule.branch, info=info)
        context = Context() if self._long is None else Context(limit=self._long.limit, stop=self._long.stop())
        try:
            return repository.run(request, context)
        except TooMuchWorkError as error:
            assert self._long is not None
            pinned = Pinned(request=request, owner=error.operation, begun=error.begun)
            operation = self._long.begin(repository, pinned)
        self._note(repository, rule, taken, msgspec.structs.replace(taken, operation=operation))
        return None

    def _handed_over(self, repository: OpenRepository, rule: Rule, taken: Taken) -> Commit | None:
        """The commit that an operation made; None while it is worked on, also where nobody here can tell."""
        if self._long is None:
            return None
        found = self._long.look(repository, taken.operation)
        if found.failure is not None:
            # The next look begins anew.
            self._note(repository, rule, taken, msgspec.structs.replace(taken, operation=""))
            raise found.failure
        return None if found.commit_id is None else repository.commit_of(found.commit_id)

    def _note(self, repository: OpenRepository, rule: Rule, taken: Taken, after: Taken | None) -> bool:
        """Replace what was taken, unless somebody did so already. False if too many change the rule: who looks next does it."""
        key = pending_key(repository.repository.uid, rule.id)
        backoff = Backoff(self._clock)
        while True:
            pending = self.pending(repository, rule)
            if pending.taken != taken:
                return True
            write = msgspec.structs.replace(pending, taken=after).put_write(key, pending)
            try:
                self._tables.put(write.key, write.item, write.condition)
                return True
            except ConditionFailedError:
                if not backoff.wait():
                    return False


def _filled(template: str, rule: Rule, taken: Taken) -> str:
    window = taken.amount.window if taken.window is None and taken.amount.window != NO_WINDOW else taken.window
    return template.format_map(
        {
            "rule": rule.name,
            "branch": rule.branch,
            "source": rule.source,
            "objects": taken.amount.objects,
            "deleted": taken.amount.deleted,
            "window": "" if window is None else spelled(window),
            "reason": taken.reason,
        }
    )
