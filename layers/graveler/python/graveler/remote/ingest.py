"""Ingest into repositories behind the HTTP API: rules, events, reconciliation."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UnavailableError
from graveler.ingest.events import ObjectEvent, to_line
from graveler.ingest.reconcile import Reconciled, Refused
from graveler.ingest.results import Batch, Made, Message, NotMade, Result, by_message, unwanted, worst
from graveler.ingest.rules import Rule
from graveler.ingest.status import IngestStatus
from graveler.remote.background_operations import RemoteOperations
from graveler.remote.connection import PAGE, Connection
from graveler.remote.lake import RemoteLake
from graveler.wire import documents
from graveler.wire import ingest_documents as wire
from graveler.wire.mapping import mapped

_TOGETHER: Final = 480
"""Messages per request."""


class _Rules(Struct, frozen=True):
    pagination: documents.Pagination
    results: list[Rule]


class _Reconciliation(Struct, frozen=True):
    completed: bool
    objects: int = 0
    linked_count: int = 0
    deleted_count: int = 0
    linked: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
    commits: tuple[str, ...] = ()


class RemoteIngest:
    """Ingest by a server. Each verb is one request unless stated otherwise."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, repository: str, rule: Rule) -> Rule:
        """Add a rule. Errors as :meth:`graveler.ingest.rules.RuleStore.add`."""
        document = msgspec.to_builtins(rule)
        return self._connection.call("POST", _rules(repository), None, document).read(Rule)

    def rules(self, repository: str) -> tuple[Rule, ...]:
        """Return the rules of a repository, by name."""
        return tuple(rule for page in self._connection.pages(_rules(repository), _Rules) for rule in page.results)

    def rule(self, repository: str, name: str) -> tuple[Rule, IngestStatus]:
        """Return the rule of this name and its status. Cost: two requests. :class:`NotFoundError`."""
        path = (*_rules(repository), name)
        return self._connection.get(path, Rule), self._connection.get((*path, "status"), IngestStatus)

    def remove(self, repository: str, name: str) -> Rule:
        """Remove a rule and return it. Cost: two requests. :class:`NotFoundError`."""
        path = (*_rules(repository), name)
        removed = self._connection.get(path, Rule)
        self._connection.call("DELETE", path)
        return removed

    def all_rules(self) -> Iterator[tuple[str, tuple[Rule, ...]]]:
        """Yield the repositories that have rules, with their rules. Cost: one request per repository, and per thousand of
        them."""
        lake = RemoteLake(self._connection)
        after: str | None = ""
        while after is not None:
            page = lake.repositories(after=after, amount=PAGE)
            for repository in page.results:
                if rules := self.rules(repository.name):
                    yield repository.name, rules
            after = page.next_after

    def process(self, events: Sequence[ObjectEvent]) -> Batch:
        """Stage the changes that events report, under all rules, and make the commits these make due. Cost: that of
        :meth:`all_rules`; per repository one request for each 480 events from its rules' buckets."""
        results: list[Result | None] = [None] * len(events)
        commits: list[Made] = []
        failures: list[NotMade] = []
        any_rule = False
        for repository, rules in self.all_rules():
            any_rule = True
            buckets = {rule.bucket for rule in rules}
            chosen = iter([position for position, event in enumerate(events) if event.bucket in buckets])
            while positions := list(islice(chosen, _TOGETHER)):
                batch = self._replay(repository, [to_line(events[position]).decode() for position in positions])
                for position, result in zip(positions, batch.results, strict=True):
                    previous = results[position]
                    results[position] = result if previous is None else worst(previous, result)
                commits += batch.commits
                failures += batch.commits_failed
        outcomes = [result or unwanted(event, any_rule=any_rule) for result, event in zip(results, events, strict=True)]
        return Batch(tuple(outcomes), tuple(commits), tuple(failures))

    def process_messages(self, messages: Sequence[Message]) -> tuple[list[Result], Batch]:
        """Process a queue's messages like :meth:`process`: the worst result of each message's events, in order."""
        return by_message(messages, self.process)

    def commit_due(self) -> Batch:
        """Make every commit that is due, under all rules. Cost: that of :meth:`all_rules`, and a request per repository that has
        rules."""
        batches = [self._replay(repository, []) for repository, _ in self.all_rules()]
        return Batch(
            (),
            tuple(commit for batch in batches for commit in batch.commits),
            tuple(commit for batch in batches for commit in batch.commits_failed),
        )

    def reconcile(
        self, repository: str, rule: Rule, *, dry_run: bool, exclude: Sequence[str] = (), ignore: bool = True
    ) -> Reconciled:
        """Compare a rule's source with its branch, repair differences, and wait for the end. Cost: two requests, one for each
        poll, and one for each commit that was due."""
        path = ("repositories", repository, "ingest", "reconciliations")
        document = wire.ReconciliationCreation(rule.name, dry_run, tuple(exclude), ignore)
        begun = self._connection.call("POST", path, None, document).read(wire.ReconciliationStarted)
        RemoteOperations(self._connection, repository).wait(begun.id)
        outcome = self._connection.get((*path, begun.id), _Reconciliation)
        if not outcome.completed:
            raise UnavailableError(f"operation {begun.id} completed without a report; reconcile again")
        commits = tuple(
            self._connection.get(("repositories", repository, "commits", commit), documents.Commit).value()
            for commit in outcome.commits
        )
        return mapped(Reconciled, outcome, commits=commits)

    def _replay(self, repository: str, messages: Sequence[str]) -> Batch:
        path = ("repositories", repository, "ingest", "replay")
        replayed = self._connection.call("POST", path, None, wire.IngestReplay(list(messages))).read(
            wire.IngestReplayed
        )
        return Batch(
            tuple(mapped(Result, entry) for entry in replayed.results),
            tuple(Made(repository, entry.rule, entry.commit.value()) for entry in replayed.commits),
            tuple(mapped(NotMade, entry, repository=repository) for entry in replayed.commits_failed),
        )


def _rules(repository: str) -> tuple[str, ...]:
    return ("repositories", repository, "ingest", "rules")
