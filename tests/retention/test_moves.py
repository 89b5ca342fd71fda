"""Records that move while a mark reads, or disappear while a dump does, at each of its requests in turn. Without traces an
object is lost; with them none is."""

from collections.abc import Callable, Iterator

import pytest

from graveler.errors import BusyError, BytesGoneError, ObjectNotFoundError
from graveler.lake.clock import GRACE
from graveler.lake.dump.chunks import dumps
from graveler.lake.dump.restore import restore
from graveler.lake.lake import Lake
from graveler.lake.objects.traces import Traces
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode
from graveler.storage.tables.memory import MemoryTables
from tests.lake.support import NAME, World
from tests.retention.support import AGE, collect, contents
from tests.support.instruments import Fault

BRANCHES = ("aa", "mm", "zz")


def move_back(world: World) -> None:
    """Against the order in which a mark reads."""
    repository = world.repository()
    repository.copy("aa", "x", "x", source_ref="zz")
    repository.delete("zz", ["x"])


def move_in_branch(world: World) -> None:
    world.repository().move("zz", "x", "a")


def rename(world: World) -> None:
    world.repository().rename_branch("zz", "ab")


def lost_at(move: Callable[[World], None]) -> list[int]:
    """At which requests of the collector a move makes it take what is needed."""
    lost: list[int] = []
    for number in range(1000):
        world = World()
        for name in BRANCHES:
            world.main.create_branch(name, "main")
        world.main.upload("zz", "x", b"old and uncommitted")
        world.clock.time += AGE
        moved: list[int] = []

        def at_number(_: str, at: int, number: int = number, world: World = world, moved: list[int] = moved) -> Fault:
            if at == number:
                moved.append(at)
                move(world)
            return None

        Garbage(world.repository(at_number), Options(Mode.DELETE, threads=1)).run()
        if not moved:
            return lost
        fresh = world.repository()
        try:
            found = [contents(fresh, branch.name) for branch in fresh.branches().results]
            assert [texts for texts in found if texts] in (
                [{"x": "old and uncommitted"}],
                [{"a": "old and uncommitted"}],
            )
        except (BytesGoneError, ObjectNotFoundError):
            lost.append(number)
    raise AssertionError("the collector does not come to an end")


@pytest.mark.parametrize("move", [move_back, move_in_branch, rename])
def test_what_moves_while_the_mark_reads_is_not_lost(move: Callable[[World], None]) -> None:
    assert lost_at(move) == []


@pytest.fixture
def no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector sees nothing of what others have noted."""
    monkeypatch.setattr(Traces, "read", lambda _: iter(()))


@pytest.mark.usefixtures("no_traces")
def test_traces_are_needed_for_that() -> None:
    assert lost_at(move_back)


# A dump


def drop(world: World) -> None:
    world.repository().reset("zz", path="x")


def overwrite(world: World) -> None:
    world.repository().upload("zz", "x", b"new")


def delete_branch(world: World) -> None:
    world.repository().delete_branch("zz")


def lost_from_dumps(change: Callable[[World], None]) -> Iterator[int]:
    """At which requests of a dump a change, and a collection behind it, take what the dump holds."""
    for number in range(14, 1000):  # the first ones list branches
        world = World()
        world.main.create_branch("zz", "main")
        world.main.upload("zz", "x", b"old and uncommitted")
        world.clock.time += AGE
        changed: list[int] = []

        def at_number(_: str, at: int, number: int = number, world: World = world, done: list[int] = changed) -> Fault:
            if at == number:
                done.append(at)
                change(world)
                collect(world)
            return None

        made = world.repository(at_number).dump()
        if not changed:
            return
        tables = MemoryTables()
        restore(tables, world.objects(), made.id, NAME, world.clock.now(), by="ann")
        restored = Lake(tables, world.objects, clock=world.clock).repository(NAME)
        try:
            for branch in restored.branches().results:
                assert contents(restored, branch.name) in ({}, {"x": "old and uncommitted"}, {"x": "new"})
        except BytesGoneError:
            yield number
    raise AssertionError("the dump does not come to an end")


@pytest.mark.parametrize("change", [drop, overwrite, delete_branch])
def test_what_goes_while_a_dump_reads_is_not_lost_from_it(change: Callable[[World], None]) -> None:
    assert list(lost_from_dumps(change)) == []


@pytest.mark.usefixtures("no_traces")
def test_notes_are_needed_for_that() -> None:
    assert any(lost_from_dumps(overwrite))


def test_a_dump_that_takes_longer_than_half_the_grace_is_none() -> None:
    world = World()

    def slowly(_: str, at: int) -> Fault:
        if at == 5:
            world.clock.time += GRACE / 2
        return None

    with pytest.raises(BusyError, match="dumping repository 'repo' took"):
        world.repository(slowly).dump()
    assert dumps(world.objects()) == []
    world.repository().dump()
    assert len(dumps(world.objects())) == 1
