"""Committers that die, are slow, or get no answer: the changes that they took are neither lost nor published twice (C1, C5)."""

from functools import partial

import pytest

from graveler.errors import (
    UnavailableError,
)
from graveler.lake.committing.sealing import holding, seal, take_sealed
from graveler.model import Commit
from graveler.staging.tokens import LEASE
from tests.lake.support import (
    NAME,
    PUBLISH,
    Before,
    DieAt,
    OwnClock,
    World,
    changes,
    died,
    messages,
    put,
    texts,
)
from tests.support.instruments import Fault

DEATHS = [
    ("before the seal", partial(DieAt, "tables.transact", 1)),
    ("after the seal", partial(DieAt, "tables.transact", 1, after=True)),
    ("before the range is put", partial(DieAt, "objects.put", 1)),
    ("after apply", partial(DieAt, "objects.put", 2)),
    ("after the metarange put", partial(DieAt, "objects.put", 2, after=True)),
    ("before publish", partial(DieAt, "tables.transact", 2)),
    ("after publish, the answer lost", partial(DieAt, "tables.transact", 2, after=True)),
]


@pytest.mark.parametrize("at", range(len(DEATHS)), ids=[name for name, _ in DEATHS])
def test_what_a_dead_committer_left_is_adopted_by_the_next_commit(at: int) -> None:
    world = World()
    put(world.main, {"a": "1", "b": "1"})
    killer = DEATHS[at][1]()
    victim = world.repository(killer)
    assert died(lambda: victim.commit("main", "of the dead"))
    assert killer.dead
    assert texts(world.main) == {"a": "1", "b": "1"}
    put(world.main, {"b": "2", "c": "2"})
    world.wait_for_leases()
    slept = world.clock.slept
    world.main.commit("main", "of the living")
    assert world.clock.slept <= slept + LEASE + 1, "nobody is waited for longer than a lease"
    assert texts(world.main, "main@") == {"a": "1", "b": "2", "c": "2"}
    assert changes(world.main) == {}
    assert world.main.parts.branches.state("main").sealed == ()


def test_a_commit_waits_for_a_dead_owner_no_longer_than_the_lease() -> None:
    world = World()
    put(world.main, {"a": "1"})
    victim = world.repository(DieAt("objects.put", 1))
    assert died(lambda: victim.commit("main", "of the dead"))
    start = world.clock.time
    world.main.commit("main", "of the living")
    assert 0 < world.clock.time - start <= LEASE + 1
    assert texts(world.main, "main@") == {"a": "1"}


@pytest.mark.parametrize("ahead", [-86_400.0, -300.0, 300.0, 86_400.0])
def test_a_dead_owner_is_waited_for_no_longer_whatever_its_clock_said(ahead: float) -> None:
    world = World()
    put(world.main, {"a": "1"})
    victim = world.repository(DieAt("objects.put", 1), clock=OwnClock(world.clock, ahead))
    assert died(lambda: victim.commit("main", "of the dead"))
    start = world.clock.time
    world.repository().commit("main", "of the living")
    assert LEASE <= world.clock.time - start <= LEASE + 1, "who has just started watches for a lease's length"
    assert texts(world.main, "main@") == {"a": "1"}


@pytest.mark.parametrize("ahead", [-86_400.0, 0.0, 86_400.0])
def test_a_living_owner_is_not_taken_over_whatever_its_clock_says(ahead: float) -> None:
    world = World()
    put(world.main, {"a": "1"})
    owner = world.repository(clock=OwnClock(world.clock, ahead)).parts
    watcher = world.repository().parts
    sealed = seal(owner, "main", "somebody")
    for _ in range(10):
        assert take_sealed(watcher, sealed.tokens) is None
        world.clock.time += LEASE - 0.1
        assert take_sealed(watcher, sealed.tokens) is None
        with holding(owner, sealed.tokens[0], "somebody", leave=LEASE):
            """The owner gives a sign of life."""
    assert take_sealed(watcher, sealed.tokens) is None
    world.clock.time += LEASE
    assert take_sealed(watcher, sealed.tokens) is not None


def test_one_verb_knows_what_another_of_its_process_has_watched() -> None:
    """As on a server, where each request opens the repository anew."""
    world = World()
    put(world.main, {"a": "1"})
    victim = world.repository(DieAt("objects.put", 1))
    assert died(lambda: victim.commit("main", "of the dead"))
    lake = world.lake()
    sealed = world.main.parts.branches.state("main").sealed
    assert take_sealed(lake.repository(NAME).parts, sealed) is None
    lake._opened.clear()
    world.clock.time += LEASE
    slept = world.clock.slept
    lake.repository(NAME).commit("main", "of the living")
    assert world.clock.slept == slept


@pytest.mark.parametrize("ahead", [0.0, 86_400.0])
def test_a_lease_that_an_earlier_version_wrote_is_of_the_normal_length(ahead: float) -> None:
    world = World()
    put(world.main, {"a": "1"})
    sealed = seal(world.main.parts, "main", "somebody")
    key = world.outcomes().key(sealed.tokens[0])
    until = int((world.clock.time + ahead) * 1000)
    world.tables.put(key, {"state": "sealed", "owner": "somebody", "lease_ms": until})
    watcher = world.repository().parts
    assert take_sealed(watcher, sealed.tokens) is None
    world.clock.time += LEASE - 1
    world.tables.put(key, {"state": "sealed", "owner": "somebody", "lease_ms": until + 5000})
    assert take_sealed(watcher, sealed.tokens) is None
    world.clock.time += LEASE - 1
    assert take_sealed(watcher, sealed.tokens) is None, "the owner renewed it"
    world.clock.time += 1
    assert take_sealed(watcher, sealed.tokens) is not None
    world.tables.put(key, {"state": "sealed", "owner": "somebody", "lease_ms": 0})
    assert take_sealed(world.repository().parts, sealed.tokens) is not None, "it was given back"


def test_a_commit_that_fails_gives_its_lease_back() -> None:
    world = World()
    put(world.main, {"a": "1"})
    failing = world.repository(Before("objects.put", 1, fault="fail_before"))
    with pytest.raises(UnavailableError):
        failing.commit("main", "in vain")
    slept = world.clock.slept
    world.main.commit("main", "again")
    assert world.clock.slept == slept
    assert texts(world.main, "main@") == {"a": "1"}


def test_an_interrupted_commit_leaves_the_changes_uncommitted_and_nobody_waiting() -> None:
    world = World()
    put(world.main, {"a": "1"})

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.repository(Before("objects.put", 1, interrupt)).commit("main", "Ctrl-C")
    assert changes(world.main) == {"a": "added"}
    slept = world.clock.slept
    world.main.commit("main", "again")
    assert world.clock.slept == slept


def test_an_owner_that_was_only_slow_reports_the_commit_that_adopted_its_changes() -> None:
    world = World()
    put(world.main, {"a": "1"})
    other = world.repository()
    adopted: list[Commit] = []

    def adopt() -> None:
        world.wait_for_leases()
        adopted.append(other.commit("main", "adopts"))

    slow = world.repository(Before("objects.put", 1, adopt))
    assert slow.commit("main", "slow") == adopted[0]
    assert messages(world.main)[0] == "adopts"


def test_a_lost_answer_of_publish_is_resolved_by_looking() -> None:
    world = World()
    put(world.main, {"a": "1"})
    made = world.repository(Before(*PUBLISH, fault="fail_after")).commit("main", "once")
    assert world.main.branch("main").commit_id == made.id
    assert messages(world.main) == ["once", "Repository created"]


def test_a_publish_that_arrives_twice_makes_one_commit() -> None:
    world = World()
    put(world.main, {"a": "1"})
    made = world.repository(Before(*PUBLISH, fault="repeat")).commit("main", "once")
    assert world.main.branch("main").commit_id == made.id
    assert messages(world.main) == ["once", "Repository created"]


@pytest.mark.parametrize("fault", ["fail_after", "repeat"])
def test_a_seal_whose_answer_is_lost_or_that_arrives_twice_loses_nothing(fault: Fault) -> None:
    world = World()
    put(world.main, {"a": "1"})
    try:
        world.repository(Before("tables.transact", 1, fault=fault)).commit("main", "first")
    except UnavailableError:
        world.main.commit("main", "second")
    assert texts(world.main, "main@") == {"a": "1"}
    assert len(messages(world.main)) == 2
