"""Imports of empty sources are refused, and every import reports its changes, before and after."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import md5
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from graveler.errors import DirtyBranchError, EmptySourceError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.importing.import_effects import compare_here
from graveler.lake.importing.importer import ImportSource
from graveler.lake.importing.listing_files import ListingError
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, SplitParameters
from graveler.requests.importing import AddressType, ImportAddress, ImportChanges, Imported, ListingOptions
from graveler.tree.tree import Tree
from tests.lake.support import TINY, Before, World, commit, paths, texts, write_files
from tests.lake.test_in_parts import rounds
from tests.support.campaigns import examples
from tests.support.pinned import pinned_import

OPERATIONS = count()
Files = Mapping[str, str]
Door = Callable[[World, Path, Files, str], Callable[..., Imported]]
"""An import of these files to a prefix, by one of the ways in: to be called with ``allow_empty``, ``dry_run``."""


def by_folder(world: World, place: Path, files: Files, to: str) -> Callable[..., Imported]:
    write_files(place, dict(files)).mkdir(exist_ok=True)
    return lambda **terms: world.main.import_folder("main", place, to, **terms)


def address_of(place: Path, files: Files, to: str) -> ImportAddress:
    write_files(place, dict(files)).mkdir(exist_ok=True)
    return ImportAddress(AddressType.COMMON_PREFIX, f"{place.as_uri()}/", to)


def by_address(world: World, place: Path, files: Files, to: str) -> Callable[..., Imported]:
    address = address_of(place, files, to)
    return lambda **terms: world.main.import_addresses("main", [address], **terms)


def by_operation(world: World, place: Path, files: Files, to: str) -> Callable[..., Imported]:
    address = address_of(place, files, to)

    def run(*, allow_empty: bool = False, dry_run: bool = False) -> Imported:
        ask = pinned_import("main", (address,), allow_empty=allow_empty, dry_run=dry_run)
        made = rounds(world, ask, f"op-{next(OPERATIONS)}")
        assert isinstance(made, Imported)
        return made

    return run


def table(files: Files) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("key", "size", "etag", "mtime"))
    lines.writerows((name, len(data), md5(data.encode()).hexdigest(), 7) for name, data in sorted(files.items()))
    return text.getvalue()


def by_csv(world: World, place: Path, files: Files, to: str) -> Callable[..., Imported]:
    place.mkdir()
    (place / "l.csv").write_text(table(files))
    options = ListingOptions(destination=to, base="s3://there/")
    return lambda **terms: world.main.import_listing("main", place / "l.csv", options, **terms)


def by_several_files(world: World, place: Path, files: Files, to: str) -> Callable[..., Imported]:
    place.mkdir()
    half = len(files) // 2
    for number, some in enumerate((sorted(files)[:half], sorted(files)[half:])):
        (place / f"{number}.csv").write_text(table({name: files[name] for name in some}))
    options = ListingOptions(destination=to, base="s3://there/")
    return lambda **terms: world.main.import_listing("main", place, options, **terms)


def by_parquet(world: World, place: Path, files: Files, to: str) -> Callable[..., Imported]:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    place.mkdir()
    rows = [(name, len(data), md5(data.encode()).hexdigest(), 7) for name, data in sorted(files.items())]
    types = (pa.string(), pa.int64(), pa.string(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    parquet.write_table(pa.Table.from_arrays(arrays, names=["key", "size", "etag", "mtime"]), place / "l.parquet")
    options = ListingOptions(destination=to, base="s3://there/")
    return lambda **terms: world.main.import_listing("main", place / "l.parquet", options, **terms)


def by_inventory(world: World, place: Path, files: Files, to: str) -> Callable[..., Imported]:
    place.mkdir()
    manifest: dict[str, object] = {"fileFormat": "CSV", "fileSchema": "Key, Size, ETag, LastModifiedDate", "files": []}
    if files:
        data = gzip.compress(table(files).partition("\n")[2].encode())
        (place / "data.csv.gz").write_bytes(data)
        manifest["files"] = [{"key": "data.csv.gz", "size": len(data), "MD5checksum": md5(data).hexdigest()}]
    (place / "manifest.json").write_text(json.dumps(manifest))
    options = ListingOptions(destination=to, base="s3://there/", url_encoded=False)
    return lambda **terms: world.main.import_listing("main", place, options, **terms)


DOORS = (by_folder, by_address, by_operation, by_csv, by_several_files, by_parquet, by_inventory)
each_door = pytest.mark.parametrize("door", DOORS)
LISTINGS = (by_csv, by_several_files, by_parquet, by_inventory)


# Nothing listed


@each_door
def test_a_source_that_lists_nothing_is_refused_unless_it_may(door: Door, tmp_path: Path) -> None:
    world = World()
    commit(world.main, {f"raw/{number:03}": "1" for number in range(302)} | {"other": "1"})
    before = world.main.branch("main")
    empty = door(world, tmp_path / "source", {}, "raw/")
    for terms in ({}, {"dry_run": True}):
        with pytest.raises(EmptySourceError, match=r"lists no objects for 'raw/'.*Nothing was changed.*allow_empty"):
            empty(**terms)
    assert world.main.branch("main") == before
    rehearsed = empty(allow_empty=True, dry_run=True)
    assert (rehearsed.id, world.main.branch("main")) == ("", before)
    made = empty(allow_empty=True)
    assert paths(world.main) == ["other"]
    assert made.changes == rehearsed.changes == ImportChanges(removed=302, removed_bytes=302)


@each_door
def test_a_source_that_is_empty_when_the_import_is_repeated_is_refused(door: Door, tmp_path: Path) -> None:
    world = World()
    door(world, tmp_path / "full", {"a": "1", "b": "2"}, "raw/")()
    head = world.main.commit_of("main")
    with pytest.raises(EmptySourceError):
        door(world, tmp_path / "emptied", {}, "raw/")()
    assert world.main.commit_of("main") == head
    assert paths(world.main) == ["raw/a", "raw/b"]


def test_the_error_names_what_was_to_be_imported(tmp_path: Path) -> None:
    world = World()
    with pytest.raises(EmptySourceError) as told:
        by_folder(world, tmp_path / "in", {}, "x/")()
    assert told.value.sources == ((f"folder '{tmp_path}/in'", "x/"),)
    with pytest.raises(EmptySourceError) as told:
        by_address(world, tmp_path / "in", {}, "x")()
    assert told.value.sources == ((f"'file://{tmp_path}/in/'", "x/"),)
    listing = tmp_path / "l.csv"
    listing.write_text(table({"a/b": "1"}))
    with pytest.raises(EmptySourceError) as told:
        world.main.import_listing("main", listing, ListingOptions("c/", "x/", "s3://b/"))
    name = f"listing '{listing}' (rows whose key or address starts with 'c/')"
    assert told.value.sources == ((name, "x/"),)


@pytest.mark.parametrize("in_parts", [False, True])
def test_of_several_sources_each_that_lists_nothing_is_named(tmp_path: Path, *, in_parts: bool) -> None:
    world = World()
    commit(world.main, {"a/1": "1", "b/1": "1", "c/1": "1", "d/1": "1"})
    addresses = (
        address_of(tmp_path / "a", {"new": "2"}, "a"),
        address_of(tmp_path / "b", {}, "b"),
        address_of(tmp_path / "c", {}, "c"),
    )
    ask = pinned_import("main", addresses)
    with pytest.raises(EmptySourceError) as told:
        _ = rounds(world, ask) if in_parts else world.main.import_addresses("main", addresses)
    assert told.value.sources == tuple((f"'file://{tmp_path}/{name}/'", f"{name}/") for name in "bc")
    assert paths(world.main) == ["a/1", "b/1", "c/1", "d/1"]
    imported = world.main.import_addresses("main", addresses, allow_empty=True)
    assert paths(world.main) == ["a/new", "d/1"]
    assert imported.changes == ImportChanges(added=1, added_bytes=1, removed=3, removed_bytes=3)


def test_rows_of_which_none_counts_are_nothing(tmp_path: Path) -> None:
    world = World()
    listing = tmp_path / "l.csv"
    listing.write_text("key,size,etag,is_latest\na,1,x,false\nb,1,x,false\n")
    with pytest.raises(EmptySourceError):
        world.main.import_listing("main", listing, ListingOptions(base="s3://b/"))


# Cut short


def imported_nothing(world: World, act: Callable[[], object], error: type[Exception], match: str) -> None:
    head = world.main.commit_of("main")
    with pytest.raises(error, match=match):
        act()
    assert world.main.commit_of("main") == head


MANY = {f"{number:04}": "1" for number in range(5_000)}


@pytest.mark.parametrize("allow_empty", [False, True])
@pytest.mark.parametrize(
    ("door", "file", "cut", "match"),
    [
        (by_csv, "l.csv", -40, "truncated"),
        (by_several_files, "1.csv", -40, "truncated"),
        (by_several_files, "1.csv", 0, "is empty"),
        (by_parquet, "l.parquet", -1, "not a valid Parquet"),
        (by_parquet, "l.parquet", 50, "not a valid Parquet"),
        (by_inventory, "data.csv.gz", -1, "not the file in the manifest"),
        (by_inventory, "manifest.json", -2, "not a manifest"),
    ],
)
def test_a_listing_file_that_was_cut_short_imports_nothing(
    door: Door, file: str, cut: int, match: str, tmp_path: Path, *, allow_empty: bool
) -> None:
    world = World(SplitParameters())
    door(world, tmp_path / "whole", MANY, "in/")()
    again = door(world, tmp_path / "cut", MANY, "in/")
    data = (tmp_path / "cut" / file).read_bytes()
    (tmp_path / "cut" / file).write_bytes(data[:cut])
    imported_nothing(world, lambda: again(allow_empty=allow_empty), ListingError, match)


@pytest.mark.parametrize("cut", [-1, -8, -100, 200])
def test_a_gzip_stream_that_ends_early_imports_nothing(cut: int, tmp_path: Path) -> None:
    world = World(SplitParameters())
    listing = tmp_path / "l.csv.gz"
    listing.write_bytes(gzip.compress(table(MANY).encode())[:cut])
    options = ListingOptions(base="s3://b/")
    imported_nothing(
        world,
        lambda: world.main.import_listing("main", listing, options),
        ListingError,
        "truncated gzip file",
    )


def test_a_file_of_an_inventory_that_is_missing_or_another_one_imports_nothing(tmp_path: Path) -> None:
    world = World()
    run = by_inventory(world, tmp_path / "i", {"a": "1"}, "")
    run()
    data = tmp_path / "i" / "data.csv.gz"
    good = data.read_bytes()
    other = gzip.compress(gzip.decompress(good).replace(b"a", b"b"))
    data.write_bytes(other.ljust(len(good), b"\0"))
    imported_nothing(world, run, ListingError, "not the file in the manifest")
    data.unlink()
    imported_nothing(world, run, ListingError, "not found near it")


def test_a_last_line_without_its_end_counts_if_it_has_all_fields(tmp_path: Path) -> None:
    world = World()
    run = by_csv(world, tmp_path / "l", {"a": "1", "b": "2"}, "")
    file = tmp_path / "l" / "l.csv"
    file.write_text(file.read_text().removesuffix("\n"))
    assert run().changes.added == 2


def test_a_bucket_whose_listing_fails_behind_some_objects_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    bucket = world.objects("mem://bucket")
    for number in range(5):
        bucket.put(f"in/{number}", b"1")
    located = {"locate_external": lambda address: (bucket, address.removeprefix("mem://bucket/"))}
    monkeypatch.setattr(world.main, "parts", structs.replace(world.main.parts, **located))
    address = ImportAddress(AddressType.COMMON_PREFIX, "mem://bucket/in/", "in/")
    assert world.main.import_addresses("main", [address]).changes.added == 5
    whole = bucket.list

    def torn(prefix: str = "", after: str = "") -> Iterator[object]:
        for number, stored in enumerate(whole(prefix, after)):
            if number == 3:
                raise UnavailableError("the store is away")
            yield stored

    monkeypatch.setattr(bucket, "list", torn)
    imported_nothing(world, lambda: world.main.import_addresses("main", [address]), UnavailableError, "is away")


def test_a_folder_that_is_gone_is_no_empty_one(tmp_path: Path) -> None:
    world = World()
    run = by_folder(world, tmp_path / "in", {"a": "1"}, "in/")
    run()
    (tmp_path / "in" / "a").unlink()
    (tmp_path / "in").rmdir()
    imported_nothing(world, lambda: run(allow_empty=True), NotFoundError, "does not exist")


# Added, replaced, removed


SIZES = st.integers(0, 5)
CONTENTS = st.dictionaries(st.text("abc/", min_size=1, max_size=4), SIZES, max_size=40)


def source_of(repository: OpenRepository, destination: str, contents: Mapping[str, int]) -> ImportSource:
    """Objects whose identity is their size."""
    entries = {
        f"{destination}{name}": ObjectEntry(f"{destination}{name}", f"mem://o/{size}", size, f"{size:032x}", 0)
        for name, size in contents.items()
    }
    records = [(path.encode(), repository.codec.encode(entry)) for path, entry in sorted(entries.items())]
    return ImportSource(destination.encode(), True, lambda: iter(records))


def difference(old: Mapping[str, int], new: Mapping[str, int]) -> ImportChanges:
    """By plain dicts."""
    replaced = [name for name in old.keys() & new.keys() if old[name] != new[name]]
    unchanged = [name for name in old.keys() & new.keys() if old[name] == new[name]]
    return ImportChanges(
        len(new.keys() - old.keys()),
        sum(new[name] for name in new.keys() - old.keys()),
        len(replaced),
        sum(old[name] for name in replaced),
        sum(new[name] for name in replaced),
        len(old.keys() - new.keys()),
        sum(old[name] for name in old.keys() - new.keys()),
        len(unchanged),
        sum(new[name] for name in unchanged),
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=3), CONTENTS)
def test_what_an_import_says_is_the_difference_of_dicts_before_and_after(
    pairs: list[tuple[dict[str, int], dict[str, int]]], around: dict[str, int]
) -> None:
    world = World(TINY)
    main = world.main
    main.import_sources(
        "main", [source_of(main, "", {f"x{name}": size for name, size in around.items()})], "m", allow_empty=True
    )
    places = [f"x{number}/" for number in range(len(pairs))]
    first = [source_of(main, place, old) for place, (old, _) in zip(places, pairs, strict=True)]
    # What is around may lie at the destinations, too.
    main.import_sources("main", first, "old", allow_empty=True)
    sources = [source_of(main, place, new) for place, (_, new) in zip(places, pairs, strict=True)]
    head = main.branch("main")
    rehearsed = main.import_sources("main", sources, "new", allow_empty=True, dry_run=True)
    assert main.branch("main") == head
    made = main.import_sources("main", sources, "new", allow_empty=True)
    old = {f"{place}{name}": size for place, (o, _) in zip(places, pairs, strict=True) for name, size in o.items()}
    new = {f"{place}{name}": size for place, (_, n) in zip(places, pairs, strict=True) for name, size in n.items()}
    assert made.changes == rehearsed.changes == difference(old, new)
    assert (made.changes.objects, made.changes.bytes) == (len(new), sum(new.values()))
    assert made.metarange == rehearsed.metarange
    assert made == main.commit_of("main")
    assert {e.path: e.size for e in main.objects("main") if e.path.startswith(tuple(places))} == new


@each_door
def test_every_door_says_what_it_changes(door: Door, tmp_path: Path) -> None:
    world = World()
    first = door(world, tmp_path / "in", {"a": "1", "b": "22", "c": "333"}, "in/")()
    assert first.changes == ImportChanges(added=3, added_bytes=6)
    same = door(world, tmp_path / "in2", {"d": "4"}, "out/")
    assert same(dry_run=True).changes == ImportChanges(added=1, added_bytes=1)
    assert paths(world.main) == ["in/a", "in/b", "in/c"]
    if door in LISTINGS:  # the same address, other contents
        again = door(world, tmp_path / "again", {"b": "22", "c": "4444", "e": ""}, "in/")
        expected = ImportChanges(1, 0, 1, 3, 4, 1, 1, 1, 2)
    else:
        for name, text in (("c", "4444"), ("e", "")):
            (tmp_path / "in" / name).write_text(text)
        (tmp_path / "in" / "a").unlink()
        again = door(world, tmp_path / "in", {}, "in/")
        expected = ImportChanges(1, 0, 1, 3, 4, 1, 1, 1, 2)
    assert again(dry_run=True).changes == expected
    assert again().changes == expected
    assert again().changes == ImportChanges(unchanged=3, unchanged_bytes=6)


def test_one_object_is_compared_by_itself(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"one": "1", "one/more": "1", "one0": "1"})
    (tmp_path / "f").write_text("22")
    address = ImportAddress(AddressType.OBJECT, (tmp_path / "f").as_uri(), "one")
    made = world.main.import_addresses("main", [address])
    assert made.changes == ImportChanges(replaced=1, replaced_bytes_before=1, replaced_bytes_after=2)
    assert world.main.import_addresses("main", [address]).changes == ImportChanges(unchanged=1, unchanged_bytes=2)


def test_a_repeated_request_says_what_the_first_one_changed(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"in/a": "1", "in/b": "1", "out": "1"})
    folder = write_files(tmp_path / "in", {"b": "22", "c": "333"})
    first = world.main.import_folder("main", folder, "in/", request_id="r")
    (folder / "b").unlink()
    (folder / "c").unlink()
    again = world.repository().import_folder("main", folder, "in/", request_id="r")
    assert again == first
    assert again.changes == ImportChanges(1, 3, 1, 1, 2, 1, 1)


def test_what_others_change_meanwhile_is_in_what_an_import_says(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"in/a": "1", "out": "1"})
    folder = write_files(tmp_path / "in", {"b": "22"})
    hook = Before("tables.transact", 1, lambda: commit(world.main, {"in/b": "1", "in/c": "1", "in/a": None}))
    made = world.repository(hook).import_folder("main", folder, "in/")
    assert made.changes == ImportChanges(0, 0, 1, 1, 2, 1, 1)
    assert texts(world.main)["in/b"] == "22"


def test_commits_elsewhere_cost_no_second_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    commit(world.main, {f"in/{number:03}": "1" for number in range(100)})
    commit(world.main, {f"z/{number:03}": "1" for number in range(100)})
    folder = write_files(tmp_path / "in", {f"{number:03}": "22" for number in range(100)})
    compared: list[bool] = []

    def counted(destination: bytes, is_prefix: bool) -> Callable[[Tree, Tree], object]:
        compared.append(True)
        return compare_here(destination, is_prefix)

    monkeypatch.setattr("graveler.lake.importing.importer.compare_here", counted)
    hook = Before("tables.transact", 1, lambda: commit(world.main, {"z/050": "2"}))
    made = world.repository(hook).import_folder("main", folder, "in/")
    assert hook.reached
    assert made.changes == ImportChanges(0, 0, 100, 100, 200)
    assert len(compared) == 1


# Dry runs


def test_a_dry_run_leaves_the_branch_its_log_and_its_tokens_as_they_are(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"in/a": "1"})
    state, log = world.main.parts.branches.state("main"), world.main.reflog("main")
    made = world.main.import_folder("main", write_files(tmp_path, {"b": "1"}), "in/", dry_run=True, request_id="r")
    assert (made.id, made.parents, made.message) == ("", (state.commit_id,), f"Import {tmp_path}")
    assert (world.main.parts.branches.state("main"), world.main.reflog("main")) == (state, log)
    assert world.main.import_folder("main", tmp_path, "in/", request_id="r").id  # no request was made before


def test_a_dry_run_is_refused_as_the_import_would_be(tmp_path: Path) -> None:
    world = World()
    with pytest.raises(InvalidError, match="outside"):
        world.main.import_sources(
            "main", [ImportSource(b"a/", True, source_of(world.main, "b/", {"x": 1}).records)], "m", dry_run=True
        )
    world.main.upload("main", "dirty", b"1")
    folder = write_files(tmp_path, {"b": "1"})
    for dry_run in (False, True):
        with pytest.raises(DirtyBranchError):
            world.main.import_folder("main", folder, dry_run=dry_run)
