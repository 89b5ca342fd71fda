"""The clock of ingest: the commits that are due by now, in all repositories with pending changes.

A failure in one repository or rule is reported with its name, and stops no other. A clock with too little time for all starts
with another repository each minute, so that each gets its turn.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError, GravelerError, RepositoryNotFoundError
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.pending_changes import Pending, decode_pending, pending_key
from graveler.ingest.rules import RepositoryRules, Rule, RuleStore
from graveler.ingest.waiting_repositories import forget, looked_at_all, mark_write, waiting
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, Repository
from graveler.storage.tables.port import DamagedItemError, Item
from graveler.storage.tables.walking import walk

LATE: Final = 900
"""Seconds after which a commit that the clock made due, and that was not made, is reported."""

_MINUTE: Final = 60


class Made(Struct, frozen=True):
    """A commit that a rule's policy asked for."""

    repository: str
    rule: str
    commit: Commit


class NotMade(Struct, frozen=True):
    """A commit that is due and could not be made; the next check of the rule retries it."""

    repository: str
    rule: str
    reason: str


class Unread(Struct, frozen=True):
    """A repository, or one of its rules, that cannot be read: its events are delivered again, and its commits wait."""

    repository: str
    rule: str
    reason: str


class Overdue(Struct, frozen=True):
    """A rule whose commit has been due for ``seconds``, by its windows or its seconds."""

    repository: str
    rule: str
    seconds: int


class Looked(Struct, frozen=True):
    """The result of a check for due commits."""

    commits: tuple[Made, ...] = ()
    commits_failed: tuple[NotMade, ...] = ()
    unread: tuple[Unread, ...] = ()
    overdue: tuple[Overdue, ...] = ()


class DueCommits:
    """A check of a lake that makes the commits that are due."""

    def __init__(self, lake: Lake, clock: Clock, committer: AutoCommitter) -> None:
        self._lake = lake
        self._clock = clock
        self._store = RuleStore(lake.tables)
        self._committer = committer

    def all(self, go_on: Callable[[], bool]) -> Looked:
        """Commit everything that is due in the lake, while ``go_on`` returns True. :class:`UnavailableError`, :class:`BusyError`
        if not even the rules can be read.

        Cost: one table read for the marks of repositories with pending changes. If any exist, one for the rules, one for each of
        these repositories, and the cost of commits; a write per repository with nothing pending any more. Every
        :data:`graveler.ingest.waiting_repositories.ALL_EVERY` seconds one per repository with rules instead, and a write.
        """
        look = _Look()
        now = self._clock.now()
        marked = waiting(self._lake.tables, now)
        if not marked.marks and not marked.all:
            return look.finished()
        current = [rules for rules in self._store.all() if marked.all or rules.uid in marked.marks]
        start = int(now // _MINUTE) % len(current) if current else 0
        for rules in [*current[start:], *current[:start]]:
            if not go_on():
                return look.finished()
            try:
                self._look_at(rules, marked.marks.get(rules.uid), look, go_on)
            except GravelerError as error:
                look.failed(rules, error)
        for uid in marked.marks.keys() - {rules.uid for rules in current}:  # it has no rules any more
            if marked.marks[uid]:
                forget(self._lake.tables, uid, marked.marks[uid])
        if marked.all:
            looked_at_all(self._lake.tables, now)
        return look.finished()

    def of(self, repository: Repository, go_on: Callable[[], bool]) -> Looked:
        """Commit everything that is due by the rules of one repository. Cost: two table reads, and the cost of commits.
        :class:`CorruptError` if a rule cannot be read; :class:`UnavailableError`, :class:`BusyError`."""
        look = _Look()
        rules = self._store.of(repository)
        if rules.rules:
            self._look_at(rules, "", look, go_on)
        return look.finished()

    def _look_at(self, rules: RepositoryRules, mark: str | None, look: "_Look", go_on: Callable[[], bool]) -> None:
        for damaged in rules.damaged:
            look.unread.append(Unread(rules.repository or rules.uid, damaged.name, damaged.reason))
        items = dict(walk(self._lake.tables, pending_key(rules.uid, "any").partition))
        now = self._clock.now()
        wanting: list[Rule] = []
        is_empty = not rules.damaged
        for rule in rules.rules:
            try:
                pending = _state(rules, rule, items)
            except CorruptError as error:
                look.commits_failed.append(NotMade(rules.repository, rule.name, str(error)))
                is_empty = False
                continue
            is_empty = is_empty and pending.is_empty
            if pending.wants_commit(rule.commit, now):
                wanting.append(rule)
        if wanting and not self._commit(rules, wanting, items, look, go_on):
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
        look: "_Look",
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
                try:
                    commits = self._committer.commit_if_due(repository, rule)
                    look.commits += [Made(rules.repository, rule.name, commit) for commit in commits]
                    waits = not commits and state.taken is not None and bool(state.taken.operation)
                except GravelerError as error:
                    look.commits_failed.append(NotMade(rules.repository, rule.name, str(error)))
            late = state.late(rule.commit, self._clock.now())
            if waits and late >= LATE:
                look.overdue.append(Overdue(rules.repository, rule.name, late))
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


class _Look:
    """The results collected so far."""

    def __init__(self) -> None:
        self.commits: list[Made] = []
        self.commits_failed: list[NotMade] = []
        self.unread: list[Unread] = []
        self.overdue: list[Overdue] = []

    def failed(self, rules: RepositoryRules, error: GravelerError) -> None:
        """Record that a repository could not be checked."""
        name = rules.repository or rules.uid
        if isinstance(error, CorruptError):
            self.unread.append(Unread(name, "", str(error)))
        else:
            self.commits_failed += [NotMade(name, rule.name, str(error)) for rule in rules.rules]

    def finished(self) -> Looked:
        return Looked(tuple(self.commits), tuple(self.commits_failed), tuple(self.unread), tuple(self.overdue))
