"""Histories devised to make a collector, or a purge, remove something that is still needed."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from graveler.errors import ForbiddenError, InvalidError, NotFoundError, PreconditionError, RefNotFoundError
from graveler.lake.clock import GRACE
from graveler.lake.deadline import SKEW
from graveler.lake.lake import Lake
from graveler.lake.objects.staged_with_writes import StagedWithWrites, stage_with_writes
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.repositories import MARKER
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, RetentionRules
from graveler.operations.store import Operation, Operations, OperationState
from graveler.requests.importing import AddressType, ImportAddress
from graveler.retention.collector import Options
from graveler.retention.garbage import Garbage
from graveler.retention.leftovers import Leftovers
from graveler.retention.rules import DAY
from graveler.retention.runs import LEASE, Mode, Runs
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.lake.support import NAME, NAMESPACE, Died, World
from tests.retention.support import AGE, check_live, collect, contents, keys, write
from tests.support.instruments import Boundaries, Fault, FaultyObjects
from tests.support.pinned import pinned_merge


@pytest.fixture
def world() -> World:
    return World()


# What is found again: deleted, renamed, undone


def lose(world: World, name: str) -> None:
    world.main.delete_branch(name)


def rename(world: World, name: str) -> None:
    world.main.rename_branch(name, "other")
    world.main.hard_reset("other", "main")
    world.main.delete_branch("other")


@pytest.mark.parametrize("how", [lose, rename])
def test_to_what_a_branch_pointed_at_refs_can_be_pointed_for_a_grace(
    world: World, how: Callable[[World, str], None]
) -> None:
    """Also to where it was before it was reset; though everything is old, and collected twice meanwhile."""
    world.main.create_branch("side", "main")
    first = write(world.main, "side", a="1")
    second = write(world.main, "side", b="2")
    world.clock.time += AGE
    world.main.hard_reset("side", first)
    how(world, "side")
    for _ in range(2):
        assert collect(world).plan.expired == 0
        world.clock.time += GRACE / 3
    world.repository().create_branch("again", second)
    assert contents(world.repository(), "again") == {"a": "1", "b": "2"}
    world.repository().delete_branch("again")
    world.clock.time += AGE
    assert collect(world).plan.expired == 2
    with pytest.raises(RefNotFoundError, match="expired"):
        world.repository().create_branch("again", second)


def test_to_what_a_tag_named_refs_can_be_pointed_for_a_grace(world: World) -> None:
    world.main.create_branch("side", "main")
    tagged = write(world.main, "side", a="1")
    world.main.create_tag("v1", "side")
    world.main.delete_branch("side")
    world.clock.time += AGE
    world.main.delete_tag("v1")
    assert collect(world).plan.expired == 0
    world.repository().create_tag("v2", tagged)
    world.clock.time += 3 * AGE
    collect(world)
    assert contents(world.repository(), "v2") == {"a": "1"}


def test_what_an_operation_is_to_merge_is_not_marked_behind_its_back(world: World) -> None:
    world.main.create_branch("side", "main")
    source = write(world.main, "side", a="1")
    world.main.delete_branch("side")
    world.clock.time += AGE
    now = world.clock.now()
    ask = msgspec.json.encode(pinned_merge(source=source, source_id=source, destination="main"))
    operations = Operations(world.tables, world.main.repository.uid)
    operations.add(Operation("op", "merge", ask, OperationState.RUNNING, now, now))
    assert collect(world).plan.expired == 0
    world.repository().merge(source, "main")
    assert contents(world.repository(), "main") == {"a": "1"}


def test_an_operation_that_nobody_ends_does_not_keep_its_commits_for_ever(world: World) -> None:
    world.main.create_branch("side", "main")
    source = write(world.main, "side", a="1")
    world.main.delete_branch("side")
    now = world.clock.now()
    ask = msgspec.json.encode(pinned_merge(source=source, source_id=source, destination="main"))
    operations = Operations(world.tables, world.main.repository.uid)
    operations.add(Operation("op", "merge", ask, OperationState.RUNNING, now, now))
    for _ in range(2):
        world.clock.time += AGE
        collect(world)
    assert keys(world, "data/") == set()


@pytest.mark.parametrize("point", ["hold", "tag", "branch"])
def test_what_is_pointed_at_while_commits_are_marked_is_not_marked_in_the_end(point: str) -> None:
    """Before each request of a run in turn: the ref is refused, or the commit lives."""
    pointed = refused = 0
    for number in range(1000):
        world = World()
        world.main.create_branch("side", "main")
        old = write(world.main, "side", a="1")
        world.main.delete_branch("side")
        world.clock.time += AGE
        done: list[bool] = []

        def at_number(
            _: str, at: int, number: int = number, world: World = world, old: str = old, done: list[bool] = done
        ) -> Fault:
            if at == number and not done:
                done.append(False)
                other = world.repository()
                try:
                    match point:
                        case "hold":
                            Garbage(other).hold(old, "a case at court", "ann")
                        case "tag":
                            other.create_tag("v1", old)
                        case _:
                            other.create_branch("again", old)
                except (RefNotFoundError, PreconditionError):
                    return None
                except NotFoundError:
                    return None
                done[0] = True
            return None

        Garbage(world.repository(at_number), Options(Mode.DELETE, threads=1)).run()
        if not done:
            break
        fresh = world.repository()
        if done[0]:
            pointed += 1
            assert fresh.read(old, "a") == b"1"
            fresh.create_tag("v2", old)
            for _ in range(2):
                world.clock.time += AGE
                collect(world)
            assert world.repository().read(old, "a") == b"1", number
        else:
            refused += 1
    assert pointed > 10
    assert refused > 5


# Addresses of our own


def test_an_upload_that_is_linked_late_is_refused_before_it_can_be_lost(world: World) -> None:
    repository, inside = world.main, f"{world.main.repository.namespace}/"
    address = repository.new_address("main", "late")
    entry = ObjectEntry("late", address, 4, "not an MD5", 1)
    world.clock.time += GRACE / 2 - 1
    world.objects().put(address.removeprefix(inside), b"late")
    repository.link("main", entry)
    world.clock.time += AGE
    collect(world)
    assert contents(world.repository(), "main") == {"late": "late"}
    world.repository().reset("main")
    with pytest.raises(InvalidError, match=r"issued .* hours ago and is too old"):
        world.repository().link("main", entry)
    collect(world)
    assert keys(world, "data/") == set()


def test_what_was_reset_is_staged_again_by_no_way_round(world: World) -> None:
    """Its address is known, its bytes are there, and old: no verb takes it, whatever it is called by."""
    repository = world.main
    repository.upload("main", "a", b"1")
    staged = repository.stat("main", "a")
    repository.reset("main")
    world.clock.time += AGE
    again = world.repository()
    ways: list[Callable[[], object]] = [
        lambda: again.link("main", staged),
        lambda: again.link("main", staged, if_absent=True),
        lambda: again.link_many("main", [staged]),
        lambda: stage_with_writes(again.parts, "main", [], lambda _: StagedWithWrites([staged])),
    ]
    for way in ways:
        with pytest.raises(InvalidError, match="too old"):
            way()
    collect(world)
    assert keys(world, "data/") == set()
    check_live(world)


# Whose namespace is it?


def restored_elsewhere(world: World) -> Lake:
    """Another lake, in which the repository was restored from a dump, with its uid and in its namespace; and has gone on."""
    write(world.main, "main", old="old")
    dump = world.lake().dump(NAME).id
    other = Lake(MemoryTables(), world.objects, clock=world.clock)
    other.restore(NAMESPACE, dump, NAME)
    write(other.repository(NAME), "main", new="new")
    return other


def test_a_repository_that_was_restored_in_another_lake_is_not_collected_by_the_old_one(world: World) -> None:
    """Whose schedule goes on, though everything that came since is unknown there."""
    other = restored_elsewhere(world)
    for _ in range(2):
        world.clock.time += AGE
        with pytest.raises(PreconditionError, match=r"does not say .* of this lake, so nothing was collected"):
            collect(world)
    Garbage(other.repository(NAME), Options(Mode.DELETE, threads=1)).run()
    assert contents(other.repository(NAME), "main") == {"old": "old", "new": "new"}


def test_a_repository_that_was_restored_in_another_lake_is_not_purged_by_the_old_one(world: World) -> None:
    other = restored_elsewhere(world)
    world.lake().delete_repository(NAME)
    world.clock.time += AGE
    with pytest.raises(PreconditionError, match=r"does not say .* of this lake, so nothing was removed"):
        purge(world)
    assert contents(other.repository(NAME), "main") == {"old": "old", "new": "new"}


def test_a_namespace_that_does_not_say_whose_it_is_is_left_alone_until_it_is_mended(world: World) -> None:
    world.main.upload("main", "dropped", b"1")
    world.main.reset("main")
    world.clock.time += AGE
    world.objects().delete(MARKER)
    with pytest.raises(PreconditionError, match="run fsck with repair"):
        collect(world)
    world.lake().fsck(NAME, repair=True)
    collect(world)
    assert keys(world, "data/") == set()


def purge(world: World, objects: Callable[[str], FaultyObjects | MemoryObjects] | None = None) -> None:
    lake = world.lake()
    Leftovers(lake.tables, objects or world.objects, world.clock, GRACE, SKEW).purge(
        world.main.repository.uid, force=True
    )


def test_a_purge_that_was_stopped_leaves_a_new_repository_of_the_same_name_and_namespace_alone() -> None:
    """Another one finished it meanwhile, and the same objects were imported anew: trees of the same names. Stopped before each of
    its requests in turn; then it goes on."""
    elsewhere = [ObjectEntry(f"k{number}", f"s3://theirs/{number}", 1, f"{number:032x}", 1) for number in range(8)]
    stopped = 0
    for number in range(1000):
        world = World()
        world.main.link_many("main", elsewhere)
        world.main.commit("main", "imported")
        write(world.main, "main", a="1")
        world.lake().delete_repository(NAME)
        world.clock.time += AGE
        done: list[bool] = []

        def meanwhile(_: str, at: int, number: int = number, world: World = world, done: list[bool] = done) -> Fault:
            if at == number and not done:
                done.append(True)
                purge(world)
                again = world.lake().create_repository(NAME, NAMESPACE, split=world.split)
                again.link_many("main", elsewhere)
                again.commit("main", "imported anew")
                write(again, "main", b="2")
            return None

        boundaries = Boundaries()
        with suppress(NotFoundError, PreconditionError):
            purge(world, lambda namespace: FaultyObjects(world.objects(namespace), meanwhile, boundaries))  # noqa: B023
        if not done:
            break
        stopped += 1
        fresh = world.lake().repository(NAME)
        assert fresh.read("main", "b") == b"2"
        assert [entry.path for entry in fresh.objects("main")] == ["b", *(entry.path for entry in elsewhere)]
        assert not world.lake().fsck(NAME).findings, number
    assert stopped > 5


# Names, clocks, runs that are not over


STRANGE = (
    "_graveler/ranges/.DS_Store",
    "_graveler/ranges/sub/folder",
    f"_graveler/ranges/{'0' * 64}-{'0' * 31}",
    "_graveler/metaranges/notes.txt",
    "_graveler/commits/README",
    f"_graveler/commits/{'A' * 64}",
    "_graveler/dumps/mine",
    "_graveler/dumps/mine/chunk",
    "_graveler/gc/elsewhere",
    "_graveler/operations",
    "_graveler/quarantine",
    "_graveler/unheard/of",
)


@pytest.mark.parametrize("age", [0.0, AGE])
def test_files_that_are_strangers_among_our_own_stay_and_stop_nobody(world: World, age: float) -> None:
    for key in STRANGE:
        world.objects().put(key, b"?")
    world.clock.time += age
    write(world.main, "main", a="1")
    summary = collect(world)
    assert set(STRANGE) <= keys(world, "")
    assert summary.plan.unknown.files == len(STRANGE)
    assert set(summary.plan.unknown_examples) == set(STRANGE)
    check_live(world)


@pytest.mark.parametrize("jump", [-10 * GRACE, -GRACE, GRACE])
def test_a_reading_that_took_too_long_is_given_up_whoever_sets_the_clock(jump: float) -> None:
    """A trace protects what moves for so long, and no longer."""
    given_up = 0
    for number in range(10, 40):
        world = World()
        world.main.upload("main", "x", b"x")
        world.main.create_branch("zz", "main")
        world.clock.time += AGE

        def at_number(_: str, at: int, number: int = number, world: World = world) -> Fault:
            if at == number:
                world.clock.time += GRACE
                world.clock.jump(jump)
            return None

        before = keys(world, "data/")
        try:
            Garbage(world.repository(at_number), Options(Mode.DELETE, threads=1)).run()
        except PreconditionError as error:
            given_up += "longer than half the grace period; nothing was collected" in str(error)
        assert keys(world, "data/") == before
    assert given_up > 10


def die_deleting(request: str, _: int) -> Fault:
    if request == "objects.delete":
        raise Died
    return None


def test_what_a_run_that_is_not_over_has_moved_aside_is_brought_back_when_it_is_over(world: World) -> None:
    """Brought back before, the run would take it again: on S3 a copy has the ETag of what it was copied from."""
    world.main.upload("main", "dropped", b"1")
    world.main.reset("main")
    world.clock.time += AGE
    with pytest.raises(Died):
        Garbage(world.repository(die_deleting), Options(Mode.QUARANTINE, threads=1)).run()
    world.clock.time += LEASE + 1
    ((run, over),) = Runs(world.objects()).all()
    assert not over
    with pytest.raises(PreconditionError, match=f"run '{run}' is unfinished"):
        list(Garbage(world.repository()).restore(run))
    collect(world)
    assert [found for _, found in Garbage(world.repository()).restore(run)] == [True]


# Rules


def test_no_rule_drops_the_head_of_a_branch_protected_or_not(world: World) -> None:
    repository = world.main
    write(repository, "main", a="old")
    head = write(repository, "main", a="new")
    repository.create_branch("side", "main")
    repository.protect(["main"])
    for rules in (RetentionRules(0), RetentionRules(30, {"main": 0}), RetentionRules(-1)):
        with pytest.raises(InvalidError, match=r"days of retention for .*; give at least 1"):
            repository.set_retention(rules)
    repository.set_retention(RetentionRules(1, {"main": 1}))
    assert head not in {commit.id for commit in Garbage(repository).preview(RetentionRules(1)).lost}
    for _ in range(3):
        world.clock.time += 1000 * DAY
        collect(world)
    fresh = world.repository()
    assert (fresh.read("main", "a"), fresh.read("side", "a")) == (b"new", b"new")
    check_live(world)


def test_a_folder_of_the_lake_itself_is_not_imported_from_its_files(tmp_path: Path) -> None:
    """By the path of its files, instead of by its namespace: what a collector would not know of."""
    outside = tmp_path / "data"
    outside.mkdir()
    (outside / "other").write_bytes(b"2")
    with create_folder_lake(outside / "lake") as lake:
        repository = lake.create_repository(NAME, "local://repo")
        repository.upload("main", "a", b"1")
        stored = next(iter(repository.namespace.list("data/"))).key
        repository.reset("main")
        path = outside / "lake" / "objects" / "repo" / stored
        assert path.read_bytes() == b"1"
        (tmp_path / "link").symlink_to(outside / "lake")
        through = tmp_path / "link" / "objects" / "repo" / stored
        ways: list[Callable[[], object]] = [
            lambda: imported(repository, AddressType.OBJECT, f"file://{path}"),
            lambda: imported(repository, AddressType.OBJECT, f"file://{through}"),
            lambda: imported(repository, AddressType.COMMON_PREFIX, f"file://{outside}/lake/objects/repo/data/"),
            lambda: repository.import_folder("main", path.parent, "b/", message="import"),
            lambda: repository.import_folder("main", through.parent, "b/", message="import"),
        ]
        for way in ways:
            with pytest.raises((ForbiddenError, InvalidError), match=r"(is in|is inside) .*lake"):
                way()
        imported(repository, AddressType.COMMON_PREFIX, f"file://{outside}/")
        repository.import_folder("main", outside, "c/", message="import")
        assert [entry.path for entry in repository.objects("main")] == ["b/other", "c/other"], "without the lake"
        repository.link("main", ObjectEntry("d", f"file://{path}", 1, "00" * 16, 1))
        with pytest.raises(ForbiddenError, match="cannot be used as a source"):  # nobody comes to need it
            repository.read("main", "d")


def imported(repository: OpenRepository, kind: AddressType, address: str) -> object:
    return repository.import_addresses("main", [ImportAddress(kind, address, "b")], message="import")
