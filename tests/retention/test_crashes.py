"""The collector dies before or after each of its requests, and is run again: the result is as if nothing had happened.

Every third request, in turns before and after; with ``GRAVELER_FAULTS=1`` each of them, both ways.
"""

import os

import pytest

from graveler.errors import GravelerError
from graveler.model import RetentionRules
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.rules import DAY
from graveler.retention.runs import LEASE, Mode
from tests.lake.support import Died, World
from tests.retention.support import AGE, check_live, collect, keys, write
from tests.support.instruments import Fault

EACH = bool(os.environ.get("GRAVELER_FAULTS"))


def story(mode: Mode) -> World:
    """A lake in which there is something of every kind to do: to mark, to take back, to forget, to remove."""
    world = World()
    repository = world.main
    write(repository, "main", a="old", b="stays")
    repository.delete("main", ["a"])
    write(repository, "main", c="new")
    for name in ("gone", "going"):
        repository.create_branch(name, "main")
        write(repository, name, **{name: name})
    repository.set_retention(RetentionRules(1))
    repository.delete_branch("gone")
    world.clock.time += 2 * DAY
    collect(world, mode)
    repository.delete_branch("going")
    repository.upload("main", "dropped", b"dropped")
    repository.reset("main")
    repository.upload("main", "staged", b"staged")
    world.clock.time += AGE
    return world


def end(world: World) -> tuple[object, ...]:
    """What is left after enough further runs, and what of commits the table says."""
    world.clock.time += LEASE + 1
    collect(world)
    world.clock.time += AGE
    collect(world)
    live = check_live(world)
    left = {key for key in keys(world, "") if not key.startswith(("_graveler/gc/", "data/", "_graveler/quarantine/"))}
    commits = sorted(commit.message for commit in world.repository().log("main").results)
    shape = sorted(key.split("/")[1] for key in left)
    return live, shape, len(keys(world, "data/")), commits


@pytest.mark.parametrize("mode", [Mode.DELETE, Mode.QUARANTINE])
def test_a_crash_at_any_request(mode: Mode) -> None:
    wanted: tuple[object, ...] | None = None
    number, after = 0, False
    while True:
        world = story(mode)

        def at_number(_: str, at: int, number: int = number, after: bool = after) -> Fault:
            if at > number or (at == number and not after):
                raise Died
            return "fail_after" if at == number else None

        schedule = None if wanted is None else at_number
        garbage = Garbage(world.repository(schedule), Options(mode, threads=1))
        try:
            garbage.run()
        except (Died, GravelerError):
            pass
        else:
            if wanted is not None and not after:
                break  # it ended before that request
        found = end(world)
        wanted = wanted or found
        assert found == wanted, (number, after)
        if schedule is not None:
            number += int(after) if EACH else 3
            after = not after
    assert number > 40
