"""The collector, in this process: mark, expire, plan, sweep. The order of its steps is the protocol of ``docs/retention.md``."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError
from graveler.history.commits import CommitStore
from graveler.lake.clock import GRACE, Clock
from graveler.lake.collected import set_collected
from graveler.lake.deadline import SKEW
from graveler.lake.dump.chunks import FOLDER as DUMPS
from graveler.lake.dump.chunks import dumps
from graveler.lake.in_parts.files import OPERATIONS
from graveler.lake.publish import COMMITS_FOLDER
from graveler.lake.repositories import MARKER, Repositories, check_same, repository_key
from graveler.model import CommitID, Repository
from graveler.retention.engine import Engine, InProcess, write_chunks
from graveler.retention.keeping import DAY, KnownCommit, Verdict, judge
from graveler.retention.listing import Comparison, Unknown
from graveler.retention.marking import FOLDER as MARKS
from graveler.retention.marking import Marks
from graveler.retention.pace import RATE
from graveler.retention.report import check_possible, write_report
from graveler.retention.roots import RootReader, Roots
from graveler.retention.runs import FOLDER as RUNS
from graveler.retention.runs import OPERATION, Candidate, Claim, Kind, Mode, Outcome, Plan, Runs, Summary, Tally
from graveler.retention.threads import THREADS
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import CleanupQueue
from graveler.storage.objects import NotPermittedError, Objects, StoredObject
from graveler.storage.tables import ConditionFailedError, Delete, Matches, Tables
from graveler.tree.files import METARANGES, RANGES
from graveler.tree.record import known_as

QUARANTINE_DAYS: Final = 7
REPORT_DAYS: Final = 90

_INSIDE: Final = "_graveler/"
_OF_OPERATIONS: Final = (OPERATIONS.rpartition("/")[2], "imports")
"""Folders of what the parts of an operation, and the tasks of an import, leave for each other."""

Progress = Callable[[str, int, int], None]
"""Called with a phase, how much of it is done, and how much is known to be in it."""


def no_progress(_phase: str, _done: int, _total: int) -> None:
    """Tells nobody."""


class Options(Struct, frozen=True):
    """How to collect. ``grace`` and ``skew`` in seconds; ``mode`` None is quarantine for the first run of a repository, and
    deletion for later ones. ``quarantine_days`` is how long quarantined files can be brought back; ``rate`` how many files
    a second are removed, at most; ``parquet`` whether the report is also written as a Parquet table."""

    mode: Mode | None = None
    grace: float = GRACE
    skew: float = SKEW
    quarantine_days: float = QUARANTINE_DAYS
    report_days: float = REPORT_DAYS
    rate: float = RATE
    parquet: bool = True
    threads: int = THREADS


class _Mark(Struct, frozen=True):
    """What a mark found out. ``dead`` lost their objects, ``forgotten`` of these also their metadata."""

    roots: Roots
    verdict: Verdict
    dead: frozenset[CommitID]
    forgotten: frozenset[CommitID]
    records: frozenset[CommitID]
    """Commits that have a record older than the grace."""
    files: dict[str, list[StoredObject]]
    """What is below ``_graveler/``, by the folder there."""


class Collector:
    """Collects the garbage of one repository. ``writers_grace`` and ``writers_skew`` are what those at work on the lake go by."""

    def __init__(
        self,
        repository: Repository,
        tables: Tables,
        objects: Objects,
        clock: Clock,
        options: Options | None = None,
        *,
        writers_grace: float = GRACE,
        writers_skew: float = SKEW,
        progress: Progress = no_progress,
        engine: Engine | None = None,
    ) -> None:
        self._options = options or Options()
        if self._options.grace < writers_grace:
            raise InvalidError(
                f"a grace of {self._options.grace:g} s is shorter than that of the lake, {writers_grace:g} s, in half of which "
                "operations have to be done; choose at least that"
            )
        if self._options.skew < writers_skew:
            raise InvalidError(
                f"a skew of {self._options.skew:g} s is shorter than that of the lake, {writers_skew:g} s; choose at least that"
            )
        self._repository = repository
        self._tables = tables
        self._objects = objects
        self._clock = clock
        self._progress = progress
        self._engine = engine or InProcess(clock, self._options.threads)
        self._commits = CommitStore(tables, repository.uid)
        self._runs = Runs(objects)

    def plan(self) -> Summary:
        """A dry run: what a run would do now. Marks no commit and removes nothing.

        Cost: the roots' table reads (:class:`RootReader`), an object read for each metarange and range that no run has read
        before, a listing of the namespace, one write for each 5,000 files that would go. Memory: 300 bytes a commit, 250 a
        range. About 6 µs a record that was not read before, 1 µs one that was. :class:`BusyError`, :class:`PreconditionError`,
        :class:`CorruptError` (then nothing was done).
        """
        return self._claimed(Mode.DRY_RUN)

    def run(self) -> Summary:
        """Collect. If a run died, that one is finished instead. Costs as :meth:`plan`, and one request for each file that goes,
        three in quarantine. Errors as :meth:`plan`; what one run leaves behind the next one takes."""
        mode = self._options.mode
        if mode is None:
            first = not any(over and self._is_real(run) for run, over in self._runs.all())
            mode = Mode.QUARANTINE if first else Mode.DELETE
        return self._claimed(mode)

    def _is_real(self, run: str) -> bool:
        return self._runs.plan(run).mode is not Mode.DRY_RUN

    def _claimed(self, mode: Mode) -> Summary:
        if self._options.parquet:
            check_possible()
        check_same(self._repository.uid, self._repository.name, self._tables.get(repository_key(self._repository.name)))
        self._claim = Claim(self._tables, self._repository.uid, self._clock)
        try:
            if mode is not Mode.DRY_RUN:
                unfinished = [run for run, over in self._runs.all() if not over and self._is_real(run)]
                if unfinished:
                    return self._finish(self._runs.plan(unfinished[-1]))
            return self._finish(self._make_plan(mode))
        finally:
            self._claim.release()

    # Mark

    def _make_plan(self, mode: Mode) -> Plan:
        began = self._clock.now()
        horizon = began - self._options.grace - self._options.skew
        self._unlisted: list[str] = []
        run = self._runs.new(began)
        reader = RootReader(
            self._repository,
            self._tables,
            self._objects,
            self._clock,
            self._options.grace,
            self._claim.renew,
            self._options.threads,
        )
        reader.check_operations(began, OPERATION)
        self._progress("reading refs", 0, 1)
        roots = reader.read(horizon)
        with closing(roots.names):
            mark = self._judge(roots, began, horizon)
            expired, revived = (0, 0) if mode is Mode.DRY_RUN else self._expire(mark, reader, began)
            marks = Marks(self._objects)
            data, all_ranges = self._mark_ranges(mark, marks, horizon)
            unknown = Unknown()
            written = write_chunks(self._runs, run, 0, self._candidates(mark, marks, all_ranges, horizon, unknown))
            work = Comparison(self._objects, marks.files, bytes(marks.alive(data)), horizon)
            told = self._told("listing objects")
            written.merge(self._engine.compare(work, roots.names.sorted(), run, len(written.numbers), unknown, told))
        forget: list[tuple[CommitID, int]] = []
        if mode is not Mode.DRY_RUN:
            forget = self._seal(mark)
            if forget:
                set_collected(self._tables, self._repository.uid, horizon)
        plan = Plan(
            run,
            self._repository.name,
            mode,
            began,
            self._options.grace,
            len(written.numbers),
            written.found,
            unknown.tally,
            tuple(unknown.examples),
            len(roots.commits),
            len(roots.commits) - len(mark.dead),
            expired,
            revived,
            len(data),
            marks.ranges_read,
            marks.metaranges_read,
            tuple(forget),
            tuple(self._unlisted),
            tuple(written.numbers),
        )
        self._runs.put_plan(plan)
        return plan

    def _judge(self, roots: Roots, now: float, horizon: float) -> _Mark:
        files: dict[str, list[StoredObject]] = {}
        for number, stored in enumerate(self._objects.list(_INSIDE)):
            folder = stored.key.split("/", 2)[1]
            if folder != "quarantine" or stored.modified < now - self._options.quarantine_days * DAY:
                files.setdefault(folder, []).append(stored)
            if number % 1000 == 0:
                self._claim.renew()
        rules = Repositories(self._tables).get(self._repository.name).repository.settings.retention
        verdict = judge(roots.commits, roots.branches, roots.pinned, rules, now)
        dead = frozenset(
            commit.id
            for commit in roots.commits.values()
            if commit.expired is not None
            and commit.expired <= horizon
            and (commit.swept or commit.id not in verdict.kept)
        )
        records = frozenset(
            CommitID(stored.key.removeprefix(f"{COMMITS_FOLDER}/"))
            for stored in files.get("commits", ())
            if stored.modified <= horizon
        )
        return _Mark(roots, verdict, dead, dead - verdict.reached, records, files)

    def _expire(self, mark: _Mark, reader: RootReader, now: float) -> tuple[int, int]:
        """Mark commits as expired; take the mark back from those that refs hold all the same. A table read and a write each, one
        reading of the refs."""
        expired: list[KnownCommit] = []
        revived = 0
        for commit in mark.roots.commits.values():
            if commit.id in mark.verdict.kept:
                revived += commit.expired is not None and not commit.swept and self._revive(commit)
            elif commit.expired is None and commit.id in mark.records:
                at = int(self._clock.now()) + 1
                if self._change(commit, {"expired": at}, {"expired": None}):
                    expired.append(replace(commit, expired=at))
            self._claim.renew()
        if expired:
            branches, tagged = reader.refs_now()
            rules = Repositories(self._tables).get(self._repository.name).repository.settings.retention
            again = judge(mark.roots.commits, branches, {*mark.roots.pinned, *tagged}, rules, now)
            revived += sum(self._revive(commit) for commit in expired if commit.id in again.kept)
        return len(expired), revived

    def _revive(self, commit: KnownCommit) -> bool:
        return self._change(commit, {}, {"expired": commit.expired, "swept": None})

    def _change(self, commit: KnownCommit, attributes: dict[str, int | bool], expected: dict[str, int | None]) -> bool:
        """Replace what a commit's item says besides its record, on condition of what it says now. One table read, one write."""
        key = self._commits.key(commit.id)
        item = self._tables.get(key)
        if item is None:
            return False
        kept = {name: value for name, value in item.items() if name in ("record", "line")}
        try:
            self._tables.put(key, {**kept, **attributes}, Matches(expected))
        except ConditionFailedError as error:
            found = error.failures.get(0) or {}
            return all(found.get(name) == attributes.get(name) for name in ("expired", "swept"))  # by a lost answer
        return True

    def _seal(self, mark: _Mark) -> list[tuple[CommitID, int]]:
        """Say of each dead commit that its objects may be gone: from here on there is no way back. One write for each new one."""
        for cid in mark.dead:
            commit = mark.roots.commits[cid]
            assert commit.expired is not None
            attributes: dict[str, int | bool] = {"expired": commit.expired, "swept": True}
            if not commit.swept and not self._change(commit, attributes, {"expired": commit.expired, "swept": None}):
                raise BusyError(f"commit {cid[:16]} was brought back by another collector meanwhile; run again")
            self._claim.renew()
        return [(cid, mark.roots.commits[cid].expired or 0) for cid in mark.forgotten]

    def _mark_ranges(self, mark: _Mark, marks: Marks, horizon: float) -> tuple[set[int], set[int]]:
        """Numbers of the ranges whose objects are needed, and of all that are needed."""
        commits = mark.roots.commits.values()
        needed = {commit.metarange for commit in commits if commit.metarange and commit.id not in mark.dead}
        kept = needed | {c.metarange for c in commits if c.metarange and c.id not in mark.forgotten}
        young = {_file_name(stored) for stored in mark.files.get(METARANGES, ()) if stored.modified > horizon}
        data: set[int] = set()
        everything: set[int] = set()
        together = kept | young
        for number, name in enumerate(sorted(together), 1):
            numbers = marks.ranges_of(name)
            everything.update(numbers)
            if name in needed or name in young:
                data.update(numbers)
            self._progress("reading metaranges", number, len(together))
            self._claim.renew()
        for stored in mark.files.get(RANGES, ()):
            if stored.modified > horizon:
                number = marks.number(bytes.fromhex(_file_name(stored).replace("-", "")))
                data.add(number)
                everything.add(number)

        unread = marks.unread(data)
        if unread:
            marks.add(unread, self._engine.mark(self._objects, unread, self._told("reading ranges")))
        told = self._told("sorting marks")
        marks.save(
            together,
            data,
            lambda objects, files, alive: self._engine.merge(objects, files, alive, told),
            self._engine.most_files,
        )
        return data, everything

    # What is there and not needed

    def _candidates(
        self, mark: _Mark, marks: Marks, ranges: set[int], horizon: float, unknown: Unknown
    ) -> Iterator[Candidate]:
        """All but objects. Our own files were listed before; here are two listings more."""
        commits = mark.roots.commits
        metaranges = {c.metarange for c in commits.values() if c.metarange and c.id not in mark.forgotten}
        complete = set(dumps(self._objects)) if DUMPS.rpartition("/")[2] in mark.files else set()
        now = self._clock.now()
        for folder, stored_files in mark.files.items():
            for stored in stored_files:
                name = _file_name(stored)
                found: tuple[Kind, str] | None = None
                if folder == "commits":
                    if name not in commits or name in mark.forgotten:
                        found = Kind.COMMIT, "no ref reaches it"
                elif folder == METARANGES:
                    if name not in metaranges:
                        found = Kind.METARANGE, "no commit has it"
                elif folder == RANGES:
                    if not marks.is_in(name, ranges):
                        found = Kind.RANGE, "no tree that is kept has it"
                elif folder == "dumps":
                    if stored.key.split("/")[2] not in complete:
                        found = Kind.DUMP, "its dump was never finished"
                elif folder == "quarantine":
                    found = Kind.QUARANTINE, "its time in quarantine is over"
                elif folder in _OF_OPERATIONS:
                    found = Kind.OPERATION, "its operation is over, or cannot be published any more"
                elif folder == "gc":
                    if stored.key.startswith(f"{RUNS}/") and stored.modified < now - self._options.report_days * DAY:
                        found = Kind.RUN, "the run is long over"
                    elif not stored.key.startswith((f"{RUNS}/", f"{MARKS}/")):
                        unknown.add(stored)
                elif stored.key != MARKER and folder != "exports":
                    unknown.add(stored)
                if found is not None and stored.modified <= horizon:
                    yield Candidate(found[0], stored.key, stored.size, stored.etag, stored.modified, found[1])
        for stored in self._objects.list():
            if stored.key >= _INSIDE:
                break
            unknown.add(stored)
        yield from self._unfinished(horizon)

    def _unfinished(self, horizon: float) -> Iterator[Candidate]:
        """Uploads in parts that nobody completed. What they were for cannot be linked any more."""
        try:
            for upload in self._objects.uploads():
                if upload.began <= horizon and (known_as(upload.key) or upload.key.startswith(_INSIDE)):
                    why = "nobody completed it within the grace"
                    yield Candidate(Kind.UPLOAD, upload.key, 0, upload.upload_id, upload.began, why)
        except NotPermittedError as error:
            self._unlisted.append(f"unfinished uploads: {error}")

    def _told(self, phase: str) -> Callable[[int, int], None]:
        def told(done: int, total: int) -> None:
            if done >= 0:
                self._progress(phase, done, total)
            self._claim.renew()

        return told

    # Sweep

    def _finish(self, plan: Plan) -> Summary:
        forgotten = rows = 0
        if plan.mode is not Mode.DRY_RUN:
            self._sweep(plan)
            forgotten = self._forget(plan)
            rows = self._clean_table()
        outcomes: dict[str, dict[str, Tally]] = {}
        for candidate, outcome in self._runs.rows(plan):
            of_kind = outcomes.setdefault(candidate.kind.value, {})
            of_kind[outcome.value] = of_kind.get(outcome.value, Tally()).plus(candidate.size)
        if self._options.parquet:
            write_report(self._objects, self._runs.report_key(plan.run), self._runs.rows(plan))
        summary = Summary(plan, self._clock.now(), outcomes, forgotten, rows, self._options.parquet)
        self._runs.put_summary(summary)
        return summary

    def _sweep(self, plan: Plan) -> None:
        told = self._told("removing, 5,000 at a time")
        self._engine.sweep(self._objects, plan.run, plan.mode, plan.chunk_numbers(), self._options.rate, told)

    def _forget(self, plan: Plan) -> int:
        """Remove the items of commits whose files are gone. One transaction each."""
        failed = {
            candidate.key.rpartition("/")[2]
            for candidate, outcome in self._runs.rows(plan)
            if candidate.kind is Kind.COMMIT and outcome is Outcome.FAILED
        }
        forgotten = 0
        for cid, expired in plan.forget:
            if cid in failed:
                continue
            try:
                self._tables.transact([Delete(self._commits.key(cid), Matches({"expired": expired, "swept": True}))])
                forgotten += 1
            except ConditionFailedError:
                pass  # an earlier try did it
            self._claim.renew()
        return forgotten

    def _clean_table(self) -> int:
        """What branches left staged, and rows that have expired."""
        queue = CleanupQueue(self._tables, self._repository.uid)
        staged = StagedChanges(self._tables, self._repository.uid)
        while queue.sweep(staged, self._clock.now(), 100):
            self._claim.renew()
        return self._tables.remove_expired(self._clock.now())


def _file_name(stored: StoredObject) -> str:
    return stored.key.rpartition("/")[2]
