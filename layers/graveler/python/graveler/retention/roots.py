"""The roots of the mark, read in the order that keeps them valid despite concurrent writers: uploads, staged changes, refs,
holds, candidates, dumps, operations and the reference log, then the traces of what moved meanwhile and of deleted refs, then the
commits.

(If staged changes were read after the commits, a commit in between could take an object out of staging into a tree that the mark
does not know.) The whole takes at most half the grace period, or it is aborted: a trace protects for that long.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Final

from msgspec import Struct

from graveler.errors import BusyError, CorruptError, PreconditionError
from graveler.history.commits import decode_commit, published_at
from graveler.history.reflog import RefKind, RefLog
from graveler.history.refs import BranchState, Refs
from graveler.lake.clock import Clock
from graveler.lake.dump.chunks import STAGED, StagedLine, dumps, get_manifest, read_chunks
from graveler.lake.gates.candidates import Candidates
from graveler.lake.importing.external_sort import Block, sort_blocks
from graveler.lake.leases import HeldError, LeaseWatch
from graveler.lake.objects.traces import Traces
from graveler.lake.objects.upload_records import UploadRecords
from graveler.model import CommitID, Repository, Token
from graveler.operations.store import Operations
from graveler.retention.comparison import NAME_BYTES
from graveler.retention.holds import Holds
from graveler.retention.rules import KnownCommit
from graveler.retention.threads import THREADS, at_once
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import LONGEST_REQUEST
from graveler.storage.durable_files import temporary_failed, temporary_files
from graveler.storage.limits import text_key
from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Tables
from graveler.storage.tables.walking import pages
from graveler.tree.record import data_id, record_data_id

_COMMIT_ID: Final = re.compile(rb"[0-9a-f]{64}")
_PAGE: Final = 1000
_ROUNDS: Final = 8
_NOTING: Final = "noting data names"
_MEMORY: Final = 64 << 20


class Names:
    """Data names that the mark met outside ranges: unsorted in a temporary file, sorted when read."""

    def __init__(self) -> None:
        with temporary_files(_NOTING):
            self._file = TemporaryFile()  # noqa: SIM115 - close() does
        self.count = 0

    def add(self, name: bytes | None) -> None:
        """Add a name; None is ignored."""
        if name is not None:
            try:
                self._file.write(name)
            except OSError as error:
                raise temporary_failed(error, _NOTING) from error
            self.count += 1

    def add_record(self, packed: bytes | None) -> None:
        """Add the object of a staged record; a tombstone has none."""
        if packed is not None:
            self.add(record_data_id(packed))

    def sorted(self) -> Iterator[bytes]:
        """Yield all names, ascending."""
        for names, _, _ in sort_blocks(self._blocks(), _MEMORY):
            yield from names

    def close(self) -> None:
        """Free the space."""
        with suppress(OSError):  # flushes data that is no longer needed
            self._file.close()

    def _blocks(self) -> Iterator[Block]:
        with temporary_files(_NOTING):
            self._file.seek(0)
        number = 0
        while piece := self._file.read(NAME_BYTES * 10_000):
            names = [piece[start : start + NAME_BYTES] for start in range(0, len(piece), NAME_BYTES)]
            yield names, list(range(number, number + len(names))), [b""] * len(names)
            number += len(names)


class Roots(Struct, frozen=True):
    """The roots. ``names`` are objects of staged changes; ``pinned`` maps commits besides the heads to what keeps them;
    ``hidden`` are the names of hidden branches; ``uploads`` the keys of uploads that can still be completed."""

    branches: dict[str, CommitID]
    pinned: dict[CommitID, str]
    names: Names
    commits: dict[CommitID, KnownCommit]
    hidden: frozenset[str] = frozenset()
    uploads: frozenset[str] = frozenset()


class RootReader:
    """The reader of one repository's roots."""

    def __init__(
        self,
        repository: Repository,
        tables: Tables,
        objects: Objects,
        clock: Clock,
        grace: float,
        alive: Callable[[], None],
        threads: int = THREADS,
    ) -> None:
        self._threads = threads
        self._repository = repository
        self._tables = tables
        self._objects = objects
        self._clock = clock
        self._grace = grace
        self._alive = alive
        self._refs = Refs(tables, repository.uid)
        self._reflog = RefLog(tables, repository.uid)
        self._staged = StagedChanges(tables, repository.uid)
        self._scanned: set[Token] = set()
        self._hidden: set[str] = set()

    def read(self, since: float) -> Roots:
        """Return the roots; of the reference logs the entries ``since`` (Unix seconds). Table reads: 16 and one per thousand
        branches, twice or more, one per thousand uploads, one per token and per thousand staged changes; one per ref; 16 and
        one per thousand commits. :class:`PreconditionError` if it took too long, by the wall clock or the monotonic one;
        :class:`BusyError`, :class:`CorruptError`."""
        names = Names()
        try:
            return self._read(since, names)
        except BaseException:
            names.close()
            raise

    def _read(self, since: float, names: Names) -> Roots:
        began, ticks = self._clock.now(), self._clock.monotonic()
        # Before the staged changes: the transaction that stages an upload's object ends its record.
        uploads = self._read_uploads(names)
        branches = self._read_staged(names)
        pinned: dict[CommitID, str] = {}
        tags = self._read_pins(pinned)
        self.read_dumps(pinned, names)
        refs: list[tuple[RefKind, str]] = [*(("branch", name) for name in branches), *(("tag", name) for name in tags)]
        deleted_refs: set[tuple[RefKind, str]] = set()
        for trace in Traces(self._repository, self._tables, self._clock, self._grace).read():
            for key in trace.keys:
                names.add(data_id(key))
            for token in trace.tokens:
                self._scan(token, names)
            deleted_refs.update(trace.refs)
        self.read_logs([*refs, *sorted(deleted_refs.difference(refs))], since, pinned)
        took = max(self._clock.now() - began, self._clock.monotonic() - ticks)
        if took > self._grace / 2:
            raise PreconditionError(
                f"reading the uncommitted changes and refs took {took:.0f} s, longer than half the grace period; nothing was "
                "collected. Commit or reset old uncommitted changes, or give garbage collection a longer grace period"
            )
        return Roots(branches, pinned, names, self.commits(), frozenset(self._hidden), uploads)

    def check_operations(self, now: float, kind: str, leases: LeaseWatch) -> None:
        """Raise :class:`PreconditionError` if an operation has been running for longer than half the grace period: its first
        files would not be young any more. Operations of ``kind`` are ignored. One table read per thousand; for one that began so
        long ago and has not ended, one every few seconds until its worker gives a sign of life, or its claim expires."""
        operations = Operations(self._tables, self._repository.uid)
        for operation in operations.all():
            ended = operation.is_finished or not operation.claim or operation.kind == kind
            if ended or now - operation.created <= self._grace / 2:
                continue
            try:
                operations.wait_for(operation, leases, self._clock, self._alive)
            except HeldError:
                raise PreconditionError(
                    f"operation {operation.id} ({operation.kind}) has been running for {(now - operation.created) / 3600:.1f} "
                    "hours, "
                    "longer than half the grace period; nothing was collected. Wait for it or cancel it, or choose a longer "
                    "grace period"
                ) from None

    def refs_now(self) -> tuple[dict[str, CommitID], dict[CommitID, str]]:
        """Return the current branches, and the commits of tags, legal holds, candidates and operations."""
        pinned: dict[CommitID, str] = {}
        branches = {state.name: state.commit_id for state in self.branches()}
        self._read_pins(pinned)
        return branches, pinned

    def branches(self) -> list[BranchState]:
        """Return all branches, including hidden ones. 16 table reads, one per thousand."""
        states: list[BranchState] = []
        after: str | None = ""
        while after is not None:
            page = self._refs.list_branches("", after, _PAGE, show_hidden=True)
            states += page.results
            after = page.next_after
        return states

    def _read_uploads(self, names: Names) -> frozenset[str]:
        """Add the objects of open uploads, which may exist, and return their keys."""
        keys = set()
        for record in UploadRecords(self._tables, self._repository.uid).all():
            if record.staged is None:
                names.add(data_id(record.upload.key))
                keys.add(record.upload.key)
        return frozenset(keys)

    def _read_staged(self, names: Names) -> dict[str, CommitID]:
        """Scan the tokens of all branches, until a listing shows no new one. A busy lake always has one: then the last ones are
        scanned within the longest request's time, for which nothing under them is removed."""
        heads: dict[str, CommitID] = {}
        for _ in range(_ROUNDS):
            listed = self._clock.now()
            states = self.branches()
            heads.update((state.name, state.commit_id) for state in states)
            self._hidden.update(state.name for state in states if state.hidden)
            # Oldest first: a reset moves what it keeps from an older token to the open one.
            fresh = [t for state in states for t in (*state.sealed, state.open) if t not in self._scanned]
            for token in fresh:
                self._scan(token, names)
            if not fresh:
                return heads
        if self._clock.now() - listed > LONGEST_REQUEST / 2:
            raise BusyError("the branches change faster than their uncommitted changes can be read; try again later")
        return heads

    def _scan(self, token: Token, names: Names) -> None:
        if token in self._scanned:
            return
        self._scanned.add(token)
        for number, (_, packed) in enumerate(self._staged.scan([token])):
            names.add_record(packed)
            if number % _PAGE == 0:
                self._alive()

    def _read_pins(self, pinned: dict[CommitID, str]) -> list[str]:
        """Add the commits of tags, legal holds, open candidates and running operations; return the names of the tags."""
        names: list[str] = []
        after: str | None = ""
        while after is not None:
            page = self._refs.list_tags("", after, _PAGE)
            for tag in page.results:
                pinned.setdefault(tag.commit_id, f"tag {tag.name}")
                names.append(tag.name)
            after = page.next_after
        for hold in Holds(self._tables, self._repository.uid).all():
            pinned.setdefault(hold.commit_id, "legal hold")
        for row in Candidates(self._tables, self._repository.uid).all():
            if row.in_progress and row.candidate.commit_id:
                pinned.setdefault(row.candidate.commit_id, f"candidate {row.candidate.id}")
        now = self._clock.now()
        for operation in Operations(self._tables, self._repository.uid).all():
            if not operation.is_finished and now - operation.created < self._grace:  # later it cannot publish any more
                # For any kind: IDs appear verbatim in a request. A text that only looks like an ID names no commit.
                for commit_id in _COMMIT_ID.findall(operation.request):
                    pinned.setdefault(CommitID(commit_id.decode()), f"operation {operation.id}")
        return names

    def read_dumps(self, pinned: dict[CommitID, str], names: Names) -> None:
        """Add what dumps hold: commits, and objects that were staged. An object read per dump and chunk."""
        for dump_id in dumps(self._objects):
            self._alive()
            manifest = get_manifest(self._objects, dump_id)
            for commit in manifest.commits:
                pinned.setdefault(CommitID(commit), f"dump {dump_id}")
            for lines in read_chunks(self._objects, manifest, STAGED, StagedLine):
                for line in lines:
                    names.add_record(line.record)

    def read_logs(self, refs: list[tuple[RefKind, str]], since: float, pinned: dict[CommitID, str]) -> None:
        """Add what reference logs named ``since`` (Unix seconds). At least a table read per ref."""

        def read(ref: tuple[RefKind, str]) -> list[CommitID]:
            kind, name = ref
            limit = 16
            while True:
                entries = self._reflog.entries(kind, name, limit)
                if len(entries) < limit or entries[-1].event.time_ns < since * 1e9:
                    break
                limit *= 8
            young = [entry for entry in entries if entry.event.time_ns >= since * 1e9]
            return [commit for entry in young for commit in (entry.old, entry.new) if commit is not None]

        for (kind, name), commits in zip(refs, at_once(self._threads, read, refs), strict=True):
            self._alive()
            for commit in commits:
                pinned.setdefault(commit, f"reference log of {kind} {name}")

    def commits(self) -> dict[CommitID, KnownCommit]:
        """Return all commits. 16 table reads, and one per thousand. :class:`CorruptError`; :class:`LaterVersionError` if one is
        of a later version: what it needs is unknown."""
        commits: dict[CommitID, KnownCommit] = {}
        for digit in "0123456789abcdef":
            partition = f"{self._repository.uid}/commit/{digit}"
            for page in pages(self._tables, partition):
                self._alive()
                for sort, item in page:
                    cid, record, expired = CommitID(text_key(partition, sort)), item.get("record"), item.get("expired")
                    if not isinstance(record, bytes) or not isinstance(expired, int | None):
                        raise CorruptError(
                            f"the item of commit {cid} cannot be read, so nothing was collected; run fsck"
                        )
                    commit = decode_commit(cid, record)
                    published = published_at(commit.created, item)
                    commits[cid] = KnownCommit(
                        cid, commit.parents, commit.metarange, published, expired, bool(item.get("swept"))
                    )
        return commits
