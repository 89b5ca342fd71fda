"""A lake in memory for each test, and a repository in it."""

from collections.abc import Callable

import pytest

from graveler.lake.lake import Lake as LakeVerbs
from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from graveler.storage.memory_objects import MemoryObjects
from graveler.storage.memory_tables import MemoryTables
from tests.support.instruments import CountingObjects, CountingTables

OpenLake = Callable[[], "CountedLake"]


class CountedLake(Lake):
    """A lake in memory that counts its requests."""

    def __init__(self) -> None:
        self.tables = CountingTables(MemoryTables())
        self.stores: dict[str, CountingObjects] = {}
        super().__init__(LakeVerbs(self.tables, self.objects), "ada")

    def objects(self, namespace: str) -> CountingObjects:
        if namespace not in self.stores:
            self.stores[namespace] = CountingObjects(MemoryObjects(namespace))
        return self.stores[namespace]

    @property
    def requests(self) -> int:
        """All requests so far."""
        return self.tables.requests + sum(store.requests for store in self.stores.values())


@pytest.fixture
def lake() -> CountedLake:
    return CountedLake()


@pytest.fixture
def repo(lake: CountedLake) -> Repository:
    return lake.repository("demo").create("mem://demo")
