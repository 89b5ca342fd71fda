"""Fixtures ``objects`` and ``tables``: an empty one of every adapter."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Tables
from tests.storage.adapters import OBJECTS, TABLES


def _marked(adapters: Mapping[str, object]) -> list[object]:
    """All of them. Those on moto, beside a server of the same protocol, are left to `make test-all`."""
    return [pytest.param(name, marks=pytest.mark.ci) if name == "moto" else name for name in sorted(adapters)]


@pytest.fixture(params=_marked(OBJECTS))
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    with OBJECTS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture(params=_marked(TABLES))
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    with TABLES[request.param](tmp_path) as opened:
        yield opened
