"""The store that opens files: a damaged copy is fetched again, a damaged original is named; the number of open files is
bounded."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from graveler.errors import DamagedFileError
from graveler.model import MetarangeName
from graveler.tree.diff import diff
from graveler.tree.merge import merge
from graveler.tree.sstable import write_table
from graveler.tree.store import METARANGES, RANGES, TreeStore
from graveler.tree.tree import Tree, Trees
from tests.support.trees import ALONE, TINY, MemoryFiles, as_dict, build_tree, new_store, packed_dict
from tests.tree.support import Contents, MemoryParts, names, same_tree, with_store


class CachedFiles(MemoryFiles):
    """Files with nearer copies, which may be damaged while the originals are whole."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[tuple[str, str], bytes] = {}

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        if fresh:
            self.copies.pop((kind, name), None)
        if (kind, name) not in self.copies:
            self.copies[kind, name] = super().get(kind, name)
        return self.copies[kind, name]


CONTENTS: Contents = {b"key/%04d" % n: n for n in range(200)}


def built(files: MemoryFiles) -> tuple[Tree, MetarangeName]:
    tree = build_tree(new_store(files), CONTENTS)
    return tree, tree.save()


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_copy_is_fetched_anew(damage: bytes | None) -> None:
    files = CachedFiles()
    tree, name = built(files)
    for kind, file in [(RANGES, names(tree)[3]), (METARANGES, str(name))]:
        whole = files.files[kind, file]
        files.copies[kind, file] = whole[: len(whole) // 2] if damage is None else damage
    assert as_dict(Tree.load(TreeStore(files, ALONE), name)) == packed_dict(CONTENTS)
    assert files.copies == files.files


@pytest.mark.parametrize("missing", [False, True])
def test_a_damaged_or_missing_range_is_named_with_what_it_held(missing: bool) -> None:
    files = MemoryFiles()
    tree, name = built(files)
    broken = names(tree)[5]
    if missing:
        del files.files[RANGES, broken]
    else:
        files.files[RANGES, broken] = files.files[RANGES, broken][:-60]
    info = tree.info(5)
    loaded = Tree.load(TreeStore(files, ALONE), name)
    changed = build_tree(loaded.store, CONTENTS | {info.first: 999})
    for read in (
        lambda: loaded.get(info.first),
        lambda: as_dict(loaded),
        lambda: next(loaded.run(info.first)),
        lambda: list(diff(loaded, changed)),
        lambda: merge(loaded, changed, Tree(loaded.store), TINY),
    ):
        with pytest.raises(DamagedFileError) as caught:
            read()
        error = caught.value
        assert (error.kind, error.name, error.first, error.last) == ("range", broken, info.first, info.last)
        assert broken in str(error)
        assert ("missing" if missing else "damaged") in str(error)
        assert repr(info.first.decode()) in str(error)
    # What does not need the file goes on working.
    assert loaded.get(tree.info(6).first) is not None
    assert loaded.count() == 200


@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage", "empty"])
def test_a_damaged_or_missing_metarange_is_named(damage: str) -> None:
    files = MemoryFiles()
    _, name = built(files)
    key = METARANGES, str(name)
    if damage == "missing":
        del files.files[key]
    else:
        files.files[key] = {"truncated": files.files[key][:100], "garbage": b"garbage" * 100, "empty": b""}[damage]
    with pytest.raises(DamagedFileError) as caught:
        Tree.load(TreeStore(files, ALONE), name)
    assert (caught.value.kind, caught.value.name) == ("metarange", name)


def test_a_metarange_that_holds_something_else_than_its_name_says_is_refused() -> None:
    """Whole as a table, but not ours, or not this one: never a wrong tree, and no error from deep inside."""
    files = MemoryFiles()
    tree, name = built(files)
    store = new_store(files)
    other = build_tree(store, CONTENTS | {b"key/0007": 999})
    forged = [
        ([b"k"], [b""]),
        ([b"k"], [b"x" * 100]),
        (tree.lasts, [p[:40] for p in tree.packed]),
        (tree.lasts, [*tree.packed[:-1], tree.packed[-1][:34]]),
        (tree.lasts[1:], tree.packed[1:]),
        (other.lasts, other.packed),
    ]
    for lasts, packed in forged:
        files.files[METARANGES, name] = write_table(lasts, packed, store.scratch)
        with pytest.raises(DamagedFileError) as caught:
            Tree.load(TreeStore(files, ALONE), name)
        assert (caught.value.kind, caught.value.name) == ("metarange", name)


def test_an_open_file_is_not_read_again_and_the_oldest_are_closed_when_too_much_is_open() -> None:
    files = MemoryFiles()
    tree, _ = built(files)
    size = len(files.files[RANGES, names(tree)[0]])
    store = TreeStore(files, ALONE, max_open_bytes=size * 4)
    small = with_store(tree, store)
    for _ in range(3):
        for number in range(3):
            small.open(number)
    assert files.requests["get ranges"] == 3
    for number in range(len(tree)):
        small.open(number)
        small.open(0)  # used again and again: stays open
    opened = files.requests["get ranges"]
    assert opened == len(tree)
    small.open(0)
    small.open(1)
    assert files.requests["get ranges"] == opened + 1


def closed_store(files: MemoryFiles, reads: list[tuple[str, int]]) -> TreeStore:
    """Keeps one file open; ``reads`` notes what was read of others."""
    return TreeStore(files, ALONE, max_open_bytes=1, parts=MemoryParts(files, reads), on_disk=True)


def test_of_a_closed_file_a_lookup_reads_one_block_and_only_once() -> None:
    files = MemoryFiles()
    built_tree, _ = built(files)
    parts: list[tuple[str, int]] = []
    tree = with_store(built_tree, closed_store(files, parts))
    wanted = packed_dict(CONTENTS)
    for number in range(len(tree)):
        tree.open(number)
    opened = files.requests["get ranges"]
    keys = [key for key in sorted(CONTENTS) if key < tree.info(len(tree) - 1).first]
    random = Random(7)
    for key in [random.choice(keys) for _ in range(200)]:
        assert tree.get(key) == wanted[key]
        assert tree.get(key + b"\0") is None
    assert files.requests["get ranges"] == opened, "no file was read whole again"
    assert 0 < len(parts) <= sum(len(tree.open(number)) for number in range(len(tree) - 1))
    assert all(length < len(files.files[RANGES, name]) for name, length in parts)


def test_a_record_that_was_looked_up_is_found_again_without_its_file_and_only_in_its_own_state() -> None:
    files = MemoryFiles()
    trees = [build_tree(new_store(files), {**CONTENTS, b"key/0007": value}) for value in (7, 1007, 7)]
    names = [tree.save() for tree in trees]
    store = TreeStore(files, ALONE, max_open_bytes=1)
    states = [Tree.load(store, name) for name in names]
    wanted = [tree.get(b"key/0007") for tree in trees]
    assert wanted[0] == wanted[2] != wanted[1]
    for _ in range(2):
        assert [state.get(b"key/0007") for state in states] == wanted
        states[0].open(len(states[0]) - 1)  # which closes the other ranges
    files.requests.clear()
    assert [state.get(b"key/0007") for state in states] == wanted
    assert not files.requests
    assert states[0].get(states[0].info(0).first + b"\0") is None, "what is not there is looked for"
    assert files.requests == {"get ranges": 1}


def test_of_metaranges_no_index_is_kept() -> None:
    files = MemoryFiles()
    built_tree, name = built(files)
    store = closed_store(files, [])
    Tree.load(store, name)
    for number in range(len(built_tree)):
        with_store(built_tree, store).open(number)
    assert name not in store._closed
    assert len(store._closed) == len(built_tree) - 1


def test_many_keys_of_a_closed_file_open_it_and_few_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graveler.tree.tree._FEW_KEYS", 2)
    files = MemoryFiles()
    built_tree, _ = built(files)
    parts: list[tuple[str, int]] = []
    tree = with_store(built_tree, closed_store(files, parts))
    for number in range(len(tree)):
        tree.open(number)
    opened = files.requests["get ranges"]
    here = [key for key in sorted(CONTENTS) if tree.info(0).first <= key <= tree.lasts[0]]
    wanted = packed_dict(CONTENTS)
    assert list(tree.get_many(here[:2])) == [wanted[key] for key in here[:2]]
    assert (files.requests["get ranges"], len(parts) > 0) == (opened, True)
    assert list(tree.get_many(here)) == [wanted[key] for key in here]
    assert files.requests["get ranges"] == opened + 1


@pytest.mark.parametrize("harm", ["gone", "ruined", "short"])
def test_a_closed_file_that_was_harmed_since_is_named(harm: str) -> None:
    files = MemoryFiles()
    built_tree, _ = built(files)
    tree = with_store(built_tree, closed_store(files, []))
    for number in range(len(tree)):
        tree.open(number)
    place = RANGES, tree.info(0).name
    if harm == "gone":
        del files.files[place]
    else:
        data = files.files[place]
        files.files[place] = bytes(len(data)) if harm == "ruined" else data[:10]
    with pytest.raises(DamagedFileError, match=tree.info(0).name) as caught:
        tree.get(tree.info(0).first)
    assert (caught.value.first, caught.value.last) == (tree.info(0).first, tree.lasts[0])


def test_no_more_indexes_of_closed_files_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graveler.tree.store._CLOSED_BLOCKS", 3)
    files = MemoryFiles()
    built_tree, _ = built(files)
    tree = with_store(built_tree, closed_store(files, []))
    for _ in range(2):
        for number in range(len(tree)):
            tree.open(number)
    opened = files.requests["get ranges"]
    wanted = packed_dict(CONTENTS)
    for key in sorted(CONTENTS):
        assert tree.get(key) == wanted[key]
    assert files.requests["get ranges"] > opened


def test_one_file_may_be_larger_than_all_that_is_kept_open() -> None:
    files = MemoryFiles()
    tree, _ = built(files)
    store = TreeStore(files, ALONE, max_open_bytes=1)
    assert as_dict(with_store(tree, store)) == packed_dict(CONTENTS)
    assert as_dict(with_store(tree, store)) == packed_dict(CONTENTS)


def test_a_store_is_shared_by_threads_and_pickled() -> None:
    files = MemoryFiles()
    tree, name = built(files)
    store = TreeStore(files, ALONE, max_open_bytes=20_000)
    shared = Tree.load(store, name)

    def read(number: int) -> bool:
        random = Random(number)
        for key in random.sample(sorted(CONTENTS), 50):
            if shared.get(key) != packed_dict({key: CONTENTS[key]})[key]:
                return False
        return as_dict(shared) == packed_dict(CONTENTS)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(16)))
    copy = Tree.load(pickle.loads(pickle.dumps(store)), name)
    assert same_tree(copy, tree)
    assert as_dict(copy) == packed_dict(CONTENTS)


def test_trees_used_last_are_kept_up_to_a_number_of_ranges() -> None:
    files = MemoryFiles()
    built_trees = [build_tree(new_store(files), {b"%d/%04d" % (t, n): n for n in range(200)}) for t in range(4)]
    found = [tree.save() for tree in built_trees]
    trees = Trees(TreeStore(files, ALONE, max_open_bytes=1), max_ranges=2 * max(map(len, built_trees)))
    for name, tree in zip(found, built_trees, strict=True):
        assert same_tree(trees.load(name), tree)
    files.requests.clear()
    for name in (found[3], found[2], found[3]):
        trees.load(name)
    assert not files.requests
    trees.load(found[0])
    assert files.requests == {"get metaranges": 1}
    assert trees.save(built_trees[1]) == found[1]
    assert same_tree(trees.load(found[1]), built_trees[1])
    assert files.requests == {"get metaranges": 1, "put metaranges": 1}
    assert same_tree(trees.load(MetarangeName("")), trees.empty())


def test_a_limited_store_keeps_no_more_open() -> None:
    files = MemoryFiles()
    _, name = built(files)
    store = TreeStore(files, ALONE)
    assert as_dict(Tree.load(store, name)) == packed_dict(CONTENTS)
    sizes = [len(data) for data in files.files.values()]
    store.limit(2 * max(sizes))
    assert as_dict(Tree.load(store, name)) == packed_dict(CONTENTS)
    files.requests.clear()
    for kind, file in sorted(files.files):
        if kind == RANGES:
            store.open(file)
    assert files.requests["get ranges"] > 0, "all of them stayed open"
