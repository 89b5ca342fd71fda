"""Import of folders: exactly what lies under the destination is replaced, and a failed import leaves the branch as it was."""

import heapq
import os
import threading
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path

import pytest

from graveler.errors import (
    BytesGoneError,
    DirtyBranchError,
    GravelerError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from graveler.lake.importing import folder_listing
from graveler.lake.importing.folder_listing import FolderListing
from graveler.lake.importing.gate import Gate
from graveler.lake.importing.importer import ImportSource
from graveler.lake.importing.prefix_listing import source_at
from graveler.model import ObjectEntry
from graveler.requests.importing import AddressType, ImportAddress
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Objects, StoredObject
from graveler.tree.record import RecordCodec
from tests.lake.support import (
    NAMESPACE,
    Before,
    World,
    commit,
    messages,
    paths,
    put,
    texts,
    without_rights,
    write_files,
)
from tests.support.instruments import Fault


def record(world: World, path: str, text: str = "x") -> tuple[bytes, bytes]:
    entry = ObjectEntry(path, f"mem://o/{text}", 1, "00" * 16, 0)
    return path.encode(), world.main.codec.encode(entry)


def source(world: World, destination: str, names: list[str], *, prefix: bool = True) -> ImportSource:
    def records() -> Iterator[tuple[bytes, bytes]]:
        return iter([record(world, name) for name in sorted(names, key=str.encode)])

    return ImportSource(destination.encode(), prefix, records)


# What is touched


def test_import_to_a_prefix_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    world = World()
    others = ["collections", "collections-old/a", "collections.txt", "collections0", "collection/a", "a", "z"]
    commit(world.main, dict.fromkeys([*others, "collections/old", "collections/x/old", "collections//"], "1"))
    world.main.import_folder("main", write_files(tmp_path, {"new": "2", "x/new": "2"}), "collections/")
    assert sorted(paths(world.main)) == sorted([*others, "collections/new", "collections/x/new"])


def test_import_of_one_object_leaves_longer_names_alone() -> None:
    world = World()
    others = ["data/file", "data/file0", "data/file10", "data/file1/x", "data/file1\0", "data/file2"]
    commit(world.main, dict.fromkeys([*others, "data/file1"], "1"))
    before = {path: world.main.stat("main", path) for path in others}
    world.main.import_sources("main", [source(world, "data/file1", ["data/file1"], prefix=False)], "one object")
    assert {path: world.main.stat("main", path) for path in others} == before
    assert world.main.stat("main", "data/file1").address == "mem://o/x"


@pytest.mark.parametrize("destination", ["a", "a\0", "\0", "é", "b/", "zz", "\U0010ffff", "m"])
@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_import_replaces_an_interval_and_nothing_else(destination: str, prefix: bool, empty: bool) -> None:
    world = World()
    near = ["", "\0", "\0\0", "0", "/", "x", "\x7f", "\u0080", "é", "\U0010ffff"]
    keys = {f"{start}{end}" for start in ("", "a", "a\0", "\0", "é", "b", "b/", "zz", "\U0010ffff") for end in near} - {
        ""
    }
    commit(world.main, dict.fromkeys(sorted(keys), "1"))
    inside = {key for key in keys if (key.startswith(destination) if prefix else key == destination)}
    new = [] if empty else [destination + "/new", destination + "new"] if prefix else [destination]
    world.main.import_sources("main", [source(world, destination, new, prefix=prefix)], "m", allow_empty=empty)
    expected = (keys - inside) | set(new)
    assert paths(world.main) == sorted(expected, key=str.encode)


def test_import_of_several_sources_replaces_each() -> None:
    world = World()
    commit(world.main, dict.fromkeys(["a/1", "b/1", "c", "c/1", "d/1"], "1"))
    sources = [source(world, "d/", ["d/2"]), source(world, "a/", []), source(world, "c", ["c"], prefix=False)]
    world.main.import_sources("main", sources, "m", allow_empty=True)
    assert paths(world.main) == ["b/1", "c", "c/1", "d/2"]
    assert world.main.stat("main", "c").address == "mem://o/x"


@pytest.mark.parametrize(
    "destinations", [["a/", "a/"], ["a/", "a/b/"], ["a/b/", "x", "a/"], ["", "a"], ["a/", "a/b", "a0"], ["", ""]]
)
def test_overlapping_destinations_are_refused(destinations: list[str]) -> None:
    world = World()
    with pytest.raises(InvalidError, match="overlap"):
        world.main.import_sources("main", [source(world, d, []) for d in destinations], "m")


def test_import_of_nothing_commits_the_tree_as_it_is() -> None:
    world = World()
    put(world.main, {"a": "1"})
    before = world.main.commit("main", "one")
    commit = world.main.import_sources("main", [], "nothing")
    assert commit.parents == (before.id,)
    assert commit.metarange == before.metarange


def test_addresses_are_imported_as_the_object_stores_take_prefixes(tmp_path: Path) -> None:
    for name in ("in/b/1", "in/b/2/x", "in/bc", "in/c", "other"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    world = World()
    put(world.main, {"p/old": "1", "q/old": "1", "one": "1"})
    world.main.commit("main", "before")
    addresses = [
        ImportAddress(AddressType.COMMON_PREFIX, f"file://{tmp_path}/in/b", "p"),
        ImportAddress(AddressType.COMMON_PREFIX, f"file://{tmp_path}/in/b/", "r/"),
        ImportAddress(AddressType.OBJECT, f"file://{tmp_path}/other", "one"),
    ]
    world.main.import_addresses("main", addresses)
    assert paths(world.main) == ["one", "p/b/1", "p/b/2/x", "p/bc", "q/old", "r/1", "r/2/x"]
    assert world.main.stat("main", "one").checksum == md5(b"other").hexdigest()
    assert world.main.commit_of("main").message == "Import objects"


class Console(MemoryObjects):
    """A bucket in which somebody created folders by S3's console: no adapter of ours would write such keys."""

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        markers = [StoredObject(key, size, '"0"', 0.0) for key, size in (("in/", 0), ("in/b/", 0), ("in/full/", 9))]
        both = heapq.merge(super().list(prefix, after), markers, key=lambda stored: stored.key)
        return (stored for stored in both if stored.key.startswith(prefix) and stored.key > after)


def test_other_stores_are_listed_and_their_etags_taken_for_checksums() -> None:
    bucket = Console("mem://bucket")
    for name in ("in/b/1", "in/b/ä x", "in/bc", "in/c", "top"):
        bucket.put(name, name.encode())
    codec = RecordCodec("mem://repo")

    def outside(address: str) -> tuple[Objects, str]:
        return bucket, address.removeprefix("mem://bucket/")

    def taken(kind: AddressType, address: str, destination: str) -> dict[str, ObjectEntry]:
        source = source_at(ImportAddress(kind, address, destination), codec, Gate("mem://repo", outside))
        records = list(source.records())
        assert records == sorted(records)
        return {key.decode(): codec.decode(key, packed) for key, packed in records}

    found = taken(AddressType.COMMON_PREFIX, "mem://bucket/in/b", "p")
    assert {path: entry.address for path, entry in found.items()} == {
        "p/b/1": "mem://bucket/in/b/1",
        "p/b/ä x": "mem://bucket/in/b/ä x",
        "p/bc": "mem://bucket/in/bc",
    }
    assert found["p/bc"].checksum == bucket.head("in/bc").etag.strip('"')
    assert found["p/bc"].size == len("in/bc")
    assert list(taken(AddressType.COMMON_PREFIX, "mem://bucket/in/b/", "")) == ["1", "ä x"]
    for root in ("mem://bucket", "mem://bucket/"):
        assert len(taken(AddressType.COMMON_PREFIX, root, "all/")) == 6
    assert list(taken(AddressType.OBJECT, "mem://bucket/top", "one")) == ["one"]
    with pytest.raises(NotFoundError, match="nothing was imported"):
        taken(AddressType.OBJECT, "mem://bucket/none", "one")
    gate = Gate("mem://repo", outside)
    every = source_at(ImportAddress(AddressType.COMMON_PREFIX, "mem://bucket/in/b/", "p"), codec, gate, folders=True)
    assert [key for key, _ in every.records()] == [b"p/", b"p/1", "p/ä x".encode()]
    named = taken(AddressType.OBJECT, "mem://bucket/top", "one/")
    assert list(named) == ["one/"], "an object that is named is no marker"


@pytest.mark.parametrize(
    ("kind", "address", "error"),
    [
        (AddressType.OBJECT, "file:///no/such/file", NotFoundError),
        (AddressType.OBJECT, "file:///no/such/", InvalidError),
        (AddressType.COMMON_PREFIX, "file:///no/such/folder/", NotFoundError),
        (AddressType.COMMON_PREFIX, "ftp://host/x", InvalidError),
        (AddressType.COMMON_PREFIX, "file://host/x", InvalidError),
        (AddressType.OBJECT, "file:///etc/../etc/passwd", InvalidError),
        (AddressType.OBJECT, "file:///a/\0", InvalidError),
        (AddressType.OBJECT, "", InvalidError),
    ],
)
def test_addresses_that_cannot_be_imported_change_nothing(
    kind: AddressType, address: str, error: type[Exception]
) -> None:
    world = World()
    before = world.main.branch("main")
    with pytest.raises(error):
        world.main.import_addresses("main", [ImportAddress(kind, address, "x")])
    assert world.main.branch("main") == before


@pytest.mark.parametrize(("destination", "prefix"), [("a/", True), ("a/x", False)])
def test_records_outside_of_the_destination_are_refused(destination: str, prefix: bool) -> None:
    world = World()
    with pytest.raises(InvalidError, match="outside"):
        world.main.import_sources("main", [source(world, destination, ["a0"], prefix=prefix)], "m")
    assert paths(world.main) == []


@pytest.mark.parametrize("listed", [["a/1", "a0", "a/2"], ["a/1", "a/2", "b"], ["Z", "a/1"]])
def test_one_record_outside_of_the_destination_is_enough(listed: list[str]) -> None:
    world = World()
    with pytest.raises(InvalidError, match=r"outside|order"):
        world.main.import_sources("main", [source(world, "a/", listed)], "m")
    assert paths(world.main) == []


def test_records_out_of_order_are_refused() -> None:
    world = World()
    listing = ImportSource(b"", True, lambda: iter([record(world, "b"), record(world, "a")]))
    with pytest.raises(InvalidError, match="order"):
        world.main.import_sources("main", [listing], "m")
    assert paths(world.main) == []


def test_an_empty_folder_empties_its_destination_if_it_may(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"a/1": "1", "b": "1"})
    world.main.import_folder("main", tmp_path, "a/", allow_empty=True)
    assert paths(world.main) == ["b"]
    world.main.import_folder("main", tmp_path, allow_empty=True)
    assert paths(world.main) == []


def test_an_empty_destination_replaces_everything(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"a": "1", "\0": "1", "\U0010ffff": "1"})
    world.main.import_folder("main", write_files(tmp_path, {"x/y": "1", "x.y": "2", "x0": "3"}))
    assert texts(world.main) == {"x.y": "2", "x/y": "1", "x0": "3"}  # a folder sorts with its slash
    assert paths(world.main) == ["x.y", "x/y", "x0"]


@pytest.mark.parametrize("destination", ["a", "a/b"])
def test_a_destination_without_slash_is_refused(destination: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="end with '/'"):
        World().main.import_folder("main", tmp_path, destination)


def test_import_into_a_dirty_branch_is_refused_before_the_folder_is_read(tmp_path: Path) -> None:
    world = World()
    put(world.main, {"x": "1"})
    seen: list[int] = []
    with pytest.raises(DirtyBranchError):
        world.main.import_folder("main", write_files(tmp_path, {"a": "1"}), progress=lambda n, _: seen.append(n))
    assert seen == []


def test_import_against_a_concurrent_commit_takes_both(tmp_path: Path) -> None:
    world = World()
    folder = write_files(tmp_path, {"new": "1"})
    hook = Before("tables.transact", 1, lambda: commit(world.main, {"data/x": "1", "other": "1"}, message="other"))
    world.repository(hook).import_folder("main", folder, "data/")
    assert paths(world.main) == ["data/new", "other"]
    assert messages(world.main)[:2] == [f"Import {folder}", "other"]


def test_import_is_the_same_tree_as_uploading_by_reference(tmp_path: Path) -> None:
    world = World()
    folder = write_files(tmp_path, {f"d{n % 7}/f{n}": str(n % 3) for n in range(200)})
    imported = world.main.import_folder("main", folder, "in/")
    entries = list(world.main.objects("main"))
    world.main.create_branch("b", "main~1")
    world.main.link_many("b", entries)
    assert world.main.commit("b", "m").metarange == imported.metarange


# Folders as they come


def listed(folder: Path, destination: str = "") -> dict[str, ObjectEntry]:
    codec = RecordCodec(NAMESPACE)
    records = list(FolderListing(folder, destination, codec)())
    keys = [key for key, _ in records]
    assert keys == sorted(keys)
    return {key.decode(): codec.decode(key, packed) for key, packed in records}


def test_links_are_followed_inside_the_folder_and_others_are_told(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "f", {"a/real": "text", "b/other": "1"})
    write_files(tmp_path / "out", {"x": "1"})
    (folder / "out").symlink_to(tmp_path / "out")
    (folder / "b" / "round").symlink_to(folder / "a")
    (folder / "a" / "round").symlink_to(folder / "b")
    (folder / "link").symlink_to("a/real")
    (folder / "a" / "link").symlink_to(folder / "link")
    (folder / "a" / "up").symlink_to("..")
    (folder / "folder").symlink_to("b")
    (folder / "broken").symlink_to("nowhere")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    found = listed(folder)
    wanted = {"a/link", "a/real", "a/round/other", "b/other", "b/round/link", "b/round/real"}
    assert set(found) == wanted | {"folder/other", "folder/round/link", "folder/round/real", "link"}
    assert found["a/link"].checksum == found["a/real"].checksum
    assert found["folder/other"].address == f"file://{folder}/folder/other"
    world = World()
    imported = world.main.import_folder("main", folder)
    assert sorted(link.removeprefix(f"{folder}/") for link in imported.skipped) == [
        "a/round/round",
        "a/up",
        "b/round/round",
        "b/round/up",
        "broken",
        "circle",
        "folder/round/round",
        "folder/round/up",
        "out",
    ]
    assert found["a/link"].address == f"file://{folder}/a/link"


def test_a_file_that_was_removed_after_its_import_is_told(tmp_path: Path) -> None:
    world = World()
    (tmp_path / "a").write_text("1")
    world.main.import_folder("main", tmp_path)
    (tmp_path / "a").unlink()
    with pytest.raises(
        BytesGoneError, match=rf"'a' in 'main' are gone: there is no longer anything at file://{tmp_path}/a"
    ):
        world.main.read("main", "a")


def test_names_that_are_not_utf8_are_refused_by_name(tmp_path: Path) -> None:
    world = World()
    (tmp_path / "ok").write_text("1")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).write_text("1")
    with pytest.raises(InvalidError, match=r"the name of '[^']*bad\\xff' is not.*rename"):
        world.main.import_folder("main", tmp_path)
    assert paths(world.main) == []
    below = Path(os.fsdecode(os.fsencode(tmp_path) + b"/folder\xff"))
    below.mkdir()
    with pytest.raises(InvalidError, match="not UTF-8"):
        world.main.import_folder("main", below)


def test_paths_too_long_for_a_key_are_refused(tmp_path: Path) -> None:
    world = World()
    deep = tmp_path
    for _ in range(5):
        deep = deep / ("d" * 250)
    deep.mkdir(parents=True)
    world.main.import_folder("main", tmp_path, allow_empty=True)  # no file yet
    (deep / "f").write_text("1")
    with pytest.raises(InvalidError, match="must have 1 to 1,024"):
        world.main.import_folder("main", tmp_path)


def test_folders_may_be_very_deep(tmp_path: Path) -> None:
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(480):
            Path("d").mkdir()
            os.chdir("d")
        Path("f").write_text("1")
    finally:
        os.chdir(here)
    assert list(listed(tmp_path)) == ["d/" * 480 + "f"]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_read_is_named(what: str, open_folder: Path) -> None:
    write_files(open_folder, {"a": "1", "locked/b": "1"})
    target = open_folder / ("a" if what == "file" else "locked")
    target.chmod(0)

    def refused() -> None:
        world = World()
        with pytest.raises(UnavailableError, match=f"{target.name}.*no permission"):
            world.main.import_folder("main", open_folder)
        assert paths(world.main) == []

    without_rights(refused)
    target.chmod(0o700)


def test_files_that_vanish_during_the_walk_are_named_and_nothing_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    monkeypatch.setattr(folder_listing, "_BATCH", 4)
    write_files(tmp_path, {f"f{n:03}": "1" for n in range(50)} | {"g/x": "1"})

    def vanish(*_: int) -> None:
        (tmp_path / "f040").unlink(missing_ok=True)

    with pytest.raises(UnavailableError, match=r"f040.*No such file.*nothing was imported"):
        world.main.import_folder("main", tmp_path, progress=vanish)
    write_files(tmp_path, {"f040": "1"})

    def vanish_folder(*_: int) -> None:
        (tmp_path / "g" / "x").unlink(missing_ok=True)
        if (tmp_path / "g").exists():
            (tmp_path / "g").rmdir()

    with pytest.raises(UnavailableError, match=r"/g'.*No such file"):
        world.main.import_folder("main", tmp_path, progress=vanish_folder)
    assert paths(world.main) == []
    assert world.main.parts.branches.state("main").sealed == ()


@pytest.mark.parametrize(("kind", "error"), [("missing", NotFoundError), ("file", InvalidError)])
def test_what_is_no_folder_is_refused(kind: str, error: type[GravelerError], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    with pytest.raises(error, match=kind):
        World().main.import_folder("main", tmp_path / kind)


def import_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("graveler-import")]


def interrupt_after(objects: int) -> Callable[[int, int], None]:
    seen = 0

    def progress(number: int, _: int) -> None:
        nonlocal seen
        seen += number
        if seen >= objects:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("objects", [1, 100, 400])
def test_an_interrupted_import_leaves_the_branch_as_it_was_and_no_thread(objects: int, tmp_path: Path) -> None:
    world = World()
    head = commit(world.main, {"in/a": "1"})
    before = world.main.parts.branches.state("main")
    folder = write_files(tmp_path, {f"f{n:03}": "1" for n in range(400)})
    with pytest.raises(KeyboardInterrupt):
        world.main.import_folder("main", folder, "in/", progress=interrupt_after(objects))
    assert world.main.parts.branches.state("main") == before
    assert world.main.branch("main").commit_id == head
    assert import_threads() == []
    world.main.import_folder("main", folder, "in/")
    assert len(paths(world.main)) == 400


@pytest.mark.parametrize("moment", range(30))
@pytest.mark.parametrize("fault", ["fail_before", "fail_after"])
def test_a_failed_request_during_an_import_leaves_all_of_it_or_nothing(
    moment: int, fault: Fault, tmp_path: Path
) -> None:
    world = World()
    commit(world.main, {"in/a": "1"})
    folder = write_files(tmp_path, {f"f{n:02}": "1" for n in range(60)})
    before, after = ["in/a"], [f"in/f{n:02}" for n in range(60)]
    schedule: Callable[[str, int], Fault] = lambda _, number: fault if number == moment else None  # noqa: E731
    failure: UnavailableError | None = None
    try:
        world.repository(schedule).import_folder("main", folder, "in/")
    except UnavailableError as error:
        failure = error  # and with it the frames that it came through
    assert paths(world.main) in ((after,) if failure is None else (before, after))
    assert import_threads() == []


def test_progress_tells_objects_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(folder_listing, "_BATCH", 2)
    folder = write_files(tmp_path, {"a": "12", "b": "", "c": "123"})
    world.main.import_folder("main", folder, progress=lambda objects, size: told.append((objects, size)))
    assert told == [(2, 2), (1, 3)]
