"""Real processes on SQLite and a folder: writers, movers, branches that come and go, and a collector, with a grace of seconds.

Afterwards every object of every ref is read, fsck finds nothing, and when the grace is over only what is needed is left.
``GRAVELER_SOAK_SECONDS=n`` lets them work for n seconds.

That nothing is lost is promised to operations that are done within half the grace. Writers time theirs: where a machine is so
busy that one took longer, nothing can be said of that history, and they begin anew on another lake, with a longer grace.
"""

import multiprocessing
import os
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random

import pytest

from graveler.errors import BusyError, CorruptError, GravelerError, PreconditionError
from graveler.lake.clock import Clock, SystemClock
from graveler.lake.folder import create_folder_lake
from graveler.lake.lake import Lake
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode, Outcome, Summary
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.sqlite_tables import SqliteTables
from tests.lake.support import TINY

SECONDS = float(os.environ.get("GRAVELER_SOAK_SECONDS", "8"))
GRACES = (3.0, 12.0, 30.0)
SKEW = 0.5
NAME = "shared"
PATHS = ("a", "b", "dir/c", "dir/d")


class OffClock(SystemClock):
    """A machine whose clock goes wrong by some seconds."""

    def __init__(self, off: float) -> None:
        self._off = off

    def now(self) -> float:
        return super().now() + self._off


def open_lake(folder: Path, grace: float, clock: Clock | None = None) -> Lake:
    return Lake(
        SqliteTables(folder / "tables.sqlite", create=False),
        lambda namespace: FolderObjects(folder / "objects", namespace),
        clock=clock,
        grace=grace,
    )


def work(folder: Path, grace: float, number: int, seconds: float, longest: "Synchronized[float]") -> None:
    """Write, and say how long the longest operation took."""
    random = Random(number)
    with open_lake(folder, grace, OffClock(random.uniform(-SKEW, SKEW) / 2)) as lake:
        repository = lake.repository(NAME)
        deadline = time.monotonic() + seconds
        mine = f"b{number}"
        turn = 0
        while time.monotonic() < deadline:
            turn += 1
            branch = random.choice(["main", mine])
            path = random.choice(PATHS)
            began = time.monotonic()
            try:
                match random.randrange(9):
                    case 0 | 1 | 2:
                        repository.upload(branch, path, f"{number} {turn}".encode())
                        longest.value = max(longest.value, time.monotonic() - began)
                        began = time.monotonic()
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
            except GravelerError:
                continue
            finally:
                longest.value = max(longest.value, time.monotonic() - began)


def gather(folder: Path, grace: float, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with open_lake(folder, grace) as lake:
        while time.monotonic() < deadline:
            try:
                Garbage(lake.repository(NAME), Options(Mode.DELETE, grace, SKEW)).run()
            except (BusyError, PreconditionError):  # another one is at work, or the machine is too busy
                time.sleep(0.05)


def work_together(folder: Path, grace: float) -> float:
    """Three writers and two collectors on a new lake. Seconds that the longest operation took. A writer that fails is a loss,
    unless it may be one of those that took too long."""
    with create_folder_lake(folder):
        pass
    with open_lake(folder, grace) as lake:
        lake.create_repository(NAME, "mem://shared", split=TINY)
    seconds = SECONDS * grace / GRACES[0]
    context = multiprocessing.get_context("spawn")
    longest = [context.Value("d", 0.0) for _ in range(3)]
    processes = [
        context.Process(target=work, args=(folder, grace, number, seconds, longest[number])) for number in range(3)
    ]
    processes += [context.Process(target=gather, args=(folder, grace, seconds)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(seconds + 60)
    ends = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
        process.join()
    took = max(float(value.value) for value in longest)
    if took <= grace / 2:
        assert ends == [0] * len(ends)
    return took


def test_processes_and_a_collector(tmp_path: Path) -> None:
    for grace in GRACES:
        folder = tmp_path / f"lake-{grace:g}"
        took = work_together(folder, grace)
        if took <= grace / 2:
            check(folder, grace)
            return
    pytest.skip(f"an operation took {took:.1f} s: too busy a machine for a grace of {grace:g} s")


def check(folder: Path, grace: float) -> None:
    """Nothing is lost, and in the end nothing is left that nobody needs."""
    with open_lake(folder, grace) as lake:
        repository = lake.repository(NAME)
        for branch in repository.branches(amount=1000).results:
            for entry in repository.objects(branch.name):
                repository.read(branch.name, entry.path)
        report = lake.fsck(NAME, committed_objects=True)
        assert not report.findings
        runs = Garbage(repository, Options(grace=grace)).runs()
        gone = sum(run.total(Outcome.DELETED).files for run in runs if isinstance(run, Summary))
        assert gone > 0, "the collector had something to do"
    for seconds in (1000.0, 2000.0):  # nobody is at work any more: time flies
        with open_lake(folder, grace, OffClock(seconds)) as later:
            Garbage(later.repository(NAME), Options(Mode.DELETE, grace, SKEW)).run()
    with open_lake(folder, grace) as lake:
        report = lake.fsck(NAME, committed_objects=True)
        assert not report.findings
        left = report.garbage
        assert (left.commit_items, left.commit_records, left.metaranges, left.ranges) == (0, 0, 0, 0)
