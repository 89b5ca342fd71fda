"""The leftovers of a deleted repository: its namespace, and its rows of the table. Removed only on request.

Until then it can be restored from a dump, and no other repository can take its namespace. A purge first records that it has begun
(from then on a restore is impossible), then removes files, then rows, then the mark that names the namespace's owner: so as long
as anything of it is left, no new repository can be created in it, and a retry after a crash still finds what to do. Not before a
grace period since the deletion: by then all work on the repository has ended; earlier only if the caller promises that it has.
And nothing younger than that is removed: a process that was stopped midway, while another one finished, may find a new repository
in the namespace.

Files without graveler's names stay. Rows that nothing refers to (outcomes and reference logs of refs that were deleted before,
results of requests) are removed if a table can list all rows of a repository; in DynamoDB they expire, except the recorded events
of ingest rules that refuse overwriting, and were removed before.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError, NotFoundError, PreconditionError, UnavailableError
from graveler.history.reflog import RefKind
from graveler.history.refs import SHARDS
from graveler.ingest.ledger import Ledger
from graveler.ingest.rules import PARTITION as INGEST_RULES
from graveler.ingest.rules import RuleStore
from graveler.lake.clock import Clock
from graveler.lake.dump.chunks import dumps
from graveler.lake.objects.issued_addresses import NAMESPACES
from graveler.lake.opening.repositories import MARKER, DeletedRepository, Repositories
from graveler.model import RepositoryUID, Token
from graveler.retention.holds import Holds
from graveler.retention.live_listing import Unknown
from graveler.retention.metadata_files import INSIDE
from graveler.retention.runs import Candidate, Kind, Mode, Outcome, Tally
from graveler.retention.sweeper import Sweeper
from graveler.retention.threads import THREADS
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import CleanupQueue
from graveler.storage.limits import text_key
from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Delete, Item, Key, Tables
from graveler.storage.tables.walking import items
from graveler.system.progress import Progress, no_progress
from graveler.tree.record import data_id
from graveler.tree.store import METARANGES, RANGES

_TREES: Final = ((f"{INSIDE}{RANGES}/", Kind.RANGE), (f"{INSIDE}{METARANGES}/", Kind.METARANGE))
_TOGETHER: Final = 5_000
_KINDS: Final[tuple[RefKind, ...]] = ("branch", "tag")


class Purged(Struct, frozen=True):
    """The removed files and rows of the table; and the files that stay since they are not graveler's, or are newer."""

    files: Tally
    rows: int
    unknown: Tally


def find_deleted(deleted: Iterable[DeletedRepository], name: str) -> DeletedRepository:
    """Return the repository of this name, uid or namespace. :class:`NotFoundError`; :class:`InvalidError` if several had the
    name."""
    text = name.rstrip("/")
    matches = [candidate for candidate in deleted if text in (candidate.name, candidate.uid, candidate.namespace)]
    if not matches:
        raise NotFoundError(
            f"there are no remains of a deleted repository {name!r}; list those with `graveler gc deleted`"
        )
    if len(matches) > 1:
        uids = ", ".join(repository.uid for repository in matches)
        raise InvalidError(f"several repositories named {name!r} were deleted; choose one by its uid: {uids}")
    return matches[0]


def purge_name(deleted: Sequence[DeletedRepository], name: str) -> str:
    """Return by what :func:`find_deleted` finds the repository of this name that was deleted last: its name, or its uid if
    several had the name. ``deleted`` is as of :meth:`Leftovers.all`."""
    same = [repository for repository in deleted if repository.name == name]
    return same[0].uid if len(same) > 1 else name


class Leftovers:
    """The leftovers of the deleted repositories of one lake. ``grace`` and ``skew`` are the lake's, in seconds."""

    def __init__(
        self, tables: Tables, open_objects: Callable[[str], Objects], clock: Clock, grace: float, skew: float
    ) -> None:
        self._tables = tables
        self._open_objects = open_objects
        self._clock = clock
        self._grace = grace
        self._wait = grace + skew
        self._repositories = Repositories(tables)

    def all(self) -> list[DeletedRepository]:
        """Return the deleted repositories, newest first. One table read per thousand."""
        return sorted(self._repositories.deleted(), key=lambda deleted: (-deleted.at, deleted.uid))

    def find(self, name: str) -> DeletedRepository:
        """Return the one of this name, uid or namespace. :class:`NotFoundError`; :class:`InvalidError` if several had the
        name."""
        return find_deleted(self.all(), name)

    def purge(
        self,
        uid: RepositoryUID,
        *,
        force: bool = False,
        at_once: bool = False,
        progress: Progress = no_progress,
    ) -> Purged:
        """Remove a deleted repository's leftovers for good. May be repeated until it succeeds. With ``at_once`` the caller
        promises that nobody else works with the lake, on another purge neither: then there is no grace period to wait for.

        Cost: a listing of the namespace, a request per 1,000 files; a table read and a write per 25 rows at most, four of each
        for a ref. :class:`NotFoundError`; :class:`PreconditionError` before a grace period has passed, for dumps and legal holds
        unless ``force``, and for a namespace that belongs to another repository; :class:`UnavailableError` if files could not be
        removed.
        """
        deleted = self._repositories.find_deleted(uid)
        if deleted is None:
            raise NotFoundError(f"there is no deleted repository with uid {uid}; list those with `graveler gc deleted`")
        objects = self._open_objects(deleted.namespace) if deleted.namespace else None
        if objects is not None and not self._repositories.owns(uid, objects):
            if deleted.purging:  # the mark is removed last: an earlier purge had come this far
                self._repositories.end_purge(uid, None)
                return Purged(Tally(), 0, Tally())
            raise PreconditionError(
                f"{deleted.namespace}/{MARKER} does not say that this is the namespace of repository {deleted.name!r} ({uid}) "
                "of this lake, so nothing was removed; find out whose it is"
            )
        if not deleted.purging:
            self._expect_allowed(deleted, objects, force=force, at_once=at_once)
            self._repositories.begin_purge(deleted)
        unknown, files = Unknown(), Tally()
        if objects is not None:
            files = self._remove_files(objects, deleted.at + self._grace, unknown, progress)
        rows = 0
        for removed in self._remove_rows(uid):
            rows += removed
            if removed:  # so that interrupted purges make progress
                progress("removing rows", rows, rows)
        self._repositories.end_purge(uid, objects)
        return Purged(files, rows, unknown.tally)

    def _expect_allowed(
        self, deleted: DeletedRepository, objects: Objects | None, *, force: bool, at_once: bool
    ) -> None:
        remaining = deleted.at + self._wait - self._clock.now()
        if remaining > 0 and not at_once:
            raise PreconditionError(
                f"repository {deleted.name!r} was deleted only recently, so work on it may still be in progress; try again "
                f"in {remaining / 3600:.1f} hours, or purge it at once (`graveler gc purge --at-once`) if nobody else "
                "works with the lake"
            )
        if force:
            return
        holds = Holds(self._tables, deleted.uid).all()
        if holds:
            raise PreconditionError(
                f"{len(holds)} commits of repository {deleted.name!r} are under legal hold ({holds[0].why!r}); nothing was "
                "removed. Use force if they are no longer needed"
            )
        dump_names = [] if objects is None else dumps(objects)
        if dump_names:
            raise PreconditionError(
                f"repository {deleted.name!r} can be restored from {len(dump_names)} dumps in {deleted.namespace}; nothing was "
                "removed. Use force to remove these, too"
            )

    def _remove_files(self, objects: Objects, cutoff: float, unknown: Unknown, progress: Progress) -> Tally:
        sweeper = Sweeper(objects, self._clock, THREADS)
        done = size = 0
        failed: list[str] = []
        files = self._files(objects, cutoff, unknown)
        while some := list(islice(files, _TOGETHER)):
            outcomes = sweeper.sweep("", Mode.DELETE, some, lambda: None)
            failed += [c.key for c, outcome in zip(some, outcomes, strict=True) if outcome is Outcome.FAILED]
            done += len(some)
            size += sum(candidate.size for candidate in some)
            progress("removing files", done, done)
        if failed:
            raise UnavailableError(
                f"{len(failed):,} files of {objects.namespace} could not be removed, such as {failed[0]!r}; check that you have "
                "the right to remove them, and run it again"
            )
        return Tally(done, size)

    def _files(self, objects: Objects, cutoff: float, unknown: Unknown) -> Iterator[Candidate]:
        """Yield graveler's files from before ``cutoff`` (Unix seconds). No writer was at work any more then, and what is created
        after a purge has begun, by any clock, is younger: it belongs to another repository."""
        for upload in list(objects.uploads()):
            if upload.began <= cutoff and _is_own(upload.key):
                yield Candidate(Kind.UPLOAD, upload.key, 0, upload.upload_id, upload.began, "")
        for stored in objects.list():
            if stored.key == MARKER:
                continue
            if stored.modified > cutoff or not _is_own(stored.key):
                unknown.add(stored)
                continue
            # A tree's file may reappear under its name, with its ETag: then its time decides.
            kind = next((kind for folder, kind in _TREES if stored.key.startswith(folder)), Kind.OBJECT)
            yield Candidate(kind, stored.key, stored.size, stored.etag, stored.modified, "")

    def _remove_rows(self, uid: RepositoryUID) -> Iterator[int]:
        """Remove the rows and yield their numbers. Rows that lead to others are removed after them."""
        staged = StagedChanges(self._tables, uid)
        for kind in _KINDS:
            for shard in range(SHARDS):
                partition = f"{uid}/{kind}/{shard:x}"
                for sort, item in items(self._tables, partition):
                    for token in _tokens(item):
                        yield from self._remove(*staged.partitions(token), f"{uid}/token/{token}")
                    yield from self._remove(f"{uid}/reflog/{kind}/{text_key(partition, sort)}")
                    self._tables.delete(Key(partition, sort))
                    yield 1
        for token in CleanupQueue(self._tables, uid).waiting():
            yield from self._remove(*staged.partitions(token))
        for digit in "0123456789abcdef":
            yield from self._remove(f"{uid}/commit/{digit}")
        for name in (
            "cleanup",
            "holds",
            "candidates",
            "statuses",
            "rule-reports",
            "gc",
            "traces",
            "uploads",
            "transactions",
            "applications",
            "turns",
            "operations",
            "pulls",
            "pull-comments",
            "ingest/pending",
        ):
            yield from self._remove(f"{uid}/{name}")
        for rule in RuleStore(self._tables).left_by(uid):
            yield from self._remove(*Ledger(uid, rule.id).partitions())
        self._tables.delete(Key(INGEST_RULES, uid.encode()))
        yield self._tables.remove_partitions(f"{uid}/")

    def _remove(self, *partitions: str) -> Iterator[int]:
        """Remove all rows of partitions, and yield the number of each step."""
        for partition in partitions:
            more = True
            while more:
                page = self._tables.query(partition)
                if page.items:
                    self._tables.write_many([Delete(Key(partition, sort)) for sort, _ in page.items])
                yield len(page.items)
                more = page.more


def _is_own(key: str) -> bool:
    """Return whether graveler gives such names."""
    return data_id(key) is not None or key.startswith(INSIDE) or key == NAMESPACES


def _tokens(item: Item) -> list[Token]:
    """Return the tokens of a branch's item, as far as it can be read; none for a tag's item."""
    opened, sealed = item.get("open"), item.get("sealed", [])
    return [Token(token) for token in [opened, *(sealed if isinstance(sealed, list) else [])] if isinstance(token, str)]
