"""The adapters that the contracts run against. A new one is one entry in a table here."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from graveler.storage.folder_objects import FolderObjects
from graveler.storage.memory_objects import MemoryObjects
from graveler.storage.memory_tables import MemoryTables
from graveler.storage.objects import Objects
from graveler.storage.presigned import UrlSigner
from graveler.storage.sqlite_tables import SqliteTables
from graveler.storage.tables import Tables
from tests.support.instruments import CountingObjects, CountingTables, FaultyObjects, FaultyTables


@contextmanager
def _folder_objects(folder: Path) -> Iterator[Objects]:
    yield FolderObjects(folder / "objects", signer=UrlSigner("http://127.0.0.1:8000/objects", b"secret"))


@contextmanager
def _memory_objects(folder: Path) -> Iterator[Objects]:
    yield MemoryObjects()


@contextmanager
def _wrapped_objects(folder: Path) -> Iterator[Objects]:
    yield CountingObjects(FaultyObjects(MemoryObjects(), lambda *_: None))


@contextmanager
def _sqlite_tables(folder: Path) -> Iterator[Tables]:
    with SqliteTables(folder / "table.db") as tables:
        yield tables


@contextmanager
def _memory_tables(folder: Path) -> Iterator[Tables]:
    yield MemoryTables()


@contextmanager
def _wrapped_tables(folder: Path) -> Iterator[Tables]:
    yield CountingTables(FaultyTables(MemoryTables(), lambda *_: None))


OBJECTS: Mapping[str, Callable[[Path], AbstractContextManager[Objects]]] = {
    "folder": _folder_objects,
    "memory": _memory_objects,
    "wrapped": _wrapped_objects,
}
"""From a name to what opens an empty store, given an empty folder."""

TABLES: Mapping[str, Callable[[Path], AbstractContextManager[Tables]]] = {
    "sqlite": _sqlite_tables,
    "memory": _memory_tables,
    "wrapped": _wrapped_tables,
}
"""From a name to what opens an empty table, given an empty folder."""

WITHOUT_NESTED_KEYS = frozenset({"folder"})
"""Stores in which ``x`` and ``x/y`` cannot both be objects."""
