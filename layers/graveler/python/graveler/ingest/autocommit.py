"""The commit that a rule's policy requires. It is made once, even if processes die, and even if several find it due.

1. The pending changes are set aside, under a number (a conditional write).
2. The ordinary commit, with a request id drawn in step 1: a repetition returns the same commit.
3. The changes set aside are deleted, unless another process has done so.

If a process dies after 1 or 2, the next one that checks the rule continues from there.

A commit that reads more than one call may (:class:`graveler.ingest.handover.LongCommits`) becomes an operation, whose ID is
stored with the changes set aside: step 3 is done by the process that checks the rule after its end. If it fails, the next check
starts another one.
"""

from typing import Final

import msgspec

from graveler.errors import BusyError, NoChangesError, TooMuchWorkError
from graveler.ingest.handover import LongCommits
from graveler.ingest.pending_changes import (
    NO_WINDOW,
    Amount,
    Pending,
    Taken,
    change_pending,
    decode_pending,
    pending_key,
    take,
)
from graveler.ingest.rules import Rule
from graveler.ingest.windows import spelled
from graveler.lake.clock import Backoff, Clock
from graveler.lake.context import Context
from graveler.lake.repository import OpenRepository
from graveler.model import Actor, Commit
from graveler.operations.pinned_requests import Pinned
from graveler.requests import committing as requests
from graveler.requests.base import CommitInfo
from graveler.storage.tables.port import ConditionFailedError, Tables

COMMITTER: Final = "ingest"
_ACTOR: Final = Actor(COMMITTER, "graveler:ingest", role="writer")
"""Whom rules about branches judge: no key's holder, but the lake's own committer."""


class AutoCommitter:
    """The committer of rules' staged changes. Without ``long``, a commit is made in the call however long it takes."""

    def __init__(self, tables: Tables, clock: Clock, long: LongCommits | None = None) -> None:
        self._tables = tables
        self._clock = clock
        self._long = long

    def pending(self, repository: OpenRepository, rule: Rule) -> Pending:
        """Return a rule's pending changes. One table read."""
        key = pending_key(repository.repository.uid, rule.id)
        return decode_pending(key, self._tables.get(key))

    def commit_if_due(self, repository: OpenRepository, rule: Rule) -> list[Commit]:
        """Finish a commit that was begun, and make the one that is due; return the commits made, without one that still runs as
        an operation. One table read; per commit, two table reads, two writes and :class:`Commit`, with its errors; for an
        operation one table read more, and its error if it failed."""
        commits: list[Commit] = []
        backoff = Backoff(self._clock)
        key = pending_key(repository.repository.uid, rule.id)
        while True:
            pending = self.pending(repository, rule)
            if pending.taken is not None:
                if not self._finish(repository, rule, pending.taken, commits):
                    return commits
                continue
            change_set = take(pending, rule.commit, self._clock.now())
            if change_set is None:
                return commits
            after = msgspec.structs.replace(pending, amount=Amount(), taken=change_set, number=change_set.number)
            write = after.put_write(key, pending)
            try:
                self._tables.put(write.key, write.item, write.condition)
            except ConditionFailedError:
                if not backoff.wait():
                    raise BusyError(
                        f"ingest rule {rule.name!r} is being changed by too many others at once; try again"
                    ) from None

    def _finish(self, repository: OpenRepository, rule: Rule, change_set: Taken, commits: list[Commit]) -> bool:
        """Commit the changes set aside, and delete them; False while an operation works on it."""
        try:
            if change_set.operation:
                commit = self._handed_over(repository, rule, change_set)
            else:
                commit = self._commit_taken(repository, rule, change_set)
            if commit is None:
                return False
            commits.append(commit)
        except NoChangesError:
            pass  # another commit included them, or they changed nothing
        return self._note(repository, rule, change_set, None)

    def _commit_taken(self, repository: OpenRepository, rule: Rule, change_set: Taken) -> Commit | None:
        """Return the commit; None if it was handed over."""
        message = _filled(rule.message, rule, change_set)
        metadata = {name: _filled(value, rule, change_set) for name, value in rule.metadata.items()}
        info = CommitInfo(message, COMMITTER, metadata, request_id=change_set.request_id(rule.id))
        request = requests.Commit(branch=rule.branch, info=info)
        context = Context(by=COMMITTER, actor=_ACTOR)
        if self._long is not None:
            context = msgspec.structs.replace(context, limit=self._long.limit, stop=self._long.stop())
        try:
            return repository.run(request, context)
        except TooMuchWorkError as error:
            assert self._long is not None
            pinned = Pinned(request=request, owner=error.operation, begun=error.partial_result, actor=_ACTOR)
            operation = self._long.begin(repository, pinned)
        self._note(repository, rule, change_set, msgspec.structs.replace(change_set, operation=operation))
        return None

    def _handed_over(self, repository: OpenRepository, rule: Rule, change_set: Taken) -> Commit | None:
        """Return the commit that an operation made; None while it runs, or if this process cannot tell."""
        if self._long is None:
            return None
        handover = self._long.look(repository, change_set.operation)
        if handover.failure is not None:
            # The next check starts anew.
            self._note(repository, rule, change_set, msgspec.structs.replace(change_set, operation=""))
            raise handover.failure
        return None if handover.commit_id is None else repository.commit_of(handover.commit_id)

    def _note(self, repository: OpenRepository, rule: Rule, change_set: Taken, after: Taken | None) -> bool:
        """Replace the changes set aside, unless another process has done so. False under too much contention: the next check does
        it."""

        def change(pending: Pending) -> Pending | None:
            return msgspec.structs.replace(pending, taken=after) if pending.taken == change_set else None

        return change_pending(self._tables, self._clock, pending_key(repository.repository.uid, rule.id), change)


def _filled(template: str, rule: Rule, change_set: Taken) -> str:
    window = (
        change_set.amount.window
        if change_set.window is None and change_set.amount.window != NO_WINDOW
        else change_set.window
    )
    return template.format_map(
        {
            "rule": rule.name,
            "branch": rule.branch,
            "source": rule.source,
            "objects": change_set.amount.objects,
            "deleted": change_set.amount.deleted,
            "window": "" if window is None else spelled(window),
            "reason": change_set.reason,
        }
    )
