"""Written files must stay readable for ever, and the same contents must have the same IDs in every release.

The constants here and the files under ``tests/golden`` are promises to existing lakes. If one of these tests fails, the code is
wrong, not the test.
"""

from pathlib import Path

import msgspec
import pytest
from xxhash import xxh64_intdigest

from graveler.model import MetarangeName, ObjectEntry, SplitParameters
from graveler.tree.apply import apply
from graveler.tree.record import RecordCodec, encode_key
from graveler.tree.store import METARANGES, RANGES, TreeStore
from graveler.tree.tail import Label
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.trees import ALONE, CODEC, MemoryFiles, build_tree, new_store
from tests.tree.make_golden import FolderFiles, Golden, entries, make
from tests.tree.support import same_tree, suffix_by_chunks, suffix_by_the_formula

GOLDEN = Path(__file__).parent.parent / "golden"
VERSIONS = sorted(folder.name for folder in GOLDEN.glob("v*"))


def golden(version: str) -> tuple[Golden, TreeStore]:
    folder = GOLDEN / version
    description = msgspec.json.decode((folder / "contents.json").read_bytes(), type=Golden)
    return description, TreeStore(FolderFiles(folder), ALONE)


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_every_released_format_are_read_as_they_were_written(version: str) -> None:
    wanted, store = golden(version)
    tree = Tree.load(store, MetarangeName(wanted.metarange))
    assert tree.name() == wanted.metarange
    assert [tree.info(number).name for number in range(len(tree))] == wanted.ranges
    codec = RecordCodec(wanted.namespace)
    assert [codec.decode(key, packed) for key, packed in tree.records()] == wanted.entries
    for entry in wanted.entries[::7]:
        packed = tree.get(encode_key(entry.path))
        assert packed is not None
        assert codec.decode(encode_key(entry.path), packed) == entry


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_contents_get_the_ids_they_always_had(version: str) -> None:
    wanted, store = golden(version)
    codec, made = RecordCodec(wanted.namespace), new_store()
    tree = build(made, wanted.split, ((encode_key(e.path), codec.encode(e)) for e in wanted.entries))
    old = Tree.load(store, MetarangeName(wanted.metarange))
    assert tree.id() == old.id()
    assert tree.lasts == old.lasts
    assert [tree.range_id(n) for n in range(len(tree))] == [old.range_id(n) for n in range(len(old))]
    assert same_tree(tree, old) is (version != "v1")  # before version 2, range names were without chunks


@pytest.mark.parametrize("version", VERSIONS)
def test_trees_of_every_released_format_can_be_changed(version: str) -> None:
    wanted, store = golden(version)
    old = Tree.load(store, MetarangeName(wanted.metarange))
    made = new_store(ReadThrough(store))
    codec = RecordCodec(wanted.namespace)
    entries = {encode_key(e.path): codec.encode(e) for e in wanted.entries}
    for key in [*list(entries)[::60], list(entries)[-1]]:
        changed = apply(Tree(made, old.lasts, old.packed), [(key, None)], wanted.split)
        fresh = build(made, wanted.split, ((k, v) for k, v in entries.items() if k != key))
        assert changed.id() == fresh.id()
        assert changed.lasts == fresh.lasts
        assert list(changed.records()) == list(fresh.records())


class ReadThrough(MemoryFiles):
    """Writes to memory what it reads from there and from a golden folder."""

    def __init__(self, store: TreeStore) -> None:
        super().__init__()
        self._golden = store

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        if (kind, name) not in self.files:
            self.files[kind, name] = self._golden.files.get(kind, name)
        return super().get(kind, name, fresh=fresh)


def test_the_helper_makes_the_newest_golden_folder(tmp_path: Path) -> None:
    made = make(tmp_path)
    wanted, _ = golden(VERSIONS[-1])
    assert made == wanted
    assert wanted.entries == entries()
    for kind in (RANGES, METARANGES):
        assert sorted(p.name for p in (tmp_path / kind).iterdir()) == sorted(
            p.name for p in (GOLDEN / VERSIONS[-1] / kind).iterdir()
        )


@pytest.mark.parametrize(
    ("records", "ranges", "name"),
    [
        (0, 0, ""),
        (1, 1, "95a89c7de9f42d5fc44d60b70d5e3e5d9a6ce6fce503fcfa8a3b93547cf560b0-fb3b522141d17bb825a22eb31902086c"),
        (100, 19, "9617b331414cf2799ac07d869ab352a3624b969cc44e18e808c3d24d0f8f73dd-7dae5a9352249f0860125fc5b9dc32ea"),
    ],
)
def test_names_of_trees_never_change(records: int, ranges: int, name: str) -> None:
    split = SplitParameters(min_size=100, max_size=800, raggedness=3)
    tree = build_tree(new_store(), {b"key/%03d" % n: n % 5 for n in range(records)}, split)
    assert (len(tree), tree.name()) == (ranges, name)
    if records == 100:
        assert tree.lasts[:4] == [b"key/004", b"key/009", b"key/012", b"key/017"]
        assert tree.info(0).name == (
            "4b6cb52d068a24bc72339cbbae9426da3060501abe9e1e8c239988d49519e028-d09f4d177260c5d8c15711711a40d551"
        )


@pytest.mark.parametrize(
    ("entry", "packed"),
    [
        (
            ObjectEntry(
                "p",
                "mem://test/data/0123456789abcdefghij/klmnopqrstuv01234567",
                5,
                "0123456789abcdef0123456789abcdef",
                1_790_000_000,
                "text/plain",
                {"b": "2", "a": "1"},
            ),
            (
                "002a 0000000000000005 10 0123456789abcdef0123456789abcdef 01 6759a55c0e4b4cb13b58d637fa1694fc"
                "94 ce6ab13b80 c41900443214c74254b635cf84653a56d7c675be77df00443214c7 aa746578742f706c61696e 82a161a131a162a132"
            ),
        ),
        (
            ObjectEntry("p", "s3://x/y", 5, "ab-1", 3),
            "0016 0000000000000005 84 61622d31 02 73333a2f2f782f79 91 03",
        ),
        (
            ObjectEntry("p", "mem://test/a", 0, "", -1),
            "0009 0000000000000000 00 92 ff a161",
        ),
    ],
)
def test_the_bytes_of_records_never_change(entry: ObjectEntry, packed: str) -> None:
    assert CODEC.encode(entry) == bytes.fromhex(packed)
    assert CODEC.decode(b"p", bytes.fromhex(packed)) == entry


def test_the_hash_that_cuts_is_the_one_of_spark() -> None:
    """``SELECT xxhash64('Spark', array(123), 2)`` is 5602566077635097486 in Spark's manual: each value seeds the next."""
    digest = xxh64_intdigest(b"Spark", 42)
    for number in (123, 2):
        digest = xxh64_intdigest(number.to_bytes(4, "little"), digest)
    assert digest == 5602566077635097486


@pytest.mark.parametrize("version", VERSIONS)
def test_files_say_which_they_are_since_version_3(version: str) -> None:
    wanted, store = golden(version)
    for kind, names in ((METARANGES, [wanted.metarange]), (RANGES, wanted.ranges)):
        for name in names:
            cuts = wanted.split if kind == METARANGES else None
            label = Label.of(kind, name, cuts) if version not in ("v1", "v2") else None
            assert store.read(kind, name, None).label == label


def test_no_golden_file_says_another_thing_than_its_name() -> None:
    """The files themselves were not touched since."""
    for version in VERSIONS:
        wanted, store = golden(version)
        for name in wanted.ranges:
            records = [pair for block in store.open(name).blocks() for pair in zip(*block, strict=True)]
            suffix = suffix_by_the_formula(v for _, v in records) if version == "v1" else suffix_by_chunks(records)
            assert name.partition("-")[2] == suffix
