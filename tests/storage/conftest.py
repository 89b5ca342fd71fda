"""Fixtures ``objects`` and ``tables``: an empty one of every adapter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.storage.objects import Objects
from graveler.storage.tables import Tables
from tests.storage.adapters import OBJECTS, TABLES


@pytest.fixture(params=sorted(OBJECTS))
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    with OBJECTS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture(params=sorted(TABLES))
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    with TABLES[request.param](tmp_path) as opened:
        yield opened
