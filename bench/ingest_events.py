"""``python -m bench.ingest --events``: how many events a second go through ``process``, for batches of 1, 48 and 480 and for 1,
40 and 1,000 rules, on tables in memory and on DynamoDB Local; what a minute of the clock costs; and a backfill of 480 hours.

Each event is of a new object, and the events of a batch go evenly to all rules: 40 to a repository, all on one branch. The table
in memory shows the work of the process itself; DynamoDB Local answers in a millisecond or two, on the same machine.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count, islice
from secrets import token_hex
from statistics import median
from typing import Final
from unittest.mock import patch

from msgspec.structs import replace
from tests.lake.support import FakeClock
from tests.storage.adapters import CREDENTIALS
from tests.support.instruments import CountingTables
from tests.support.servers import REGION, dynamodb_local

from graveler.ingest.events import EventKind, ObjectEvent
from graveler.ingest.ingester import Ingester
from graveler.ingest.rules import CommitPolicy, Rule, RuleStore
from graveler.ingest.windows import Window
from graveler.lake.clock import SystemClock
from graveler.lake.lake import Lake
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.dynamodb import DynamoDBSettings, DynamoDBTables
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Tables

BATCHES: Final = (1, 48, 480)
RULES: Final = (1, 40, 1_000)
HOUR: Final = 3600
_TOGETHER: Final = 40
"""Rules of one repository."""


def measure_events(seconds: float) -> None:
    """Measure for about so many seconds each, and print tables in Markdown."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, CREDENTIALS))
        makers: dict[str, Callable[[], Tables]] = {"memory": MemoryTables, "DynamoDB Local": _local}
        print("| tables | rules | events a batch | events a second | a batch, median | table requests an event |")
        print("|---|---:|---:|---:|---:|---:|")
        for kind, make in makers.items():
            for rules in RULES:
                _, lake, counted = _lake(make(), rules, CommitPolicy())
                for size in BATCHES:
                    print(
                        f"| {kind} | {rules:,} | {size} | {_events(lake, counted, rules, size, seconds)} |", flush=True
                    )
        print("\n| a minute of the clock | time | table requests |")
        print("|---|---:|---:|")
        for kind, make in makers.items():
            for pending in (0, 1_000):
                print(
                    f"| {kind}, 1,000 rules, {pending:,} with something pending | {_minute(make(), pending)} |",
                    flush=True,
                )
        print("\n| a backfill of 480 hours in one batch | time | commits |")
        print("|---|---:|---:|")
        for kind, make in makers.items():
            print(f"| {kind} | {_backfill(make())} |", flush=True)


def _local() -> DynamoDBTables:
    tables = DynamoDBTables(DynamoDBSettings(f"bench-{token_hex(4)}", REGION, dynamodb_local()))
    tables.create_table()
    return tables


def _lake(tables: Tables, rules: int, policy: CommitPolicy) -> tuple[Tables, Lake, CountingTables]:
    """A lake with so many rules, and what counts its requests."""
    counted = CountingTables(tables)
    stores: dict[str, MemoryObjects] = {}
    lake = Lake(counted, lambda namespace: stores.setdefault(namespace, MemoryObjects(namespace)))
    long_ago = Lake(
        counted, lambda namespace: stores[namespace], clock=FakeClock(1.0)
    )  # no event is older than the rules
    store = RuleStore(counted)
    for number in range(rules):
        repository = f"bench-{number // _TOGETHER}"
        if number % _TOGETHER == 0:
            lake.create_repository(repository, f"mem://{repository}")
        rule = Rule(f"r{number}", f"s3://landing/{number}/", "main", f"{number}/", commit=policy)
        store.add(long_ago, repository, rule)
    Ingester(lake, SystemClock()).commit_due()
    return tables, lake, counted


def _landing(rules: int, times: Iterator[float]) -> Iterator[ObjectEvent]:
    for number, moment in zip(count(), times, strict=False):
        key = f"{number % rules}/{number // rules:08}.parquet"
        yield ObjectEvent("s3://landing", key, EventKind.CREATED, "1", 1_000, f"{number:032x}", moment)


def _events(lake: Lake, counted: CountingTables, rules: int, size: int, seconds: float) -> str:
    ingester = Ingester(lake, SystemClock())
    now = time.time()
    events = (replace(event, key=f"{event.key}.{size}") for event in _landing(rules, (now for _ in count())))
    ingester.process(list(islice(events, size)))
    counted.reset()
    took: list[float] = []
    while sum(took) < seconds:
        batch = list(islice(events, size))
        began = time.perf_counter()
        results = ingester.process(batch).results
        took.append(time.perf_counter() - began)
        assert all(result.outcome.is_done for result in results)
    number = size * len(took)
    return f"{number / sum(took):,.0f} | {median(took) * 1000:.1f} ms | {counted.requests / number:.3f}"


def _minute(tables: Tables, pending: int) -> str:
    _, lake, counted = _lake(tables, 1_000, CommitPolicy(seconds=HOUR))
    ingester = Ingester(lake, SystemClock())
    if pending:
        ingester.process(list(islice(_landing(pending, (time.time() for _ in count())), pending)))
    counted.reset()
    began = time.perf_counter()
    ingester.commit_due()
    return f"{(time.perf_counter() - began) * 1000:.1f} ms | {counted.requests}"


def _backfill(tables: Tables) -> str:
    _, lake, _ = _lake(tables, 1, CommitPolicy(window=Window(HOUR)))
    now = time.time()
    events = list(islice(_landing(1, (now - (1_000 - hour) * HOUR for hour in count())), 480))
    began = time.perf_counter()
    batch = Ingester(lake, SystemClock()).process(events)
    return f"{time.perf_counter() - began:.2f} s | {len(batch.commits)}"
