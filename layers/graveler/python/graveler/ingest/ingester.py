"""Processing of a batch of events, with a result for each. Afterwards the branch reflects the events, even if they came twice,
late or in several batches.

All rules of one branch are staged together. Their events are grouped by key and compared with the ledger, and new ones are
staged: last events, the rules' counts and the changes in one transaction per :data:`CHUNK` keys. A failure affects only the
events concerned, and is named in their results; the others proceed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import CorruptError, GravelerError, InvalidError, RepositoryNotFoundError
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.due_commits import DueCommits
from graveler.ingest.events import ObjectEvent, check_event
from graveler.ingest.handover import LongCommits
from graveler.ingest.judgement import Plan, Task, judge
from graveler.ingest.ledger import Ledger, decode_seen
from graveler.ingest.pending_changes import Ahead, Pending, decode_pending, pending_key
from graveler.ingest.results import Batch, Message, Notes, Outcome, Result, by_message, failed
from graveler.ingest.rule_tree import RuleTree
from graveler.ingest.rules import Overwrites, RepositoryRules, Rule, RuleStore
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.objects.staged_with_writes import StagedWithWrites, stage_with_writes
from graveler.lake.repository import OpenRepository
from graveler.model import Repository, RepositoryUID
from graveler.storage.tables.port import Item, Key, Write
from graveler.tree.record import encode_key

CHUNK: Final = 48
"""Keys of one rule per transaction: for each its last event and its change, besides the rule's counts and the branch."""

WINDOWS_APART: Final = 24
"""Windows of one batch and rule that become separate commits, if they are already over: a day of hours. The rest becomes one
commit, so that a backfill of a year is not a year's commits in one call."""

_WRITES: Final = 98
"""Items of rules and keys per transaction, which allows 100: the branch and its repository's mark are the others."""
_READS: Final = 98
"""Items of rules and keys per table read, which allows 100: the branch and its repository are read with them."""


class _Part(Struct, frozen=True):
    """The share of one rule in a transaction: tasks, grouped by key."""

    rule: Rule
    groups: list[list[Task]]


class _Work(Struct, frozen=True):
    """The work of a batch for one branch: for each rule its tasks, in portions that are staged one after another."""

    repository: OpenRepository
    branch: str
    portions: list[tuple[Rule, list[list[Task]]]]


class Ingester:
    """A processor of events for the branches of a lake. It may be created for each batch, and many may run at once. Commits that
    are too much for one call go to ``long``, if given."""

    def __init__(self, lake: Lake, clock: Clock, long: LongCommits | None = None) -> None:
        self._lake = lake
        self._clock = clock
        self._store = RuleStore(lake.tables)
        self.committer = AutoCommitter(lake.tables, clock, long)

    def process(
        self, events: Sequence[ObjectEvent], of: Repository | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> Batch:
        """Stage the events' changes, and commit what is due by the rules they concern: all rules of the lake, or those ``of`` one
        repository. Raises nothing for a failing event; :class:`UnavailableError`, :class:`BusyError` if not even the rules can be
        read. Once ``go_on`` returns False, no more commits are begun: all events are still staged, and due commits are left to
        :meth:`commit_due`. An event that an unreadable rule may concern must be delivered again; with ``of``,
        :class:`CorruptError` for such a rule. In a lake without any rule, all events are skipped; with ``of``, whoever names a
        repository without a rule is told.

        Windows that are over when their objects arrive, as in a backfill, become separate commits, oldest first, up to
        :data:`WINDOWS_APART`; the rest becomes one commit. If objects of a window that is not over are waiting, these join it.

        Cost: the rules, one table read per thousand repositories that have some (they are not cached: an object that arrives
        after a rule was made must find it); one per hundred of these repositories that have rules about the events' buckets; and
        per branch, and as many keys of its rules as fit into one transaction, a table read and a transaction. A rule without
        suffixes has :data:`CHUNK` keys there; of several rules of one branch each takes the room of half a key more. Then the
        cost of commits, with one table read per rule for which one is due. All of it again after conflicts with concurrent
        writers. An object read for each event without ETag, an object request for each of a rule with ``verify``, for each
        version that was deleted, and for each event from before the last reconciliation or the creation of its rule; of the
        latter, if deletes are kept and the object was never seen, two table reads, too, and once per branch the parts of its tree
        that have to be read.
        """
        events = list(events)
        notes = Notes()
        good = []
        for position, event in enumerate(events):
            try:
                check_event(event)
                good.append((position, event))
            except InvalidError as error:
                notes.note(position, failed(error))
        current = tuple(self._store.all()) if of is None else (self._store.of(of),)
        tree = RuleTree(current)
        opened = self._opened(tree.about({event.bucket for _, event in good}))
        for work in self._work(tree, good, opened, notes):
            self._do(work, notes, go_on)
        for rules in current:
            for damaged in rules.damaged:
                notes.unread(rules, damaged.name, damaged.reason)
                for position, event in good:
                    if damaged.may_take(event.address):
                        notes.note(position, Result(Outcome.RETRY, damaged.reason))
        return notes.finished(events, opened.buckets, any_rule=of is not None or _is_used(current))

    def process_messages(
        self, messages: Sequence[Message], of: Repository | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> tuple[list[Result], Batch]:
        """Process a queue's messages as :meth:`process`; returns the worst result of the events in each, in order, and all
        results."""
        return by_message(messages, partial(self.process, of=of, go_on=go_on))

    def commit_due(self, of: Repository | None = None, go_on: Callable[[], bool] = lambda: True) -> Batch:
        """Make every commit that is due, of all rules or those ``of`` one repository, while ``go_on`` returns True: for a clock
        that calls it regularly. Cost and errors as :meth:`DueCommits.all` and :meth:`DueCommits.of`."""
        due = DueCommits(self._lake, self._clock, self.committer)
        return due.all(go_on) if of is None else due.of(of, go_on)

    # The work to do

    def _work(
        self, tree: RuleTree, events: Sequence[tuple[int, ObjectEvent]], opened: "_Opened", notes: Notes
    ) -> Iterator[_Work]:
        """Yield the work for each branch. Events that could never become an object of it are refused individually."""
        now = self._clock.now()
        by_branch: dict[tuple[RepositoryUID, str], dict[str, tuple[Rule, list[Task]]]] = {}
        for position, event in events:
            for owned in tree.taking(event.bucket, event.key):
                rule, uid = owned.rule, owned.rules.uid
                if (failure := opened.failed.get(uid)) is not None:
                    notes.note(position, failed(failure))
                    if isinstance(failure, CorruptError):
                        notes.unread(owned.rules, "", str(failure))
                    continue
                repository = opened.repositories.get(uid)
                if repository is None:
                    continue  # only its rules are left
                try:
                    _expect_possible(repository, rule, event)
                except GravelerError as error:
                    notes.note(position, failed(error))
                    continue
                of_branch = by_branch.setdefault((uid, rule.branch), {})
                of_branch.setdefault(rule.id, (rule, []))[1].append(_task(rule, position, event, now))
        for (uid, branch), of_rules in by_branch.items():
            portions = [(rule, self._portions(rule, tasks)) for rule, tasks in of_rules.values()]
            yield _Work(opened.repositories[uid], branch, portions)

    def _portions(self, rule: Rule, tasks: Sequence[Task]) -> list[list[Task]]:
        """Return tasks in groups that are staged together. If all windows are over, a group per window, oldest first: a commit
        may come between. If one is not over, the others join it."""
        window, now = rule.commit.window, self._clock.now()
        over: dict[int, list[Task]] = {}
        for task in tasks:
            if window is None or task.window is None or now < window.ends(task.window):
                return [list(tasks)]
            over.setdefault(task.window, []).append(task)
        begins = sorted(over)
        apart = [over[begin] for begin in begins[: WINDOWS_APART - 1]]
        joined = [task for begin in begins[WINDOWS_APART - 1 :] for task in over[begin]]
        return [*apart, joined] if joined else apart

    # Execution

    def _do(self, work: _Work, notes: Notes, go_on: Callable[[], bool]) -> None:
        name = work.repository.repository.name
        states: dict[str, Pending] = {}
        incomplete: set[str] = set()
        rules = {rule.id: rule for rule, _ in work.portions}
        for step in zip_longest(*(portions for _, portions in work.portions)):
            portion = [(rule, tasks) for (rule, _), tasks in zip(work.portions, step, strict=True) if tasks is not None]
            # What is due by the clock is committed before more is staged, so that its commit has only its own changes.
            early = {rule.id for rule, _ in portion if rule.commit.window is not None}
            for parts in _transactions(portion):
                states.update(self._apply(work, parts, early, incomplete, notes, go_on))
        for rule_id, pending in states.items():
            rule = rules[rule_id]
            if pending.wants_commit(rule.commit, self._clock.now()) and go_on():
                notes.commits(name, rule.name, partial(self.committer.commit_if_due, work.repository, rule))

    def _apply(
        self,
        work: _Work,
        parts: Sequence[_Part],
        early: set[str],
        incomplete: set[str],
        notes: Notes,
        go_on: Callable[[], bool],
    ) -> Mapping[str, Pending]:
        """Stage, and record the events' results. Returns the state of each rule afterwards, as far as it is known; ``incomplete``
        are the rules with an event to be delivered again."""
        try:
            return self._stage(work, parts, early, incomplete, notes, go_on)
        except GravelerError as error:
            singles = [_Part(part.rule, [group]) for part in parts for group in part.groups]
            if isinstance(error, (InvalidError, CorruptError)) and len(singles) > 1:
                states: dict[str, Pending] = {}
                for single in singles:  # one of them fails: the others succeed by themselves
                    states.update(self._apply(work, [single], early, incomplete, notes, go_on))
                return states
            result = failed(error)
            for part in parts:
                for task in (task for group in part.groups for task in group):
                    notes.note(task.position, result)
            if result.outcome is Outcome.RETRY:
                incomplete.update(part.rule.id for part in parts)
            return {}

    def _stage(
        self,
        work: _Work,
        parts: Sequence[_Part],
        early: set[str],
        incomplete: set[str],
        notes: Notes,
        go_on: Callable[[], bool],
    ) -> Mapping[str, Pending]:
        """Run one transaction and return the state of each rule afterwards."""
        repository = work.repository
        uid = repository.repository.uid
        keys: list[Key] = []
        for part in parts:
            ledger = Ledger(uid, part.rule.id)
            keys += [pending_key(uid, part.rule.id), *(ledger.key(group[0].event.key) for group in part.groups)]
        states: dict[str, Pending] = {}
        staged_notes, again = Notes(), set(incomplete)
        due: list[Rule] = []

        def decide(items: Sequence[Item | None]) -> StagedWithWrites | None:
            nonlocal staged_notes, again
            staged_notes, again = Notes(), set(incomplete)
            rows = iter(items)
            read = []
            for part in parts:
                rule = part.rule
                before = decode_pending(pending_key(uid, rule.id), next(rows))
                read.append((part, before, [decode_seen(next(rows)) for _ in part.groups]))
                states[rule.id] = before
                if rule.id in early and before.wants_commit(rule.commit, self._clock.now()):
                    due.append(rule)
            if due:
                return None
            plans: list[tuple[Rule, Plan]] = []
            writes: dict[Key, Write] = {}
            for part, before, last_events in read:
                rule, note = part.rule, _noting(staged_notes, part.rule.id, again)
                new_plans: list[Plan] = []
                for tasks, last in zip(part.groups, last_events, strict=True):
                    if rule.id in again and rule.is_marker(tasks[0].event.key):
                        for task in tasks:  # only half of what it marks would be committed
                            note(task, Result(Outcome.RETRY, "an object before this marker could not be ingested yet"))
                    elif (
                        plan := judge(repository, rule, tasks, last, _unsure(repository, rule, before), note)
                    ) is not None:
                        new_plans.append(plan)
                plans += [(rule, plan) for plan in new_plans]
                states[rule.id] = after = _with_more(rule, before, new_plans, self._clock.now())
                now = self._clock.now()
                for write in [*_ledger_writes(uid, rule, new_plans, now), *after.stage_writes(uid, rule.id, before)]:
                    writes[write.key] = write
            if not plans:
                return None
            return StagedWithWrites(
                [plan.entry for _, plan in plans if plan.entry is not None],
                [rule.path(plan.key) for rule, plan in plans if plan.stages and plan.entry is None],
                list(writes.values()),
            )

        while True:
            stage_with_writes(repository.parts, work.branch, keys, decide)
            if not due:
                early.difference_update(part.rule.id for part in parts)  # what is pending now is its own
                notes.take(staged_notes)
                incomplete.update(again)
                return states
            for rule in due:
                early.discard(rule.id)
                if go_on():
                    name = repository.repository.name
                    notes.commits(name, rule.name, partial(self.committer.commit_if_due, repository, rule))
            due.clear()

    # Reads

    def _opened(self, all_rules: Sequence[RepositoryRules]) -> "_Opened":
        """Return the repositories of rules, without those that are gone, or whose name another one has."""
        opened = _Opened({}, {}, set())
        for rules, repository in zip(
            all_rules, self._lake.look_up([rules.repository for rules in all_rules]), strict=True
        ):
            if isinstance(repository, RepositoryNotFoundError):
                continue
            if isinstance(repository, GravelerError):
                opened.failed[rules.uid] = repository
            elif repository.repository.uid == rules.uid:
                opened.repositories[rules.uid] = repository
            else:
                continue
            opened.buckets.update(rule.bucket for rule in rules.rules)
        return opened


class _Opened(Struct):
    """Repositories by uid, errors of those that cannot be opened, and the buckets of the rules of both."""

    repositories: dict[RepositoryUID, OpenRepository]
    failed: dict[RepositoryUID, GravelerError]
    buckets: set[str]


def _is_used(every_rule: Iterable[RepositoryRules]) -> bool:
    """Return whether there is any rule, readable or not, also of a repository that is gone."""
    return any(rules.rules or rules.damaged for rules in every_rule)


def _unsure(repository: OpenRepository, rule: Rule, state: Pending) -> float:
    """Return the time (Unix seconds) up to which events do not tell what the source holds: later ones of the same objects may
    have come before the rule existed, or been superseded by the results of a reconciliation."""
    return max(state.reconciled, rule.since + repository.skew if rule.since else 0)


def _task(rule: Rule, position: int, event: ObjectEvent, now: float) -> Task:
    window = rule.commit.window
    if window is None:
        return Task(position, event)
    below = event.key[len(rule.prefix) :]
    return Task(position, event, window.of(below, event.time, now), window.stated(below, event.time))


def _expect_possible(repository: OpenRepository, rule: Rule, event: ObjectEvent) -> None:
    """Refuse an event that could never become an object of the branch."""
    address = event.address
    encode_key(rule.path(event.key))
    encode_key(event.key)
    repository.store_at(address)  # refuses an address that nobody could read
    if address.startswith(repository.repository.namespace + "/"):
        raise InvalidError(f"{address!r} is in the repository's own storage namespace, and is not ingested")


def _transactions(work: Sequence[tuple[Rule, Sequence[Task]]]) -> Iterator[list[_Part]]:
    """Yield the tasks of rules by key, as many as fit into one transaction. Markers come after the objects they mark."""
    parts: list[_Part] = []
    writes = reads = 0
    for rule, tasks in work:
        by_key: dict[str, list[Task]] = {}
        for task in sorted(tasks, key=lambda task: rule.is_marker(task.event.key)):
            by_key.setdefault(task.event.key, []).append(task)
        for key, group in by_key.items():
            weight = 2 if rule.takes(key) else 1
            begins = not parts or parts[-1].rule is not rule
            if parts and (writes + weight + begins > _WRITES or reads + 1 + begins > _READS):
                yield parts
                parts, writes, reads, begins = [], 0, 0, True
            if begins:
                parts.append(_Part(rule, []))
            parts[-1].groups.append(group)
            writes += weight + begins
            reads += 1 + begins
    if parts:
        yield parts


def _noting(notes: Notes, rule_id: str, again: set[str]) -> Callable[[Task, Result], None]:
    """Return a function that records the result of a rule's task, and in ``again`` the rules with a task to be delivered
    again."""

    def note(task: Task, result: Result) -> None:
        notes.note(task.position, result)
        if result.outcome is Outcome.RETRY:
            again.add(rule_id)

    return note


def _ledger_writes(uid: RepositoryUID, rule: Rule, plans: Sequence[Plan], now: float) -> list[Write]:
    ledger, for_good = Ledger(uid, rule.id), rule.overwrites is Overwrites.REFUSE
    return [
        ledger.put_write(plan.key, plan.after, plan.before, now, for_good=for_good and plan.after.present)
        for plan in plans
    ]


def _with_more(rule: Rule, before: Pending, plans: Sequence[Plan], now: float) -> Pending:
    """Return the state of a rule after these plans are staged."""
    amount, early_object = before.amount, before.ahead
    staged = [plan for plan in plans if plan.stages]
    objects = Counter(plan.task.window for plan in staged if plan.entry is not None)
    deleted = Counter(plan.task.window for plan in staged if plan.entry is None)
    for begin in dict.fromkeys(plan.task.window for plan in staged):
        amount = amount.with_more(objects[begin], deleted[begin], now, begin, rule.commit.window)
    if any(plan.marks for plan in plans):
        amount = amount.with_more(0, 0, now, marked=True)
    for task in (plan.task for plan in staged):
        if task.stated is not None and task.stated != task.window:
            early_object = Ahead(task.event.key, task.stated, now)
    return replace(before, amount=amount, ahead=early_object)
