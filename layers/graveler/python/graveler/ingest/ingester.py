"""A batch of events in, a result for each out: the branch then has what the events say, whatever came twice, late or in pieces.

For each rule the events of a batch are put together by key, compared with the ledger, and what is new is staged: last events,
the rule's counts and the changes in one transaction for each :data:`CHUNK` keys. What goes wrong concerns the events that it is
about, and is named in their results; the others go on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import (
    BusyError,
    CorruptError,
    GravelerError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.due import DueCommits, Made, NotMade, Overdue, Unread, opened
from graveler.ingest.events import EventKind, ObjectEvent, parse_message
from graveler.ingest.handover import LongCommits
from graveler.ingest.ledger import Ledger, Seen, decode_seen
from graveler.ingest.pending import Ahead, Pending, decode_pending, pending_key
from graveler.ingest.rules import DamagedRule, Deletes, Overwrites, RepositoryRules, Rule, RuleStore
from graveler.ingest.source import checksum, find
from graveler.ingest.windows import spelled
from graveler.lake.clock import Backoff, Clock
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, ObjectEntry, Repository
from graveler.storage.tables import ConditionFailedError, Write
from graveler.tree.record import encode_key

CHUNK: Final = 48
"""Keys of one transaction: for each its last event and its change, besides the rule's counts and the branch."""

WINDOWS_APART: Final = 24
"""Windows of one batch and rule that become commits of their own, where they are over already: a day of hours. What is beyond is
one commit together, so that a backfill of a year is not a year's commits in one call."""

_RETRY: Final = (BusyError, CorruptError, UnavailableError)


class Outcome(str, Enum):
    """What became of an event. ``staged``: the branch has it. ``stale``: it was seen before, or a newer one was. ``skipped``: no
    rule wants it, or it is not there any more. ``retry``: the same event may succeed later. ``poison``: it cannot, until a person
    changes something."""

    STAGED = "staged"
    STALE = "stale"
    SKIPPED = "skipped"
    RETRY = "retry"
    POISON = "poison"

    @property
    def is_done(self) -> bool:
        """Need the event not be sent again?"""
        return self not in (Outcome.RETRY, Outcome.POISON)


_WORSE: Final = list(Outcome)
_WORSE.sort(key=[Outcome.SKIPPED, Outcome.STALE, Outcome.STAGED, Outcome.RETRY, Outcome.POISON].index)


class Result(Struct, frozen=True):
    """What became of an event, and why."""

    outcome: Outcome
    reason: str = ""


class Batch(Struct, frozen=True):
    """``results`` of the events, in their order, and what was committed meanwhile. ``unread`` are repositories and rules that
    cannot be read; ``overdue`` is what only :meth:`Ingester.commit_due` tells."""

    results: tuple[Result, ...]
    commits: tuple[Made, ...] = ()
    commits_failed: tuple[NotMade, ...] = ()
    unread: tuple[Unread, ...] = ()
    overdue: tuple[Overdue, ...] = ()


class Message(Struct, frozen=True):
    """A message of a queue."""

    id: str
    body: str


class _Task(Struct, frozen=True):
    """An event that a rule wants: ``at`` is its place in the batch, ``window`` the beginning of the clock window that it counts
    to, if the rule has some, and ``said`` of the one that it says."""

    at: int
    event: ObjectEvent
    window: int | None = None
    said: int | None = None

    @property
    def staged(self) -> Result:
        """The result if its change is staged; of an object that is dated too far in the future, with its name."""
        if self.said is None or self.window is None or self.said == self.window:
            return Result(Outcome.STAGED)
        return Result(
            Outcome.STAGED,
            f"{self.event.address!r} is dated {spelled(self.said)}, too far in the future to wait for; "
            f"it counts to the window of {spelled(self.window)}",
        )


class _Plan(Struct, frozen=True):
    """What the events of a key come to: the last of them, the new last event, and what to stage (None: a delete)."""

    key: str
    task: _Task
    before: Seen | None
    after: Seen
    stages: bool
    entry: ObjectEntry | None


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

        Cost: the rules (they are not kept: what lands after a rule was made must find it); for each rule its repository, and for
        each :data:`CHUNK` keys two table reads (last events and counts; the branch) and one transaction, these at most once more
        for each of those windows; of a rule with windows one table read more, and one for each that becomes a commit; and what
        commits cost. An object read for each event without ETag, an object request for each of a rule
        with ``verify``, and for each version that was deleted.
        """
        batch = _Batch(len(events))
        current = tuple(self._store.all()) if of is None else (self._store.of(of),)
        for rules in current:
            for rule in rules.rules:
                tasks = list(self._tasks(rule, events))
                if tasks:
                    self._work(rules, rule, tasks, batch, go_on)
            for damaged in rules.damaged:
                batch.damaged(rules, damaged, events)
        return batch.finished(events, {rule.bucket for rules in current for rule in rules.rules})

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

    # One rule

    def _tasks(self, rule: Rule, events: Sequence[ObjectEvent]) -> Iterator[_Task]:
        bucket, window, now = rule.bucket, rule.commit.window, self._clock.now()
        for at, event in enumerate(events):
            if event.bucket == bucket and (rule.takes(event.key) or rule.is_marker(event.key)):
                if window is None:
                    yield _Task(at, event)
                    continue
                below = event.key[len(rule.prefix) :]
                yield _Task(at, event, window.of(below, event.time, now), window.said(below, event.time))

    def _work(
        self,
        rules: RepositoryRules,
        rule: Rule,
        tasks: Sequence[_Task],
        batch: "_Batch",
        go_on: Callable[[], bool],
    ) -> None:
        try:
            repository = opened(self._lake, rules)
        except GravelerError as error:
            batch.unopened(rules, tasks, error)
            return
        if repository is None:
            return  # its rules are left over
        tasks = [task for task in tasks if self._is_possible(repository, rule, task, batch)]
        commit = partial(self._committer.commit_if_due, repository, rule)
        pending: Pending | None = None
        for portion in self._portions(rule, tasks):
            if rule.commit.window is not None and go_on():
                batch.commits(repository, rule, commit)
            for chunk in _chunks(portion):
                pending = self._apply(repository, rule, chunk, batch) or pending
        if pending is not None and pending.wants_commit(rule.commit, self._clock.now()) and go_on():
            batch.commits(repository, rule, commit)

    def _portions(self, rule: Rule, tasks: Sequence[_Task]) -> list[list[_Task]]:
        """Tasks that are staged together. Where all windows are over, those of each, the oldest first: a commit may come between.
        Where one is not, the others join it."""
        window, now = rule.commit.window, self._clock.now()
        over: dict[int, list[_Task]] = {}
        for task in tasks:
            if window is None or task.window is None or now < window.ends(task.window):
                return [list(tasks)]
            over.setdefault(task.window, []).append(task)
        begins = sorted(over)
        apart = [over[begin] for begin in begins[: WINDOWS_APART - 1]]
        joined = [task for begin in begins[WINDOWS_APART - 1 :] for task in over[begin]]
        return [*apart, joined] if joined else apart

    def _is_possible(self, repository: OpenRepository, rule: Rule, task: _Task, batch: "_Batch") -> bool:
        """Refuse by itself what could never become an object of the branch."""
        address = task.event.address
        try:
            encode_key(rule.path(task.event.key))
            encode_key(task.event.key)
            repository.expect_readable(address)
            if address.startswith(repository.repository.namespace + "/"):
                raise InvalidError(f"{address!r} lies in the repository's own storage namespace, and is not ingested")
        except GravelerError as error:
            batch.note([task], _failed(error))
            return False
        return True

    def _apply(
        self, repository: OpenRepository, rule: Rule, chunk: Sequence[Sequence[_Task]], batch: "_Batch"
    ) -> Pending | None:
        """Stage, and note what became of the events. The rule's state then, if it is known."""
        try:
            return self._stage(repository, rule, chunk, batch)
        except (InvalidError, CorruptError) as error:
            if len(chunk) == 1:
                batch.note(chunk[0], _failed(error))
                return None
            pending: Pending | None = None
            for single in chunk:  # one of them: the others are fine by themselves
                pending = self._apply(repository, rule, [single], batch) or pending
            return pending
        except GravelerError as error:
            for tasks in chunk:
                batch.note(tasks, _failed(error))
            return None

    def _stage(
        self, repository: OpenRepository, rule: Rule, chunk: Sequence[Sequence[_Task]], batch: "_Batch"
    ) -> Pending:
        uid = repository.repository.uid
        ledger, counts = Ledger(uid, rule.id), pending_key(uid, rule.id)
        keys = [tasks[0].event.key for tasks in chunk]
        for_good = rule.overwrites is Overwrites.REFUSE
        backoff = Backoff(self._clock)
        while True:
            item, *items = self._lake.tables.get_many([counts, *map(ledger.key, keys)])
            found = _Batch(batch.size)
            plans = [
                plan
                for tasks, seen in zip(chunk, items, strict=True)
                if (plan := self._plan(repository, rule, tasks, decode_seen(seen), found)) is not None
            ]
            before = decode_pending(counts, item)
            if not plans:
                batch.take(found)
                return before
            entries = [plan.entry for plan in plans if plan.stages and plan.entry is not None]
            deleted = [rule.path(plan.key) for plan in plans if plan.stages and plan.entry is None]
            now = self._clock.now()
            marked = any(plan.after.present and rule.is_marker(plan.key) for plan in plans)
            after = _with_more(before, [plan for plan in plans if plan.stages], now, marked=marked)
            writes: list[Write] = [
                ledger.put_write(plan.key, plan.after, plan.before, now, for_good=for_good and plan.after.present)
                for plan in plans
            ]
            writes += after.stage_writes(uid, rule.id, before)
            try:
                repository.stage_with(rule.branch, entries, deleted, writes)
            except ConditionFailedError:
                if not backoff.wait():
                    raise BusyError(
                        f"too many others ingest by rule {rule.name!r} at once; the same events may succeed later"
                    ) from None
                continue
            batch.take(found)
            return after

    def _plan(
        self, repository: OpenRepository, rule: Rule, tasks: Sequence[_Task], before: Seen | None, batch: "_Batch"
    ) -> _Plan | None:
        """What the events of one key come to, from the oldest on. None: nothing is new."""
        last: _Task | None = None
        seen = before
        for task in sorted(tasks, key=lambda task: task.event.sequencer):
            event = task.event
            if seen is not None and event.sequencer <= seen.sequencer:
                why = "seen before" if event.sequencer == seen.sequencer else "a newer event of this object was seen"
                batch.note([task], Result(Outcome.STALE, why))
                continue
            created = event.kind is EventKind.CREATED
            if (
                created
                and seen is not None
                and seen.present
                and (not event.etag or seen.etag != event.etag)
                and rule.overwrites is Overwrites.REFUSE
            ):
                why = f"{event.address!r} was overwritten, and rule {rule.name!r} refuses that"
                batch.note([task], Result(Outcome.POISON, why))
                continue
            if last is not None:
                batch.note([last], Result(Outcome.STALE, "a newer event of this object came with it"))
            last, seen = task, Seen(event.sequencer, created, event.etag if created else "")
        if last is None or seen is None:
            return None
        try:
            return self._change(repository, rule, last, before, seen, batch)
        except GravelerError as error:
            batch.note([last], _failed(error))
            return None

    def _change(
        self, repository: OpenRepository, rule: Rule, task: _Task, before: Seen | None, after: Seen, batch: "_Batch"
    ) -> _Plan | None:
        event = task.event
        stages = rule.takes(event.key)
        entry: ObjectEntry | None = None
        if event.kind is EventKind.CREATED:
            try:
                entry = self._entry(repository, rule, event) if stages else None
            except NotFoundError as error:
                batch.note([task], Result(Outcome.SKIPPED, f"it vanished from the source: {error}"))
                return None
        elif event.kind is EventKind.VERSION_DELETED and (there := find(repository, event.address)) is not None:
            after = Seen(after.sequencer, True, there.etag)
            entry = ObjectEntry(rule.path(event.key), event.address, there.size, there.etag, int(there.modified))
        if entry is None and not after.present and rule.deletes is Deletes.KEEP:
            batch.note([task], Result(Outcome.SKIPPED, f"rule {rule.name!r} keeps what is deleted at the source"))
            return _Plan(event.key, task, before, after, False, None)
        batch.note([task], task.staged if stages else Result(Outcome.STAGED))
        return _Plan(event.key, task, before, after, stages, entry)

    def _entry(self, repository: OpenRepository, rule: Rule, event: ObjectEvent) -> ObjectEntry:
        """:class:`NotFoundError` if the store has it no longer, or (with ``verify``) another one."""
        size, etag = event.size, event.etag
        if rule.verify:
            there = find(repository, event.address)
            if there is None:
                raise NotFoundError(f"{event.address!r} does not exist")
            if there.size != size or (there.etag and etag and there.etag != etag):
                raise NotFoundError(f"{event.address!r} is another object by now, whose own event comes")
        if not etag:
            etag = checksum(repository, event.address)
        return ObjectEntry(rule.path(event.key), event.address, size, etag, int(event.time))


class _Batch:
    """Results that are being collected."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._results: dict[int, Result] = {}
        self._made: list[Made] = []
        self._not_made: list[NotMade] = []
        self._unread: list[Unread] = []

    def note(self, tasks: Iterable[_Task], result: Result) -> None:
        """What became of events by one rule; the worst of several rules counts."""
        for task in tasks:
            noted = self._results.get(task.at)
            self._results[task.at] = result if noted is None else worst(noted, result)

    def take(self, other: "_Batch") -> None:
        """What was noted in an attempt that went well."""
        for at, result in other._results.items():
            noted = self._results.get(at)
            self._results[at] = result if noted is None else worst(noted, result)

    def commits(self, repository: OpenRepository, rule: Rule, make: Callable[[], list[Commit]]) -> None:
        """Make commits; that one cannot be made is noted, and no event's fault."""
        name = repository.repository.name
        try:
            self._made += [Made(name, rule.name, commit) for commit in make()]
        except GravelerError as error:
            self._not_made.append(NotMade(name, rule.name, str(error)))

    def damaged(self, rules: RepositoryRules, damaged: DamagedRule, events: Sequence[ObjectEvent]) -> None:
        """A rule cannot be read: what may be for it comes again."""
        self._unread.append(Unread(rules.repository or rules.uid, damaged.name, damaged.reason))
        for at, event in enumerate(events):
            if damaged.may_take(event.address):
                self.note([_Task(at, event)], Result(Outcome.RETRY, damaged.reason))

    def unopened(self, rules: RepositoryRules, tasks: Sequence[_Task], error: GravelerError) -> None:
        """A repository cannot be opened."""
        self.note(tasks, _failed(error))
        told = Unread(rules.repository, "", str(error))
        if isinstance(error, CorruptError) and told not in self._unread:
            self._unread.append(told)

    def finished(self, events: Sequence[ObjectEvent], buckets: set[str]) -> Batch:
        """All results; ``buckets`` are those that have rules."""
        results = [
            self._results.get(at)
            or (Result(Outcome.SKIPPED, "no rule takes it") if event.bucket in buckets else unwanted(event))
            for at, event in enumerate(events)
        ]
        return Batch(tuple(results), tuple(self._made), tuple(self._not_made), tuple(self._unread))


def by_message(
    messages: Sequence[Message], process: Callable[[Sequence[ObjectEvent]], Batch]
) -> tuple[list[Result], Batch]:
    """``process`` the events of messages: the worst result of the events in each, in their order, and all results."""
    parsed: list[list[ObjectEvent] | Result] = []
    for message in messages:
        try:
            parsed.append(parse_message(message.body))
        except InvalidError as error:
            parsed.append(Result(Outcome.POISON, str(error)))
    batch = process([event for events in parsed if isinstance(events, list) for event in events])
    results = iter(batch.results)
    of_messages: list[Result] = []
    for events in parsed:
        if isinstance(events, Result):
            of_messages.append(events)
        else:
            told = Result(Outcome.SKIPPED, "" if events else "no event of an object")
            for _ in events:
                told = worst(told, next(results))
            of_messages.append(told)
    return of_messages, batch


def unwanted(event: ObjectEvent) -> Result:
    """What becomes of an event that comes from where no rule is about."""
    return Result(Outcome.POISON, f"no rule is about {event.bucket!r}, from which {event.address!r} comes")


def _with_more(before: Pending, plans: Sequence[_Plan], now: float, *, marked: bool) -> Pending:
    """The state of a rule with what these plans stage."""
    amount, ahead = before.amount, before.ahead
    objects = Counter(plan.task.window for plan in plans if plan.entry is not None)
    deleted = Counter(plan.task.window for plan in plans if plan.entry is None)
    for window in dict.fromkeys(plan.task.window for plan in plans):
        amount = amount.with_more(objects[window], deleted[window], now, window)
    if marked:
        amount = amount.with_more(0, 0, now, marked=True)
    for task in (plan.task for plan in plans):
        if task.said is not None and task.said != task.window:
            ahead = Ahead(task.event.key, task.said, now)
    return replace(before, amount=amount, ahead=ahead)


def _chunks(tasks: Sequence[_Task]) -> Iterator[list[list[_Task]]]:
    """The tasks by key, :data:`CHUNK` keys at a time, in the order in which they came."""
    by_key: dict[str, list[_Task]] = {}
    for task in tasks:
        by_key.setdefault(task.event.key, []).append(task)
    groups = list(by_key.values())
    for at in range(0, len(groups), CHUNK):
        yield groups[at : at + CHUNK]


def _failed(error: GravelerError) -> Result:
    return Result(Outcome.RETRY if isinstance(error, _RETRY) else Outcome.POISON, str(error))


def worst(one: Result, other: Result) -> Result:
    """Of two results of an event, or of events that belong together, the one that counts."""
    return max(one, other, key=lambda result: _WORSE.index(result.outcome))
