"""The uncommitted changes of a branch are spread over as many partitions as the lake says."""

from collections.abc import Callable, Sequence

import pytest

from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.staging.tokens import shard_count
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Delete, Put, Query, QueryPage
from tests.lake.support import NAME, NAMESPACE, FakeClock

PATHS = [f"a/{number:03}" for number in range(200)]


class Partitions(MemoryTables):
    """Notes which partitions changes are staged in, and how many queries go out at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.staged: set[str] = set()
        self.together: list[int] = []

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        self.staged |= {
            write.key.partition for write in writes if isinstance(write, Put) and "/staged/" in write.key.partition
        }
        super().write_many(writes)

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        self.together.append(len(queries))
        return super().query_many(queries)


def lake(tables: MemoryTables, shards: int, stores: dict[str, MemoryObjects] | None = None) -> Lake:
    stores = {} if stores is None else stores
    opened = stores.setdefault(NAMESPACE, MemoryObjects(NAMESPACE))
    return Lake(tables, lambda _: opened, clock=FakeClock(), staging_shards=shards)


def shards_of(repository: OpenRepository, branch: str = "main") -> int:
    return shard_count(repository.parts.branches.state(branch).open)


def _reset(repository: OpenRepository) -> str:
    repository.upload("side", "x", b"1")
    repository.reset("side")
    return "side"


CHANGES: dict[str, Callable[[OpenRepository], str]] = {
    "create": lambda r: r.create_branch("other", "main").name,
    "rename": lambda r: (r.rename_branch("side", "other"), "other")[1],
    "commit": lambda r: (r.upload("side", "x", b"1"), r.commit("side", "m"), "side")[2],
    "reset": _reset,
    "protection": lambda r: (r.set_protection(("side",)), "side")[1],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_token_has_as_many_shards_as_the_lake_says(change: Callable[[OpenRepository], str]) -> None:
    repository = lake(MemoryTables(), 8).create_repository(NAME, NAMESPACE)
    repository.create_branch("side", "main")
    assert shards_of(repository) == shards_of(repository, "side") == 8
    assert shards_of(repository, change(repository)) == 8


def test_changes_are_in_all_partitions_and_read_from_them_at_the_same_time() -> None:
    tables = Partitions()
    repository = lake(tables, 8).create_repository(NAME, NAMESPACE)
    repository.delete("main", PATHS)
    assert len(tables.staged) == 8
    tables.together.clear()
    assert not repository.uncommitted("main").results
    assert tables.together == [8], "one wait, not eight"
    tables.together.clear()
    assert repository.has_staged("main")
    assert tables.together == [8]


def test_programs_that_are_told_different_numbers_work_on_one_branch() -> None:
    tables, stores = MemoryTables(), dict[str, MemoryObjects]()
    before = lake(tables, 1, stores).create_repository(NAME, NAMESPACE)
    assert shards_of(before) == 1
    after = lake(tables, 8, stores).repository(NAME)
    expected: dict[str, bytes] = {}
    numbers = []
    for round_, one in enumerate((after, before, after, before)):
        for number in range(round_ * 10, round_ * 10 + 20):
            expected[f"{number:03}"] = bytes([round_])
            one.upload("main", f"{number:03}", bytes([round_]))
        one.commit("main", str(round_))
        numbers.append(shards_of(one))
    assert numbers == [8, 8, 8, 8], "more, and never fewer again"
    assert {entry.path: before.read("main@", entry.path) for entry in before.objects("main@")} == expected
