"""A repository for all tests of a module; each test has a prefix of its own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from tests.gateway.run.folders.support import Prefix


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenRepository]:
    with create_folder_lake(tmp_path_factory.mktemp("folders") / "lake") as lake:
        yield lake.create_repository("sales", "local://sales")


@pytest.fixture
def events(repository: OpenRepository, numbers: Iterator[int], tmp_path: Path) -> Prefix:
    """An empty prefix of branch main, and the folder for it."""
    return Prefix(repository, f"tables/events-{next(numbers)}/", tmp_path / "data")
