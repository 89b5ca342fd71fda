"""Builders for tests of the verbs: a world of shared storage, clients of it, and a way to step in at their requests."""

import os
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Event
from time import time
from typing import Final

import pytest

from graveler.errors import GravelerError
from graveler.lake.clock import Clock
from graveler.lake.importing import folder_listing
from graveler.lake.lake import Lake
from graveler.lake.objects.stage import Stager
from graveler.lake.opening.lake_parts import TreeSettings
from graveler.lake.repository import OpenRepository
from graveler.model import CommonPrefix, ObjectEntry, SplitParameters
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import CleanupQueue
from graveler.staging.tokens import Outcomes
from graveler.storage.objects.cache import FileCache
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Tables
from tests.support.children import end_process
from tests.support.instruments import Boundaries, CountingObjects, CountingTables, Fault, FaultyObjects, FaultyTables

NAME = "repo"
NAMESPACE = "mem://repo"
TINY = SplitParameters(min_size=100, max_size=800, raggedness=3)
"""Ranges of a few records each, so that small examples have many of them."""

Schedule = Callable[[str, int], Fault]
"""From a request, ``tables.put`` or ``objects.get``, and its ordinal within its client to what happens to it."""


class FakeClock:
    """Time stands still, unless somebody sleeps or the test moves it on."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.time = start
        self.slept = 0.0
        self.jumped = 0.0
        self.on_sleep: Callable[[], None] | None = None

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - self.jumped

    def jump(self, seconds: float) -> None:
        """Somebody sets the clock."""
        self.time += seconds
        self.jumped += seconds

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.slept += seconds
        if self.on_sleep is not None:
            self.on_sleep()

    def wait(self, event: Event, seconds: float) -> bool:
        """Real time is not this clock's: nothing happens because a machine is slow."""
        return event.wait()

    def repeating(self, seconds: float, work: Callable[[], None]) -> AbstractContextManager[None]:
        """Nothing is repeated, for the same reason."""
        return nullcontext()


class OwnClock:
    """The clock of one machine: its wall clock is ``ahead`` of the shared time by so many seconds, or behind; its monotonic clock
    began when the machine did."""

    def __init__(self, shared: FakeClock, ahead: float = 0.0) -> None:
        self._shared = shared
        self._ahead = ahead
        self._booted = shared.monotonic()

    def now(self) -> float:
        return self._shared.now() + self._ahead

    def monotonic(self) -> float:
        return self._shared.monotonic() - self._booted

    def sleep(self, seconds: float) -> None:
        self._shared.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> bool:
        return self._shared.wait(event, seconds)

    def repeating(self, seconds: float, work: Callable[[], None]) -> AbstractContextManager[None]:
        return self._shared.repeating(seconds, work)


class Died(BaseException):
    """A client's process was killed. From then on none of its requests arrives."""


class StoredWorld(ABC):
    """The storage and the time that several clients share. Each :meth:`repository` is another client, with empty caches."""

    clock: FakeClock
    tables: Tables
    main: OpenRepository

    @abstractmethod
    def objects(self, namespace: str = "") -> Objects:
        """The store of a namespace; that of the world's repository if none is named."""

    def lake(
        self, schedule: Schedule | None = None, *, cache: FileCache | None = None, clock: Clock | None = None
    ) -> Lake:
        if schedule is None:
            return Lake(self.tables, self.objects, clock=clock or self.clock, trees=TreeSettings(cache=cache))
        asked = schedule
        boundaries = Boundaries()
        return Lake(
            FaultyTables(self.tables, lambda method, number: asked(f"tables.{method}", number), boundaries),
            lambda namespace: FaultyObjects(
                self.objects(namespace), lambda method, number: asked(f"objects.{method}", number), boundaries
            ),
            clock=clock or self.clock,
            trees=TreeSettings(cache=cache),
        )

    def repository(
        self, schedule: Schedule | None = None, *, cache: FileCache | None = None, clock: Clock | None = None
    ) -> OpenRepository:
        """A client that opened the repository before ``schedule`` begins to count. ``clock`` is its own, if need be."""
        if schedule is None:
            return self.lake(cache=cache, clock=clock).repository(NAME)
        switch = Switch(schedule)
        opened = self.lake(switch, cache=cache, clock=clock).repository(NAME)
        switch.on = True
        return opened

    def counted(self) -> "Counted":
        tables = CountingTables(self.tables)
        objects = CountingObjects(self.objects())
        repository = Lake(tables, lambda _: objects, clock=self.clock).repository(NAME)
        tables.reset()
        return Counted(repository, tables, objects)

    def wait_for_leases(self) -> None:
        """Let every lease run out that nobody renews."""
        self.clock.time += 60.0

    def staged(self) -> StagedChanges:
        return StagedChanges(self.tables, self.main.repository.uid)

    def outcomes(self) -> Outcomes:
        return Outcomes(self.tables, self.main.repository.uid)

    def cleanup(self) -> CleanupQueue:
        return CleanupQueue(self.tables, self.main.repository.uid)


class World(StoredWorld):
    """A world in memory."""

    def __init__(self, split: SplitParameters = TINY, *, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.tables: Tables = MemoryTables()
        self.stores: dict[str, MemoryObjects] = {}
        self.split = split
        self.main = self.lake().create_repository(NAME, NAMESPACE, split=split)

    def objects(self, namespace: str = NAMESPACE) -> MemoryObjects:
        if namespace not in self.stores:
            self.stores[namespace] = MemoryObjects(namespace, self.clock.now)
        return self.stores[namespace]


class PlacedWorld(StoredWorld):
    """A world on other storage, which is empty before. Its time begins now: the times of files there are real ones."""

    def __init__(self, tables: Tables, store: Objects) -> None:
        self.clock = FakeClock(time())
        self.tables = tables
        self._store = store
        self.main = self.lake().create_repository(NAME, store.namespace, split=TINY)

    def objects(self, namespace: str = "") -> Objects:
        return self._store


class Counted:
    """A client whose requests are counted."""

    def __init__(self, repository: OpenRepository, tables: CountingTables, objects: CountingObjects) -> None:
        self.repository, self.tables, self.objects = repository, tables, objects

    def reset(self) -> None:
        self.tables.reset()
        self.objects.reset()

    def ranges_read(self) -> int:
        return sum(method == "get" and "/ranges/" in key for method, key in self.objects.keys)

    def ranges_written(self) -> int:
        return sum(method == "put" and "/ranges/" in key for method, key in self.objects.keys)

    def metaranges_read(self) -> int:
        return sum(method in ("get", "get_range") and "/metaranges/" in key for method, key in self.objects.keys)

    def metaranges_written(self) -> int:
        return sum(method == "put" and "/metaranges/" in key for method, key in self.objects.keys)


class Switch:
    """Lets a schedule see requests only while it is on."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._first: int | None = None
        self.on = False

    def __call__(self, request: str, number: int) -> Fault:
        if not self.on:
            return None
        if self._first is None:
            self._first = number
        return self._schedule(request, number - self._first)


class Before:
    """Just before a client's ``number``-th request of a kind (from 1), run ``act`` once; then ``fault`` happens to it."""

    def __init__(
        self, request: str, number: int = 1, act: Callable[[], object] | None = None, fault: Fault = None
    ) -> None:
        self._request, self._number, self._act, self._fault = request, number, act, fault
        self._seen: Counter[str] = Counter()
        self.reached = False

    def __call__(self, request: str, number: int) -> Fault:
        self._seen[request] += 1
        if request != self._request or self._seen[request] != self._number:
            return None
        self.reached = True
        if self._act is not None:
            self._act()
        return self._fault


class DieAt:
    """Kills the client just before its ``number``-th request of a kind, or (``after``) when it was answered."""

    def __init__(self, request: str, number: int = 1, *, after: bool = False) -> None:
        self._request, self._number, self._after = request, number, after
        self._seen: Counter[str] = Counter()
        self.dead = False

    def __call__(self, request: str, number: int) -> Fault:
        if self.dead:
            raise Died
        self._seen[request] += 1
        if request == self._request and self._seen[request] == self._number:
            self.dead = True
            if not self._after:
                raise Died
            return "fail_after"
        return None


def died(action: Callable[[], object]) -> bool:
    """Run what a process does that is killed meanwhile; False if it came to its end alive."""
    try:
        action()
    except (Died, GravelerError):
        return True
    return False


def put(repository: OpenRepository, files: Mapping[str, str | None], branch: str = "main") -> None:
    """Upload each text to its path; None deletes."""
    for path, text in files.items():
        if text is None:
            repository.delete(branch, [path])
        else:
            repository.upload(branch, path, text.encode())


def commit(
    repository: OpenRepository, files: Mapping[str, str | None], branch: str = "main", message: str = "m"
) -> str:
    put(repository, files, branch)
    return repository.commit(branch, message).id


def small_pieces(monkeypatch: pytest.MonkeyPatch, batch: int = 3, alone: int = 0) -> None:
    """Folders are listed ``batch`` files at a time, and other processes help from ``alone`` batches on."""
    monkeypatch.setattr(folder_listing, "_BATCH", batch)
    monkeypatch.setattr(folder_listing, "_ALONE", alone)


def stager(repository: OpenRepository) -> Stager:
    """What stages its changes, to be interrupted between two steps."""
    return repository.parts.stager


def texts(repository: OpenRepository, ref: str = "main", prefix: str = "") -> dict[str, str]:
    """All objects of a ref and what they hold."""
    return {e.path: repository.read(ref, e.path).decode() for e in entries(repository, ref, prefix)}


def entries(repository: OpenRepository, ref: str = "main", prefix: str = "") -> list[ObjectEntry]:
    return list(repository.objects(ref, prefix))


def paths(repository: OpenRepository, ref: str = "main", prefix: str = "") -> list[str]:
    return [entry.path for entry in repository.objects(ref, prefix)]


def shown(results: tuple[ObjectEntry | CommonPrefix, ...]) -> list[str]:
    return [item.path for item in results]


def messages(repository: OpenRepository, ref: str = "main") -> list[str]:
    """Messages of the commits along first parents, newest first."""
    return [c.message for c in repository.log(ref, amount=1000, first_parent=True).results]


def changes(repository: OpenRepository, branch: str = "main") -> dict[str, str]:
    """What is not committed on a branch: path → kind of change."""
    return {c.path: c.type.value for c in repository.uncommitted(branch, amount=1000).results}


def without_rights(action: Callable[[], None]) -> None:
    """Run ``action`` as a user who is not root; in a child, if this process is."""
    if os.geteuid() != 0:
        action()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads: the child starts none of theirs
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent only sees the code
            traceback.print_exc()
        end_process(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "see the child's error above"


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


PUBLISH: Final = ("tables.transact", 2)
"""The second transaction of a commit; the first one seals."""


def diverged() -> World:
    """``side`` has ``s``, ``main`` has ``m``, both on a base with ``a``."""
    world = World()
    commit(world.main, {"a": "1"})
    world.main.create_branch("side", "main")
    commit(world.main, {"s": "1"}, "side", "side")
    commit(world.main, {"m": "1"}, message="main")
    return world
