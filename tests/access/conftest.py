"""An :class:`Access` over a counted table, with a clock that stands still."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.storage.memory_tables import MemoryTables
from graveler.storage.sqlite_tables import SqliteTables
from graveler.storage.tables import Tables
from tests.access.support import HandClock
from tests.support.instruments import CountingTables
from tests.support.keyrings import keyring


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["memory", "sqlite"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CountingTables]:
    if request.param == "memory":
        yield CountingTables(MemoryTables())
        return
    with SqliteTables(tmp_path / "tables.sqlite") as opened:
        yield CountingTables(opened)


@pytest.fixture
def access(tables: Tables, clock: HandClock) -> Access:
    return Access(tables, keyring(tables), clock)
