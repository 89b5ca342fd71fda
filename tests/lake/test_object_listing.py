"""Listings made elsewhere give the same records in any form and order; mistakes are reported with their place."""

import csv
import gzip
import io
import json
import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import md5
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError, NotFoundError, PreconditionError, UnavailableError
from graveler.lake.importing import external_sort, object_listing
from graveler.lake.importing.external_sort import Block, sort_blocks
from graveler.lake.importing.gate import Gate
from graveler.lake.importing.importer import ImportSource
from graveler.lake.importing.listing_files import ListingError
from graveler.lake.importing.listing_rows import encode_external_batch
from graveler.lake.importing.object_listing import ObjectListing
from graveler.lake.importing.prefix_listing import source_at
from graveler.model import ObjectEntry, SplitParameters
from graveler.requests.importing import AddressType, ImportAddress, ListingOptions
from graveler.runtime.local import LocalRuntime
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.parallel_build import build_parallel
from graveler.tree.record import RecordCodec
from graveler.tree.store import TreeStore
from graveler.tree.writer import build
from tests.lake.support import World, entries
from tests.support.campaigns import examples

INSIDE = "s3://lake/ns"
CODEC = RecordCodec(INSIDE)
MD5 = "0123456789abcdef0123456789abcdef"
INVENTORY = (
    "Bucket",
    "Key",
    "VersionId",
    "IsLatest",
    "IsDeleteMarker",
    "Size",
    "LastModifiedDate",
    "ETag",
    "StorageClass",
)
SMALL = 4000
"""Bytes of memory to sort in: enough for some ten records."""


def listed(
    listing: Path | Sequence[Path], options: ListingOptions | None = None, **arguments: Any
) -> dict[str, ObjectEntry]:
    """What a listing says, by path; checks that it comes in order."""
    records = list(ObjectListing(listing, INSIDE, options, **arguments)())
    keys = [key for key, _ in records]
    assert keys == sorted(set(keys))
    return {key.decode(): CODEC.decode(key, packed) for key, packed in records}


def write(path: Path, rows: Iterable[Sequence[object]], header: Sequence[str] = (), *, packed: bool = False) -> Path:
    """A CSV."""
    text = io.StringIO()
    writer = csv.writer(text)
    if header:
        writer.writerow(header)
    writer.writerows(rows)
    data = text.getvalue().encode("utf-8", "surrogateescape")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def write_parquet(
    path: Path, columns: Mapping[str, list[Any]], types: Mapping[str, Any] | None = None, *, group: int = 1000
) -> Path:
    """``types`` by column, as pyarrow's names of types."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    arrays = {
        name: arrow.array(values, type=(types or {}).get(name) and arrow.type_for_alias((types or {})[name]))
        for name, values in columns.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.table(arrays), path, row_group_size=group)
    return path


def plain(path: Path, keys: Iterable[str], **more: Any) -> Path:
    """A plain listing of these keys, whose sizes are their places."""
    return write(path, [(key, n, MD5) for n, key in enumerate(keys)], ("path", "size", "checksum"), **more)


BASE = ListingOptions(base="s3://b/")


# Forms


def test_an_inventory_in_csv_by_its_manifest(tmp_path: Path) -> None:
    old, new, time = "2020-01-01T00:00:00.000Z", "2024-02-29T23:59:59.999Z", 1709251199
    rows: list[Sequence[object]] = [
        ("b", "a+b%2Bc%25/%C3%BC", "2", "true", "false", 5, new, MD5, "STANDARD"),
        ("b", "a+b%2Bc%25/%C3%BC", "1", "false", "false", 4, old, MD5, "STANDARD"),
        ("b", "folder/", "3", "true", "false", 0, new, MD5, "STANDARD"),
        ("b", "folder/full/", "3", "true", "false", 1, new, MD5, "STANDARD"),
        ("b", "gone", "4", "true", "true", "", new, "", ""),
        ("b", "gone", "3", "false", "false", 9, new, MD5, "GLACIER"),
        ("b", "parts", "5", "true", "false", 2**40, new, "abc-17", "STANDARD"),
    ]
    data = write(tmp_path / "bucket/config/data/1.csv.gz", rows, packed=True)
    manifest = tmp_path / "bucket/config/2024-03-01T00-00Z/manifest.json"
    manifest.parent.mkdir()
    manifest.write_text(
        json.dumps(
            {
                "sourceBucket": "b",
                "destinationBucket": "arn:aws:s3:::inventories",
                "version": "2016-11-30",
                "fileFormat": "CSV",
                "fileSchema": ", ".join(INVENTORY),
                "files": [
                    {
                        "key": "elsewhere/bucket/config/data/1.csv.gz",
                        "size": data.stat().st_size,
                        "MD5checksum": md5(data.read_bytes()).hexdigest(),
                    }
                ],
            }
        )
    )
    expected = {
        "a b+c%/ü": ObjectEntry("a b+c%/ü", "s3://b/a b+c%/ü", 5, MD5, time),
        "folder/full/": ObjectEntry("folder/full/", "s3://b/folder/full/", 1, MD5, time),
        "parts": ObjectEntry("parts", "s3://b/parts", 2**40, "abc-17", time),
    }
    assert listed(manifest) == expected
    assert listed(manifest.parent) == expected
    with_folders = listed(manifest, ListingOptions(folders=True))
    assert with_folders.keys() == {*expected, "folder/"}
    manifest_2 = write(tmp_path / "flat/1.csv.gz", rows, packed=True).with_name("manifest.json")
    manifest_2.write_text(manifest.read_text())
    assert listed(manifest_2, ListingOptions(destination="in/")).keys() == {"in/" + key for key in expected}
    data.write_bytes(data.read_bytes() + b"\0")
    with pytest.raises(ListingError, match=r"1\.csv\.gz' is not the file in the manifest: it has"):
        listed(manifest)
    data.unlink()
    with pytest.raises(ListingError, match=r"'elsewhere/bucket/config/data/1\.csv\.gz' is named in the manifest"):
        listed(manifest)


def test_an_inventory_in_parquet_by_its_manifest(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "bucket": ["b"] * 4,
        "key": ["a+%2B", "b", "b", "c/"],
        "version_id": [None] * 4,
        "is_latest": [True, True, False, True],
        "is_delete_marker": [False] * 4,
        "size": [1, 2, None, 0],
        "last_modified_date": [1500, -1500, None, 0],
        "e_tag": [MD5, "abc-2", None, MD5],
    }
    file = write_parquet(tmp_path / "data/x.parquet", columns, {"last_modified_date": "timestamp[ms]"})
    manifest = tmp_path / "manifest.json"
    manifest.write_text(
        json.dumps(
            {
                "fileFormat": "Parquet",
                "fileSchema": "message s3.inventory { … }",
                "files": [{"key": "in/data/x.parquet"}],
            }
        )
    )
    assert listed(manifest) == {
        "a+%2B": ObjectEntry("a+%2B", "s3://b/a+%2B", 1, MD5, 1),
        "b": ObjectEntry("b", "s3://b/b", 2, "abc-2", -2),
    }
    packed = tmp_path / "x.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert listed(packed) == listed(manifest)


def test_a_plain_listing_with_a_header(tmp_path: Path) -> None:
    path = write(
        tmp_path / "l.csv",
        [
            ("b", "s3://x/1", "10", f'"{MD5}"', "1700000000", "text/csv", '{"owner": "ann"}', "ignored"),
            ("a+%20", f"{INSIDE}/y", "20", MD5.upper(), "2024-01-01 00:00:00", "", "", ""),
            ("c", "file:///z z", "30", "x", "2024-01-01T01:00:00+01:00", "", "{}", ""),
            ("d", "file:///d", "30", "y", "1700000000.9", "", "{}", ""),
        ],
        ("Path", "physical_address", "SIZE", "e-tag", "Last Modified", "Content-Type", "metadata", "more"),
    )
    assert listed(path) == {
        "b": ObjectEntry("b", "s3://x/1", 10, MD5, 1700000000, "text/csv", {"owner": "ann"}),
        "a+%20": ObjectEntry("a+%20", f"{INSIDE}/y", 20, MD5.upper(), 1704067200),
        "c": ObjectEntry("c", "file:///z z", 30, "x", 1704067200),
        "d": ObjectEntry("d", "file:///d", 30, "y", 1700000000),
    }


def test_a_byte_order_mark_blank_lines_quotes_and_any_line_ends_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "l"
    path.write_bytes(f'\ufeffkey,size,etag\r\n\r\n"a\nb",1,{MD5}\r\n\n"c ""d"", e",2,{MD5}'.encode())
    assert {key: entry.size for key, entry in listed(path, BASE).items()} == {"a\nb": 1, 'c "d", e': 2}


def test_times_are_those_of_the_listing_where_it_says_none(tmp_path: Path) -> None:
    path = plain(tmp_path / "l", ["a"])
    assert listed(path, BASE)["a"].mtime == int(path.stat().st_mtime)


def test_columns_can_be_named_by_the_caller(tmp_path: Path) -> None:
    path = write(tmp_path / "l", [("x", "b", "a%2F+", 3, MD5)])
    options = ListingOptions(columns=("-", "Bucket", "Key", "Size", "ETag"))
    assert listed(path, options)["a/ "].address == "s3://b/a/ "
    options = ListingOptions(columns=("-", "Bucket", "Key", "Size", "ETag"), url_encoded=False)
    assert listed(path, options)["a%2F+"].address == "s3://b/a%2F+"


def test_columns_of_parquet_may_have_any_fitting_type(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "l"
    table = {
        "key": arrow.array(["a", "b", "b"]).dictionary_encode(),
        "size": arrow.array([1, 2, 3], arrow.uint16()),
        "etag": arrow.array([MD5.encode(), b'"q"', b"c"], arrow.large_binary()),
        "mtime": arrow.array([1, 2, 3], arrow.timestamp("ns", "UTC")),
        "metadata": arrow.array([[("k", "v")], [], None], arrow.map_(arrow.string(), arrow.string())),
        "content_type": arrow.array(["a/b", None, ""]),
    }
    parquet.write_table(arrow.table(table), path)
    assert listed(path, ListingOptions(base="s3://b/", last_wins=True)) == {
        "a": ObjectEntry("a", "s3://b/a", 1, MD5, 0, "a/b", {"k": "v"}),
        "b": ObjectEntry("b", "s3://b/b", 3, "c", 0),
    }


# Prefixes


def test_what_is_outside_of_the_source_does_not_count(tmp_path: Path) -> None:
    path = plain(tmp_path / "l", ["a/1", "a/2", "ab", "b/1"])
    found = listed(path, ListingOptions(source="a/", destination="new/a/", base="file:///mnt/"))
    assert {key: entry.address for key, entry in found.items()} == {
        "new/a/1": "file:///mnt/a/1",
        "new/a/2": "file:///mnt/a/2",
    }
    assert listed(path, ListingOptions(source="c/", base="s3://b/")) == {}
    with pytest.raises(InvalidError, match="destination 'x' of a listing must be empty or end with '/'"):
        listed(path, ListingOptions(destination="x", base="s3://b/"))


def test_the_source_may_be_an_address(tmp_path: Path) -> None:
    rows = [("b", "x/1", 1, MD5), ("c", "x/1", 2, MD5), ("c", "x/2", 3, MD5), ("c", "y", 4, MD5)]
    path = write(tmp_path / "l", rows, ("bucket", "key", "size", "etag"))
    found = listed(path, ListingOptions(source="s3://c/x/"))
    assert {key: (entry.address, entry.size) for key, entry in found.items()} == {
        "1": ("s3://c/x/1", 2),
        "2": ("s3://c/x/2", 3),
    }


def test_addresses_alone_need_a_source(tmp_path: Path) -> None:
    path = write(tmp_path / "l", [("s3://b/x/2", 1, MD5), ("s3://b/x/1", 2, MD5)], ("address", "size", "etag"))
    with pytest.raises(ListingError, match="has addresses but no keys; say which prefix"):
        listed(path)
    assert listed(path, ListingOptions(source="s3://b/", destination="d/")).keys() == {"d/x/1", "d/x/2"}


# Order


def refuse_to_sort(*_: object) -> Iterator[Block]:
    raise AssertionError("sorted, though it is in order")


KEYS = sorted(f"{random.Random(n).randrange(5)}/{n:05}/ü" for n in range(9000))


def test_listings_in_order_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_listing, "sort_blocks", refuse_to_sort)
    assert list(listed(plain(tmp_path / "l", KEYS), BASE)) == KEYS
    cut = [KEYS[:4000], [], KEYS[4000:4001], KEYS[4001:]]
    files = [plain(tmp_path / f"{n}.csv", keys, packed=n % 2 == 0) for n, keys in enumerate(cut)]
    assert list(listed(files[::-1], BASE)) == KEYS
    folder = tmp_path / "folder"
    for n, keys in enumerate(cut[::-1]):
        plain(folder / f"sub{n}" / "part.csv", keys)
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").write_bytes(b"x")
    plain(folder / "_tmp" / "x", ["no"])
    assert list(listed(folder, BASE)) == KEYS


def test_listings_in_any_order_are_sorted(tmp_path: Path) -> None:
    shuffled = KEYS[:]
    random.Random(1).shuffle(shuffled)
    path = plain(tmp_path / "l", shuffled)
    for memory in (SMALL, 1 << 19, 1 << 26):
        found = listed(path, BASE, memory=memory)
        assert list(found) == KEYS
        assert all(shuffled[entry.size] == key for key, entry in found.items())
    interleaved = [plain(tmp_path / f"{n}", KEYS[n::3]) for n in range(3)]
    assert list(listed(interleaved, BASE)) == KEYS


def test_disorder_is_seen_where_batches_meet(tmp_path: Path) -> None:
    keys = [*KEYS[-4096:], *KEYS[:-4096]]
    assert list(listed(plain(tmp_path / "l", keys), BASE)) == KEYS


def test_parquet_in_any_order_is_sorted(tmp_path: Path) -> None:
    shuffled = KEYS[:]
    random.Random(1).shuffle(shuffled)
    for keys in (KEYS, shuffled):
        path = write_parquet(tmp_path / "l", {"key": keys, "size": [1] * len(keys), "etag": [MD5] * len(keys)})
        assert list(listed(path, BASE)) == KEYS


def test_url_encoding_may_change_the_order(tmp_path: Path) -> None:
    keys = ["a%2Fb", "a!"]  # decoded the other way round
    path = write(tmp_path / "l", [("b", key, 1, MD5) for key in keys])
    assert list(listed(path, ListingOptions(columns=("Bucket", "Key", "Size", "ETag")))) == ["a!", "a/b"]


def test_a_file_that_changes_between_two_looks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plain(tmp_path / "l", KEYS)
    listing = ObjectListing(path, INSIDE, BASE)
    records = listing()
    chain = ObjectListing._chain

    def changed(self: ObjectListing) -> object:
        found = chain(self)
        plain(path, KEYS[::-1])
        return found

    monkeypatch.setattr(ObjectListing, "_chain", changed)
    with pytest.raises(ListingError, match="row 3 changed while it was being read"):
        list(records)


@pytest.mark.parametrize("in_order", [True, False])
def test_two_rows_with_one_key_are_an_error_or_the_last_one_wins(tmp_path: Path, *, in_order: bool) -> None:
    more = [] if in_order else ["z", "y"]
    path = plain(tmp_path / "l", ["a", *more, "b", "b", "b", "c"])
    row = 4 + len(more)
    with pytest.raises(
        ListingError, match=rf"row {row}: 'b' occurs a second time, after row {row - 1} of .*l'; remove"
    ) as told:
        listed(path, BASE)
    assert told.value.row == row
    found = listed(path, ListingOptions(base="s3://b/", last_wins=True))
    assert found["b"].size == 3 + len(more)
    # The last one is the one that the listing has last, wherever the files' keys begin.
    files = [plain(tmp_path / "2", ["b", *more, "c"]), plain(tmp_path / "1", ["a", "b"])]
    assert listed(files, ListingOptions(base="s3://b/", last_wins=True))["b"].size == 1
    assert listed(files[::-1], ListingOptions(base="s3://b/", last_wins=True))["b"].size == 0
    with pytest.raises(ListingError, match=r"/1', row 3: 'b' occurs a second time, after row 2 of '.*/2'"):
        listed(files, BASE)


def test_two_rows_with_one_key_are_found_where_batches_meet(tmp_path: Path) -> None:
    keys = [f"{n:05}" for n in range(4096)]
    with pytest.raises(ListingError, match="row 4,098: '04095' occurs a second time, after row 4,097"):
        listed(plain(tmp_path / "l", [*keys, keys[-1]]), BASE)


# Sorting


def blocks(count: int, size: int = 100) -> Iterator[Block]:
    order = random.Random(7)
    for at in range(0, count, 1000):
        keys = [order.randbytes(20) for _ in range(1000)]
        yield keys, list(range(at, at + 1000)), [key * (size // 20) for key in keys]


def test_sorting_takes_bounded_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        merged = sort_blocks(blocks(60_000), 1 << 20, tmp_path)
        total, last = 0, b""
        for keys, _, packed in merged:
            assert last < keys[0]
            assert keys == sorted(keys)
            assert all(value == key * 5 for key, value in zip(keys, packed, strict=True))
            last, total = keys[-1], total + len(keys)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 60_000
    assert peak < 5 << 20, peak  # all at once would take 20 MB


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not tell which files are open")
def test_the_temporary_file_has_no_name_and_goes_with_the_iterator(tmp_path: Path) -> None:
    def open_files() -> int:
        links = []
        for link in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                links.append(str(link.readlink()))
        return sum(link.startswith(str(tmp_path)) for link in links)

    merged = sort_blocks(blocks(3000), SMALL, tmp_path)
    next(merged)
    assert open_files() == 1
    assert not list(tmp_path.iterdir())
    del merged
    assert open_files() == 0


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"sorting in the temporary folder '.*missing' \(TMPDIR or `scratch`"):
        list(sort_blocks(blocks(2000), SMALL, tmp_path / "missing"))

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(external_sort, "TemporaryFile", lambda **_: Full())
    with pytest.raises(UnavailableError, match="the disk is full; free some space"):
        list(sort_blocks(blocks(2000), SMALL, tmp_path))


@given(
    st.lists(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=30)), max_size=30)),
    st.sampled_from([1, 2000]),
)
def test_sorting_keeps_all_records_and_the_order_of_equal_ones(
    rows: list[list[tuple[bytes, bytes]]], memory: int
) -> None:
    flat = [(key, n, packed) for n, (key, packed) in enumerate(row for block in rows for row in block)]
    given_blocks: list[Block] = []
    at = 0
    for block in rows:
        part = flat[at : at + len(block)]
        given_blocks.append(([row[0] for row in part], [row[1] for row in part], [row[2] for row in part]))
        at += len(block)
    found = [row for block in sort_blocks(given_blocks, memory) for row in zip(*block, strict=True)]
    assert found == sorted(flat)


# Parts


def test_parts_build_the_same_tree_in_several_processes(tmp_path: Path) -> None:
    files = [
        plain(tmp_path / "1.csv", KEYS[:3000]),
        write_parquet(
            tmp_path / "2.parquet",
            {"key": KEYS[3000:], "size": list(range(6000)), "etag": [MD5] * 6000},
            group=1500,
        ),
    ]
    listing = ObjectListing(files, INSIDE, BASE)
    parts = listing.parts()
    assert len(parts) == 5
    store = TreeStore(ImmutableFiles(FolderObjects(tmp_path / "objects"), None), LocalRuntime(workers=2))
    split = SplitParameters(1000, 8000, 30)
    assert build_parallel(store, split, parts).name() == build(store, split, listing()).name()


def test_parts_never_cut_between_rows_of_one_key(tmp_path: Path) -> None:
    keys = ["a", "b", "b", "b", "c", "d"]
    path = write_parquet(tmp_path / "l", {"key": keys, "size": list(range(6)), "etag": [MD5] * 6}, group=2)
    parts = ObjectListing(path, INSIDE, ListingOptions(base="s3://b/", last_wins=True)).parts()
    assert [[key for key, _ in part()] for part in parts] == [[b"a", b"b"], [b"c", b"d"]]


def test_a_listing_in_no_order_is_one_part(tmp_path: Path) -> None:
    listing = ObjectListing(plain(tmp_path / "l", KEYS[::-1]), INSIDE, BASE)
    (part,) = listing.parts()
    assert list(part()) == list(listing())


# In a repository


def test_an_import_takes_a_listing_over(tmp_path: Path) -> None:
    world = World()
    (tmp_path / "bytes").write_bytes(b"12345")
    rows = [(f"x/{n}", f"file://{tmp_path}/bytes", 5, md5(b"12345").hexdigest(), n) for n in range(100)]
    path = write(tmp_path / "l", rows, ("path", "physical_address", "size", "etag", "mtime"))
    seen: list[tuple[int, int]] = []
    listing = ObjectListing(
        path,
        world.main.repository.namespace,
        ListingOptions(destination="in/"),
        progress=lambda n, size: seen.append((n, size)),
    )
    world.main.import_sources("main", [ImportSource(b"in/", True, listing)], "import")
    found = entries(world.main)
    assert {(entry.path, entry.mtime) for entry in found} == {(f"in/x/{n}", n) for n in range(100)}
    assert world.main.read("main", "in/x/7") == b"12345"
    assert (sum(n for n, _ in seen), sum(size for _, size in seen)) == (100, 500)


# Records


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ENTRIES = st.builds(
    ObjectEntry,
    path=TEXT.filter(bool),
    address=st.sampled_from(["s3://b/", "file:///", INSIDE + "/data/", INSIDE + "/x", INSIDE]).flatmap(
        lambda base: TEXT.map(lambda end: base + end)
    )
    | st.just(f"{INSIDE}/data/{'0' * 20}/{'v' * 20}"),
    size=st.integers(0, 2**63 - 1) | st.integers(0, 300),
    checksum=st.just(MD5)
    | st.sampled_from([MD5.upper(), "ab", "a b", "abc-12", "x" * 127, "x" * 128, "ab" * 127, "ab" * 128])
    | TEXT.filter(lambda text: bool(text.strip('"')) and '"' not in text),
    mtime=st.sampled_from([0x10000, 2**32 - 1]) | st.integers(-100, 2**33) | st.sampled_from([0xFFFF, 2**32]),
)


@given(st.lists(ENTRIES, max_size=5))
@example([ObjectEntry("k", "s3://b/k", 1, MD5.upper(), 0x10000)] * 2)
@example([ObjectEntry("k", "s3://b/k", 1, checksum, 0x10000) for checksum in ("AB", "a b", "ab", "abc-12")])
@settings(max_examples=examples(300))
def test_a_batch_is_encoded_as_the_codec_does_it(some: list[ObjectEntry]) -> None:
    columns = [(entry.address.encode(), entry.size, entry.checksum, entry.mtime) for entry in some]
    addresses, sizes, checksums, mtimes = (list(column) for column in zip(*columns, strict=True)) if some else ([],) * 4
    found = encode_external_batch((INSIDE + "/").encode(), addresses, sizes, checksums, mtimes)
    usual = all(
        not entry.address.startswith(INSIDE + "/")
        and 0xFFFF < entry.mtime < 2**32
        and len(entry.checksum.encode()) <= 127
        for entry in some
    )
    if usual and some:
        assert found is not None
    if found is not None:
        assert found == [CODEC.encode(entry) for entry in some]


# Wrong listings

HEADER = "key,size,etag,mtime,metadata,is_latest\n"
FINE = f"a,1,{MD5},0,,true\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; a listing has a row for each object"),
        ("\n", "does not start with a header"),
        ("a,b,c\nd,e,f\n", "row 1: 'a,b,c' does not start with a header that names any known column"),
        ("size,etag\n1,x\n", "has no column Key; known columns in it: size, etag"),
        ("key,etag\n1,x\n", "has no column Size; known columns in it: key, etag"),
        ("key,size\n1,x\n", "has no column ETag; known columns in it: key, size"),
        ("key,path,size,etag\n", "has two columns for the same thing, 'key' and 'path'; rename one"),
        (HEADER + "a,1\n", "row 2 has 2 fields, but there are 6 columns"),
        (HEADER + FINE + FINE + f"x{FINE}y,z\n", "row 5 has 2 fields"),
        (
            HEADER + FINE + "\n\n" + f"b,x,{MD5},0,,true\n",
            "row 5, column 'size': 'x' is not a number of bytes, such as 1024",
        ),
        (HEADER + f"b,,{MD5},0,,true\n", "row 2, column 'size': '' is not a number of bytes; every"),
        (HEADER + f"b,-1,{MD5},0,,true\n", "'-1' is not a number"),
        (HEADER + f"b,1_0,{MD5},0,,true\n", "'1_0' is not a number"),
        (HEADER + f"b,١,{MD5},0,,true\n", "'١' is not a number"),
        (HEADER + f"b,{2**63},{MD5},0,,true\n", "'9223372036854775808' is not a number"),
        (HEADER + f"b,{'9' * 5000},{MD5},0,,true\n", "…"),
        (HEADER + "b,1,,0,,true\n", "column 'etag': '' is empty; every object needs one"),
        (HEADER + f"b,1,{'x' * 128},0,,true\n", "row 2 cannot be imported: checksum of 'b' is too long"),
        (HEADER + f"b,1,{MD5},,,true\n", "column 'mtime': '' is not a time; write ISO 8601"),
        (HEADER + f"b,1,{MD5},yesterday,,true\n", "column 'mtime': 'yesterday' is not a time"),
        (HEADER + f"b,1,{MD5},1700000000000,,true\n", "'1700000000000' is not a time in Unix seconds; is it in milli"),
        (HEADER + f"b,1,{MD5},0,{{,true\n", "column 'metadata': '{' is not user metadata; write a JSON object"),
        (HEADER + f'b,1,{MD5},0,"{{""a"": 1}}",true\n', "is not user metadata"),
        (HEADER + f"b,1,{MD5},0,,maybe\n", "column 'is_latest': 'maybe' is neither true nor false"),
        (HEADER + f",1,{MD5},0,,true\n", "column 'key': '' is empty; every object needs one"),
        (HEADER + f"{'ü' * 513},1,{MD5},0,,true\n", "becomes a path of 1,026 bytes, but at most 1,024 are allowed"),
        (HEADER + f'"b,1,{MD5},0,,true\n', "row 2 is not CSV: unexpected end of data"),
        (HEADER + FINE + f'b,"1"1,{MD5},0,,true\n', "row 3 is not CSV: ',' expected after '\"'"),
        (HEADER + FINE + '"' + "x" * 200_000, "row 3 is not CSV: field larger than field limit"),
        ("key,size,etag\rb,1,x\r", "row 1 is not CSV: new-line character"),
        ('"key', "row 1 is not CSV: unexpected end of data"),
        (HEADER + "x" * 5_000_000, "has a line of more than 4,194,304 bytes, so it is not CSV"),
        ("PK\x03\x04", "is a zip archive"),
        ("ORC...", "is ORC; convert it to CSV or Parquet"),
        ("PAR1", "is not a valid Parquet file"),
        ("PAR1....PAR1", "is not a valid Parquet file"),
    ],
)
def test_what_is_wrong_with_a_csv_is_told(tmp_path: Path, text: str, message: str) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "l"
    for data in (text.encode(), gzip.compress(text.encode())):
        path.write_bytes(data)
        with pytest.raises(ListingError) as told:
            listed(path, BASE)
        assert message in str(told.value)
        assert str(told.value).startswith(f"listing '{path}'")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (HEADER.encode() + b"a\xff,1,x,0,,true\n", "column 'key': 'a\\udcff' is not UTF-8"),
        (HEADER.encode() + b"a,1,\xff,0,,true\n", "column 'etag': '\\udcff' is not UTF-8"),
        (b"\xff\xfek\0e\0y\0", "is UTF-16; save it as UTF-8"),
        (b"\x28\xb5\x2f\xfd....", "is compressed with zstd"),
        (
            gzip.compress(HEADER.encode() + random.Random(1).randbytes(9000), mtime=0)[:-5000],
            "is a truncated gzip file",
        ),
        (gzip.compress(HEADER.encode(), mtime=0)[:9], "is a truncated gzip file"),
        (b"\x1f\x8b........", "is a damaged gzip file"),
        (gzip.compress(HEADER.encode(), mtime=0)[:-8] + b"12345678", "is a damaged gzip file (CRC check failed"),
    ],
)
def test_what_is_wrong_with_the_bytes_is_told(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "l").write_bytes(data)
    with pytest.raises(ListingError) as told:
        listed(tmp_path / "l", BASE)
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("size", ["a", "b"], "row 1, column 'size': 'a' is not a number of bytes"),
        ("size", [1, None], "row 2, column 'size': 'null' is not a number of bytes; every object needs"),
        ("size", [1, -1], "row 2, column 'size': -1 is not a number"),
        ("size", [1.5, 2], "row 1, column 'size': 1.5 is not a number"),
        ("size", [True, False], "row 1, column 'size': True is not a number"),
        ("key", ["a", None], "row 2, column 'key': 'null' is not text"),
        ("key", [b"a", b"\xff"], "row 2, column 'key': '\\\\xff' is not UTF-8"),
        ("key", [1, 2], "row 1, column 'key': 1 is not text"),
        ("etag", ["x", None], "row 2, column 'etag': 'null' is not text"),
        ("mtime", [1, None], "row 2, column 'mtime': 'null' is not a time"),
        ("mtime", [1, 10**12], "row 2, column 'mtime': 1000000000000 is not a time in Unix seconds"),
        ("is_latest", [True, None], "row 2, column 'is_latest': 'null' is neither true nor false"),
        ("is_latest", [[1], []], "row 1, column 'is_latest': [1] is neither"),
        ("metadata", ["{}", "[]"], "row 2, column 'metadata': '[]' is not user metadata"),
        ("metadata", [{"a": 1}, {"a": 2}], "row 1, column 'metadata': {'a': 1} is not user metadata"),
        ("content_type", [1, 2], "row 1, column 'content_type': 1 is not text"),
    ],
)
def test_what_is_wrong_with_a_parquet_is_told(tmp_path: Path, column: str, values: list[Any], message: str) -> None:
    columns: dict[str, list[Any]] = {"key": ["a", "b"], "size": [1, 2], "etag": [MD5, MD5]}
    columns[column] = values
    path = write_parquet(tmp_path / "l", columns)
    with pytest.raises(ListingError) as told:
        listed(path, BASE)
    assert message in str(told.value)


def test_rows_of_all_row_groups_are_counted(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"key": list("abcdef"), "size": [1, 2, 3, 4, -5, 6], "etag": [MD5] * 6}
    with pytest.raises(ListingError, match="row 5, column 'size': -5"):
        listed(write_parquet(tmp_path / "l", columns, group=2), BASE)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("a%2", "'a%2' has a % without two hex digits after it"),
        ("%zz", "'%zz' has a % without two hex digits"),
        ("%ff", "'%ff' is not UTF-8 after URL decoding"),
    ],
)
def test_wrong_url_encoding_is_told(tmp_path: Path, key: str, message: str) -> None:
    path = write(tmp_path / "l", [("b", "fine%7E", 1, MD5), ("b", key, 1, MD5)])
    with pytest.raises(ListingError, match="row 2, column 'Key'") as told:
        listed(path, ListingOptions(columns=("Bucket", "Key", "Size", "ETag")))
    assert message in str(told.value)


def test_where_the_objects_are_has_to_be_known(tmp_path: Path) -> None:
    with pytest.raises(ListingError, match=r"does not say where the objects are, .* give a base URL"):
        listed(plain(tmp_path / "l", ["a"]))
    path = write(tmp_path / "l", [("x", 1, MD5)], ("address", "size", "etag"))
    with pytest.raises(ListingError, match="row 2, column 'address': 'x' is not an address such as s3://bucket/key"):
        listed(path, ListingOptions(source="s3://"))
    with pytest.raises(ListingError, match="has no column Key"):
        listed(path, BASE)
    path = write(tmp_path / "l", [("x" * 70_000 + "://", "k", 1, MD5)], ("address", "key", "size", "etag"))
    with pytest.raises(ListingError, match="row 2 cannot be imported: the address of 'k' is too long"):
        listed(path)


def test_nothing_may_be_left_of_a_key(tmp_path: Path) -> None:
    with pytest.raises(ListingError, match="row 2, column 'path' leaves an empty path in the lake"):
        listed(plain(tmp_path / "l", ["a", "ab"]), ListingOptions(source="a", base="s3://b/"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a manifest of S3 Inventory"),
        ("[]", "is not a manifest of S3 Inventory"),
        ('{"fileFormat": "CSV"}', "is not a manifest of S3 Inventory: Object missing required field"),
        ('{"fileFormat": "ORC", "fileSchema": "", "files": []}', "the inventory's format is 'ORC'"),
        ('{"fileFormat": "CSV", "fileSchema": "Key", "files": [{"key": "../l"}]}', "'../l' is named in the manifest"),
        ('{"fileFormat": "CSV", "fileSchema": "Key", "files": [{"key": "a\\u0000"}]}', "is named in the manifest"),
        ('{"fileFormat": "CSV", "fileSchema": "Key", "files": [{"key": "l"}]}', "has no column Size"),
        ('{"fileFormat": "CSV", "fileSchema": "Key", "files": [{"key": "l", "size": 1}]}', "has no column Size"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "l").write_text("a")
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ListingError) as told:
        listed(tmp_path)
    assert message in str(told.value)


def test_listings_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        listed(tmp_path / "missing")
    with pytest.raises(ListingError, match="is a folder without files"):
        listed(tmp_path)
    with pytest.raises(InvalidError, match="no listing to import"):
        listed([])


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "l").write_bytes(b"PAR1....PAR1")
    monkeypatch.setitem(import_module("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(
        PreconditionError,
        match=r"needs the package 'pyarrow', which is not installed; pip install 'graveler\[listing\]'",
    ):
        listed(tmp_path / "l")


# Anything at all


@given(
    st.binary(max_size=300)
    | st.binary(max_size=100).map(lambda data: gzip.compress(data, mtime=0))
    | st.binary(max_size=200).map(HEADER.encode().__add__)
)
@example(b"\x1f\x8b")
@example(HEADER.encode() + b'"')
@settings(max_examples=examples(400), deadline=None)
def test_any_bytes_are_a_listing_or_an_error(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "l")
        path.write_bytes(data)
        read_or_refuse(path)


def read_or_refuse(path: Path) -> None:
    with suppress(ListingError):
        listed(path, BASE, memory=SMALL)


@pytest.mark.parametrize("name", ["dictionary_page_offset", "data_page_offset"])
def test_a_page_before_the_file_is_damage(tmp_path: Path, name: str) -> None:
    """One bit of the footer turns the place of a page into a negative number."""
    columns: dict[str, list[Any]] = {
        "path": [f"k{n:05}" for n in range(3000)],
        "size": list(range(3000)),
        "checksum": [MD5] * 3000,
    }
    path = write_parquet(tmp_path / "l", columns)
    data = path.read_bytes()
    place: int = getattr(pytest.importorskip("pyarrow.parquet").ParquetFile(path).metadata.row_group(2).column(0), name)
    zigzag = b"".join(
        bytes([(2 * place >> shift) & 127 | (128 if 2 * place >> shift + 7 else 0)]) for shift in (0, 7, 14, 21)
    ).rstrip(b"\0")
    at = data.index(zigzag, len(data) - int.from_bytes(data[-8:-4], "little"))
    path.write_bytes(data[:at] + bytes([zigzag[0] | 1]) + data[at + 1 :])
    with pytest.raises(ListingError, match="is not a valid Parquet file"):
        listed(path, BASE)


SOME = [(f"k{n % 7}", n, MD5, n * 10**8, '{"a": "b"}', "true") for n in range(30)]


@given(
    st.sampled_from(["csv", "gzip", "parquet"]), st.integers(0, 10**6), st.binary(min_size=1, max_size=8), st.booleans()
)
@settings(max_examples=examples(400), deadline=None)
def test_damaged_files_are_a_listing_or_an_error(form: str, at: int, noise: bytes, cut: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "l")
        columns = HEADER.strip().split(",")
        if form == "parquet":
            write_parquet(path, {name: [row[n] for row in SOME] for n, name in enumerate(columns)}, group=10)
        else:
            write(path, SOME, columns, packed=form == "gzip")
        data = path.read_bytes()
        at %= len(data)
        path.write_bytes(data[:at] if cut else data[:at] + noise + data[at + len(noise) :])
        read_or_refuse(path)


TABLES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda key: not key.endswith("/")),
    st.tuples(
        st.integers(0, 2**63 - 1),
        st.sampled_from([MD5, "abc-2", "AB"]),
        st.integers(-(10**9), 10**10),
        st.sampled_from(["", "text/csv", "ü"]),
        st.dictionaries(st.sampled_from("abü"), TEXT, max_size=2),
    ),
    min_size=1,
    max_size=40,
)
WRITERS: Mapping[str, Callable[[Path, list[str], list[list[Any]]], object]] = {
    "csv": lambda path, names, rows: write(path, rows, names),
    "gzip": lambda path, names, rows: write(path, rows, names, packed=True),
    "parquet": lambda path, names, rows: write_parquet(
        path, {name: [row[n] for row in rows] for n, name in enumerate(names)}, group=5
    ),
}


@given(TABLES, st.randoms(use_true_random=False), st.sampled_from(sorted(WRITERS)), st.integers(1, 3), st.booleans())
@settings(max_examples=examples(150), deadline=None)
def test_what_is_written_is_read(
    table: dict[str, Any], order: random.Random, form: str, files: int, in_order: bool
) -> None:
    keys = sorted(table)
    if not in_order:
        order.shuffle(keys)
    rows = [[key, *table[key][:4], json.dumps(table[key][4])] for key in keys]
    step = -(-len(rows) // files)
    with TemporaryDirectory() as folder:
        for n in range(0, len(rows), step):
            names = ["key", "size", "etag", "mtime", "content_type", "metadata"]
            WRITERS[form](Path(folder, f"{n:03}"), names, rows[n : n + step])
        assert listed(Path(folder), BASE, memory=SMALL) == {
            key: ObjectEntry(
                key, f"s3://b/{key}", size, checksum, mtime, content_type or "application/octet-stream", metadata
            )
            for key, (size, checksum, mtime, content_type, metadata) in table.items()
        }


def test_objects_uploaded_to_the_repository_itself_are_not_imported(tmp_path: Path) -> None:
    """A collector may be about to remove them (tests/retention/model.py)."""
    world = World()
    world.main.upload("main", "a", b"a")
    world.main.commit("main", "a")
    own = world.main.stat("main", "a").address
    beside = f"{world.main.repository.namespace}/other/file"
    listing = tmp_path / "listing.csv"
    listing.write_text(f"key,physical_address,size,etag\nx,{beside},1,e\ny,{own},1,e\n")
    with pytest.raises(InvalidError, match=r"row 3.*was uploaded to this same repository.*Copy it"):
        world.main.import_listing("main", listing)
    codec, key = RecordCodec(world.main.repository.namespace), own.removeprefix("mem://repo/")
    address = ImportAddress(AddressType.OBJECT, own, "y")
    gate = Gate(world.main.repository.namespace, lambda _: (world.objects(), key))
    source = source_at(address, codec, gate, lambda *_: None)
    with pytest.raises(InvalidError, match=r"was uploaded to this same repository"):
        list(source.records())
    listing.write_text(f"key,physical_address,size,etag\nx,{beside},1,e\n")
    world.main.import_listing("main", listing)
    assert world.main.stat("main", "x").address == beside
