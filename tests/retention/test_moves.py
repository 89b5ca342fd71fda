"""What moves while a mark reads: at each of its requests, in turn. Without traces an object is lost; with them none is."""

from collections.abc import Callable

import pytest

from graveler.errors import BytesGoneError, ObjectNotFoundError
from graveler.lake.traces import Traces
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import Mode
from tests.lake.support import World
from tests.retention.support import AGE, contents
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


def test_traces_are_needed_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Traces, "read", lambda _: iter(()))
    assert lost_at(move_back)
