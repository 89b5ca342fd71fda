"""Leftovers of deleted repositories: how and when they are removed, and what stays safe."""

import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError, NotFoundError, PreconditionError
from graveler.history.owners import Owners
from graveler.ingest.ledger import Ledger
from graveler.ingest.rules import PARTITION as INGEST_RULES
from graveler.ingest.rules import Overwrites, RuleStore
from graveler.lake.clock import GRACE
from graveler.lake.deadline import SKEW
from graveler.lake.lake import Lake
from graveler.lake.opening.repositories import MARKER
from graveler.lake.pulls.pull_store import PullStore
from graveler.model import ObjectEntry, RepositoryUID
from graveler.retention.garbage import Garbage
from graveler.retention.leftovers import Leftovers
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Key
from tests.ingest.support import RULE, Shore
from tests.lake.support import NAME, NAMESPACE, Died, Schedule, World
from tests.retention.support import AGE, contents, keys, write
from tests.support.instruments import Boundaries, Fault, FaultyObjects, FaultyTables


def leftovers(world: World, schedule: Schedule | None = None) -> Leftovers:
    lake = world.lake()
    if schedule is None:
        return Leftovers(lake.tables, lake.store_of, world.clock, GRACE, SKEW)
    boundaries, asked = Boundaries(), schedule
    return Leftovers(
        FaultyTables(world.tables, lambda method, number: asked(f"tables.{method}", number), boundaries),
        lambda namespace: FaultyObjects(
            world.objects(namespace), lambda method, number: asked(f"objects.{method}", number), boundaries
        ),
        world.clock,
        GRACE,
        SKEW,
    )


def rows_of(world: World, uid: str) -> set[str]:
    """Partitions that hold rows of a repository."""
    assert isinstance(world.tables, MemoryTables)
    return {name for name, (order, _) in world.tables.partitions.items() if name.startswith(uid) and order}


@pytest.fixture
def world() -> World:
    """A repository of which there is something everywhere, deleted, and another one beside it."""
    world = World()
    repository = world.main
    write(repository, "main", a="a", b="b")
    repository.create_branch("side", "main")
    repository.create_tag("v1", "main")
    repository.upload("side", "staged", b"staged")
    repository.upload("main", "reset", b"reset")
    repository.reset("main")
    repository.rename_branch("side", "other")
    repository.begin_upload("main", "unfinished")
    world.tables.put(Key(INGEST_RULES, repository.repository.uid.encode()), {"rules": b""})
    world.objects().put("theirs/file", b"theirs")
    beside = world.lake().create_repository("beside", "mem://beside")
    write(beside, "main", c="c")
    world.lake().delete_repository(NAME)
    return world


def uid(world: World) -> RepositoryUID:
    return world.main.repository.uid


def test_nothing_goes_by_itself_and_the_namespace_stays_taken(world: World) -> None:
    before = keys(world, "")
    world.clock.time += 100 * AGE
    Garbage(world.lake().repository("beside")).run()
    (found,) = leftovers(world).all()
    assert (found.name, found.uid, found.namespace, found.purging) == (NAME, uid(world), NAMESPACE, False)
    assert keys(world, "") == before
    with pytest.raises(InvalidError, match="already belongs to repository 'repo', which was deleted"):
        world.lake().create_repository("again", NAMESPACE)


def test_all_of_it_goes_and_the_namespace_is_free(world: World) -> None:
    world.clock.time += AGE
    done = leftovers(world).purge(uid(world))
    assert keys(world, "") == {"theirs/file"}
    assert list(world.objects().uploads()) == []
    assert (done.unknown.files, done.unknown.bytes) == (1, 6)
    assert done.files.files > 5
    assert done.rows > 10
    assert rows_of(world, uid(world)) == set()
    assert world.tables.get(Key(INGEST_RULES, uid(world).encode())) is None
    assert leftovers(world).all() == []
    beside = world.lake().repository("beside")
    assert contents(beside, "main") == {"c": "c"}
    again = world.lake().create_repository(NAME, NAMESPACE)
    write(again, "main", new="new")
    with pytest.raises(NotFoundError):
        leftovers(world).purge(uid(world))
    assert contents(world.lake().repository(NAME), "main") == {"new": "new"}


def test_all_of_it_goes_at_once_if_nobody_else_works_there(world: World) -> None:
    with pytest.raises(PreconditionError, match=r"deleted only recently.*--at-once"):
        leftovers(world).purge(uid(world))
    assert leftovers(world).purge(uid(world), at_once=True).files.files > 5
    assert keys(world, "") == {"theirs/file"}
    assert rows_of(world, uid(world)) == set()
    write(world.lake().create_repository(NAME, NAMESPACE), "main", new="new")
    assert contents(world.lake().repository(NAME), "main") == {"new": "new"}


def test_at_once_removes_no_legal_hold() -> None:
    world = World()
    write(world.main, "main", a="a")
    Garbage(world.main).hold("main", "audit", "ann")
    world.lake().delete_repository(NAME)
    before = keys(world, "")
    with pytest.raises(PreconditionError, match="legal hold"):
        leftovers(world).purge(uid(world), at_once=True)
    assert keys(world, "") == before
    leftovers(world).purge(uid(world), at_once=True, force=True)
    assert keys(world, "") == set()


class ByKeyOnly(MemoryTables):
    """Finds partitions only by their whole key, as DynamoDB does."""

    def remove_partitions(self, prefix: str) -> int:
        return 0 if prefix else super().remove_partitions(prefix)


def test_what_never_expires_goes_also_where_nobody_can_ask_for_it() -> None:
    shore = Shore(tables=ByKeyOnly())
    rule = shore.add(replace(RULE, overwrites=Overwrites.REFUSE))
    shore.ingester().process([shore.bucket.put(f"in/{number}") for number in range(20)])
    lake, repository = shore.lake(), shore.repository().repository
    shore.repository().create_branch("tx-1", "main", hidden=True, owner="a transaction")
    shore.repository().create_pull_request("t", "tx-1", "main")
    shore.repository().comment_on_pull_request("1", "text")
    pulls = PullStore(shore.tables, repository.uid)
    seen = [*Ledger(repository.uid, rule.id).partitions(), Owners(shore.tables, repository.uid).partition]
    seen += [pulls.comment_partition, pulls.partition]
    assert all(shore.tables.query(partition).items for partition in seen[-3:])
    assert any(shore.tables.query(partition).items for partition in seen)
    lake.delete_repository(repository.name)
    shore.clock.time += AGE
    Leftovers(lake.tables, lake.store_of, shore.clock, GRACE, SKEW).purge(repository.uid)
    assert not any(shore.tables.query(partition).items for partition in seen)
    assert RuleStore(shore.tables).left_by(repository.uid) == ()


def test_who_has_little_time_each_time_comes_to_the_end() -> None:
    """As a request of the API, which ends after some seconds: each gets on, by a thousand rows at most."""
    world = World()
    names = [f"b{number}" for number in range(20)]
    for name in names:
        world.main.create_branch(name, "main")
    entries = [ObjectEntry(f"k{number}", "mem://o/l", 1, "00" * 16, 0) for number in range(2500)]
    world.main.link_many("b7", entries)
    world.lake().delete_repository(NAME)
    world.clock.time += AGE
    tries, most, before = 0, 0, len(rows_of(world, uid(world)))

    def stop(_phase: str, done: int, _total: int) -> None:
        nonlocal most
        most = max(most, done)
        raise BusyError("send the same request again")

    while True:
        tries += 1
        try:
            leftovers(world).purge(uid(world), progress=stop)
        except BusyError:
            assert len(rows_of(world, uid(world))) <= before
            before = len(rows_of(world, uid(world)))
        else:
            break
    assert (most, rows_of(world, uid(world))) == (1000, set())
    assert 2 * len(names) < tries < 10 * len(names)


def test_who_may_still_be_at_work_is_waited_for(world: World) -> None:
    world.clock.time += GRACE
    with pytest.raises(PreconditionError, match=r"deleted only recently.*try again in 0\.1 hours"):
        leftovers(world).purge(uid(world))
    assert MARKER in keys(world, "")


def test_what_can_be_restored_or_is_held_goes_only_by_force() -> None:
    world = World()
    write(world.main, "main", a="a")
    Garbage(world.main).hold("main", "a case at court", "ann")
    dump = world.lake().dump(NAME).id
    world.lake().delete_repository(NAME)
    world.clock.time += AGE
    with pytest.raises(PreconditionError, match="legal hold \\('a case at court'\\)"):
        leftovers(world).purge(uid(world))
    world.lake().restore(NAMESPACE, dump, NAME)
    assert leftovers(world).all() == []
    Garbage(world.repository()).release("main")
    world.lake().delete_repository(NAME)
    world.clock.time += AGE
    with pytest.raises(PreconditionError, match="can be restored from 1 dumps"):
        leftovers(world).purge(uid(world))
    world.lake().restore(NAMESPACE, dump, NAME)
    assert contents(world.repository(), "main") == {"a": "a"}
    world.lake().delete_repository(NAME)
    world.clock.time += AGE
    leftovers(world).purge(uid(world), force=True)
    assert keys(world, "") == set()


def test_a_namespace_that_is_another_ones_by_now_is_left_alone(world: World) -> None:
    world.clock.time += AGE
    other = Lake(MemoryTables(), world.objects, clock=world.clock)
    world.objects().delete(MARKER)
    again = other.create_repository("theirs", NAMESPACE)
    write(again, "main", new="new")
    before = keys(world, "")
    with pytest.raises(PreconditionError, match="does not say that this is the namespace of repository 'repo'"):
        leftovers(world).purge(uid(world))
    assert keys(world, "") == before


def test_names_of_several_are_told_apart(world: World) -> None:
    world.lake().create_repository(NAME, "mem://second")
    world.lake().delete_repository(NAME)
    found = leftovers(world)
    with pytest.raises(InvalidError, match="choose one by its uid"):
        found.find(NAME)
    assert found.find(uid(world)).uid == uid(world)
    with pytest.raises(NotFoundError, match="no remains of a deleted repository 'none'"):
        found.find("none")


def test_whoever_dies_leaves_what_another_one_finishes_and_nobody_restores(world: World) -> None:
    """Before each of its requests in turn."""
    del world
    number = 0
    while True:
        world = World()
        write(world.main, "main", a="a")
        world.main.upload("main", "staged", b"staged")
        dump = world.lake().dump(NAME).id
        world.lake().delete_repository(NAME)
        world.clock.time += AGE

        def die(_: str, at: int, number: int = number) -> Fault:
            if at >= number:
                raise Died
            return None

        try:
            leftovers(world, die).purge(uid(world), force=True)
        except Died:
            pass
        else:
            break
        left = leftovers(world).all()
        if left and left[0].purging:
            with pytest.raises((PreconditionError, NotFoundError), match=r"can no longer be restored|does not exist"):
                world.lake().restore(NAMESPACE, dump, NAME)
            if MARKER in keys(world, ""):
                with pytest.raises(InvalidError, match="already belongs to"):
                    world.lake().create_repository("again", NAMESPACE)
        if left:
            leftovers(world).purge(uid(world), force=True)
        assert keys(world, "") == set(), number
        assert rows_of(world, uid(world)) == set(), number
        number += 1
    assert number > 20
