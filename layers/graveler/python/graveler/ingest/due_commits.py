"""The clock of ingest: the commits that are due by now, in all repositories with pending changes.

A failure in one repository or rule is reported with its name, and stops no other. A clock with too little time for all starts
with another repository each minute, so that each gets its turn.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from graveler.errors import CorruptError, GravelerError, RepositoryNotFoundError
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.pending_changes import Pending, decode_pending, pending_key
from graveler.ingest.results import Batch, Notes, Overdue
from graveler.ingest.rules import RepositoryRules, Rule, RuleStore
from graveler.ingest.waiting_repositories import forget, looked_at_all, mark_write, waiting
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Repository
from graveler.storage.tables.port import DamagedItemError, Item
from graveler.storage.tables.walking import walk

LATE: Final = 900
"""Seconds after which a commit that the clock made due, and that was not made, is reported."""

_MINUTE: Final = 60


class DueCommits:
    """A check of a lake that makes the commits that are due."""

    def __init__(self, lake: Lake, clock: Clock, committer: AutoCommitter) -> None:
        self._lake = lake
        self._clock = clock
        self._store = RuleStore(lake.tables)
        self._committer = committer

    def all(self, go_on: Callable[[], bool]) -> Batch:
        """Commit everything that is due in the lake, while ``go_on`` returns True. :class:`UnavailableError`, :class:`BusyError`
        if not even the rules can be read.

        Cost: one table read for the marks of repositories with pending changes. If any exist, one for the rules, one for each of
        these repositories, and the cost of commits; a write per repository with nothing pending any more. Every
        :data:`graveler.ingest.waiting_repositories.ALL_EVERY` seconds one per repository with rules instead, and a write.
        """
        notes = Notes()
        now = self._clock.now()
        marked = waiting(self._lake.tables, now)
        if not marked.marks and not marked.all:
            return notes.finished()
        current = [rules for rules in self._store.all() if marked.all or rules.uid in marked.marks]
        start = int(now // _MINUTE) % len(current) if current else 0
        for rules in [*current[start:], *current[:start]]:
            if not go_on():
                return notes.finished()
            try:
                self._look_at(rules, marked.marks.get(rules.uid), notes, go_on)
            except GravelerError as error:
                _note_failure(notes, rules, error)
        for uid in marked.marks.keys() - {rules.uid for rules in current}:  # it has no rules any more
            if marked.marks[uid]:
                forget(self._lake.tables, uid, marked.marks[uid])
        if marked.all:
            looked_at_all(self._lake.tables, now)
        return notes.finished()

    def of(self, repository: Repository, go_on: Callable[[], bool]) -> Batch:
        """Commit everything that is due by the rules of one repository. Cost: two table reads, and the cost of commits.
        :class:`CorruptError` if a rule cannot be read; :class:`UnavailableError`, :class:`BusyError`."""
        notes = Notes()
        rules = self._store.of(repository)
        if rules.rules:
            self._look_at(rules, "", notes, go_on)
        return notes.finished()

    def _look_at(self, rules: RepositoryRules, mark: str | None, notes: Notes, go_on: Callable[[], bool]) -> None:
        for damaged in rules.damaged:
            notes.unread(rules, damaged.name, damaged.reason)
        items = dict(walk(self._lake.tables, pending_key(rules.uid, "any").partition))
        now = self._clock.now()
        wanting: list[Rule] = []
        is_empty = not rules.damaged
        for rule in rules.rules:
            try:
                pending = _state(rules, rule, items)
            except CorruptError as error:
                notes.not_made(rules.repository, rule.name, error)
                is_empty = False
                continue
            is_empty = is_empty and pending.is_empty
            if pending.wants_commit(rule.commit, now):
                wanting.append(rule)
        if wanting and not self._commit(rules, wanting, items, notes, go_on):
            is_empty = True
        if is_empty and mark:
            forget(self._lake.tables, rules.uid, mark)
        elif not is_empty and mark is None:
            write = mark_write(rules.uid)
            self._lake.tables.put(write.key, write.item)

    def _commit(
        self,
        rules: RepositoryRules,
        wanting: Sequence[Rule],
        items: dict[bytes, Item | DamagedItemError],
        notes: Notes,
        go_on: Callable[[], bool],
    ) -> bool:
        """Commit for the rules; False if the repository is gone, and only its rules are left."""
        repository = opened(self._lake, rules)
        if repository is None:
            return False
        for rule in wanting:
            state = _state(rules, rule, items)
            waits = True
            if go_on():
                make = partial(self._committer.commit_if_due, repository, rule)
                commits = notes.commits(rules.repository, rule.name, make)
                waits = commits is None or (not commits and state.taken is not None and bool(state.taken.operation))
            late = state.late(rule.commit, self._clock.now())
            if waits and late >= LATE:
                notes.overdue.append(Overdue(rules.repository, rule.name, late))
        return True


def opened(lake: Lake, rules: RepositoryRules) -> OpenRepository | None:
    """Return the repository of rules, or None if it is gone, or another one has its name. One table read."""
    try:
        repository = lake.repository(rules.repository)
    except RepositoryNotFoundError:
        return None
    return repository if repository.repository.uid == rules.uid else None


def _state(rules: RepositoryRules, rule: Rule, items: dict[bytes, Item | DamagedItemError]) -> Pending:
    key = pending_key(rules.uid, rule.id)
    item = items.get(key.sort)
    if isinstance(item, DamagedItemError):
        raise item
    return decode_pending(key, item)


def _note_failure(notes: Notes, rules: RepositoryRules, error: GravelerError) -> None:
    """Record that a repository could not be checked."""
    if isinstance(error, CorruptError):
        notes.unread(rules, "", str(error))
        return
    for rule in rules.rules:
        notes.not_made(rules.repository or rules.uid, rule.name, error)
