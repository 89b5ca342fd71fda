"""Nothing is published later than half the grace, less the skew, after the work for it began.

Each verb is interrupted before each of its requests in turn for longer than that, like a stopped process. The verb is refused
and nothing has changed, unless the interrupted request is the one that publishes, which cannot be held back any more.
"""

from collections.abc import Callable

import pytest

from graveler.errors import BusyError, InvalidError
from graveler.lake.clock import GRACE
from graveler.lake.deadline import SKEW
from graveler.lake.lake import Lake
from graveler.lake.objects.staged_with_writes import StagedWithWrites, stage_with_writes
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.storage.tables.memory import MemoryTables
from tests.lake.support import World
from tests.retention.support import write
from tests.support.instruments import Fault

TIME = GRACE / 2 - SKEW
"""Seconds that a verb has."""

Verb = Callable[[OpenRepository], object]


def linked(path: str) -> ObjectEntry:
    return ObjectEntry(path, "s3://elsewhere/object", 3, "0" * 32, 1)


VERBS: dict[str, Verb] = {
    "upload": lambda repository: repository.upload("main", "new", b"new"),
    "create": lambda repository: repository.upload("main", "new", b"new", if_absent=True),
    "link": lambda repository: repository.link("main", linked("new")),
    "link if absent": lambda repository: repository.link("main", linked("new"), if_absent=True),
    "link if match": lambda repository: repository.link("main", linked("a"), if_match="*"),
    "stage beside": lambda repository: stage_with_writes(
        repository.parts, "main", [], lambda _: StagedWithWrites([linked("new")])
    ),
    "copy": lambda repository: repository.copy("main", "a", "new"),
    "copy prefix": lambda repository: list(repository.copy_prefix("main", "a", "new")),
    "commit": lambda repository: repository.commit("side", "one"),
    "merge": lambda repository: repository.merge("theirs", "main"),
    "revert": lambda repository: repository.revert("main", "main"),
    "cherry-pick": lambda repository: repository.cherry_pick("main", "theirs"),
    "import": lambda repository: repository.import_addresses("main", [], message="none"),
    "commit metarange": lambda repository: repository.commit_metarange(
        "main", repository.commit_of("theirs").metarange, "theirs"
    ),
}

BEFORE = {"cherry-pick": 3, "commit metarange": 3}
"""Requests before the time begins: to find the commit and its parent, which have to be alive when it is published."""


def lake() -> World:
    world = World()
    write(world.main, "main", a="a")
    world.main.create_branch("theirs", "main")
    world.main.create_branch("side", "main")
    write(world.main, "theirs", b="b")
    write(world.main, "main", c="c")
    world.main.upload("side", "d", b"d")
    return world


def state(world: World) -> tuple[object, object]:
    """Messages of the commits, and what the branches hold."""
    fresh = world.repository()
    return (
        [[commit.message for commit in fresh.log(ref).results] for ref in ("main", "side")],
        [{entry.path: entry.checksum for entry in fresh.objects(ref)} for ref in ("main", "side")],
    )


def interrupted(world: World, verb: Verb, number: int, passes: Callable[[], None]) -> list[str]:
    """Do it, and let time pass before that request. The requests that it made."""
    made: list[str] = []

    def at(request: str, _: int) -> Fault:
        if len(made) == number:
            passes()
        made.append(request)
        return None

    # A sealed token's lease is renewed by a thread, in real time, which takes no part in this.
    verb(world.repository(at))
    return made


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_took_too_long_changes_nothing(name: str) -> None:
    verb = VERBS[name]
    world = lake()
    before = state(world)
    requests = interrupted(world, verb, -1, lambda: None)
    assert state(world) != before
    writes = ("tables.transact", "tables.put", "tables.write_many")
    publishes = max(number for number, request in enumerate(requests) if request in writes)
    for number in range(BEFORE.get(name, 0), publishes):
        world = lake()
        with pytest.raises(BusyError, match=r"took 42,90\d s\. After 42,900 s .* nothing was changed. Try again"):
            interrupted(world, verb, number, lambda world=world: pass_time(world))  # type: ignore[misc]
        assert state(world) == before
        verb(world.repository())  # it can be tried again


def pass_time(world: World, seconds: float = TIME + 1) -> None:
    world.clock.time += seconds


@pytest.mark.parametrize("jump", [0.0, -10 * GRACE, 1000 * GRACE])
def test_whoever_sets_the_clock_gives_nobody_more_time(jump: float) -> None:
    world = lake()

    def passes() -> None:
        world.clock.time += TIME + 1
        world.clock.jump(jump)

    with pytest.raises(BusyError, match="half the grace"):
        interrupted(world, VERBS["commit"], 1, passes)


def test_within_its_time_a_verb_is_not_disturbed() -> None:
    for name, verb in VERBS.items():
        world = lake()
        before = state(world)
        interrupted(world, verb, BEFORE.get(name, 0), lambda world=world: pass_time(world, TIME - 1))  # type: ignore[misc]
        assert state(world) != before, name


def test_a_skew_that_leaves_no_time_is_refused() -> None:
    world = World()
    late = Lake(world.tables, world.objects, clock=world.clock, grace=600.0)
    with pytest.raises(InvalidError, match="leaves no time"):
        late.repository("repo")
    with Lake(MemoryTables(), world.objects, clock=world.clock, grace=601.0) as short:
        short.create_repository("other", "mem://other")


def test_a_collector_allows_for_the_skew_of_the_writers() -> None:
    with pytest.raises(InvalidError, match="shorter than the lake's"):
        Garbage(World().repository(), Options(skew=SKEW - 1)).plan()
