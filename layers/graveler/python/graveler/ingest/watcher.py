"""Ingest of a folder for as long as it is watched: failures are retried until they succeed.

The events of a folder exist only in the process that polls it. So a watch keeps those that failed, whatever the reason: a branch
that is protected today may not be tomorrow. Each is retried after a pause that doubles, up to :data:`LONGEST`; a newer event of
the object replaces it. The reconciliation with which a watch begins is retried in the same way. A failure is reported once, and
again only with another reason.

A restarted watch reports all files anew, and reconciles; so earlier failures are retried then, and nothing need be stored.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from graveler.errors import GravelerError, UnavailableError
from graveler.ingest.events import ObjectEvent
from graveler.ingest.folder_watch import FolderWatch
from graveler.ingest.reconcile import Reconciled
from graveler.ingest.results import Batch, Made, NotMade, Outcome, Result
from graveler.ingest.rules import Rule
from graveler.lake.clock import Clock

BATCH: Final = 480
"""Events that are processed together."""
FIRST: Final = 2.0
"""Seconds until the first retry."""
LONGEST: Final = 300.0
"""Longest time between two attempts, in seconds."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_Named = tuple[str, str]
"""A repository and the name of its rule."""


class Ingest(Protocol):
    """The interface to whatever processes events: this process, or a server."""

    def process(self, events: Sequence[ObjectEvent]) -> Batch:
        """See :meth:`graveler.ingest.ingester.Ingester.process`."""
        ...

    def commit_due(self) -> Batch:
        """See :meth:`graveler.ingest.ingester.Ingester.commit_due`."""
        ...

    def reconcile(
        self, repository: str, rule: Rule, *, dry_run: bool, exclude: Sequence[str] = (), ignore: bool = True
    ) -> Reconciled:
        """See :meth:`graveler.ingest.reconcile.Reconciler.reconcile`."""
        ...


class Failed(Struct, frozen=True):
    """A failure: an object that could not be taken, or a source that could not be reconciled. It is retried."""

    address: str
    outcome: str
    reason: str


class Round(Struct, frozen=True):
    """The result of one step of a watch: the number of processed events, and of those on their branch now; new failures and
    commits that could not be made, each reported once; commits."""

    events: int = 0
    staged: int = 0
    failed: tuple[Failed, ...] = ()
    commits: tuple[Made, ...] = ()
    commits_failed: tuple[NotMade, ...] = ()


class _Waiting(Struct, Generic[T]):
    item: T
    reason: str
    pause: float
    due: float


class Again(Generic[K, T]):
    """Failed items by key, each with the time of its next retry."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[K, _Waiting[T]] = {}

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return len(self._waiting)

    def due(self) -> list[T]:
        """Return the items to retry now, in the order of their first failure."""
        now = self._clock.monotonic()
        return [waiting.item for waiting in self._waiting.values() if waiting.due <= now]

    def done(self, key: K, item: T) -> None:
        """Remove an item that succeeded, unless it has been replaced."""
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.item == item:
            del self._waiting[key]

    def failed(self, key: K, item: T, reason: str) -> bool:
        """Record a failure, to be retried after twice the previous pause. Returns whether to report it: the reason is new."""
        before = self._waiting.get(key)
        pause = FIRST if before is None or before.item != item else min(2 * before.pause, LONGEST)
        self._waiting[key] = _Waiting(item, reason, pause, self._clock.monotonic() + pause)
        return before is None or before.reason != reason


class Watcher:
    """The ingest of a watched folder. ``rules`` returns the current rules about it, with their repositories. ``exclude`` and
    ``ignore`` say which files a reconciliation leaves alone, and are those of the watch."""

    def __init__(
        self,
        ingest: Ingest,
        folder: FolderWatch,
        rules: Callable[[], Iterable[tuple[str, Rule]]],
        clock: Clock,
        *,
        exclude: Sequence[str] = (),
        ignore: bool = True,
    ) -> None:
        self._exclude = exclude
        self._ignore = ignore
        self._ingest = ingest
        self._folder = folder
        self._rules = rules
        self._unsettled: set[_Named] | None = None
        """Rules whose source differed from its branch in the last comparison; None: none was compared yet."""
        self._events: Again[str, ObjectEvent] = Again(clock)
        self._sources: Again[_Named, _Named] = Again(clock)
        self._uncommitted: dict[_Named, str] = {}
        self._blind = ""
        """The reason why the folder cannot be read; empty if it can."""

    @property
    def failing(self) -> int:
        """The number of objects, sources, commits and polls that failed and are retried."""
        return len(self._events) + len(self._sources) + len(self._uncommitted) + bool(self._blind)

    def round(self) -> Iterator[Round]:
        """Poll once; take new events and due retries, and commit what is due. Yields a :class:`Round` per :data:`BATCH` events,
        per reconciled source, and for the commits. Failures are retried; a folder that cannot be read, by the next round."""
        events = self._events.due()
        blind, self._blind = self._blind, ""
        try:
            events += self._folder.look()
        except UnavailableError as error:
            self._blind = str(error)
            if self._blind != blind:
                yield Round(failed=(Failed(self._folder.address, Outcome.RETRY.value, self._blind),))
        for start in range(0, len(events), BATCH):
            yield self._take(events[start : start + BATCH])
        if not self._blind:
            yield from self._compare()
        yield self._commit()

    def _take(self, events: Sequence[ObjectEvent]) -> Round:
        try:
            batch = self._ingest.process(events)
        except GravelerError as error:
            batch = Batch((Result(Outcome.RETRY, str(error)),) * len(events))
        failed: list[Failed] = []
        for event, result in zip(events, batch.results, strict=True):
            if result.outcome.is_done:
                self._events.done(event.address, event)
            elif self._events.failed(event.address, event, result.reason):
                failed.append(Failed(event.address, result.outcome.value, result.reason))
        staged = sum(result.outcome is Outcome.STAGED for result in batch.results)
        return Round(len(events), staged, tuple(failed), batch.commits, self._new_failures(batch))

    def _compare(self) -> Iterator[Round]:
        """Reconcile with the sources, for changes while no watch ran. Repeated until no difference is left: what arrived since
        the last poll, and was linked, may go before the next one."""
        due = set(self._sources.due()) | (self._unsettled or set())
        if self._unsettled is not None and not due:
            return
        try:
            current = {(repository, rule.name): rule for repository, rule in self._rules()}
        except GravelerError:
            return  # the next round retries it, and this one's commits report the same
        unsettled: set[_Named] = set()
        for named in [named for named in current if self._unsettled is None or named in due]:
            rule = current[named]
            commits: tuple[Made, ...] = ()
            try:
                reconciled = self._ingest.reconcile(
                    named[0], rule, dry_run=False, exclude=self._exclude, ignore=self._ignore
                )
                commits = tuple(Made(*named, commit) for commit in reconciled.commits)
                if reconciled.linked_count or reconciled.deleted_count:
                    unsettled.add(named)
                reason = _refused(reconciled)
            except GravelerError as error:
                reason = str(error)
            if not reason:
                self._sources.done(named, named)
                yield Round(commits=commits)
            elif self._sources.failed(named, named, reason):
                yield Round(failed=(Failed(rule.source, Outcome.RETRY.value, reason),), commits=commits)
        for named in due - current.keys():
            self._sources.done(named, named)
        self._unsettled = unsettled
        self._folder.compared()

    def _commit(self) -> Round:
        try:
            batch = self._ingest.commit_due()
        except GravelerError as error:
            batch = Batch((), (), (NotMade("", "", str(error)),))
        failed = {(commit.repository, commit.rule): commit.reason for commit in _not_made(batch)}
        new_failures = self._new_failures(batch)
        self._uncommitted = failed
        return Round(commits=batch.commits, commits_failed=new_failures)

    def _new_failures(self, batch: Batch) -> tuple[NotMade, ...]:
        new_failures = [
            commit
            for commit in _not_made(batch)
            if self._uncommitted.get((commit.repository, commit.rule)) != commit.reason
        ]
        self._uncommitted.update(((commit.repository, commit.rule), commit.reason) for commit in new_failures)
        return tuple(new_failures)


def _not_made(batch: Batch) -> Iterator[NotMade]:
    """Yield commits that are not made: they cannot be, or their rule cannot be read."""
    yield from batch.commits_failed
    for unread in batch.unread:
        yield NotMade(unread.repository, unread.rule, unread.reason)


def _refused(reconciled: Reconciled) -> str:
    """Return why a source and its branch still differ; empty if they do not."""
    if not reconciled.refused:
        return ""
    refusal = reconciled.refused[0]
    more = f", and {len(reconciled.refused) - 1:,} more paths" if len(reconciled.refused) > 1 else ""
    return f"{refusal.path!r}{more} cannot be ingested to the branch: {refusal.reason}"
