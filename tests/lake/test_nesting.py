"""Namespaces do not nest, however many are created at once, and whenever a creator dies."""

import os
from pathlib import Path

import pytest

from graveler.errors import BusyError, GravelerError, InvalidError
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.nesting import BELIEVED, Neighbours, _RealPaths
from graveler.lake.opening.repositories import Repositories
from graveler.storage.tables.port import Delete, Key
from tests.lake.support import NAME, TINY, Before, DieAt, World, died
from tests.support.instruments import CountingTables

OUTER, INNER = "mem://data", "mem://data/hr/files"
PAIRS = ((OUTER, INNER), (INNER, OUTER))


def create(lake: Lake, namespace: str) -> str:
    """Its name, or an empty one if it was refused."""
    name = namespace.removeprefix("mem://").replace("/", "-")
    try:
        lake.create_repository(name, namespace, split=TINY)
    except GravelerError:
        return ""
    return name


def there(lake: Lake) -> set[str]:
    return {repository.namespace for repository in lake.repositories().results} - {"mem://repo"}


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("deleted", [False, True])
def test_a_namespace_in_another_one_is_refused(first: str, second: str, deleted: bool) -> None:
    world = World()
    lake = world.lake()
    lake.create_repository("first", first, split=TINY)
    if deleted:
        lake.delete_repository("first")
    with pytest.raises(InvalidError, match=r"(is inside|contains) .* of repository 'first'") as refused:
        lake.create_repository("second", second, split=TINY)
    assert ("was deleted" in str(refused.value)) is deleted
    assert list(world.objects(second).list()) == []
    lake.create_repository("second", "mem://data-2", split=TINY)
    lake.create_repository("third", "mem://dat", split=TINY)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_when_what_a_deleted_one_left_is_gone_its_place_is_free(first: str, second: str) -> None:
    world = World()
    lake = world.lake()
    made = lake.create_repository("first", first, split=TINY).repository
    lake.delete_repository("first")
    Repositories(world.tables).end_purge(made.uid, world.objects(first))
    lake.create_repository("second", second, split=TINY)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_lake_of_an_earlier_version_has_no_notes(first: str, second: str) -> None:
    world = World()
    lake = world.lake()
    lake.create_repository("first", first, split=TINY)
    while notes := world.tables.query("namespaces-above").items:
        world.tables.transact([Delete(Key("namespaces-above", sort)) for sort, _ in notes])
    with pytest.raises(InvalidError, match="repository 'first'"):
        lake.create_repository("second", second, split=TINY)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_at_once_one_at_most_is_made_whenever_the_other_comes_and_dies(first: str, second: str) -> None:
    """The second comes before each request of the first, and is whole, or dies before or after each of its own."""
    made = set()
    steps = [("tables.get_many", 1), ("tables.get", 1), ("tables.get", 2), ("tables.query", 1), ("tables.query", 2)]
    steps += [("objects.put", 1), ("objects.put", 2), ("tables.transact", 1)]
    deaths = [None, *((*step, after) for step in steps for after in (False, True))]
    for step in steps:
        for death in deaths:
            world = World()

            def come(world: World = world, death: tuple[str, int, bool] | None = death) -> None:
                dying = None if death is None else DieAt(*death[:2], after=death[2])
                died(lambda: create(world.lake(dying), second))

            hook = Before(*step, come)
            create(world.lake(hook), first)
            assert hook.reached
            found = there(world.lake())
            assert len(found) <= 1, (step, death, found)
            assert found or death is not None, (step, "nobody died, and nobody came through")
            made |= found
    assert made == {first, second}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_who_is_beside_disturbs_nobody(first: str, second: str) -> None:
    world = World()
    lake = world.lake()
    beside = f"{OUTER}-2/x"
    hook = Before("tables.transact", 1, lambda: create(lake, beside))
    assert create(world.lake(hook), first)
    assert there(lake) == {first, beside}


def test_a_place_in_which_one_came_and_went_meanwhile_can_be_tried_again() -> None:
    world = World()
    lake = world.lake()

    def come_and_go() -> None:
        made = lake.create_repository("inner", INNER, split=TINY).repository
        lake.delete_repository("inner")
        Repositories(world.tables).end_purge(made.uid, world.objects(INNER))

    with pytest.raises(BusyError, match="try again"):
        world.lake(Before("tables.transact", 1, come_and_go)).create_repository("outer", OUTER, split=TINY)
    lake.create_repository("outer", OUTER, split=TINY)


@pytest.mark.parametrize("moment", ["before it", "meanwhile"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_repository_is_not_restored_around_or_in_another_one(first: str, second: str, moment: str) -> None:
    world = World()
    lake = world.lake()
    dump = lake.create_repository("first", first, split=TINY).dump()
    uid = lake.repository("first").repository.uid
    lake.delete_repository("first")
    world.tables.delete(Key("deleted-repositories", uid.encode()))  # as in a lake that knows nothing of it

    def come() -> None:
        lake.create_repository("second", second, split=TINY)

    if moment == "before it":
        come()
    hook = Before("tables.transact", 2, come if moment == "meanwhile" else None)
    with pytest.raises(GravelerError, match=r"repository 'second'|try again|another repository"):
        world.lake(hook).restore(first, dump.id, "first")
    assert hook.reached is (moment == "meanwhile")
    assert there(lake) == {second}


def test_a_namespace_of_very_many_folders_is_refused() -> None:
    lake = World().lake()
    lake.create_repository("deep", "mem://" + "/".join("abcdefgh" * 4), split=TINY)
    with pytest.raises(InvalidError, match="39 folders; choose one with at most 32"):
        lake.create_repository("deeper", "mem://" + "/".join("abcdefgh" * 5), split=TINY)


def test_in_a_folder_the_place_counts_and_not_its_name(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "short").symlink_to("disk")
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("first", f"file://{tmp_path}/short/hr")
        for namespace in (f"file://{tmp_path}/disk/hr/x", f"file://{tmp_path}/disk", f"file://{tmp_path}/disk/hr"):
            with pytest.raises(InvalidError, match="of repository 'first'"):
                lake.create_repository("second", namespace)
        for namespace in (f"file://{tmp_path}/lake/objects/x", f"file://{tmp_path}", f"file://{tmp_path}/lake"):
            with pytest.raises(InvalidError, match="lake's own folder"):
                lake.create_repository("second", namespace)
        lake.create_repository("second", "local://a/b")
        with pytest.raises(InvalidError, match="contains local://a/b"):
            lake.create_repository("third", "local://a")


def test_whose_an_address_is_costs_two_reads_in_five_seconds() -> None:
    world = World()
    lake = world.lake()
    lake.create_repository("hr-private", INNER, split=TINY)
    now = 0.0
    tables = CountingTables(world.tables)
    neighbours = Neighbours(tables, None, lambda: now)
    asked = {
        (f"{INNER}/data/x", False): ["hr-private"],
        (INNER, False): [],
        (f"{INNER}2/x", False): [],
        ("mem://data/x", False): [],
        ("mem://data/", True): ["hr-private"],
        ("mem://data/h", True): ["hr-private"],
        ("mem://data/x", True): [],
        (f"{INNER}/data/", True): ["hr-private"],
        ("mem://repo/x", False): [NAME],
    }
    for (address, prefix), names in asked.items():
        assert [owner.name for owner in neighbours.owners(address, prefix=prefix)] == names, address
    assert tables.requests == 2
    lake.create_repository("new", "mem://new", split=TINY)
    assert neighbours.owners("mem://new/x") == []
    now = BELIEVED
    assert [owner.name for owner in neighbours.owners("mem://new/x")] == ["new"]
    assert tables.requests == 4


def test_many_paths_are_found_as_one_by_one(tmp_path: Path) -> None:
    """.. each folder being looked at once."""
    for folder in ("objects/r1", "objects/r2/in", "else/x"):
        (tmp_path / folder).mkdir(parents=True)
    for link, target in (
        ("objects/link", tmp_path / "else"),
        ("objects/odd", "link/../objects/r1"),
        ("objects/loop", "loop"),
        ("alias", "objects"),
    ):
        (tmp_path / link).symlink_to(target)
    real = _RealPaths()
    below = ("objects/r1", "objects/link/x/y", "objects/odd/z", "objects/loop/q", "alias/r2/in", "alias/link/../r2")
    odd = ("objects/none/.hidden/..x", "objects//r1", "objects/./r1/", "alias/link/..")
    for path in (*(f"{tmp_path}/{one}" for one in (*below, *odd)), "/", "//x", "/...", "x/y", ""):
        assert real(path) == os.path.realpath(path), path
