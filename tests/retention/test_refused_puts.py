"""A refused put hides a record until it is taken back: the collector must not take the record's object meanwhile (promise C1)."""

from collections.abc import Callable

import pytest

from graveler.errors import AnswerLostError, ForbiddenError
from graveler.lake.repository import OpenRepository
from graveler.retention.runs import Claim, Mode
from tests.lake.support import Before, Switch, World
from tests.retention.support import AGE, collect


def scene(act: Callable[[World], object]) -> tuple[World, OpenRepository]:
    """An old uncommitted object, and a writer that remembers the token; between its put and its look, ``act`` happens."""
    world = World()
    world.main.upload("main", "a", b"old")
    world.clock.time += AGE
    switch = Switch(Before("tables.get_many", act=lambda: act(world)))
    writer = world.lake(switch).repository("repo")
    writer.upload("main", "b", b"so that the token is known")
    world.repository().set_read_only(True)
    switch.on = True
    return world, writer


def test_what_a_put_hid_from_a_collection_is_not_told_to_be_there() -> None:
    _, writer = scene(collect)
    with pytest.raises(AnswerLostError):
        writer.upload("main", "a", b"new")
    assert writer.read("main", "a") == b"new"


def test_a_put_is_not_taken_back_while_a_collector_is_at_work() -> None:
    """It may have read all traces before this one."""
    claims: list[Claim] = []

    def claim(world: World) -> None:
        lake = world.lake()
        claims.append(Claim(world.tables, world.main.repository.uid, world.clock, lake.repository("repo").leases))

    world, writer = scene(claim)
    with pytest.raises(AnswerLostError):
        writer.upload("main", "a", b"new")
    claims[0].release()
    collect(world)
    assert writer.read("main", "a") == b"new"


@pytest.mark.parametrize("mode", [Mode.DELETE, Mode.QUARANTINE])
def test_an_old_object_comes_back_with_its_record(mode: Mode) -> None:
    world, writer = scene(lambda _: None)
    with pytest.raises(ForbiddenError):
        writer.upload("main", "a", b"new")
    collect(world, mode)
    assert world.repository().read("main", "a") == b"old"
