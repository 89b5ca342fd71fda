"""``python -m bench.ingest``: the hourly example. Objects land each hour below ``input/YYYY/MM/DD/hh:mm/`` in a lake that is
large already, and each hour becomes a commit by itself: how long a batch of events and its commit take, first and last, and how
much of the tree is written anew. With ``--events`` instead: see :mod:`bench.ingest_events`.
"""

import argparse
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp

from tests.lake.support import FakeClock

from bench.ingest_events import measure_events
from graveler.ingest.events import EventKind, ObjectEvent
from graveler.ingest.ingester import Ingester
from graveler.ingest.rules import CommitPolicy, Rule, RuleStore
from graveler.ingest.windows import Window
from graveler.lake.clock import SystemClock
from graveler.lake.importing.importer import ImportSource
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.model import ObjectEntry
from graveler.tree.record import RecordCodec

HOUR = 3600
BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=1_600_000, help="in the lake before")
    parser.add_argument("--hours", type=int, default=1_000)
    parser.add_argument("--landing", type=int, default=50, help="objects an hour")
    parser.add_argument(
        "--events", action="store_true", help="measure events a second, the clock and a backfill instead"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each figure of --events (default %(default)s)")
    arguments = parser.parse_args()
    if arguments.events:
        measure_events(arguments.seconds)
        return
    folder = Path(mkdtemp(prefix="graveler-bench-"))
    try:
        measure(folder / "lake", arguments.objects, arguments.hours, arguments.landing)
    finally:
        rmtree(folder)


class Hours(SystemClock):
    """The real time for all but what is due."""

    def __init__(self) -> None:
        self.time = float(BEGIN)

    def now(self) -> float:
        return self.time


def measure(folder: Path, objects: int, hours: int, landing: int) -> None:
    """Make the lake, let objects land, and print times and files."""
    lake = create_folder_lake(folder)
    repository = lake.create_repository("bench", "local://bench")
    per_hour = max(1, objects // 8_000)

    def listing() -> Iterator[tuple[bytes, bytes]]:
        codec = RecordCodec(repository.repository.namespace)
        for number in range(objects):
            path = key(BEGIN + (number // per_hour - objects // per_hour - 1) * HOUR, number % per_hour)
            entry = ObjectEntry(path, f"s3://landing/{path}", 1000, f"{number:032x}", 0)
            yield path.encode(), codec.encode(entry)

    repository.import_sources("main", [ImportSource(b"", True, listing)], "before")
    policy = CommitPolicy(window=Window(HOUR, "YYYY/MM/DD/hh:mm/"))
    rule = Rule("hourly", "s3://landing/input/", "main", "input/", message="Hour {window}", commit=policy)
    long_ago = open_folder_lake(folder, clock=FakeClock(1.0))  # no event is older than the rule
    RuleStore(lake.tables).add(long_ago, "bench", rule)
    clock = Hours()
    ingester = Ingester(lake, clock)
    ranges = folder / "objects/bench/_graveler/ranges"
    before = sum(1 for _ in ranges.rglob("*.sst")) or sum(path.is_file() for path in ranges.rglob("*"))
    seconds: list[float] = []
    for hour in range(hours):
        begin = BEGIN + hour * HOUR
        events = [
            ObjectEvent(
                "s3://landing", key(begin, number), EventKind.CREATED, f"{hour + 1:08x}1", 1000, f"{number:032x}", begin
            )
            for number in range(landing)
        ]
        clock.time = begin + HOUR
        began = time.perf_counter()
        ingester.process(events)
        seconds.append(time.perf_counter() - began)
    commits = sum(1 for _ in repository.log("main", amount=hours + 10).results) - 2
    after = sum(1 for _ in ranges.rglob("*.sst")) or sum(path.is_file() for path in ranges.rglob("*"))
    tenth = max(1, hours // 10)
    print(f"{objects:,} objects in {before:,} ranges; {commits:,} commits of {landing} objects")
    print(f"events and commit of an hour: first tenth {median(seconds[:tenth]) * 1000:.1f} ms, ", end="")
    print(f"last tenth {median(seconds[-tenth:]) * 1000:.1f} ms, slowest {max(seconds) * 1000:.1f} ms")
    print(f"ranges written: {after - before:,}, {(after - before) / max(1, commits):.2f} a commit")


def key(begin: int, number: int) -> str:
    """An object that lands in the hour that begins then."""
    return f"input/{datetime.fromtimestamp(begin, UTC):%Y/%m/%d/%H:%M}/part-{number:05}.parquet"


if __name__ == "__main__":
    main()
