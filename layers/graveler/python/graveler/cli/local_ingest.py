"""Ingest into a local lake, with the verbs of :class:`graveler.remote.ingest.RemoteIngest`."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from graveler.errors import CorruptError, RepositoryNotFoundError
from graveler.ingest.events import ObjectEvent
from graveler.ingest.ingester import Ingester
from graveler.ingest.reconcile import Reconciled, Reconciler
from graveler.ingest.results import Batch, Message, Result
from graveler.ingest.rules import Rule, RuleStore
from graveler.ingest.status import IngestStatus, status
from graveler.lake.clock import SystemClock
from graveler.lake.lake import Lake


class OwnIngest:
    """Ingest by this process."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._clock = SystemClock()
        self._store = RuleStore(lake.tables)

    def add(self, repository: str, rule: Rule) -> Rule:
        """See :meth:`RuleStore.add`."""
        return self._store.add(self._lake, repository, rule)

    def rules(self, repository: str) -> tuple[Rule, ...]:
        """Return the rules of a repository."""
        return self._store.of(self._lake.repository(repository).repository).rules

    def rule(self, repository: str, name: str) -> tuple[Rule, IngestStatus]:
        """Return the rule of this name, and its status."""
        opened = self._lake.repository(repository)
        found = self._store.get(opened.repository, name)
        return found, status(self._lake.tables, opened, found)

    def remove(self, repository: str, name: str) -> Rule:
        """Remove a rule and return it."""
        return self._store.remove(self._lake.repository(repository).repository, name)

    def all_rules(self) -> Iterator[tuple[str, tuple[Rule, ...]]]:
        """Yield the repositories that have rules, with their rules. Those left by deleted repositories are omitted, even if their
        name is used again. So are damaged ones, which :meth:`commit_due` names."""
        for found in self._store.all():
            try:
                opened = self._lake.repository(found.repository)
            except (RepositoryNotFoundError, CorruptError):
                continue
            if opened.repository.uid == found.uid:
                yield found.repository, found.rules

    def process(self, events: Sequence[ObjectEvent]) -> Batch:
        """See :meth:`Ingester.process`."""
        return self._ingester.process(events)

    def process_messages(self, messages: Sequence[Message]) -> tuple[list[Result], Batch]:
        """See :meth:`Ingester.process_messages`."""
        return self._ingester.process_messages(messages)

    def commit_due(self) -> Batch:
        """See :meth:`Ingester.commit_due`."""
        return self._ingester.commit_due()

    def reconcile(
        self, repository: str, rule: Rule, *, dry_run: bool, exclude: Sequence[str] = (), ignore: bool = True
    ) -> Reconciled:
        """See :meth:`Reconciler.reconcile`."""
        reconciler = Reconciler(self._lake.tables, self._clock)
        opened = self._lake.repository(repository)
        return reconciler.reconcile(opened, rule, dry_run=dry_run, exclude=exclude, ignore=ignore)

    @cached_property
    def _ingester(self) -> Ingester:
        return Ingester(self._lake, self._clock)
