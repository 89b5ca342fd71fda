"""A batch of events in, a result for each out: the branch then has what the events say, whatever came twice, late or in pieces.

All rules of one branch are staged together. Their events are put together by key and compared with the ledger, and what is new is
staged: last events, the rules' counts and the changes in one transaction for each :data:`CHUNK` keys. What goes wrong concerns
the events that it is about, and is named in their results; the others go on.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import CorruptError, GravelerError, InvalidError, RepositoryNotFoundError
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.due import DueCommits
from graveler.ingest.events import ObjectEvent, check_event
from graveler.ingest.handover import LongCommits
from graveler.ingest.judging import Plan, Task, judge
from graveler.ingest.ledger import Ledger, decode_seen
from graveler.ingest.matching import RuleTree
from graveler.ingest.pending import Ahead, Pending, decode_pending, pending_key
from graveler.ingest.results import Batch, Message, Notes, Outcome, Result, by_message, failed
from graveler.ingest.rules import Overwrites, RepositoryRules, Rule, RuleStore
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.objects.joint import Beside
from graveler.lake.repository import OpenRepository
from graveler.model import Repository, RepositoryUID
from graveler.storage.tables import Item, Key, Write
from graveler.tree.record import encode_key

CHUNK: Final = 48
"""Keys of one rule in one transaction: for each its last event and its change, besides the rule's counts and the branch."""

WINDOWS_APART: Final = 24
"""Windows of one batch and rule that become commits of their own, where they are over already: a day of hours. What is beyond is
one commit together, so that a backfill of a year is not a year's commits in one call."""

_WRITES: Final = 98
"""Of rules and keys in one transaction, which takes 100: the branch and the mark of its repository are the others."""
_READS: Final = 98
"""Of rules and keys in one table read, which takes 100: the branch and its repository are read with them."""


class _Part(Struct, frozen=True):
    """What one transaction stages by one rule: tasks, put together by key."""

    rule: Rule
    groups: list[list[Task]]


class _Work(Struct, frozen=True):
    """What a batch has to do for one branch: for each rule its tasks, in portions that are staged one after another."""

    repository: OpenRepository
    branch: str
    portions: list[tuple[Rule, list[list[Task]]]]


class Ingester:
    """Applies events to the branches of a lake. Safe to make anew for each batch, and to run many of at once. Commits that are
    too much for one call go to ``long``, if there is one."""

    def __init__(self, lake: Lake, clock: Clock, long: LongCommits | None = None) -> None:
        self._lake = lake
        self._clock = clock
        self._store = RuleStore(lake.tables)
        self._committer = AutoCommitter(lake.tables, clock, long)

    def process(
        self, events: Sequence[ObjectEvent], of: Repository | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> Batch:
        """Stage what the events say, and commit what is due by the rules that they concern: all rules of the lake, or those
        ``of`` one repository. Raises nothing for what concerns an event; :class:`UnavailableError`, :class:`BusyError` if not
        even the rules can be read. When ``go_on`` says that the time is over, no more commits are begun: all events are staged
        still, and what is due is left to :meth:`commit_due`. An event that a rule may be about which cannot be read is to come
        again; with ``of``, :class:`CorruptError` for such a rule.

        Windows that are over when their objects come, as of a backfill, become commits one by one, the oldest first, up to
        :data:`WINDOWS_APART`; what is beyond is one commit. Where objects of a window wait that is not over, these join it.

        Cost: the rules, one table read for each thousand repositories that have some (they are not kept: what lands after a rule
        was made must find it); one for each hundred of these repositories that have rules about the events' buckets; and for each
        branch, and so many keys of its rules as go into one transaction, a table read and a transaction. A rule without suffixes
        has :data:`CHUNK` keys there; of several rules of one branch each takes the room of half a key more. Then what commits
        cost, with one table read for each rule of which one is due. Both again where others were in the way. An object read for
        each event without ETag, an object request for each of a rule with ``verify``, for each version that was deleted, and for
        each event from before the last reconciling of its rule, or from before that was made; of the latter, where deletes are
        kept and nothing was seen of the object, two table reads, too, and for all of a branch what of its tree has to be read.
        """
        events = list(events)
        notes = Notes()
        good = []
        for at, event in enumerate(events):
            try:
                check_event(event)
                good.append((at, event))
            except InvalidError as error:
                notes.note(at, failed(error))
        current = tuple(self._store.all()) if of is None else (self._store.of(of),)
        tree = RuleTree(current)
        opened = self._opened(tree.about({event.bucket for _, event in good}))
        for work in self._work(tree, good, opened, notes):
            self._do(work, notes, go_on)
        for rules in current:
            for damaged in rules.damaged:
                notes.unread(rules, damaged.name, damaged.reason)
                for at, event in good:
                    if damaged.may_take(event.address):
                        notes.note(at, Result(Outcome.RETRY, damaged.reason))
        return notes.finished(events, opened.buckets)

    def process_messages(
        self, messages: Sequence[Message], of: Repository | None = None, go_on: Callable[[], bool] = lambda: True
    ) -> tuple[list[Result], Batch]:
        """As :meth:`process`, of a queue's messages: the worst result of the events in each, in their order, and all results."""
        return by_message(messages, partial(self.process, of=of, go_on=go_on))

    def commit_due(self, of: Repository | None = None, go_on: Callable[[], bool] = lambda: True) -> Batch:
        """Make every commit that is due, of all rules or those ``of`` one repository, while ``go_on`` says that there is time:
        for a clock that calls now and then. Cost and errors as of :meth:`DueCommits.all` and :meth:`DueCommits.of`."""
        due = DueCommits(self._lake, self._clock, self._committer)
        found = due.all(go_on) if of is None else due.of(of, go_on)
        return Batch((), found.commits, found.commits_failed, found.unread, found.overdue)

    # What is to be done

    def _work(
        self, tree: RuleTree, events: Sequence[tuple[int, ObjectEvent]], opened: "_Opened", notes: Notes
    ) -> Iterator[_Work]:
        """The work for each branch. What could never become an object of it is refused by itself."""
        now = self._clock.now()
        wanted: dict[tuple[RepositoryUID, str], dict[str, tuple[Rule, list[Task]]]] = {}
        for at, event in events:
            for owned in tree.taking(event.bucket, event.key):
                rule, uid = owned.rule, owned.rules.uid
                if (why := opened.failed.get(uid)) is not None:
                    notes.note(at, failed(why))
                    if isinstance(why, CorruptError):
                        notes.unread(owned.rules, "", str(why))
                    continue
                repository = opened.found.get(uid)
                if repository is None:
                    continue  # its rules are left over
                try:
                    _expect_possible(repository, rule, event)
                except GravelerError as error:
                    notes.note(at, failed(error))
                    continue
                of_branch = wanted.setdefault((uid, rule.branch), {})
                of_branch.setdefault(rule.id, (rule, []))[1].append(_task(rule, at, event, now))
        for (uid, branch), of_rules in wanted.items():
            portions = [(rule, self._portions(rule, tasks)) for rule, tasks in of_rules.values()]
            yield _Work(opened.found[uid], branch, portions)

    def _portions(self, rule: Rule, tasks: Sequence[Task]) -> list[list[Task]]:
        """Tasks that are staged together. Where all windows are over, those of each, the oldest first: a commit may come between.
        Where one is not, the others join it."""
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

    # Doing it

    def _do(self, work: _Work, notes: Notes, go_on: Callable[[], bool]) -> None:
        name = work.repository.repository.name
        states: dict[str, Pending] = {}
        left: set[str] = set()
        rules = {rule.id: rule for rule, _ in work.portions}
        for step in zip_longest(*(portions for _, portions in work.portions)):
            asked = [(rule, tasks) for (rule, _), tasks in zip(work.portions, step, strict=True) if tasks is not None]
            # What is due by the clock is committed before more is staged, so that it has its own.
            early = {rule.id for rule, _ in asked if rule.commit.window is not None}
            for parts in _transactions(asked):
                states.update(self._apply(work, parts, early, left, notes, go_on))
        for rule_id, pending in states.items():
            rule = rules[rule_id]
            if pending.wants_commit(rule.commit, self._clock.now()) and go_on():
                notes.commits(name, rule.name, partial(self._committer.commit_if_due, work.repository, rule))

    def _apply(
        self,
        work: _Work,
        parts: Sequence[_Part],
        early: set[str],
        left: set[str],
        notes: Notes,
        go_on: Callable[[], bool],
    ) -> Mapping[str, Pending]:
        """Stage, and note what became of the events. The state of each rule then, as far as it is known; ``left`` are the rules
        of which an event is to come again."""
        try:
            return self._stage(work, parts, early, left, notes, go_on)
        except GravelerError as error:
            singles = [_Part(part.rule, [group]) for part in parts for group in part.groups]
            if isinstance(error, (InvalidError, CorruptError)) and len(singles) > 1:
                states: dict[str, Pending] = {}
                for single in singles:  # one of them: the others are fine by themselves
                    states.update(self._apply(work, [single], early, left, notes, go_on))
                return states
            result = failed(error)
            for part in parts:
                for task in (task for group in part.groups for task in group):
                    notes.note(task.at, result)
            if result.outcome is Outcome.RETRY:
                left.update(part.rule.id for part in parts)
            return {}

    def _stage(
        self,
        work: _Work,
        parts: Sequence[_Part],
        early: set[str],
        left: set[str],
        notes: Notes,
        go_on: Callable[[], bool],
    ) -> Mapping[str, Pending]:
        """One transaction. The state of each rule then."""
        repository = work.repository
        uid = repository.repository.uid
        keys: list[Key] = []
        for part in parts:
            ledger = Ledger(uid, part.rule.id)
            keys += [pending_key(uid, part.rule.id), *(ledger.key(group[0].event.key) for group in part.groups)]
        states: dict[str, Pending] = {}
        found, again = Notes(), set(left)
        due: list[Rule] = []

        def decide(items: Sequence[Item | None]) -> Beside | None:
            nonlocal found, again
            found, again = Notes(), set(left)
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
            for part, before, seen in read:
                rule, note = part.rule, _noting(found, part.rule.id, again)
                made: list[Plan] = []
                for tasks, last in zip(part.groups, seen, strict=True):
                    if rule.id in again and rule.is_marker(tasks[0].event.key):
                        for task in tasks:  # it would have half of what it marks committed
                            note(task, Result(Outcome.RETRY, "an object that it marks could not be taken yet"))
                    elif (
                        plan := judge(repository, rule, tasks, last, _unsure(repository, rule, before), note)
                    ) is not None:
                        made.append(plan)
                plans += [(rule, plan) for plan in made]
                states[rule.id] = after = _with_more(rule, before, made, self._clock.now())
                now = self._clock.now()
                for write in [*_ledger_writes(uid, rule, made, now), *after.stage_writes(uid, rule.id, before)]:
                    writes[write.key] = write
            if not plans:
                return None
            return Beside(
                [plan.entry for _, plan in plans if plan.entry is not None],
                [rule.path(plan.key) for rule, plan in plans if plan.stages and plan.entry is None],
                list(writes.values()),
            )

        while True:
            repository.stage_beside(work.branch, keys, decide)
            if not due:
                early.difference_update(part.rule.id for part in parts)  # from here on, it is this step's own
                notes.take(found)
                left.update(again)
                return states
            for rule in due:
                early.discard(rule.id)
                if go_on():
                    name = repository.repository.name
                    notes.commits(name, rule.name, partial(self._committer.commit_if_due, repository, rule))
            due.clear()

    # What is read

    def _opened(self, wanted: Sequence[RepositoryRules]) -> "_Opened":
        """The repositories of rules. One that is gone, or whose name another one has, is none: its rules are left over."""
        opened = _Opened({}, {}, set())
        for rules, found in zip(wanted, self._lake.look_up([rules.repository for rules in wanted]), strict=True):
            if isinstance(found, RepositoryNotFoundError):
                continue
            if isinstance(found, GravelerError):
                opened.failed[rules.uid] = found
            elif found.repository.uid == rules.uid:
                opened.found[rules.uid] = found
            else:
                continue
            opened.buckets.update(rule.bucket for rule in rules.rules)
        return opened


class _Opened(Struct):
    """Repositories by uid, errors of those that cannot be opened, and the buckets that rules of both are about."""

    found: dict[RepositoryUID, OpenRepository]
    failed: dict[RepositoryUID, GravelerError]
    buckets: set[str]


def _unsure(repository: OpenRepository, rule: Rule, state: Pending) -> float:
    """The time (Unix seconds) up to which events do not say what the source holds: later ones of the same objects may have been
    seen before the rule began to take them, or replaced by what reconciling found."""
    return max(state.reconciled, rule.since + repository.skew if rule.since else 0)


def _task(rule: Rule, at: int, event: ObjectEvent, now: float) -> Task:
    window = rule.commit.window
    if window is None:
        return Task(at, event)
    below = event.key[len(rule.prefix) :]
    return Task(at, event, window.of(below, event.time, now), window.stated(below, event.time))


def _expect_possible(repository: OpenRepository, rule: Rule, event: ObjectEvent) -> None:
    """Refuse what could never become an object of the branch."""
    address = event.address
    encode_key(rule.path(event.key))
    encode_key(event.key)
    repository.expect_readable(address)
    if address.startswith(repository.repository.namespace + "/"):
        raise InvalidError(f"{address!r} lies in the repository's own storage namespace, and is not ingested")


def _transactions(work: Sequence[tuple[Rule, Sequence[Task]]]) -> Iterator[list[_Part]]:
    """The tasks of rules by key, as many together as go into one transaction. Markers come behind what they mark."""
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
    """Notes what became of a rule's task, and in ``again`` that it is to come again."""

    def note(task: Task, result: Result) -> None:
        notes.note(task.at, result)
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
    """The state of a rule with what these plans stage."""
    amount, ahead = before.amount, before.ahead
    staged = [plan for plan in plans if plan.stages]
    objects = Counter(plan.task.window for plan in staged if plan.entry is not None)
    deleted = Counter(plan.task.window for plan in staged if plan.entry is None)
    for begin in dict.fromkeys(plan.task.window for plan in staged):
        amount = amount.with_more(objects[begin], deleted[begin], now, begin, rule.commit.window)
    if any(plan.marks for plan in plans):
        amount = amount.with_more(0, 0, now, marked=True)
    for task in (plan.task for plan in staged):
        if task.stated is not None and task.stated != task.window:
            ahead = Ahead(task.event.key, task.stated, now)
    return replace(before, amount=amount, ahead=ahead)
