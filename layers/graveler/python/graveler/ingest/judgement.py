"""The outcome of one object's events: the change to stage, and the event to record.

The newest event counts, by its sequencer, and one older than the last applied one is stale. Two cases are special:

*Deletes that a rule ignores.* If deletes are kept, no delete of any kind counts, nor is it recorded: the branch has what was
created last, however the events are ordered and grouped into batches.

*Reconciliation.* It reads the source, not events, so the sequencer of what it found is unknown. Until some time after it
(:attr:`graveler.ingest.pending_changes.Pending.reconciled`), an event does not tell what the source holds: it may be older than
what was found, and its successor lost. So the source is read, and its current object counts. The same applies to events from
before the rule was made: newer ones may have come when it did not exist, or another one had its name.
docs/design/0008-late-events.md has the reasons.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import GravelerError, NotFoundError
from graveler.ingest.events import FILES, EventKind, ObjectEvent
from graveler.ingest.ledger import Seen
from graveler.ingest.results import Outcome, Result, failed
from graveler.ingest.rules import Deletes, Overwrites, Rule
from graveler.ingest.source import Found, checksum, entry_of, find
from graveler.ingest.windows import spelled
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry


class Task(Struct, frozen=True):
    """An event that a rule takes. ``position`` is its index in the batch. If the rule has windows, ``window`` is the beginning of
    the clock window that the event counts to, and ``stated`` that of the window that it names."""

    position: int
    event: ObjectEvent
    window: int | None = None
    stated: int | None = None

    @property
    def staged(self) -> Result:
        """The result if its change is staged; it names an object that is dated too far in the future."""
        if self.stated is None or self.window is None or self.stated == self.window:
            return Result(Outcome.STAGED)
        return Result(
            Outcome.STAGED,
            f"{self.event.address!r} is dated {spelled(self.stated)}, too far in the future to wait for; "
            f"it counts toward the window of {spelled(self.window)}",
        )


class Plan(Struct, frozen=True):
    """The outcome of a key's events: the last of them, the new last event to record, and the entry to stage (None: a delete).
    ``marks``: a marker came, and what was staged before will be committed."""

    task: Task
    before: Seen | None
    after: Seen
    stages: bool
    entry: ObjectEntry | None
    marks: bool

    @property
    def key(self) -> str:
        """The object's key."""
        return self.task.event.key


Note = Callable[[Task, Result], None]
"""The callback that receives a task's result."""


def judge(
    repository: OpenRepository, rule: Rule, tasks: Sequence[Task], before: Seen | None, reconciled: float, note: Note
) -> Plan | None:
    """Return the outcome of one key's events, from the oldest on; None if none is new. ``before`` is the last applied event,
    ``reconciled`` the time (Unix seconds) up to which events do not tell what the source holds.

    Cost: an object request for such an event, for one of a rule with ``verify``, and for a version that was deleted; an object
    read for one without ETag. A failure is the event's result.
    """
    last: Task | None = None
    newest, marks, missed = before, False, 0
    for task in sorted(tasks, key=lambda task: task.event.sequencer):
        event = task.event
        created = event.kind is EventKind.CREATED
        if not created and rule.deletes is Deletes.KEEP:
            note(task, Result(Outcome.SKIPPED, f"rule {rule.name!r} keeps objects that are deleted at the source"))
            continue
        if newest is not None and event.sequencer < newest.sequencer and _may_be_newer(rule, event, reconciled):
            task = replace(task, event=replace(event, sequencer=newest.sequencer))
        elif newest is not None and event.sequencer <= newest.sequencer:
            reason = "seen before" if event.sequencer == newest.sequencer else "a newer event of this object was seen"
            note(task, Result(Outcome.STALE, reason))
            if created and event.time > reconciled and _is_uncounted(rule, event, before):
                missed = max(missed, int(event.time))
            continue
        try:
            refused = created and _refuses(rule, newest, event.etag or _etag(repository, rule, newest, event))
        except GravelerError as error:
            note(task, failed(error))
            continue
        if refused:
            note(task, _overwritten(rule, event))
            continue
        if last is not None:
            note(last, Result(Outcome.STALE, "a newer event of this object arrived with it"))
        marks = marks or (created and rule.is_marker(event.key))
        last, newest = task, Seen(task.event.sequencer, created, event.etag if created else "")
    if last is None or newest is None:
        if missed and before is not None:  # a marker that preceded its delete, and whose event comes after it
            return Plan(tasks[0], before, replace(before, marked=missed), False, None, True)
        return None
    marks = marks or bool(missed)
    try:
        return _Judgement(repository, rule, last, before, newest, reconciled, marks=marks).plan(note)
    except GravelerError as error:
        note(last, failed(error))
        return None


class _Judgement:
    """The meaning of a key's last event for its branch."""

    def __init__(
        self,
        repository: OpenRepository,
        rule: Rule,
        task: Task,
        before: Seen | None,
        after: Seen,
        reconciled: float,
        *,
        marks: bool,
    ) -> None:
        self._repository = repository
        self._rule = rule
        self._task = task
        self._event = event = task.event
        self._before = before
        self._after = after
        self._marks = marks
        self._keeps = rule.deletes is Deletes.KEEP
        # A file's time can be set freely, so its events are never known to be young.
        self._old = bool(reconciled) and (event.time <= reconciled or event.bucket == FILES)

    def plan(self, note: Note) -> Plan | None:
        event, rule = self._event, self._rule
        created, stages = event.kind is EventKind.CREATED, rule.takes(event.key)
        stored: Found | None = None
        if self._old or event.kind is EventKind.VERSION_DELETED or (created and rule.verify):
            stored = find(self._repository, event.address)
        if created and (reason := self._overtaken(stored)):
            note(self._task, Result(Outcome.SKIPPED, reason))
            return None
        entry: ObjectEntry | None = None
        after = self._after
        if stored is not None and not (created and (self._is_same(stored) or self._is_older(stored))):
            entry = entry_of(self._repository, rule, stored)
            if _refuses(rule, self._before, entry.checksum):
                note(self._task, _overwritten(rule, event))
                return None
            after = Seen(after.sequencer, True, entry.checksum)
        elif created and stages:
            try:
                entry = self._described_entry()
            except NotFoundError as error:
                note(self._task, Result(Outcome.SKIPPED, f"it disappeared from the source: {error}"))
                return None
        if entry is not None and not after.etag:
            after = replace(after, etag=entry.checksum)
        marks = self._marks and not (self._old and self._was_counted(stored))
        note(self._task, self._task.staged if stages else Result(Outcome.STAGED))
        after = replace(after, marked=self._marked(stored, marks=marks))
        return Plan(self._task, self._before, after, stages, entry if stages else None, marks)

    def _overtaken(self, stored: Found | None) -> str:
        """Return why a created object is neither staged nor its event recorded; empty if it is."""
        event = self._event
        disappeared = f"it disappeared from the source: {event.address!r} does not exist"
        if not self._old:
            if not self._rule.verify:
                return ""
            if stored is None:
                return disappeared
            if not self._is_same(stored):
                return (
                    f"it disappeared from the source: {event.address!r} is now another object, which has its own event"
                )
            return ""
        if self._has_kept_younger(stored):
            return f"an earlier rule has recorded a newer {event.address!r}"
        if stored is not None and not self._is_older(stored):
            return ""
        if not self._keeps:
            return disappeared
        before = self._before
        if (
            before is not None
            and before.modified is not None
            and before.etag != event.etag
            and int(event.time) <= before.modified
        ):
            return f"reconciling found a newer {event.address!r}"
        return ""  # deletions since are ignored

    def _is_same(self, stored: Found) -> bool:
        """Return whether it is the object of the event, as far as is visible."""
        event = self._event
        return stored.size == event.size and not (stored.etag and event.etag and stored.etag != event.etag)

    def _is_older(self, stored: Found) -> bool:
        """Return whether an older version is visible again, because the event's own version was deleted for good, and is kept."""
        event = self._event
        return (
            self._keeps
            and event.bucket != FILES
            and not self._is_same(stored)
            and int(stored.modified) < int(event.time)
        )

    def _has_kept_younger(self, stored: Found | None) -> bool:
        """Return whether an earlier rule has kept a younger object of this address. If that is possible, it costs two table
        reads, and the parts of the tree that have to be read."""
        event, rule = self._event, self._rule
        if not self._keeps or self._before is not None or event.time > rule.since:
            return False
        time = event.time if stored is None else max(event.time, stored.modified)
        (entry,) = self._repository.stat_many(rule.branch, [rule.path(event.key)])
        return entry is not None and entry.address == event.address and int(time) < entry.mtime

    def _was_counted(self, stored: Found | None) -> bool:
        """Return whether reconciliation has counted this marker, or it is gone. By now other objects may be arriving, which no
        marker covers."""
        before = self._before
        if stored is None:
            return True
        return (
            before is not None
            and before.modified is not None
            and before.marked is not None
            and not is_newer_marker(before, stored)
        )

    def _marked(self, stored: Found | None, *, marks: bool) -> int | None:
        """Return the time (Unix seconds) of the newest counted marker, to be recorded."""
        event, before = self._event, self._before
        if not self._rule.is_marker(event.key):
            return None
        if marks:
            time = int(event.time if stored is None else max(stored.modified, event.time))
            return time or None
        if before is not None and before.marked is None and before.present:
            return None  # an earlier version has counted it, and recorded no time
        return 0 if before is None else before.marked or 0

    def _described_entry(self) -> ObjectEntry:
        """Return the object that the event describes. :class:`NotFoundError` if it has to be read, and is gone."""
        event = self._event
        etag = event.etag or checksum(self._repository, event.address)
        return ObjectEntry(self._rule.path(event.key), event.address, event.size, etag, int(event.time))


def _may_be_newer(rule: Rule, event: ObjectEvent, reconciled: float) -> bool:
    """Return whether an event may be newer than one with a greater sequencer. Those of files are times, and a clock may be set
    back. The folder is read anyway."""
    return bool(reconciled) and event.bucket == FILES and not rule.is_marker(event.key)


def _is_uncounted(rule: Rule, event: ObjectEvent, before: Seen | None) -> bool:
    """Return whether this marker, which is gone or replaced by now, is newer than the counted one."""
    return (
        rule.is_marker(event.key)
        and before is not None
        and before.marked is not None
        and int(event.time) > before.marked
    )


def is_newer_marker(counted: Seen, stored: Found) -> bool:
    """Return whether this marker is newer than the counted one. Stores report whole seconds; within one, the ETag decides."""
    modified, marked = int(stored.modified), counted.marked or 0
    return modified > marked or (modified == marked and stored.etag != counted.etag)


def _etag(repository: OpenRepository, rule: Rule, newest: Seen | None, event: ObjectEvent) -> str:
    """Return the checksum to compare an event without ETag by, if needed: the object is read. Empty if it is gone."""
    if rule.overwrites is not Overwrites.REFUSE or newest is None or not newest.present:
        return ""
    try:
        return checksum(repository, event.address)
    except NotFoundError:
        return ""


def _refuses(rule: Rule, newest: Seen | None, etag: str) -> bool:
    """Return whether this is an overwrite that the rule refuses."""
    return (
        rule.overwrites is Overwrites.REFUSE
        and newest is not None
        and newest.present
        and (not etag or newest.etag != etag)
    )


def _overwritten(rule: Rule, event: ObjectEvent) -> Result:
    return Result(Outcome.POISON, f"{event.address!r} was overwritten, which rule {rule.name!r} refuses")
