"""The collector, in this process: mark, expire, plan, sweep. The order of its steps is the protocol of ``docs/retention.md``."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError, PreconditionError
from graveler.history.refs import Refs
from graveler.lake.clock import GRACE, TABLE_GRACE, Clock
from graveler.lake.deadline import SKEW
from graveler.lake.gates.candidates import Candidates
from graveler.lake.gates.statuses import Statuses
from graveler.lake.leases import LeaseWatch
from graveler.lake.objects.collector_state import set_collected
from graveler.lake.objects.issued_addresses import TableFolders
from graveler.lake.objects.upload_records import UploadRecords
from graveler.lake.opening.repositories import MARKER, Repositories, check_same, repository_key
from graveler.model import CommitID, MetarangeName, Repository
from graveler.retention.abandoned_transactions import Abandoned
from graveler.retention.abandoned_uploads import end_abandoned_uploads
from graveler.retention.ended_candidates import end_overdue_candidates
from graveler.retention.engine import Engine, InProcess, write_chunks
from graveler.retention.expiry import Expiry
from graveler.retention.forecast import look_ahead
from graveler.retention.live_listing import Comparison, Horizon, Unknown
from graveler.retention.marks import Marks
from graveler.retention.metadata_files import INSIDE, Needed, OwnFiles
from graveler.retention.range_numbers import RangeNumbers
from graveler.retention.rate_limit import RATE
from graveler.retention.report import check_possible, write_report
from graveler.retention.roots import RootReader, Roots
from graveler.retention.rules import DAY, Verdict
from graveler.retention.runs import OPERATION, Candidate, Claim, Kind, Mode, Outcome, Plan, Runs, Summary, Tally
from graveler.retention.threads import THREADS
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import CleanupQueue
from graveler.storage.objects.port import NotPermittedError, Objects
from graveler.storage.tables.port import Tables
from graveler.system.progress import Progress, no_progress
from graveler.tree.record import data_id
from graveler.tree.store import METARANGES, RANGES

_EXAMPLES: Final = 20
"""Branches that a run lists."""
_OBJECTS: Final = 1
_METADATA: Final = 2
_OWNERLESS: Final = 4
"""Needs of metaranges: those of commits that keep their objects, or just themselves, and young ones without a commit."""
QUARANTINE_DAYS: Final = 7
REPORT_DAYS: Final = 90


class Options(Struct, frozen=True):
    """The settings of a collection. ``grace``, ``table_grace`` (of files in the folders of tables) and ``skew`` in seconds;
    ``mode`` None is quarantine for the first run of a repository, and deletion for later ones. ``quarantine_days`` is how long
    quarantined files can be restored; ``rate`` the maximum of files removed per second; ``parquet`` whether the report is also
    written as a Parquet table."""

    mode: Mode | None = None
    grace: float = GRACE
    skew: float = SKEW
    table_grace: float = TABLE_GRACE
    quarantine_days: float = QUARANTINE_DAYS
    report_days: float = REPORT_DAYS
    rate: float = RATE
    parquet: bool = True
    threads: int = THREADS


class _Mark(Struct, frozen=True):
    """The result of a mark. ``dead`` lost their objects, ``forgotten`` of these also their metadata."""

    roots: Roots
    verdict: Verdict
    dead: frozenset[CommitID]
    forgotten: frozenset[CommitID]
    files: OwnFiles


_NOT_THERE: Final = (Outcome.DELETED, Outcome.QUARANTINED, Outcome.GONE)
"""Outcomes of files that are no longer in their place."""


class Collector:
    """The garbage collector of one repository. ``writers_grace``, ``writers_skew`` and ``writers_table_grace`` are those of the
    lake's writers; ``folders`` recognises the folders of tables."""

    def __init__(
        self,
        repository: Repository,
        tables: Tables,
        objects: Objects,
        clock: Clock,
        options: Options | None = None,
        *,
        folders: TableFolders,
        writers_grace: float = GRACE,
        writers_skew: float = SKEW,
        writers_table_grace: float = TABLE_GRACE,
        leases: LeaseWatch,
        progress: Progress = no_progress,
        engine: Engine | None = None,
    ) -> None:
        self._options = options or Options()
        if self._options.grace < writers_grace:
            raise InvalidError(
                f"a grace period of {self._options.grace:g} s is shorter than the lake's, {writers_grace:g} s, in half of which "
                "operations must finish; choose at least that"
            )
        if self._options.skew < writers_skew:
            raise InvalidError(
                f"a skew of {self._options.skew:g} s is shorter than the lake's, {writers_skew:g} s; choose at least that"
            )
        if self._options.table_grace < writers_table_grace:
            raise InvalidError(
                f"a grace period of {self._options.table_grace:g} s for files of tables is shorter than the lake's, "
                f"{writers_table_grace:g} s; choose at least that"
            )
        self._repository = repository
        self._folders = folders
        self._tables = tables
        self._objects = objects
        self._clock = clock
        self._leases = leases
        self._progress = progress
        self._engine = engine or InProcess(clock, self._options.threads)
        self._abandoned = Abandoned(repository, tables, clock, self._options.grace)
        self._runs = Runs(objects)

    def plan(self) -> Summary:
        """Make a dry run: list what a run would remove now. Marks no commit and removes nothing.

        Cost: the roots' table reads (:class:`RootReader`), an object read for each metarange and range that no run has read
        before, a listing of the namespace, one write for each 5,000 files to remove. Memory: 1 KB a commit, 250 bytes a range,
        some hundred for each of graveler's own files.
        About 6 µs a record not read before, 1 µs one that was. :class:`BusyError`, :class:`PreconditionError`,
        :class:`CorruptError`, :class:`LaterVersionError` for any commit of a later version (then nothing was done).
        """
        return self._claimed(Mode.DRY_RUN)

    def run(self) -> Summary:
        """Collect. If a previous run died, finish that one instead, after reading the commits. Costs as :meth:`plan`, one request
        per removed file, three in quarantine, and the table reads of :meth:`Abandoned.end`, which takes five minutes if a
        transaction was killed. Errors as :meth:`plan`; what one run leaves behind the next one takes."""
        mode = self._options.mode
        if mode is None:
            is_trial = not any(over and self._is_real(run) for run, over in self._runs.all())
            mode = Mode.QUARANTINE if is_trial else Mode.DELETE
        return self._claimed(mode)

    def _is_real(self, run: str) -> bool:
        return self._runs.plan(run).mode is not Mode.DRY_RUN

    def _claimed(self, mode: Mode) -> Summary:
        if self._options.parquet:
            check_possible()
        self._expect_own_namespace()
        self._claim = Claim(self._tables, self._repository.uid, self._clock, self._leases, self._waiting)
        self._expiry = Expiry(self._repository, self._tables, self._clock, self._claim.renew)
        try:
            if mode is not Mode.DRY_RUN:
                unfinished = [run for run, over in self._runs.all() if not over and self._is_real(run)]
                if unfinished:
                    self._roots().commits()  # may be of later versions by now: nothing is known of what those need
                    return self._finish(self._runs.plan(unfinished[-1]))
            return self._finish(self._make_plan(mode))
        finally:
            self._claim.release()

    def _waiting(self) -> None:
        self._progress("waiting for another collector", 0, 1)

    def _expect_own_namespace(self) -> None:
        """Check that the namespace is the repository's own: files in another one's namespace are no garbage of this one."""
        repository = self._repository
        check_same(repository.uid, repository.name, self._tables.get(repository_key(repository.name)))
        if not Repositories(self._tables).owns(repository.uid, self._objects):
            raise PreconditionError(
                f"{self._objects.namespace}/{MARKER} does not say that this is the namespace of repository {repository.name!r} "
                f"({repository.uid}) of this lake, so nothing was collected; find out whose it is; if that file was lost, run "
                "fsck with repair"
            )

    # Mark

    def _roots(self) -> RootReader:
        return RootReader(
            self._repository,
            self._tables,
            self._objects,
            self._clock,
            self._options.grace,
            self._claim.renew,
            self._options.threads,
        )

    def _horizon(self, began: float) -> Horizon:
        skew = self._options.skew
        return Horizon(began - self._options.grace - skew, began - self._options.table_grace - skew, self._folders)

    def _make_plan(self, mode: Mode) -> Plan:
        began = self._clock.now()
        horizon = began - self._options.grace - self._options.skew
        self._unlisted: list[str] = []
        run = self._runs.new(began)
        reader = self._roots()
        reader.check_operations(began, OPERATION, self._leases)
        self._progress("reading refs", 0, 1)
        if mode is not Mode.DRY_RUN:
            records = UploadRecords(self._tables, self._repository.uid)
            end_abandoned_uploads(records, self._objects, began, self._options.skew)
            uid = self._repository.uid
            end_overdue_candidates(Candidates(self._tables, uid), Refs(self._tables, uid), began, self._leases)
        roots = reader.read(horizon)
        with closing(roots.names):
            ownerless = self._abandoned.ownerless(roots.hidden)
            mark = self._judge(roots, began, horizon)
            old = mark.files.old_records(horizon)
            changed = (0, 0) if mode is Mode.DRY_RUN else self._expiry.mark(roots, mark.verdict, old, reader, began)
            marks = Marks(self._objects)
            data, all_ranges = self._mark_ranges(mark, marks, horizon)
            unknown = Unknown()
            written = write_chunks(self._runs, run, 0, self._candidates(mark, marks, all_ranges, began, unknown))
            work = Comparison(self._objects, marks.files, marks.alive(data), self._horizon(began))
            progress = self._phase("listing objects")
            written.merge(
                self._engine.compare(work, roots.names.sorted(), run, len(written.numbers), unknown, progress)
            )
        forget: list[tuple[CommitID, int]] = []
        if mode is not Mode.DRY_RUN:
            self._expiry.seal([roots.commits[cid] for cid in mark.dead])
            forget = [(cid, roots.commits[cid].expired or 0) for cid in mark.forgotten]
            if forget:
                set_collected(self._tables, self._repository.uid, horizon)
        wait = self._options.grace + self._options.skew
        outlook = None
        if mode is Mode.DRY_RUN:
            outlook = look_ahead(roots.commits, roots.branches, roots.pinned, mark.verdict, mark.dead, began, wait)
        plan = Plan(
            run,
            self._repository.name,
            mode,
            began,
            self._options.grace,
            len(written.numbers),
            written.tallies,
            unknown.tally,
            tuple(unknown.examples),
            len(roots.commits),
            len(roots.commits) - len(mark.dead),
            *changed,
            len(data),
            marks.ranges_read,
            marks.metaranges_read,
            tuple(forget),
            tuple(self._unlisted),
            tuple(written.numbers),
            len(ownerless),
            tuple(ownerless[:_EXAMPLES]),
            outlook,
        )
        self._runs.put_plan(plan)
        return plan

    def _judge(self, roots: Roots, now: float, horizon: float) -> _Mark:
        files = OwnFiles(self._objects, now - self._options.quarantine_days * DAY, self._claim.renew)
        verdict = self._expiry.judge(roots.commits, roots.branches, roots.pinned, now)
        dead = frozenset(
            commit.id
            for commit in roots.commits.values()
            if commit.expired is not None
            and commit.expired <= horizon
            and (commit.swept or commit.id not in verdict.kept)
        )
        return _Mark(roots, verdict, dead, dead - verdict.reached, files)

    def _mark_ranges(self, mark: _Mark, marks: Marks, horizon: float) -> tuple[RangeNumbers, RangeNumbers]:
        """Return the numbers of the ranges whose objects are needed, and of all needed ranges."""
        commits = mark.roots.commits
        young = mark.files.young(METARANGES, horizon)
        needs: dict[str, int] = {}
        for commit in commits.values():
            name = commit.metarange
            if name and commit.id not in mark.forgotten:
                need = _METADATA if commit.id in mark.dead and name not in young else _OBJECTS
                needs[name] = needs.get(name, 0) | need
        needs.update(dict.fromkeys(young - needs.keys(), _OWNERLESS))
        marks.read(needs, commits, self._phase("reading metaranges"))
        everything, data = marks.ranges_with(_OBJECTS | _METADATA), marks.ranges_with(_OBJECTS)
        ownerless = marks.ranges_with(_OWNERLESS)
        if ownerless:  # their writers may be at work, or have died before writing all of the ranges
            ownerless &= marks.numbered(mark.files.names(RANGES))
        lone = marks.number_ranges(mark.files.young(RANGES, horizon))
        data |= ownerless | lone
        everything |= ownerless | lone
        unread = marks.unread(data)
        if unread:
            marks.add(unread, self._engine.mark(self._objects, unread, self._phase("reading ranges")))
        progress = self._phase("sorting marks")
        marks.save(
            data,
            lambda objects, files, alive: self._engine.merge(objects, files, alive, progress),
            self._engine.most_files,
        )
        return data, everything

    # Existing files that are not needed

    def _candidates(
        self, mark: _Mark, marks: Marks, ranges: RangeNumbers, began: float, unknown: Unknown
    ) -> Iterator[Candidate]:
        """Yield all candidates except objects. The own files were listed before; here are two more listings."""
        horizon = self._horizon(began)
        commits = mark.roots.commits.keys() - mark.forgotten
        metaranges = {mark.roots.commits[cid].metarange for cid in commits}
        needed = Needed(commits, metaranges, lambda name: marks.is_in(name, ranges))
        reported = self._clock.now() - self._options.report_days * DAY
        yield from mark.files.unneeded(needed, horizon.objects, reported, unknown)
        for stored in self._objects.list():
            if stored.key >= INSIDE:
                break
            unknown.add(stored)
        yield from self._unfinished(horizon, mark.roots.uploads)

    def _unfinished(self, horizon: Horizon, recorded: frozenset[str]) -> Iterator[Candidate]:
        """Yield multipart uploads that were never completed, except for those under ``recorded`` keys. What they were for cannot
        be linked any more."""
        try:
            for upload in self._objects.uploads():
                is_own = data_id(upload.key) or upload.key.startswith(INSIDE)
                oldest = horizon.of(upload.key) if is_own else None
                if oldest is not None and upload.began <= oldest and upload.key not in recorded:
                    reason = "it was not completed within the grace period"
                    yield Candidate(Kind.UPLOAD, upload.key, 0, upload.upload_id, upload.began, reason)
        except NotPermittedError as error:
            self._unlisted.append(f"unfinished uploads: {error}")

    def _phase(self, phase: str) -> Callable[[int, int], None]:
        def report(done: int, total: int) -> None:
            if done >= 0:
                self._progress(phase, done, total)
            self._claim.renew()

        return report

    # Sweep

    def _finish(self, plan: Plan) -> Summary:
        forgotten = rows = transactions = 0
        if plan.mode is not Mode.DRY_RUN:
            self._sweep(plan)
            forgotten = self._forget(plan)
            rows = self._clean_table()
            transactions = self._abandoned.end(self._phase("watching transactions, seconds"))
        outcomes: dict[str, dict[str, Tally]] = {}
        trees: list[MetarangeName] = []
        for candidate, outcome in self._runs.rows(plan):
            if candidate.kind is Kind.METARANGE and outcome in _NOT_THERE:
                trees.append(MetarangeName(candidate.key.rpartition("/")[2]))
            of_kind = outcomes.setdefault(candidate.kind.value, {})
            of_kind[outcome.value] = of_kind.get(outcome.value, Tally()).plus(candidate.size)
        if trees:
            Statuses(self._tables, self._repository.uid).remove(trees)
        if self._options.parquet:
            write_report(self._objects, self._runs.report_key(plan.run), self._runs.rows(plan))
        summary = Summary(plan, self._clock.now(), outcomes, forgotten, rows, self._options.parquet, transactions)
        self._runs.put_summary(summary)
        return summary

    def _sweep(self, plan: Plan) -> None:
        progress = self._phase("removing, 5,000 at a time")
        self._engine.sweep(self._objects, plan.run, plan.mode, plan.chunk_numbers(), self._options.rate, progress)

    def _forget(self, plan: Plan) -> int:
        """Remove the items of commits whose files are gone, and return their number. One transaction each."""
        failed = {
            candidate.key.rpartition("/")[2]
            for candidate, outcome in self._runs.rows(plan)
            if candidate.kind is Kind.COMMIT and outcome is Outcome.FAILED
        }
        return self._expiry.forget([(cid, expired) for cid, expired in plan.forget if cid not in failed])

    def _clean_table(self) -> int:
        """Remove staged changes that branches left, and expired rows."""

        def renewed() -> bool:
            self._claim.renew()
            return True

        queue = CleanupQueue(self._tables, self._repository.uid)
        queue.sweep_all(StagedChanges(self._tables, self._repository.uid), self._clock.now(), renewed)
        return self._tables.remove_expired(self._clock.now())
