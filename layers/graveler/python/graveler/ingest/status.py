"""The status of a rule: its staged changes, the due commit, and the commit in progress."""

from msgspec import UNSET, Struct, UnsetType

from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.pending_changes import Amount
from graveler.ingest.rules import Rule
from graveler.ingest.windows import spelled
from graveler.lake.repository import OpenRepository
from graveler.storage.tables.port import Tables


class IngestWindow(Struct, frozen=True):
    """The changes of one clock window, named by its beginning. ``since`` is the time of the first, in Unix seconds."""

    window: str
    objects: int
    deleted: int
    since: int


class IngestAmount(Struct, frozen=True):
    """Staged changes: the numbers of new and deleted objects. ``since`` is the time of the first, in Unix seconds; ``window`` is
    the beginning of the latest of their clock windows, and ``windows`` are all of these."""

    objects: int
    deleted: int
    since: int | UnsetType = UNSET
    window: str | UnsetType = UNSET
    windows: tuple[IngestWindow, ...] | UnsetType = UNSET


class IngestCommit(Struct, frozen=True):
    """A commit in progress, and the reason for it. ``operation`` is the ID of the background operation that makes it, if it
    became one."""

    number: int
    reason: str
    amount: IngestAmount
    operation: str | UnsetType = UNSET


class IngestAhead(Struct, frozen=True):
    """An object that was dated too far in the future: the window of its key or its event's time, and the time when it arrived
    (Unix seconds)."""

    key: str
    window: str
    at: int


class IngestStatus(Struct, frozen=True):
    """The changes that a rule has staged since its last commit began, the reason why a commit is due (empty if none is), and the
    commit in progress. ``commits`` counts the commits that began. ``due_at`` (Unix seconds) is the time when the clock makes one
    due, ``late`` the seconds since then. ``ahead`` is the last object that was dated too far in the future."""

    rule: str
    pending: IngestAmount
    due: str
    commits: int
    committing: IngestCommit | UnsetType = UNSET
    due_at: int | UnsetType = UNSET
    late: int | UnsetType = UNSET
    ahead: IngestAhead | UnsetType = UNSET


def status(tables: Tables, repository: OpenRepository, rule: Rule) -> IngestStatus:
    """Return the current status of a rule. One table read. :class:`CorruptError`, with instructions, if its state cannot be
    read."""
    pending = AutoCommitter(tables, repository.clock).pending(repository, rule)
    now = repository.clock.now()
    committing: IngestCommit | UnsetType = UNSET
    if pending.taken is not None:
        change_set = pending.taken
        committing = IngestCommit(
            change_set.number, change_set.reason, _amount(change_set.amount), change_set.operation or UNSET
        )
    due_at = pending.amount.due_at(rule.commit)
    early_object = pending.ahead
    return IngestStatus(
        rule.name,
        _amount(pending.amount),
        pending.amount.due(rule.commit, now),
        pending.number,
        committing,
        UNSET if due_at is None else int(due_at),
        pending.late(rule.commit, now) or UNSET,
        UNSET
        if early_object is None
        else IngestAhead(early_object.key, spelled(early_object.window), int(early_object.at)),
    )


def _amount(amount: Amount) -> IngestAmount:
    windows = tuple(
        IngestWindow(spelled(begin), counted.objects, counted.deleted, int(counted.since))
        for begin, counted in sorted(amount.windows.items())
    )
    return IngestAmount(
        amount.objects,
        amount.deleted,
        int(amount.since) if amount.changes else UNSET,
        windows[-1].window if windows else UNSET,
        windows or UNSET,
    )
