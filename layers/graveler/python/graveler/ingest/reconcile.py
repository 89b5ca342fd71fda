"""Comparing a source with its branch, and repairing: for events that were lost, and for what landed before there was a rule.

The listing says where to look; what is staged is decided by looking at the object again, between reading its last event and
writing on condition that there was no newer one. So reconciling while events come undoes none of them.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import BusyError, GravelerError
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.ingester import CHUNK
from graveler.ingest.ledger import BEFORE_ALL, Ledger, Seen, decode_seen
from graveler.ingest.pending import Amount, decode_pending, pending_key
from graveler.ingest.rules import Deletes, Overwrites, Rule
from graveler.ingest.source import Found, checksum, everything, find
from graveler.lake.clock import Backoff, Clock
from graveler.lake.importing.progress import Progress, no_progress
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, ObjectEntry
from graveler.storage.tables import ConditionFailedError, Tables, Write
from graveler.tree.record import encode_key

_NAMED: Final = 1000


class Refused(Struct, frozen=True):
    """A path that was not repaired, and why."""

    path: str
    reason: str


class Reconciled(Struct, frozen=True):
    """What was compared and repaired. ``linked`` are paths that were missing or different, ``deleted`` those whose object is
    gone: a thousand of each are named, and all counted. ``refused`` are those that stay as they are against the source."""

    objects: int
    linked_count: int
    deleted_count: int
    linked: tuple[str, ...]
    deleted: tuple[str, ...]
    refused: tuple[Refused, ...]
    commits: tuple[Commit, ...] = ()


class _Difference(Struct, frozen=True):
    """A key of the source of which the branch has something else, or nothing."""

    key: str
    there: ObjectEntry | None


class Reconciler:
    """Reconciles rules of a lake, whose ``tables`` these are."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    def reconcile(
        self, repository: OpenRepository, rule: Rule, *, dry_run: bool = False, progress: Progress = no_progress
    ) -> Reconciled:
        """Make the branch have what the source has, as far as the rule is about it; with ``dry_run``, only say what differs.
        ``progress`` is told of the source's objects and their bytes; what it raises ends it, between two changes.

        Objects at the rule's destination that do not come from its source are left alone. Cost: listing the source, one object
        request for each thousand, and the branch below the destination; for each difference an object request (a file: it is
        read), for each :data:`graveler.ingest.ingester.CHUNK` two table reads and a transaction; what is then due is committed.
        :class:`RefNotFoundError`, :class:`ForbiddenError`, :class:`UnavailableError`; a path that cannot be repaired is in the
        report.
        """
        report = _Report()
        chunk: list[_Difference] = []
        for difference in self._differences(repository, rule, report, progress):
            if dry_run:
                report.note(rule, difference.key, linked=self._is_there(repository, rule, difference))
                continue
            chunk.append(difference)
            if len(chunk) == CHUNK:
                self._repair(repository, rule, chunk, report)
                chunk = []
        if chunk:
            self._repair(repository, rule, chunk, report)
        commits = () if dry_run else AutoCommitter(self._tables, self._clock).commit_if_due(repository, rule)
        return report.finished(commits)

    def _differences(
        self, repository: OpenRepository, rule: Rule, report: "_Report", progress: Progress
    ) -> Iterator[_Difference]:
        """Both listings side by side, in the order of paths' bytes."""
        sources = ((rule.path(found.key).encode(), 0, found) for found in everything(repository, rule))
        entries = ((entry.path.encode(), 1, entry) for entry in repository.objects(rule.branch, rule.destination))
        for _, group in groupby(merge(sources, entries, key=lambda row: row[:2]), key=lambda row: row[0]):
            found: Found | None = None
            there: ObjectEntry | None = None
            for _, _, item in group:
                if isinstance(item, Found):
                    found = item
                elif isinstance(item, ObjectEntry):
                    there = item
            if found is not None:
                report.objects += 1
                progress(1, found.size)
                if there is None or not self._is_same(repository, rule, found, there):
                    yield _Difference(found.key, there)
            elif there is not None and (key := _key_of(rule, there)) is not None and rule.deletes is Deletes.APPLY:
                yield _Difference(key, there)

    def _is_there(self, repository: OpenRepository, rule: Rule, difference: _Difference) -> bool:
        return find(repository, f"{rule.bucket}/{difference.key}") is not None

    def _is_same(self, repository: OpenRepository, rule: Rule, found: Found, there: ObjectEntry) -> bool:
        address = f"{rule.bucket}/{found.key}"
        if there.address != address or there.size != found.size:
            return False
        if found.etag:
            return there.checksum == found.etag
        return there.mtime == int(found.modified) or there.checksum == checksum(repository, address)

    def _repair(self, repository: OpenRepository, rule: Rule, chunk: Sequence[_Difference], report: "_Report") -> None:
        try:
            self._stage(repository, rule, chunk, report)
        except GravelerError as error:
            if len(chunk) == 1:
                report.refused.append(Refused(rule.path(chunk[0].key), str(error)))
                return
            for single in chunk:
                self._repair(repository, rule, [single], report)

    def _stage(self, repository: OpenRepository, rule: Rule, chunk: Sequence[_Difference], report: "_Report") -> None:
        uid = repository.repository.uid
        ledger, counts = Ledger(uid, rule.id), pending_key(uid, rule.id)
        backoff = Backoff(self._clock)
        while True:
            item, *items = self._tables.get_many([counts, *(ledger.key(found.key) for found in chunk)])
            now = self._clock.now()
            entries: list[ObjectEntry] = []
            gone: list[str] = []
            writes: list[Write] = []
            refused: list[Refused] = []
            for difference, seen_item in zip(chunk, items, strict=True):
                encode_key(rule.path(difference.key))
                before = decode_seen(seen_item)
                entry = self._look(repository, rule, difference.key)
                if entry is not None and difference.there is not None and rule.overwrites is Overwrites.REFUSE:
                    refused.append(Refused(entry.path, f"was overwritten, and rule {rule.name!r} refuses that"))
                    continue
                sequencer = BEFORE_ALL if before is None else before.sequencer
                after = Seen(sequencer, entry is not None, "" if entry is None else entry.checksum)
                for_good = rule.overwrites is Overwrites.REFUSE and after.present
                writes.append(ledger.put_write(difference.key, after, before, now, for_good=for_good))
                if entry is not None:
                    entries.append(entry)
                elif rule.deletes is Deletes.APPLY:
                    gone.append(rule.path(difference.key))
            if writes:
                pending = decode_pending(counts, item)
                amount = pending.amount
                for entry in entries:
                    amount = _with_one(amount, rule, entry.path, entry.mtime, now, objects=1)
                for path in gone:
                    amount = _with_one(amount, rule, path, now, now, deleted=1)
                writes += replace(pending, amount=amount).stage_writes(uid, rule.id, pending)
                try:
                    repository.stage_with(rule.branch, entries, gone, writes)
                except ConditionFailedError:
                    if not backoff.wait():
                        raise BusyError(f"too many others ingest by rule {rule.name!r} at once; try again") from None
                    continue
            for entry in entries:
                report.note_path(entry.path, linked=True)
            for path in gone:
                report.note_path(path, linked=False)
            report.refused += refused
            return

    def _look(self, repository: OpenRepository, rule: Rule, key: str) -> ObjectEntry | None:
        """What the source has now."""
        address = f"{rule.bucket}/{key}"
        found = find(repository, address)
        if found is None:
            return None
        etag = found.etag or checksum(repository, address)
        return ObjectEntry(rule.path(key), address, found.size, etag, int(found.modified))


class _Report:
    """What is being counted."""

    def __init__(self) -> None:
        self.objects = 0
        self.refused: list[Refused] = []
        self._linked: list[str] = []
        self._deleted: list[str] = []
        self._linked_count = self._deleted_count = 0

    def note(self, rule: Rule, key: str, *, linked: bool) -> None:
        self.note_path(rule.path(key), linked=linked)

    def note_path(self, path: str, *, linked: bool) -> None:
        self._linked_count += linked
        self._deleted_count += not linked
        named = self._linked if linked else self._deleted
        if len(named) < _NAMED:
            named.append(path)

    def finished(self, commits: Sequence[Commit]) -> Reconciled:
        return Reconciled(
            self.objects,
            self._linked_count,
            self._deleted_count,
            tuple(self._linked),
            tuple(self._deleted),
            tuple(self.refused),
            tuple(commits),
        )


def _with_one(
    amount: Amount, rule: Rule, path: str, time: float, now: float, *, objects: int = 0, deleted: int = 0
) -> Amount:
    """This and a change of ``path``, which counts to the window that its key says, else to that of ``time``."""
    window = rule.commit.window
    below = path.removeprefix(rule.destination)
    return amount.with_more(objects, deleted, now, None if window is None else window.of(below, time, now))


def _key_of(rule: Rule, entry: ObjectEntry) -> str | None:
    """The key of which an entry is by this rule; None if it does not come from its source."""
    address = entry.address
    if not address.startswith(rule.source):
        return None
    key = address[len(rule.bucket) + 1 :]
    return key if rule.takes(key) and rule.path(key) == entry.path else None
