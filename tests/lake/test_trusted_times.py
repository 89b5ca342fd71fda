"""Imports that trust a file's size and time: what they find and miss, and that nothing takes size and time for a checksum."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.errors import DamagedObjectError, InvalidError, UnavailableError
from graveler.lake.exporting.export_folder import same_bytes
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.importing.folder_listing import FolderListing
from graveler.lake.objects.noted_times import noted_time, time_checksum
from graveler.lake.objects.verification import md5_of
from graveler.model import ObjectEntry
from graveler.requests.importing import AddressType, ImportAddress
from graveler.storage.objects.confined_folder import Confinement, files_below
from graveler.tree.record import RecordCodec
from tests.lake.support import NAMESPACE, World, paths, small_pieces, without_rights, write_files

TIME = 1_700_000_000_123_456_789
"""Nanoseconds since 1970."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_files(tmp_path.resolve() / "in", {"a/x": "one", "a/y": "", "b": "three"})
    for path in folder.rglob("*"):
        os.utime(path, ns=(TIME, TIME))
    return folder


def trust(world: World, folder: Path) -> tuple[int, int, int, int]:
    """What an import by time has added, replaced, removed, left."""
    changes = world.main.import_folder("main", folder, "in/", trust_mtime=True).changes
    return changes.added, changes.replaced, changes.removed, changes.unchanged


def test_records_have_size_and_time_and_say_that_there_is_no_checksum(folder: Path) -> None:
    world = World()
    assert trust(world, folder) == (3, 0, 0, 0)
    entry = world.main.stat("main", "in/a/x")
    expected = ObjectEntry("in/a/x", f"file://{folder}/a/x", 3, f"mtime:{TIME}", TIME // 10**9)
    assert entry == expected
    assert noted_time(entry.checksum) == TIME
    assert md5_of(entry) == ""


def test_an_unchanged_folder_has_no_changes_and_a_newer_file_of_the_same_size_is_one(folder: Path) -> None:
    world = World()
    trust(world, folder)
    assert trust(world, folder) == (0, 0, 0, 3)
    (folder / "b").write_text("THREE")
    os.utime(folder / "b", ns=(TIME, TIME + 1))
    assert trust(world, folder) == (0, 1, 0, 2)
    (folder / "a/x").write_text("other")
    os.utime(folder / "a/x", ns=(TIME, TIME))
    assert trust(world, folder) == (0, 1, 0, 2)


def test_what_keeps_size_and_time_is_not_found_whatever_its_inode(folder: Path) -> None:
    world = World()
    trust(world, folder)
    (folder / "new").write_text("THREE")
    os.utime(folder / "new", ns=(TIME, TIME))
    (folder / "new").replace(folder / "b")
    assert trust(world, folder) == (0, 0, 0, 3)


def test_an_import_that_reads_the_files_replaces_all_of_them_and_the_other_way_round(folder: Path) -> None:
    world = World()
    trust(world, folder)
    assert world.main.import_folder("main", folder, "in/").changes.replaced == 3
    assert trust(world, folder) == (0, 3, 0, 0)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("confinement", [None, Confinement()])
def test_the_listing_is_the_same_in_batches_by_several_processes_and_confined(
    workers: int, confinement: Confinement | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = RecordCodec(NAMESPACE)
    write_files(folder, {f"{n % 7}/f{n:03}": "x" * (n % 5) for n in range(100)})
    alone = list(FolderListing(folder, "in/", codec, trust_mtime=True)())
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            entry = ObjectEntry(
                f"in/{path.relative_to(folder)}",
                f"file://{path}",
                status.st_size,
                time_checksum(status.st_mtime_ns),
                int(status.st_mtime),
            )
            assert (entry.path.encode(), codec.encode(entry)) in alone
    small_pieces(monkeypatch)
    files = files_below(folder, confinement)
    told: list[tuple[int, int]] = []
    progress: Callable[[int, int], None] = lambda *new: told.append(new)  # noqa: E731
    listing = FolderListing(folder, "in/", codec, progress, workers=workers, files=files, trust_mtime=True)
    assert list(listing()) == alone
    assert sum(objects for objects, _ in told) == len(alone) == 103


def test_no_file_is_opened(open_folder: Path) -> None:
    write_files(open_folder, {"a": "1", "b/c": "2"})
    (open_folder / "a").chmod(0)

    def imported() -> None:
        world = World()
        assert trust(world, open_folder) == (2, 0, 0, 0)
        assert paths(world.main) == ["in/a", "in/b/c"]

    without_rights(imported)


def test_a_single_file_by_its_address(folder: Path) -> None:
    world = World()
    address = ImportAddress(AddressType.OBJECT, f"file://{folder}/b", "one")
    world.main.import_addresses("main", [address], trust_mtime=True)
    assert world.main.stat("main", "one").checksum == f"mtime:{TIME}"
    (folder / "b").unlink()
    os.mkfifo(folder / "b")
    with pytest.raises(Exception, match="does not exist"):
        world.main.import_addresses("main", [address], trust_mtime=True)


def test_sources_that_are_no_files_are_refused() -> None:
    world = World()
    address = ImportAddress(AddressType.COMMON_PREFIX, f"{NAMESPACE}/x/", "one/")
    with pytest.raises(InvalidError, match=r"trust_mtime applies only to files.*leave trust_mtime out"):
        world.main.import_addresses("main", [address], trust_mtime=True)


def test_a_file_that_vanishes_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = FolderListing(folder, "", RecordCodec(NAMESPACE), trust_mtime=True)
    batches = list(listing.batches())
    (folder / "b").unlink()
    monkeypatch.setattr(FolderListing, "batches", lambda _: iter(batches))
    with pytest.raises(UnavailableError, match=r"in/b'.*No such file.*nothing was imported"):
        list(listing())


# Who reads and checks


def changed(folder: Path) -> World:
    """A lake of the folder, one file of which was modified after, with as many bytes."""
    world = World()
    trust(world, folder)
    (folder / "b").write_text("THREE")
    os.utime(folder / "b", ns=(TIME, TIME + 1_000_000))
    return world


def test_whole_reads_compare_the_time_and_others_the_size(folder: Path) -> None:
    world = World()
    trust(world, folder)
    assert world.main.read("main", "in/b") == b"three"
    world = changed(folder)
    with pytest.raises(
        DamagedObjectError, match=r"modified since, expected 5 bytes with the time 2023-11-14T22:13:20\.1234"
    ):
        world.main.read("main", "in/b")
    entry = world.main.stat("main", "in/b")
    assert b"".join(world.main.bytes_in("main", entry, verify=False)) == b"THREE"
    assert b"".join(world.main.bytes_in("main", entry, 1, 2)) == b"HR"
    (folder / "b").write_text("much longer")
    with pytest.raises(DamagedObjectError, match="more than 5 bytes"):
        world.main.read("main", "in/b")


def test_an_export_does_not_write_a_file_that_was_modified(folder: Path, tmp_path: Path) -> None:
    world = changed(folder)
    with pytest.raises(DamagedObjectError, match="modified since"):
        world.main.export("main", tmp_path / "out")
    assert not (tmp_path / "out" / "in" / "b").exists()


def test_two_files_of_one_size_and_time_are_not_the_same_bytes(folder: Path) -> None:
    one = ObjectEntry("p", f"file://{folder}/b", 5, time_checksum(TIME), 1)
    other = ObjectEntry("p", f"file://{folder}/c", 5, time_checksum(TIME), 1)
    assert same_bytes(one, one)
    assert not same_bytes(one, other)


@pytest.mark.parametrize("read_bytes", [False, True])
def test_fsck_finds_what_was_modified_and_counts_what_has_no_checksum(read_bytes: bool, folder: Path) -> None:
    world = World()
    trust(world, folder)
    report = world.main.fsck(committed_objects=True, outside_objects=True, object_bytes=read_bytes)
    assert report.findings == ()
    assert report.counts.objects_by_size == (2 if read_bytes else 0)  # of the one without bytes all is known
    report = changed(folder).main.fsck(committed_objects=True, outside_objects=True, object_bytes=read_bytes)
    (finding,) = report.findings
    assert finding.kind is FindingKind.OBJECT_BYTES
    assert "was modified after" in finding.why


@pytest.mark.parametrize(
    "checksum", ["", "mtime", "mtime:", "mtime:-", "mtime:1.5", "mtime: 1", "mtime:١", "x" * 32, "mtime:" + "9" * 30]
)
def test_no_other_checksum_is_a_time(checksum: str) -> None:
    assert noted_time(checksum) is None


@pytest.mark.parametrize("nanoseconds", [0, 1, -1, TIME, -TIME])
def test_a_time_comes_back(nanoseconds: int) -> None:
    assert noted_time(time_checksum(nanoseconds)) == nanoseconds
