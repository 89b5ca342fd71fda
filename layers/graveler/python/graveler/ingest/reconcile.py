"""The comparison of a source with its branch, and repair: for lost events, and for objects from before the rule existed.

The listing tells where to check; what is staged is decided by reading the object again, between reading its last event and
writing on condition that no newer one came. So reconciling undoes no concurrent event.

Nor do later events undo it. Before it reads anything, it records in the rule's state that events up to now do not tell what the
source holds (:attr:`graveler.ingest.pending_changes.Pending.reconciled`), so that the source is read.

Markers are counted last, when everything they may mark is linked: objects that arrived in a marker's folder during the listing
are looked for first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby, islice
from math import ceil
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import BusyError, GravelerError, InvalidError, NotFoundError
from graveler.ingest.autocommit import AutoCommitter
from graveler.ingest.events import FILES
from graveler.ingest.ingester import CHUNK
from graveler.ingest.judgement import is_newer_marker
from graveler.ingest.ledger import BEFORE_ALL, Ledger, Seen, decode_seen
from graveler.ingest.pending_changes import Amount, Pending, change_pending, decode_pending, pending_key
from graveler.ingest.results import is_waiting
from graveler.ingest.rules import Deletes, Overwrites, Rule
from graveler.ingest.source import Found, checksum, entry_of, everything, expect_there, find, ignore_rules
from graveler.lake.clock import Clock
from graveler.lake.objects.staged_with_writes import StagedWithWrites, stage_with_writes
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, ObjectEntry
from graveler.storage.tables.port import Item, Tables, Write
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.record import encode_key
from graveler.values.ignore_rules import IgnoreRules

_NAMED: Final = 1000

T = TypeVar("T")


class Refused(Struct, frozen=True):
    """A path that was not repaired, and the reason."""

    path: str
    reason: str


class Reconciled(Struct, frozen=True):
    """The result of a reconciliation. ``linked`` are paths that were missing or different, ``deleted`` those whose object is
    gone: a thousand of each are listed, and all counted. ``refused`` are those that still differ from the source."""

    objects: int
    linked_count: int
    deleted_count: int
    linked: tuple[str, ...]
    deleted: tuple[str, ...]
    refused: tuple[Refused, ...]
    commits: tuple[Commit, ...] = ()


class _Difference(Struct, frozen=True):
    """A key of the source for which the branch has something else, or nothing."""

    key: str
    entry: ObjectEntry | None


class Reconciler:
    """A reconciler of rules with their sources, for a lake by its ``tables``."""

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    def reconcile(
        self,
        repository: OpenRepository,
        rule: Rule,
        *,
        dry_run: bool = False,
        exclude: Sequence[str] = (),
        ignore: bool = True,
        progress: ObjectProgress = no_object_progress,
    ) -> Reconciled:
        """Make the branch match the source, as far as the rule is about it; with ``dry_run``, only report differences.
        ``progress`` receives the source's objects and their bytes; an error from it ends the work, between two changes.

        Objects at the rule's destination that do not come from its source are left alone. So are files that a pattern of
        ``exclude`` names, and with ``ignore`` those that ``.gravelerignore`` files in the source name or that are never data
        (:mod:`graveler.values.ignore_rules`): they are neither linked nor deleted. Cost: two table reads and two writes;
        listing the source, one object request per thousand, and the branch below the destination; per difference an object
        request (a file: it is read), per :data:`graveler.ingest.ingester.CHUNK` a table read and a transaction; a table read per
        hundred markers, and for one that came just now its folder again; what is then due is committed, unless it waits for the
        checks of the branch's rules. :class:`RefNotFoundError`, :class:`ForbiddenError`, :class:`UnavailableError`; a path that
        cannot be repaired is in the report.
        """
        ignored = ignore_rules(repository, rule, exclude, ignore=ignore)
        return _Run(self._tables, self._clock, repository, rule, progress, ignored).reconcile(dry_run=dry_run)


class _Run:
    """One reconciliation of one rule."""

    def __init__(
        self,
        tables: Tables,
        clock: Clock,
        repository: OpenRepository,
        rule: Rule,
        progress: ObjectProgress,
        ignored: IgnoreRules,
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._repository = repository
        self._rule = rule
        self._progress = progress
        self._ignored = ignored
        self._uid = uid = repository.repository.uid
        self._ledger = Ledger(uid, rule.id)
        self._state = pending_key(uid, rule.id)
        self._report = _Report()
        self._markers: dict[str, Found] = {}
        self._is_again = False

    def reconcile(self, *, dry_run: bool) -> Reconciled:
        if dry_run:
            for difference in self._differences():
                self._rehearse(difference)
            return self._report.finished(())
        # Before anything is read: from here on, an event older than what is found comes too late.
        self._ask_the_source_from_now_on()
        began = self._clock.now()
        self._repair_all("")
        # An object that arrived during the listing may lie before its position, and its marker after. A marker first seen only
        # now has to wait for its event: its folder has not been read since.
        markers = dict(self._markers)
        self._is_again = True
        for folder in sorted(
            {
                key.rpartition("/")[0]
                for key, marker in self._markers.items()
                if marker.modified > began - self._repository.skew
            }
        ):
            below = folder[len(self._rule.prefix) :]
            self._repair_all(f"{below}/" if below else "")
        self._count_markers(markers)
        self._ask_the_source_from_now_on()
        try:
            commits = AutoCommitter(self._tables, self._clock).commit_if_due(self._repository, self._rule)
        except GravelerError as error:
            if not is_waiting(error):
                raise
            commits = []  # the clock makes it
        return self._report.finished(commits)

    def _rehearse(self, difference: _Difference) -> None:
        path = self._rule.path(difference.key)
        try:
            encode_key(path)
            stored = find(self._repository, f"{self._rule.bucket}/{difference.key}")
        except GravelerError as error:
            self._report.refused.append(Refused(path, str(error)))
            return
        self._report.note_path(path, linked=stored is not None)

    def _ask_the_source_from_now_on(self) -> None:
        """Record that events up to now do not tell what the source holds. Processes that read the rule's state before cannot
        stage."""

        def change(before: Pending) -> Pending:
            return replace(before, reconciled=self._reconciled_until(before))

        if not change_pending(self._tables, self._clock, self._state, change):
            raise BusyError(f"too many others are ingesting with rule {self._rule.name!r}; try again")

    def _reconciled_until(self, before: Pending) -> int:
        return max(before.reconciled, ceil(self._clock.now() + self._repository.skew))

    def _repair_all(self, below: str) -> None:
        for chunk in _chunks(self._differences(below)):
            self._repair(chunk)

    def _differences(self, below: str = "") -> Iterator[_Difference]:
        """Yield the differences of both listings, in the order of paths' bytes; restricted to ``below`` under source and
        destination. Found markers are collected."""
        rule, repository = self._rule, self._repository
        listed = (file for file in everything(repository, rule, below) if self._takes(file.key))
        # A file name that is not UTF-8 sorts too, and is refused by name when it is to be linked.
        sources = ((rule.path(file.key).encode("utf-8", "surrogatepass"), 0, file) for file in listed)
        listing = repository.objects(rule.branch, rule.destination + below)
        entries = ((entry.path.encode(), 1, entry) for entry in listing)
        for _, group in groupby(merge(sources, entries, key=lambda row: row[:2]), key=lambda row: row[0]):
            file: Found | None = None
            entry: ObjectEntry | None = None
            for _, _, item in group:
                if isinstance(item, Found):
                    file = item
                elif isinstance(item, ObjectEntry):
                    entry = item
            if file is not None:
                if rule.is_marker(file.key):
                    self._markers[file.key] = file
                if not rule.takes(file.key):
                    continue
                if not self._is_again:
                    self._report.objects += 1
                    self._progress(1, file.size)
                if entry is None or not self._is_same(file, entry):
                    yield _Difference(file.key, entry)
            elif entry is not None and (key := _key_of(rule, entry)) is not None and rule.deletes is Deletes.APPLY:
                expect_there(rule)
                if self._takes(key):
                    yield _Difference(key, entry)

    def _takes(self, key: str) -> bool:
        """Return whether no pattern leaves a file out."""
        return self._ignored.reason(key[len(self._rule.prefix) :]) is None

    def _is_same(self, file: Found, entry: ObjectEntry) -> bool:
        address = f"{self._rule.bucket}/{file.key}"
        if entry.address != address:
            return False
        if self._rule.deletes is Deletes.KEEP and self._rule.bucket != FILES and int(file.modified) < entry.mtime:
            return True  # an older version is visible again, since the kept one was deleted for good
        if entry.size != file.size:
            return False
        if file.etag:
            return entry.checksum == file.etag
        try:
            return entry.mtime == int(file.modified) or entry.checksum == checksum(self._repository, address)
        except NotFoundError:
            return False  # it went meanwhile, and is checked again

    def _repair(self, chunk: Sequence[_Difference]) -> None:
        try:
            self._stage(chunk)
        except GravelerError as error:
            if len(chunk) == 1:
                self._report.refused.append(Refused(self._rule.path(chunk[0].key), str(error)))
                return
            for single in chunk:
                self._repair([single])

    def _stage(self, chunk: Sequence[_Difference]) -> None:
        rule = self._rule
        refused: list[Refused] = []
        staged: list[tuple[str, bool]] = []

        def decide(items: Sequence[Item | None]) -> StagedWithWrites | None:
            refused.clear()
            staged.clear()
            now = self._clock.now()
            entries: list[ObjectEntry] = []
            deleted_paths: list[str] = []
            writes: list[Write] = []
            pending = decode_pending(self._state, items[0])
            amount = pending.amount
            for difference, item in zip(chunk, items[1:], strict=True):
                path = rule.path(difference.key)
                before = decode_seen(item)
                stored = find(self._repository, f"{rule.bucket}/{difference.key}")
                entry = None if stored is None else entry_of(self._repository, rule, stored)
                if entry is None and rule.deletes is Deletes.KEEP:
                    continue  # it went since it was listed
                if entry is not None and difference.entry is not None and rule.overwrites is Overwrites.REFUSE:
                    refused.append(Refused(path, f"was overwritten, which rule {rule.name!r} refuses"))
                    continue
                after = Seen(
                    BEFORE_ALL if before is None else before.sequencer,
                    entry is not None,
                    "" if entry is None else entry.checksum,
                    None if entry is None else entry.mtime,
                    (0 if before is None else before.marked) if rule.is_marker(difference.key) else None,
                )
                for_good = rule.overwrites is Overwrites.REFUSE and after.present
                writes.append(self._ledger.put_write(difference.key, after, before, now, for_good=for_good))
                if entry is not None:
                    entries.append(entry)
                    amount = _with_one(amount, rule, path, entry.mtime, now, objects=1)
                else:
                    deleted_paths.append(path)
                    amount = _with_one(amount, rule, path, now, now, deleted=1)
                staged.append((path, entry is not None))
            if not writes:
                return None
            after_all = replace(pending, amount=amount, reconciled=self._reconciled_until(pending))
            writes += after_all.stage_writes(self._uid, rule.id, pending)
            return StagedWithWrites(entries, deleted_paths, writes)

        for difference in chunk:
            encode_key(difference.key)
            encode_key(rule.path(difference.key))
        keys = [self._state, *(self._ledger.key(difference.key) for difference in chunk)]
        stage_with_writes(self._repository.parts, rule.branch, keys, decide)
        for path, linked in staged:
            self._report.note_path(path, linked=linked)
        self._report.refused += refused

    def _count_markers(self, markers: Mapping[str, Found]) -> None:
        """Have pending changes committed if a marker exists that was not counted."""
        named: list[tuple[str, Found]] = []
        for key, marker in sorted(markers.items()):
            try:
                encode_key(key)
                named.append((key, marker))
            except InvalidError as error:
                self._report.refused.append(Refused(self._rule.path(key), str(error)))
        for some in _chunks(named):
            self._count(some)

    def _count(self, markers: Sequence[tuple[str, Found]]) -> None:
        keys = [self._state, *(self._ledger.key(key) for key, _ in markers)]

        def decide(items: Sequence[Item | None]) -> StagedWithWrites | None:
            pending = decode_pending(self._state, items[0])
            now = self._clock.now()
            writes: list[Write] = []
            for (key, marker), item in zip(markers, items[1:], strict=True):
                before = decode_seen(item)
                if not _is_uncounted(before, marker):
                    continue
                modified = int(marker.modified)
                sequencer = BEFORE_ALL if before is None else before.sequencer
                after = Seen(sequencer, True, marker.etag, modified, modified)
                for_good = self._rule.overwrites is Overwrites.REFUSE
                writes.append(self._ledger.put_write(key, after, before, now, for_good=for_good))
            if not writes:
                return None
            after_all = pending
            if pending.amount.changes:  # otherwise what it marks is committed, or nothing exists
                after_all = replace(pending, amount=pending.amount.with_more(0, 0, now, marked=True))
            return StagedWithWrites(writes=[*writes, *after_all.stage_writes(self._uid, self._rule.id, pending)])

        try:
            stage_with_writes(self._repository.parts, self._rule.branch, keys, decide)
        except GravelerError as error:
            self._report.refused += [Refused(self._rule.path(key), str(error)) for key, _ in markers]


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield them :data:`CHUNK` at a time."""
    remaining = iter(items)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def _is_uncounted(before: Seen | None, marker: Found) -> bool:
    """Return whether this marker was not counted, as far as the ledger tells."""
    if before is None:
        return True
    if before.marked is None:  # of an earlier version
        return not before.present or bool(marker.etag and before.etag != marker.etag)
    return is_newer_marker(before, marker)


class _Report:
    """The counts so far."""

    def __init__(self) -> None:
        self.objects = 0
        self.refused: list[Refused] = []
        self._linked: list[str] = []
        self._deleted: list[str] = []
        self._linked_count = self._deleted_count = 0

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
    """Return the sum of this and a change of ``path``, which counts to the window that its key names, else to that of
    ``time``."""
    window = rule.commit.window
    below = path.removeprefix(rule.destination)
    begin = None if window is None else window.of(below, time, now)
    return amount.with_more(objects, deleted, now, begin, window)


def _key_of(rule: Rule, entry: ObjectEntry) -> str | None:
    """Return the key whose entry this is by the rule; None if it does not come from its source."""
    address = entry.address
    if not address.startswith(rule.source):
        return None
    key = address[len(rule.bucket) + 1 :]
    return key if rule.takes(key) and rule.path(key) == entry.path else None
