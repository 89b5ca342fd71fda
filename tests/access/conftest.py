"""An :class:`Access` over a counted table, with a clock that stands still."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Tables
from graveler.storage.tables.sqlite import SqliteTables
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
