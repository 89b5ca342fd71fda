"""A writer gives a commit another date: it does not age the commits below it, and impossible dates are refused."""

from collections.abc import Callable

import pytest

from graveler.errors import ExpiredCommitError, InvalidError
from graveler.history.commits import MAX_AHEAD, CommitStore
from graveler.lake.dump.dump import dump
from graveler.lake.dump.restore import restore
from graveler.model import RetentionRules
from graveler.retention.rules import DAY
from graveler.storage.tables.memory import MemoryTables
from tests.lake.support import NAME, World
from tests.retention.support import AGE, collect, contents, write

DAYS = 30


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("verb", ["commit", "merge", "cherry-pick", "revert"])
def test_a_commit_dated_long_ago_does_not_age_what_it_replaces(world: World, verb: str) -> None:
    main = world.main
    write(main, "main", kept="what the rules keep")
    main.create_branch("side", "main")
    main.delete("side", ["kept"])
    main.commit("side", "not wanted any more")
    main.set_retention(RetentionRules(DAYS))
    before = main.commit_of("main").id
    if verb == "commit":
        main.delete("main", ["kept"])
        main.commit("main", "away with it", created=1)
    elif verb == "merge":
        main.merge("side", "main", created=1)
    elif verb == "cherry-pick":
        main.cherry_pick("main", "side", created=1)
    else:
        main.revert("main", "main", created=1)
    main.delete_branch("side")
    assert main.commit_of("main").created == 1
    for _ in range(3):  # what the reference log keeps is over
        world.clock.time += AGE
        collect(world)
    assert contents(main, before) == {"kept": "what the rules keep"}
    world.clock.time += DAYS * DAY
    for _ in range(3):
        world.clock.time += AGE
        collect(world)
    with pytest.raises(ExpiredCommitError):
        main.read(before, "kept")


@pytest.mark.parametrize("date", [-1, MAX_AHEAD + 1])
def test_a_date_that_nobody_can_mean_is_refused(world: World, date: int) -> None:
    """.. before anything is sealed."""
    main = world.main
    write(main, "main", old="old")
    main.upload("main", "new", b"new")
    when = date if date < 0 else int(world.clock.now()) + date
    makes: list[Callable[[], object]] = [
        lambda: main.commit("main", "m", created=when),
        lambda: main.merge("main~1", "main", created=when),
        lambda: main.revert("main", "main", created=when),
        lambda: main.rewrite("main", main.repository.split, created=when),
    ]
    for make in makes:
        with pytest.raises(InvalidError, match=f"date {when} is out of range"):
            make()
    assert [change.path for change in main.uncommitted("main").results] == ["new"]


@pytest.mark.parametrize("how", ["restored", "repaired"])
def test_what_is_restored_or_repaired_does_not_age_either(world: World, how: str) -> None:
    """When a commit was published is in its item alone: of one that is made again from its record, the record's time says it."""
    main = world.main
    main.set_retention(RetentionRules(DAYS))
    before = write(main, "main", kept="what the rules keep")
    main.delete("main", ["kept"])
    after = main.commit("main", "away with it", created=1).id
    key = CommitStore(world.tables, main.repository.uid).key(after)
    published = (world.tables.get(key) or {})["published"]
    if how == "restored":
        manifest = dump(main.repository, world.tables, world.objects(), world.clock)
        world.tables = MemoryTables()
        world.clock.time += DAY
        restore(world.tables, world.objects(), manifest.id, NAME, world.clock.now())
    else:
        world.tables.delete(key)
        world.clock.time += DAY
        world.repository().fsck(repair=True)
    assert (world.tables.get(key) or {}).get("published") == published
    again = world.repository()
    for _ in range(3):
        world.clock.time += AGE
        collect(world)
    assert contents(again, before) == {"kept": "what the rules keep"}
