"""A commit that a later version of graveler made: nothing is known of what it needs, so nothing is collected."""

from collections.abc import Callable

import pytest

from graveler.errors import CorruptError, GravelerError, LaterVersionError
from graveler.model import CommitID, RetentionRules
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.runs import LEASE, Mode
from tests.lake.support import Died, World
from tests.lake.test_later_versions import DAMAGE, LATER, Change, make_later, next_version
from tests.retention.support import AGE, collect, keys, write
from tests.support.instruments import Fault


def with_garbage() -> World:
    """Objects and commits that nobody needs any more, and the reason to remove them."""
    world = World()
    for text in ("one", "two", "three"):
        write(world.main, "main", a=text)
    world.main.create_branch("gone", "main")
    write(world.main, "gone", b="gone")
    world.main.delete_branch("gone")
    world.main.upload("main", "dropped", b"dropped")
    world.main.reset("main")
    world.main.set_retention(RetentionRules(1))
    world.clock.time += AGE
    return world


def ways(world: World) -> list[Callable[[], object]]:
    """All that reads the commits to say what is needed, as fresh processes."""
    return [
        lambda: Garbage(world.repository(), Options(Mode.DRY_RUN, threads=1)).plan(),
        lambda: collect(world),
        lambda: collect(world, Mode.QUARANTINE),
        lambda: Garbage(world.repository(), Options(threads=1)).space(),
        lambda: Garbage(world.repository(), Options(threads=1)).preview(RetentionRules(2)),
    ]


def is_kept(world: World) -> tuple[set[str], list[object]]:
    """All files but the collector's own; the items of all commits."""
    uid = world.main.repository.uid
    items: list[object] = [world.tables.query(f"{uid}/commit/{digit:x}", limit=99).items for digit in range(16)]
    return {key for key in keys(world, "") if not key.startswith("_graveler/gc/")}, items


@pytest.mark.parametrize("changed", [*LATER, *DAMAGE])
@pytest.mark.parametrize("where", ["head", "older", "unreached"])
def test_nothing_is_collected(changed: Change, where: str) -> None:
    world = with_garbage()
    if where == "unreached":
        write(world.main, "main", c="undone")
    commit: CommitID = world.main.log("main").results[1 if where == "older" else 0].id
    if where == "unreached":
        world.main.undo("main")
    make_later(world, commit, changed)
    before = is_kept(world)
    for way in ways(world):
        with pytest.raises(LaterVersionError if changed in LATER else CorruptError, match=commit):
            way()
        assert is_kept(world) == before


def test_a_run_that_died_is_not_finished_once_there_is_one() -> None:
    """The plan of such a run is older than the commit, and it does not know what that needs."""
    world = with_garbage()

    def at_its_first_deletion(request: str, _: int) -> Fault:
        if request == "objects.delete_many":
            raise Died
        return None

    with pytest.raises(Died):
        Garbage(world.repository(at_its_first_deletion), Options(Mode.DELETE, threads=1)).run()
    head = write(world.main, "main", c="later")
    make_later(world, head, next_version)
    world.clock.time += LEASE + 1
    before = is_kept(world)
    with pytest.raises(GravelerError, match=rf"{head} was made by a later version of graveler"):
        collect(world)
    assert is_kept(world) == before
