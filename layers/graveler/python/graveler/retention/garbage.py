"""Garbage collection of one repository, for its interfaces: plan, run, reports, quarantine, legal holds, and previews of
rules."""

from collections.abc import Iterator

from msgspec import Struct

from graveler.errors import PreconditionError
from graveler.lake.opening.repositories import Repositories
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.repository_settings import check_settings
from graveler.model import Commit, CommitID, Page, RetentionRules, Settings
from graveler.retention.collector import Collector, Options
from graveler.retention.engine import Engine
from graveler.retention.holds import Hold, Holds
from graveler.retention.roots import RootReader
from graveler.retention.rules import judge
from graveler.retention.run_document import RunDescription, describe
from graveler.retention.runs import Candidate, Outcome, Plan, Runs, Summary
from graveler.retention.space import Space, space
from graveler.retention.sweeper import Quarantine
from graveler.system.progress import Progress, no_progress


class RulesPreview(Struct, frozen=True):
    """The effect of rules: how many commits refs reach, how many would keep their objects, and which would lose the objects that
    they have under the current rules, newest first; ``more`` counts lost ones that are not listed."""

    reached: int
    kept: int
    lost: tuple[Commit, ...]
    more: int = 0


class Garbage:
    """The garbage collection of an open repository: in this process, or distributed by an ``engine``."""

    def __init__(
        self, repository: OpenRepository, options: Options | None = None, engine: Engine | None = None
    ) -> None:
        self._engine = engine
        self._repository = repository
        self._options = options or Options(
            grace=repository.grace, skew=repository.skew, table_grace=repository.table_grace
        )
        self._runs = Runs(repository.namespace)

    def plan(self, progress: Progress = no_progress) -> Summary:
        """Make a dry run. See :meth:`Collector.plan`."""
        return self._collector(progress).plan()

    def run(self, progress: Progress = no_progress) -> Summary:
        """Collect. See :meth:`Collector.run`."""
        return self._collector(progress).run()

    def runs(self) -> list[Plan | Summary]:
        """Return all runs, oldest first; the plan of one that is not over. One object read each."""
        return [self._runs.summary(run) if over else self._runs.plan(run) for run, over in self._runs.all()]

    def summary(self, run: str) -> Summary:
        """Return the summary of a run. :class:`NotFoundError`."""
        return self._runs.summary(run)

    def rows(self, run: str) -> Iterator[tuple[Candidate, Outcome]]:
        """Return the findings of a run with their outcomes. One object read for each 5,000, twice. :class:`NotFoundError`."""
        return self._runs.rows(self._runs.plan(run))

    def described_runs(self) -> list[RunDescription]:
        """Return :meth:`runs`, each as one document."""
        return [self.describe(run) for run in self.runs()]

    def page_of_rows(self, run: str, after: str, amount: int) -> Page[tuple[Candidate, Outcome]]:
        """Return some of :meth:`rows`, after ``after``. One object read for each 5,000, twice. :class:`NotFoundError`."""
        return self._runs.page(self._runs.plan(run), after, amount)

    def describe(self, run: Plan | Summary) -> RunDescription:
        """Return a run as one document. No request."""
        plan = run.plan if isinstance(run, Summary) else run
        return describe(run, self.report_address(plan.run))

    def report_address(self, run: str) -> str:
        """Return the address of the Parquet report of a run."""
        return f"{self._repository.namespace.namespace}/{self._runs.report_key(run)}"

    def restore(self, run: str, prefix: str = "", after: str = "") -> Iterator[tuple[str, bool]]:
        """Restore files from quarantine. See :meth:`Quarantine.restore`. :class:`PreconditionError` while the run is not over:
        finished later, it would remove them again."""
        if (run, False) in self._runs.all():
            raise PreconditionError(
                f"run {run!r} is unfinished; finish it with `graveler gc run`, then restore from it"
            )
        return Quarantine(self._repository.namespace).restore(run, prefix, after)

    def hold(self, ref: str, reason: str, by: str) -> Hold:
        """Keep the objects of a ref's commit, whatever becomes of the ref and the rules. Cost: resolving, one transaction.
        :class:`ExpiredCommitError`."""
        commit = self._repository.commit_of(ref)
        hold = Hold(commit.id, reason, by, int(self._repository.clock.now()))
        self._holds().add(hold)
        return hold

    def release(self, ref: str) -> CommitID:
        """End the legal hold on a ref's commit. :class:`NotFoundError`."""
        commit_id = self._repository.commit_of(ref).id
        self._holds().remove(commit_id)
        return commit_id

    def holds(self) -> list[Hold]:
        """Return all legal holds."""
        return self._holds().all()

    def space(self, progress: Progress = no_progress) -> Space:
        """Return the space by holder. See :func:`graveler.retention.space.space`."""
        return space(self._repository, progress)

    def preview(self, rules: RetentionRules | None) -> RulesPreview:
        """Return what rules would keep and drop if they were set now. Cost: the roots' reads (:class:`RootReader`), and the
        commits that would be lost. :class:`InvalidError` for rules that cannot be set."""
        check_settings(Settings(retention=rules))
        repository, clock, grace = self._repository.repository, self._repository.clock, self._options.grace
        now = clock.now()
        reader = RootReader(
            repository,
            self._repository.tables,
            self._repository.namespace,
            clock,
            grace,
            lambda: None,
            self._options.threads,
        )
        roots = reader.read(now - grace - self._options.skew)
        roots.names.close()
        current = Repositories(self._repository.tables).get(repository.name).repository.settings.retention
        before = judge(roots.commits, roots.branches, roots.pinned, current, now)
        after = judge(roots.commits, roots.branches, roots.pinned, rules, now)
        lost = [self._repository.commit_of(cid) for cid in before.kept - after.kept]
        lost.sort(key=lambda commit: (-commit.created, commit.id))
        return RulesPreview(len(after.reached), len(after.kept), tuple(lost))

    def _collector(self, progress: Progress) -> Collector:
        opened = self._repository
        return Collector(
            opened.repository,
            opened.tables,
            opened.namespace,
            opened.clock,
            self._options,
            folders=opened.parts.names.table_folders,
            writers_grace=opened.grace,
            writers_skew=opened.skew,
            writers_table_grace=opened.table_grace,
            leases=opened.leases,
            progress=progress,
            engine=self._engine,
        )

    def _holds(self) -> Holds:
        return Holds(self._repository.tables, self._repository.repository.uid)
