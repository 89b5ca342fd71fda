"""Real processes on SQLite and a folder, and on DynamoDB Local and an S3 server: writers, movers, branches that come and go, and
collectors, with a grace of seconds.

One after the other is stopped (SIGSTOP) and goes on later: writers for longer than what they began may take to be published,
so that they are refused, collectors for longer than half the grace. Afterwards every object of every ref is read, fsck finds
nothing, and when the grace is over only what is needed is left. ``GRAVELER_SOAK_SECONDS=n`` lets them work for n seconds.

A writer that is stopped, or forgotten by a busy machine, between its last look at the clock and the request that publishes goes
on with that request. The skew covers this (:mod:`graveler.lake.deadline`), so it is longer here than any stop of a writer.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from typing import TypeAlias
from unittest.mock import patch

import pytest

from graveler.errors import (
    BusyError,
    CorruptError,
    GravelerError,
    NoChangesError,
    PreconditionError,
    UnavailableError,
)
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode, Outcome
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.tables.sqlite import SqliteTables
from tests.aws.scene import NamedS3, Servers, new_servers
from tests.lake.support import TINY, FakeClock
from tests.retention.support import OffClock, objects_of
from tests.storage.adapters import CREDENTIALS
from tests.support.patience import PATIENCE

SOAK = os.environ.get("GRAVELER_SOAK_SECONDS")
GRACE = 10.0
SKEW = 4.0
STOPS = (GRACE / 2 - SKEW + 0.1, 1.8)
"""Seconds for which a writer is stopped: longer than it may take, and shorter by far than the skew, so that a busy machine can
keep it waiting as well."""
OFF = 0.5
"""Seconds by which two clocks differ at most."""
NAME = "shared"
PATHS = ("a", "b", "dir/c", "dir/d")


Place: TypeAlias = Path | Servers
"""Where a lake is: in a folder, or on servers."""


def open_lake(place: Place, clock: Clock | None = None) -> Lake:
    if isinstance(place, Servers):
        return Lake(
            place.table(),
            lambda namespace: NamedS3(place.name, namespace.removeprefix("mem://"), place.s3(), namespace),
            clock=clock,
            grace=GRACE,
            skew=SKEW,
        )
    folder = place
    return Lake(
        SqliteTables(folder / "tables.sqlite", create=False),
        lambda namespace: FolderObjects(folder / "objects", namespace),
        clock=clock,
        grace=GRACE,
        skew=SKEW,
    )


def work(place: Place, number: int, over: Event, refused: "Synchronized[int]") -> None:
    """Write; count what was refused for having taken too long."""
    random = Random(number)
    with open_lake(place, OffClock(random.uniform(-OFF, OFF) / 2)) as lake:
        repository = lake.repository(NAME)
        mine = f"b{number}"
        turn = 0
        while not over.is_set():
            turn += 1
            branch = random.choice(["main", mine])
            path = random.choice(PATHS)
            try:
                match random.randrange(9):
                    case 0 | 1 | 2:
                        repository.upload(branch, path, f"{number} {turn}".encode())
                        repository.commit(branch, f"{number} {turn}")
                    case 3:
                        repository.create_branch(mine, "main")
                    case 4:
                        repository.merge(mine, "main")
                    case 5:
                        repository.delete_branch(mine)
                    case 6:
                        repository.copy(branch, path, random.choice(PATHS), source_ref=random.choice(["main", mine]))
                    case 7:
                        repository.move(branch, path, random.choice(PATHS))
                    case 8:
                        repository.hard_reset(mine, "main~1")
            except CorruptError:
                raise
            except GravelerError as error:
                refused.value += "half the grace" in str(error)


def gather(place: Place, over: Event, removed: "Synchronized[int]") -> None:
    """Collect; count what was removed."""
    with open_lake(place) as lake:
        while not over.is_set():
            try:
                summary = Garbage(lake.repository(NAME), Options(Mode.DELETE, GRACE, SKEW)).run()
                removed.value += summary.total(Outcome.DELETED).files
            except (BusyError, PreconditionError, UnavailableError):  # another one is at work, or was stopped
                pass
            over.wait(0.1)


@pytest.fixture(params=["folder", "aws"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Of an empty lake."""
    if request.param == "aws":
        with patch.dict(os.environ, CREDENTIALS):
            yield new_servers()
        return
    with create_folder_lake(tmp_path / "lake"):
        pass
    yield tmp_path / "lake"


@pytest.mark.ci
def test_processes_and_a_collector(place: Place) -> None:
    with open_lake(place) as lake:
        lake.create_repository(NAME, "mem://shared", split=TINY)
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    refused = [context.Value("i", 0) for _ in range(3)]
    removed = [context.Value("i", 0) for _ in range(2)]
    writers = [context.Process(target=work, args=(place, number, over, count)) for number, count in enumerate(refused)]
    collectors = [context.Process(target=gather, args=(place, over, count)) for count in removed]
    processes = [*writers, *collectors]
    random = Random(1)
    seconds = float(SOAK or (14 if isinstance(place, Path) else 8))
    for process in processes:
        process.start()
    try:
        began = time.monotonic()
        while (took := time.monotonic() - began) < seconds + PATIENCE and all(p.is_alive() for p in processes):
            if took > seconds and any(count.value for count in refused) and any(count.value for count in removed):
                break
            process = random.choice(processes)
            stop(process.pid, random.uniform(*STOPS) if process in writers else random.uniform(0, 2 * GRACE / 3))
    finally:
        over.set()
        for process in processes:
            process.join(PATIENCE)
        ends = [process.exitcode for process in processes]
        for process in processes:
            process.kill()
            process.join()
    assert ends == [0] * len(ends), "a process failed, or did not come to its end"
    assert sum(count.value for count in refused) > 0, "nobody was stopped for too long while at work"
    assert sum(count.value for count in removed) > 0, "the collectors had nothing to do"
    check(place)


def stop(pid: int | None, seconds: float) -> None:
    """Stop a process for so long; one that is gone is left."""
    assert pid is not None
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)


def check(place: Place) -> None:
    """Nothing is lost, and in the end nothing is left that nobody needs."""
    with open_lake(place) as lake:
        repository = lake.repository(NAME)
        for branch in repository.branches(amount=1000).results:
            for entry in repository.objects(branch.name):
                repository.read(branch.name, entry.path)
        report = lake.fsck(NAME, committed_objects=True)
        assert not report.findings
    # What a commit that was refused has sealed stays until the next, for which time stands still: however busy the machine is, it
    # does not take too long.
    with open_lake(place, FakeClock(time.time())) as lake:
        repository = lake.repository(NAME)
        for branch in repository.branches(amount=1000).results:
            with suppress(NoChangesError):
                repository.commit(branch.name, "the end")
    # Nobody is at work any more: time flies. One run may be the end of another one, the next marks, and the last sweeps.
    for seconds in (1000.0, 2000.0, 3000.0):
        with open_lake(place, OffClock(seconds)) as later:
            Garbage(later.repository(NAME), Options(Mode.DELETE, GRACE, SKEW)).run()
    with open_lake(place) as lake:
        report = lake.fsck(NAME, committed_objects=True)
        assert not report.findings
        left = report.garbage
        assert (left.commit_items, left.commit_records, left.metaranges, left.ranges) == (0, 0, 0, 0)
        repository = lake.repository(NAME)
        there = {stored.key for stored in repository.namespace.list("data/")}
        assert there == objects_of(repository)
