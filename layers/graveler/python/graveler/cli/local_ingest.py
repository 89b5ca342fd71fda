"""Ingest into a local lake, with the verbs of :class:`graveler.remote.ingest.RemoteIngest`."""

from collections.abc import Iterator, Sequence

from graveler.errors import CorruptError, RepositoryNotFoundError
from graveler.ingest.ingester import Ingester
from graveler.ingest.reconcile import Reconciled, Reconciler
from graveler.ingest.rules import Rule
from graveler.ingest.status import IngestStatus, status
from graveler.lake.clock import SystemClock
from graveler.lake.lake import Lake


class LocalIngest(Ingester):
    """Ingest by this process."""

    def __init__(self, lake: Lake) -> None:
        self._reconciler = Reconciler(lake.tables, SystemClock())
        super().__init__(lake, SystemClock())

    def add(self, repository: str, rule: Rule) -> Rule:
        """See :meth:`RuleStore.add`."""
        return self._store.add(self._lake, repository, rule)

    def rules(self, repository: str) -> tuple[Rule, ...]:
        """Return the rules of a repository."""
        return self._store.of(self._lake.repository(repository).repository).rules

    def rule(self, repository: str, name: str) -> tuple[Rule, IngestStatus]:
        """Return the rule of this name, and its status."""
        opened = self._lake.repository(repository)
        rule = self._store.get(opened.repository, name)
        return rule, status(self._lake.tables, opened, rule)

    def remove(self, repository: str, name: str) -> Rule:
        """Remove a rule and return it."""
        return self._store.remove(self._lake.repository(repository).repository, name)

    def all_rules(self) -> Iterator[tuple[str, tuple[Rule, ...]]]:
        """Yield the repositories that have rules, with their rules. Those left by deleted repositories are omitted, even if
        their name is used again. So are damaged ones, which :meth:`commit_due` reports."""
        for stored in self._store.all():
            try:
                opened = self._lake.repository(stored.repository)
            except (RepositoryNotFoundError, CorruptError):
                continue
            if opened.repository.uid == stored.uid:
                yield stored.repository, stored.rules

    def reconcile(
        self, repository: str, rule: Rule, *, dry_run: bool, exclude: Sequence[str] = (), ignore: bool = True
    ) -> Reconciled:
        """See :meth:`Reconciler.reconcile`."""
        opened = self._lake.repository(repository)
        return self._reconciler.reconcile(opened, rule, dry_run=dry_run, exclude=exclude, ignore=ignore)
