"""A stat is one read of the table, and its answer was true at some moment of the call, whoever changed the object before."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from graveler.errors import GravelerError, NoChangesError, ObjectNotFoundError, RepositoryNotFoundError
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import MetarangeName, ObjectEntry
from graveler.storage.tables.port import Item, Key, Tables
from graveler.tree.tree import Trees
from tests.lake.support import NAME, World
from tests.support.instruments import CountingTables

PATHS = ("a", "b", "c")


def entry(path: str, version: int = 1) -> ObjectEntry:
    return ObjectEntry(path, f"mem://o/{version}/{path}", version, "00" * 16, 0)


def said(look: Callable[[], ObjectEntry]) -> object:
    """An object, or why there is none."""
    try:
        return look()
    except GravelerError as error:
        return type(error)


def change(repository: OpenRepository, random: Random, version: int) -> None:
    """Something that changes what a branch or a tag shows."""
    branch, path = random.choice(("main", "side")), random.choice(PATHS)
    with suppress(GravelerError):
        match random.randrange(9):
            case 0 | 1 | 2:
                repository.link(branch, entry(path, version))
            case 3:
                repository.delete(branch, [path])
            case 4 | 5:
                repository.commit(branch, f"commit {version}")
            case 6:
                repository.reset(branch)
            case 7:
                repository.delete_branch("side")
            case _:
                repository.create_branch("side", "main")
                repository.create_tag(f"t{version % 3}", "main@")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_client_that_looked_before_sees_what_one_sees_that_never_did(seed: int) -> None:
    world, random = World(), Random(seed)
    known, other = world.lake(), world.lake().repository(NAME)
    for version in range(100):
        change(other, random, version)
        for ref in ("main", "side", "t1", "main@", "main~"):
            path = random.choice(PATHS)
            fresh = said(lambda ref=ref, path=path: world.repository().stat(ref, path))  # type: ignore[misc]
            for _ in range(2):
                assert said(lambda ref=ref, path=path: known.stat(NAME, ref, path)[1]) == fresh  # type: ignore[misc]
            assert said(lambda ref=ref, path=path: known.repository(NAME).stat(ref, path)) == fresh  # type: ignore[misc]


def test_the_tree_of_the_last_stat_is_at_hand_for_the_next() -> None:
    world = World()
    for path in PATHS:
        world.main.link("main", entry(path))
    world.main.commit("main", "first")
    reader = world.repository()
    looked_for: list[str] = []

    class CountedTrees(Trees):
        def get(self, name: MetarangeName, key: bytes) -> bytes | None:
            looked_for.append(name)
            return super().get(name, key)

    store = reader.tree("main").store
    reader = type(reader)(replace(reader.parts, trees=CountedTrees(store)))
    for path in PATHS:
        assert reader.stat("main@", path) == entry(path)
    assert len(looked_for) == 1


def test_a_repository_that_was_deleted_or_made_again_is_no_more_or_another_one() -> None:
    world = World()
    world.main.link("main", entry("a"))
    known, other = world.lake(), world.lake()
    for _ in range(3):
        assert known.stat(NAME, "main", "a")[1] == entry("a")
    other.delete_repository(NAME)
    with pytest.raises(RepositoryNotFoundError):
        known.stat(NAME, "main", "a")
    again = other.create_repository(NAME, "mem://again")
    with pytest.raises(ObjectNotFoundError):
        known.stat(NAME, "main", "a")
    again.link("main", entry("a", 2))
    found, there = known.stat(NAME, "main", "a")
    assert (found.repository.uid, there) == (again.repository.uid, entry("a", 2))


class OneByOne(CountingTables):
    """Reads what is asked for together one by one, the last first, as DynamoDB may; ``between`` is called after each."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.between: Callable[[], None] = lambda: None

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        found = []
        for key in reversed(keys):
            found.append(super().get_many([key])[0])
            self.between()
        return found[::-1]


@pytest.mark.parametrize("after", range(1, 6))
def test_what_is_committed_while_a_look_reads_one_item_after_another_is_seen(after: int) -> None:
    world = World()
    world.main.link("main", entry("a"))
    tables = OneByOne(world.tables)
    lake = Lake(tables, world.objects, clock=world.clock)
    lake.stat(NAME, "main", "a")
    world.main.commit("main", "one")
    world.main.link("main", entry("a", 2))
    read = 0

    def between() -> None:
        nonlocal read
        read += 1
        if read == after:
            world.main.commit("main", "two")
        if read == after + 1:
            world.main.link("main", entry("a", 3))

    tables.between = between
    assert lake.stat(NAME, "main", "a")[1] in (entry("a", 2), entry("a", 3))
    tables.between = lambda: None
    with suppress(NoChangesError):
        world.main.commit("main", "three")
    world.main.link("main", entry("a", 4))
    assert lake.stat(NAME, "main", "a")[1] == entry("a", 4)


def test_looks_at_a_branch_that_rests_are_one_read_each_and_one_more_after_a_commit() -> None:
    world = World()
    world.main.link("main", entry("a"))
    tables = CountingTables(world.tables)
    lake = Lake(tables, world.objects, clock=world.clock)

    def reads() -> int:
        tables.reset()
        assert lake.stat(NAME, "main", "a")[1].path == "a"
        calls: Any = tables.calls
        return int(calls["get"] + calls["get_many"])

    assert reads() == 3  # repository, branch, and what is staged
    assert [reads(), reads()] == [1, 1]
    world.main.link("main", entry("b"))
    assert reads() == 1
    world.main.commit("main", "one")
    assert reads() == 3  # the branch with other tokens, what is staged under these, and the commit
    assert [reads(), reads()] == [1, 1]


def test_a_look_in_a_folder_sees_what_other_connections_wrote(tmp_path: Any) -> None:
    random = Random(1)
    with create_folder_lake(tmp_path / "lake") as lake, open_folder_lake(tmp_path / "lake") as other:
        lake.create_repository(NAME, f"local://{NAME}")
        theirs = other.repository(NAME)
        for version in range(1, 40):
            theirs.link("main", entry("a", version))
            if random.random() < 0.3:
                theirs.commit("main", f"commit {version}")
            assert lake.stat(NAME, "main", "a")[1] == entry("a", version)
