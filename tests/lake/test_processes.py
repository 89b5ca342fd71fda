"""Real processes on one branch of one folder lake for a minute, some of them killed all the time: nothing acknowledged is lost,
history is linear, nobody sees half of a merge, and no lock is left behind.

``GRAVELER_SOAK_SECONDS=n`` lets them work for n seconds instead.
"""

import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

from graveler.errors import NoChangesError
from graveler.lake.clock import SystemClock
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import SplitParameters
from graveler.staging.tokens import LEASE
from tests.lake.fleet import NAME, SET, SETTERS, open_place
from tests.support.patience import PATIENCE

SECONDS = float(os.environ.get("GRAVELER_SOAK_SECONDS", "10"))
ROOT = Path(__file__).parents[2]
FLEET = [
    "writer0",
    "writer1",
    "committer0",
    "committer1",
    "merger0",
    "merger1",
    *SETTERS,
    "reader0",
    "reader1",
]
MORTAL = [name for name in FLEET if name not in ("writer1", "reader0")]
SMALL = SplitParameters(min_size=400, max_size=3200, raggedness=8)


class CountingClock(SystemClock):
    """The machine's clock, and how many seconds somebody asked it to wait, however long that took."""

    def __init__(self) -> None:
        self.slept = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        super().sleep(seconds)


class Fleet:
    """Keeps one process of each name running."""

    def __init__(
        self, folder: Path, place: str | None = None, names: Sequence[str] = FLEET, seconds: float = SECONDS
    ) -> None:
        self.folder = folder
        self.place = place or str(folder / "lake")
        self.names = names
        self.seconds = seconds
        self.kills = 0
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.end = time.monotonic() + seconds

    def start(self, name: str) -> None:
        left = max(0.0, self.end - time.monotonic())
        arguments = [
            name.rstrip("0123456789"),
            self.place,
            str(self.folder / f"{name}.log"),
            name,
            str(left),
        ]
        errors = (self.folder / f"{name}.err").open("ab")
        with errors:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.lake.fleet", *arguments], cwd=ROOT, stderr=errors
            )

    def run(self) -> None:
        random = Random(1)
        for name in self.names:
            self.start(name)
        time.sleep(min(1.0, self.seconds / 4))
        while time.monotonic() < self.end - 0.5:
            time.sleep(random.uniform(0.1, 0.4))
            name = random.choice([name for name in self.names if name in MORTAL])
            self.processes[name].send_signal(signal.SIGKILL)
            self.processes[name].wait()
            self.kills += 1
            self.start(name)
        for process in self.processes.values():
            process.wait(PATIENCE)


def events(folder: Path) -> list[list[str]]:
    return [line.split() for path in sorted(folder.glob("*.log")) for line in path.read_text().splitlines()]


def check(folder: Path, place: str | None = None) -> dict[str, int]:
    """Compare the lake with what was acknowledged."""
    told = events(folder)
    wrong = [line for line in told if line[0] == "wrong"]
    assert not wrong, wrong
    clock = CountingClock()
    lake = open_place(place or str(folder / "lake"), clock)
    repository = lake.repository(NAME)
    with suppress(NoChangesError):
        repository.commit("main", "the end")
    assert clock.slept < LEASE + 10, "who was killed holds nobody up"
    assert repository.parts.branches.state("main").sealed == ()
    found = {item.path: item.size for item in repository.objects("main@")}
    assert found == {item.path: item.size for item in repository.objects("main")}
    # Each key has one writer. Its last acknowledged value is there, or one that was tried after it.
    last: dict[str, tuple[int, int]] = {}
    later: dict[str, set[int]] = {}
    for kind, *rest in told:
        if kind in ("try", "done") and rest[0].startswith("writer"):
            key, number, value = rest[0], int(rest[1]), int(rest[2])
            if kind == "done":
                last[key] = number, value
                later[key] = set()
            else:
                later.setdefault(key, set()).add(value)
    for key, (_, value) in last.items():
        assert found.get(key, 0) in {value} | later[key], key
    for kind, *rest in told:
        if kind == "done" and not rest[0].startswith("writer"):
            assert found.get(rest[0], 0) >= int(rest[2]), rest[0]
    check_reads(told)
    check_history(repository, told)
    assert lake.fsck(NAME).remaining == ()
    lake.close()
    return dict(Counter(line[0] for line in told))


def check_reads(told: list[list[str]]) -> None:
    """A read finds the last write that was acknowledged before it began, or one that was tried later."""
    acknowledged: dict[str, list[tuple[int, int]]] = {}  # key → (when, number), both ascending
    tried: dict[str, dict[int, int]] = {}  # key → value → the last number it was tried with
    for kind, *rest in told:
        if kind == "done" and rest[0].startswith("writer"):
            acknowledged.setdefault(rest[0], []).append((int(rest[3]), int(rest[1])))
        elif kind == "try":
            tried.setdefault(rest[0], {})[int(rest[2])] = int(rest[1])
    for kind, *rest in told:
        if kind == "saw":
            key, value, began = rest[0], int(rest[1]), int(rest[2])
            before = acknowledged.get(key, [])
            at = bisect_left(before, (began, 0))
            newest = before[at - 1][1] if at else 0
            if value or newest:
                assert tried[key].get(value, 0) >= newest, (key, value, began)


def check_history(repository: OpenRepository, told: list[list[str]]) -> None:
    log = repository.log("main", amount=100_000, first_parent=True).results
    said = [commit.message for commit in log]
    assert len(set(said)) == len(said), "each request made one commit"
    ids = {commit.id for commit in log}
    for kind, *rest in told:
        if kind == "committed":
            assert rest[1] in ids, rest[0]
    known = {rest[0] for kind, *rest in told if kind == "commit"} | {"the end", "Repository created"}
    assert set(said) <= known
    for newer, older in pairwise(log):
        assert newer.parents[0] == older.id
    # The reference log tells the same history.
    moves = repository.reflog("main", 100_000)
    assert [row.new for row in moves] == [commit.id for commit in log]
    # Values of a key only go up from commit to commit: each explains the next.
    state: dict[str, int] = {}
    for older, newer in pairwise(log[::-1]):
        for change in repository.diff(older.id, newer.id, amount=10_000).results:
            before = 0 if change.before is None else change.before.size
            assert state.get(change.path, 0) == before
            state[change.path] = 0 if change.after is None else change.after.size
        for name in SETTERS:
            values = [value for path, value in state.items() if path.startswith(f"{name}/")]
            assert len(values) in (0, SET), f"commit {newer.id} has half of {name}"
            assert len(set(values)) <= 1, f"commit {newer.id} has half of {name}"
    assert {path: value for path, value in state.items() if value} == {
        e.path: e.size for e in repository.objects("main@")
    }


def test_processes_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository(NAME, "local://repo", split=SMALL)
        for branch in ("side", *SETTERS):
            repository.create_branch(branch, "main")
    fleet = Fleet(tmp_path)
    fleet.run()
    assert not "".join(path.read_text() for path in tmp_path.glob("*.err"))
    assert all(process.returncode == 0 for process in fleet.processes.values())
    counts = check(tmp_path)
    print(f"{SECONDS:g} s, {fleet.kills} kills, {counts}")  # noqa: T201
    assert counts["done"] >= 20
    assert counts["committed"] >= 3
    assert counts["whole"] >= 10
    landed = {rest[0].partition("/")[0] for kind, *rest in events(tmp_path) if kind == "done"}
    assert landed >= {"writer0", "writer1", *SETTERS} or SECONDS < 30
    assert fleet.kills >= 3 or SECONDS < 3
