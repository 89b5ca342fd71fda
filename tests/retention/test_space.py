"""Who holds the space, against brute force: for each holder by itself, the objects that it names, read from the trees."""

from itertools import chain
from random import Random

import pytest

from graveler.errors import BusyError, GravelerError, NoChangesError
from graveler.lake.repository import OpenRepository
from graveler.model import CommitID, RetentionRules
from graveler.retention.garbage import Garbage
from graveler.retention.rules import DAY
from graveler.retention.runs import Claim, Tally
from graveler.retention.space import HolderKind, Space
from tests.lake.support import World
from tests.retention.support import collect, keys, write


def survey(world: World) -> Space:
    return Garbage(world.repository()).space()


def addresses(repository: OpenRepository, ref: str) -> set[str]:
    inside = f"{repository.repository.namespace}/"
    return {entry.address.removeprefix(inside) for entry in repository.objects(ref)}


def branch_objects(repository: OpenRepository, name: str, now: float) -> tuple[set[str], set[str]]:
    """What the last commit and the staged changes name; and what older commits do that keep their objects by the rules."""
    rules = repository.retention()
    head = repository.commit_of(name)
    newest = addresses(repository, head.id) | addresses(repository, name)
    since = None if rules is None else now - rules.branches.get(name, rules.default_days) * DAY
    older: set[CommitID] = set()
    todo = [head]
    while todo:
        commit = todo.pop()
        if since is None or commit.created >= since:
            fresh = [parent for parent in commit.parents if parent not in older]
            older.update(fresh)
            todo += [repository.commit_of(parent) for parent in fresh]
    return newest, set(chain.from_iterable(addresses(repository, cid) for cid in older))


def check(world: World) -> None:
    """What the survey says is what each holder holds by itself."""
    found = survey(world)
    repository, now = world.repository(), world.clock.now()
    sizes = {stored.key: stored.size for stored in world.objects().list("data/")}

    def tally(names: set[str]) -> Tally:
        there = names & sizes.keys()
        return Tally(len(there), sum(sizes[name] for name in there))

    holders: dict[tuple[HolderKind, str], set[str]] = {}
    lasting: set[str] = set()
    histories: dict[str, set[str]] = {}
    for branch in repository.branches(show_hidden=True).results:
        newest, histories[branch.name] = branch_objects(repository, branch.name, now)
        lasting |= newest
        holders[HolderKind.BRANCH, branch.name] = newest | histories[branch.name]
    rules = repository.retention()
    for tag in repository.tags().results:
        of_tag = [commit.id for commit in repository.log(tag.name).results] if rules is None else [tag.commit_id]
        names = set(chain.from_iterable(addresses(repository, cid) for cid in of_tag))
        holders[HolderKind.TAG, tag.name] = names
        lasting |= names
    told = {(holding.kind, holding.name): holding for holding in found.holders}
    others = [holding for holding in found.holders if holding.kind not in (HolderKind.BRANCH, HolderKind.TAG)]
    assert not [holding for holding in others if holding.kind is not HolderKind.LOG]
    for holder, names in holders.items():
        assert told[holder].held == tally(names), holder
        elsewhere = set().union(*(other for key, other in holders.items() if key != holder))
        assert told[holder].exclusive == tally(names - elsewhere), holder
        history = histories.get(holder[1], set()) if holder[0] is HolderKind.BRANCH else set()
        assert told[holder].history == tally(history - lasting), holder
    everything = set().union(*holders.values())
    assert found.objects == tally(set(sizes))
    if not others:
        assert found.unheld == tally(set(sizes) - everything)


@pytest.mark.parametrize("seed", range(12))
def test_random_histories(seed: int) -> None:
    random, world = Random(seed), World()
    for number in range(60):
        world.clock.time += random.choice((1, 1000, DAY))
        repository = world.repository()
        one, other = (random.choice(("main", "one", "two")) for _ in range(2))
        path = f"{random.choice('abc')}"
        try:
            match random.randrange(12):
                case 0 | 1 | 2:
                    repository.upload(one, path, b"x" * random.randrange(1, 99))
                    repository.commit(one, f"{number}")
                case 3:
                    repository.upload(one, path, b"y" * random.randrange(1, 99))
                case 4:
                    repository.create_branch(one, other)
                case 5:
                    repository.merge(one, other)
                case 6:
                    repository.delete_branch(one)
                case 7:
                    repository.create_tag(f"t{number}", f"{one}~{random.randrange(3)}")
                case 8:
                    repository.copy(one, path, "copy", source_ref=other)
                case 9:
                    repository.set_retention(RetentionRules(random.randrange(1, 9), {one: random.randrange(1, 30)}))
                case 10:
                    repository.delete(one, [path])
                case 11:
                    repository.hard_reset(one, f"{other}~1")
        except (GravelerError, NoChangesError):
            continue
        if number % 20 == 0:
            check(world)
    check(world)
    world.clock.time += 2 * DAY  # the reference logs do not hold anything any more
    check(world)
    collect(world)
    check(world)


def test_what_deleting_a_branch_would_free_is_what_it_frees() -> None:
    world = World()
    write(world.main, "main", shared="shared")
    world.main.create_branch("side", "main")
    write(world.main, "side", a="a" * 10)
    write(world.main, "side", a="b" * 100)
    world.main.upload("side", "c", b"c" * 1000)
    world.clock.time += 3 * DAY
    (side,) = (holding for holding in survey(world).holders if holding.name == "side")
    assert (side.held, side.exclusive, side.history) == (Tally(4, 1116), Tally(3, 1110), Tally(1, 10))
    before = keys(world, "data/")
    world.main.delete_branch("side")
    for _ in range(3):
        world.clock.time += 3 * DAY
        collect(world)
    assert len(before) - len(keys(world, "data/")) == side.exclusive.files


def test_our_own_files_and_those_of_others_are_counted_apart() -> None:
    world = World()
    write(world.main, "main", a="1")
    Garbage(world.main).hold("main", "why", "who")
    world.lake().dump("repo")
    for key in ("AAA", "data/x", "zzz"):
        world.objects().put(key, b"12345")
    found = survey(world)
    assert found.unknown == Tally(3, 15)
    assert {"ranges", "metaranges", "commits", "dumps"} <= found.own.keys()
    stored = {key for key in keys(world, "_graveler/") if not key.startswith("_graveler/gc/")}
    assert sum(tally.files for folder, tally in found.own.items() if folder != "gc") == len(stored)
    kinds = {holding.kind: holding.held for holding in found.holders}
    assert kinds[HolderKind.HOLD] == kinds[HolderKind.DUMP] == Tally(1, 1)


def test_while_a_collector_is_at_work_nobody_counts() -> None:
    world = World()
    claim = Claim(world.tables, world.main.repository.uid, world.clock, world.main.leases)
    world.clock.on_sleep = claim.renew
    with pytest.raises(BusyError, match="another collector"):
        survey(world)


def test_counting_reads_ranges_once_and_leaves_the_marks_of_a_collector() -> None:
    world = World()
    write(world.main, "main", **{f"k{number:02}": f"{number}" for number in range(40)})
    survey(world)
    world.clock.time += 2 * DAY
    assert collect(world).plan.ranges_read == 0
    survey(world)
    check(world)
