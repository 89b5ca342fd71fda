"""Lakes to try verbs in: in memory, and on SQLite and folders; they are copied for each experiment."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from shutil import copytree
from time import time
from typing import Protocol

from graveler.lake.lake import Lake
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Tables
from graveler.storage.tables.sqlite import SqliteTables
from tests.lake.support import FakeClock
from tests.support.instruments import Boundaries, Fault, FaultyTables, faulty


class TickingClock(FakeClock):
    """No two rows of the reference log are of one moment."""

    def now(self) -> float:
        self.time += 0.001
        return self.time


class Scene(Protocol):
    """A lake's storage, its time, and a folder beside it for what verbs write outside."""

    clock: TickingClock
    tables: Tables
    outside: Path

    def objects(self, namespace: str) -> Objects: ...

    def copy(self, folder: Path) -> "Scene":
        """The same again, to be changed by itself."""
        ...

    def close(self) -> None: ...


class MemoryScene:
    """In memory: quick."""

    def __init__(self, outside: Path, clock: TickingClock | None = None) -> None:
        self.clock = clock or TickingClock()
        self.tables: Tables = MemoryTables()
        self.outside = outside
        self._stores: dict[str, MemoryObjects] = {}

    def objects(self, namespace: str) -> Objects:
        if namespace not in self._stores:
            self._stores[namespace] = MemoryObjects(namespace, lambda: self.clock.time)
        return self._stores[namespace]

    def copy(self, folder: Path) -> "MemoryScene":
        # By the adapters' insides: written anew through the port, objects would have other times and tags.
        other = MemoryScene(folder)
        other.clock.time = self.clock.time
        assert isinstance(self.tables, MemoryTables)
        assert isinstance(other.tables, MemoryTables)
        other.tables.partitions = {
            partition: (list(keys), dict(bodies)) for partition, (keys, bodies) in self.tables.partitions.items()
        }
        for namespace, store in self._stores.items():
            twin = other.objects(namespace)
            assert isinstance(twin, MemoryObjects)
            twin.objects, twin.keys = dict(store.objects), list(store.keys)
            twin.serial = count(1_000_000)
        return other

    def close(self) -> None:
        pass


class FolderScene:
    """On SQLite and folders."""

    def __init__(self, folder: Path) -> None:
        self.clock = TickingClock(time())  # files have the machine's time
        self.folder = folder
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True, exist_ok=True)
        self._tables = SqliteTables(folder / "tables.sqlite")
        self.tables: Tables = self._tables

    def objects(self, namespace: str) -> Objects:
        return FolderObjects(self.folder / "objects" / namespace.removeprefix("mem://"), namespace)

    def copy(self, folder: Path) -> "FolderScene":
        self._tables.close()
        # (The copy may lie in what is copied.)
        copytree(
            self.folder,
            folder,
            dirs_exist_ok=True,
            ignore=lambda inside, names: [name for name in names if Path(inside, name) == folder],
        )
        other = FolderScene(folder)
        other.clock.time = self.clock.time
        return other

    def close(self) -> None:
        self._tables.close()


def client(
    scene: Scene, schedule: Callable[[str, int], Fault] = lambda *_: None, seen: Boundaries | None = None
) -> Lake:
    """A process that has just begun."""
    seen = seen or Boundaries()
    return Lake(
        FaultyTables(scene.tables, schedule, seen),
        lambda namespace: faulty(scene.objects(namespace), schedule, seen),
        clock=scene.clock,
    )
