"""What random batches cost, for random rules: the formulas of docs/ingest.md are bounds, and close ones."""

from collections import Counter
from collections.abc import Callable, Mapping
from math import ceil
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace

from graveler.ingest.events import EventKind, ObjectEvent
from graveler.ingest.ingester import CHUNK, Ingester
from graveler.ingest.results import Outcome
from graveler.ingest.rules import CommitPolicy, Deletes, Rule, RuleStore
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import Commit
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from tests.ingest.support import BUCKET, Shore
from tests.lake.support import TINY, FakeClock
from tests.support.campaigns import WHOLE, seed
from tests.support.instruments import CountingObjects, CountingTables

BATCHES: Final = 20 if WHOLE else 4
DAY: Final = 86_400.0
SKEW: Final = 300.0


class Coast:
    """Repositories with random rules about two buckets, and what is asked for, without commits."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.shore = Shore()
        self.rules: list[tuple[str, Rule]] = []
        self.reconciled: set[str] = set()
        self.sequence = 0
        then = Lake(self.shore.tables, self.shore.objects, clock=FakeClock(self.shore.clock.time - DAY))
        for number in range(random.choice([1, 2, 5, 120])):
            then.create_repository(f"repo-{number}", f"mem://repo-{number}", split=TINY)
            repository = then.repository(f"repo-{number}")
            repository.create_branch("other", "main")
            young = random.random() < 0.2
            lake = self.shore.lake() if young else then
            for rule in range(random.choice([1, 2, 3])):
                made = self._rule(f"{rule}")
                RuleStore(self.shore.tables).add(lake, f"repo-{number}", made)
                self.rules.append((f"repo-{number}", replace(made, since=self.shore.clock.now() if young else 0.0)))
        self.tables = CountingTables(self.shore.tables)
        self.foreign = CountingObjects(MemoryObjects(BUCKET, self.shore.clock.now, foreign=True))
        self.ingester = Ingester(
            Lake(self.tables, self.shore.objects, clock=self.shore.clock, outside=self._outside), self.shore.clock
        )
        committer = self.ingester.committer
        commit_if_due: Callable[[OpenRepository, Rule], list[Commit]] = committer.commit_if_due

        def uncounted(repository: OpenRepository, rule: Rule) -> list[Commit]:
            before = Counter(self.tables.calls)
            try:
                return commit_if_due(repository, rule)
            finally:
                self.tables.calls.clear()
                self.tables.calls.update(before)

        committer.commit_if_due = uncounted  # type: ignore[method-assign]

    def _rule(self, name: str) -> Rule:
        random = self.random
        source = f"s3://{random.choice(['landing', 'landing', 'away'])}/{name}/"
        return Rule(
            name,
            source,
            random.choice(["main", "other"]),
            f"{name}/",
            suffixes=random.choice([(), (".csv",)]),
            deletes=random.choice(list(Deletes)),
            verify=random.random() < 0.3,
            commit=CommitPolicy(objects=random.choice([0, 0, 7]), marker=random.choice(["", "_DONE"])),
        )

    def _outside(self, address: str) -> tuple[Objects, str]:
        return self.foreign, address.partition("://")[2].partition("/")[2]

    def event(self) -> ObjectEvent:
        random, clock = self.random, self.shore.clock
        key = f"{random.randrange(4)}/{random.choice(['a', 'b/c'])}{random.randrange(60)}"
        key += random.choice([".csv", ".csv", ""])
        key = random.choice([key] * 9 + [f"{random.randrange(4)}/_DONE"])
        self.sequence += 1
        bucket = random.choice([BUCKET] * 6 + ["s3://away"])
        kind = random.choice([EventKind.CREATED] * 6 + [EventKind.DELETED, EventKind.VERSION_DELETED])
        etag = random.choice(["e" * 32] * 5 + [""]) if kind is EventKind.CREATED else ""
        if kind is EventKind.CREATED or random.random() < 0.5:
            self.foreign.put(key, b"1")
        time = clock.now() - random.choice([0, 0, 600])
        return ObjectEvent(bucket, key, kind, f"{self.sequence:016x}", 1, etag, time)

    def asks(self, rule: Rule, event: ObjectEvent) -> int:
        """How often the source may have to be asked."""
        looks = rule.verify or event.kind is EventKind.VERSION_DELETED or event.time <= rule.since + SKEW
        return looks + (event.kind is EventKind.CREATED and not event.etag)

    def wanted(self, events: list[ObjectEvent]) -> Mapping[tuple[str, str], Mapping[str, set[str]]]:
        """Of each branch, the keys of each of its rules."""
        found: dict[tuple[str, str], dict[str, set[str]]] = {}
        for repository, rule in self.rules:
            keys = {event.key for event in events if event.bucket == rule.bucket and _concerns(rule, event)}
            if keys:
                found.setdefault((repository, rule.branch), {})[rule.name] = keys
        return found


def _concerns(rule: Rule, event: ObjectEvent) -> bool:
    return rule.takes(event.key) or rule.is_marker(event.key)


@pytest.mark.parametrize("number", range(20 if WHOLE else 3))
def test_any_batch_costs_what_the_docs_say(number: int) -> None:
    random = Random(f"{seed()}-{number}")
    coast = Coast(random)
    repositories = {repository for repository, _ in coast.rules}
    seen: list[ObjectEvent] = []
    for _ in range(BATCHES):
        fresh = [coast.event() for _ in range(random.choice([1, 3, 60, 60, 480]))]
        events = fresh + random.choices(seen, k=random.choice([0, 0, min(len(seen), 50)]) if seen else 0)
        seen += fresh
        coast.tables.reset()
        coast.foreign.reset()
        batch = coast.ingester.process(events)
        assert {result.outcome for result in batch.results} <= {
            Outcome.STAGED,
            Outcome.STALE,
            Outcome.SKIPPED,
            Outcome.POISON,
        }, batch.results
        assert batch.commits_failed == ()
        buckets = {event.bucket for event in events}
        about = {repository for repository, rule in coast.rules if rule.bucket in buckets}
        head = ceil(len(repositories) / 1000) + ceil(len(about) / 100)
        transactions = 0
        for of_rules in coast.wanted(events).values():
            keys = sum(map(len, of_rules.values()))
            one = len(of_rules) == 1
            transactions += ceil(keys / CHUNK) if one else ceil((2 * keys + len(of_rules)) / 95)
        made = coast.tables.calls["transact"]
        assert made <= transactions
        kept = [
            (repository, rule.branch)
            for repository, rule in coast.rules
            for event in events
            if rule.deletes is Deletes.KEEP and event.kind is EventKind.CREATED and event.time <= rule.since
            if event.bucket == rule.bucket and _concerns(rule, event)
        ]
        more = 2 * len(kept) + len(set(kept))  # the last is the commit of each branch
        assert coast.tables.requests <= head + 2 * transactions + more, (number, coast.tables.calls)
        asked = sum(
            coast.asks(rule, event)
            for _, rule in coast.rules
            for event in events
            if event.bucket == rule.bucket and _concerns(rule, event)
        )
        assert coast.foreign.requests <= asked, (number, coast.foreign.calls)
        coast.shore.clock.time += random.choice([0.0, 1.0, 60.0])
