"""Law F5: a file that stands under another one's name is never taken for it, however complete and valid it is."""

from collections.abc import Callable, Iterator
from itertools import permutations, repeat

import pytest

from graveler.errors import CorruptError, DamagedFileError
from graveler.model import MetarangeName, SplitParameters
from graveler.tree.diff import diff
from graveler.tree.listing import list_page
from graveler.tree.merge import merge
from graveler.tree.sstable import Records, Table, write_table
from graveler.tree.store import METARANGES, RANGES, TreeStore
from graveler.tree.tail import footer
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.trees import ALONE, TINY, MemoryFiles, build_tree, new_store, packed
from tests.tree.support import Contents, MemoryParts, names, with_store
from tests.tree.test_files import CachedFiles

Place = tuple[str, str]

CONTENTS: Contents = {b"key/%03d" % n: n for n in range(40)}
OTHER: Contents = {
    **{key: value for key, value in CONTENTS.items() if key != b"key/021"},  # a range with fewer records
    b"key/003": 1_003,  # the same keys, another value
    b"key/0105": 1_105,
    b"zzz": 1_000,
}


def world(files: MemoryFiles) -> list[tuple[Tree, MetarangeName]]:
    """Two states that have much in common, and one that has nothing in common with them."""
    trees = [
        build_tree(new_store(files), contents) for contents in (CONTENTS, OTHER, {b"a%02d" % n: n for n in range(9)})
    ]
    return [(tree, tree.save()) for tree in trees]


def without_label(data: bytes) -> bytes:
    """A file as versions before labels wrote it."""
    keys: list[bytes] = []
    values: list[bytes] = []
    for some, some_values in Table(data).blocks():
        keys += some
        values += some_values
    return write_table(keys, values, new_store().scratch)


def whole_listing(tree: Tree, delimiter: bytes) -> Iterator[bytes]:
    """Page after page; one that never ends is an error of the test."""
    after = b""
    for _ in range(200):
        page = list_page(tree.run, after=after, delimiter=delimiter, amount=3)
        yield from page.keys
        if not page.more:
            return
        after = page.keys[-1]
    raise AssertionError("the pages do not end")


def merged(tree: Tree, other: Tree) -> object:
    done = merge(Tree(tree.store), tree, other, TINY)
    return done.conflicts if done.tree is None else done.tree.name()


Read = Callable[[Tree, Tree], object]

READS: dict[str, Read] = {
    "records": lambda tree, _: list(tree.records()),
    "stat": lambda tree, _: [tree.get(key) for key in sorted({*CONTENTS, *OTHER})],
    "stat many": lambda tree, _: list(tree.get_many(sorted({*CONTENTS, *OTHER}))),
    "pages": lambda tree, _: list(whole_listing(tree, b"")),
    "pages with a delimiter": lambda tree, _: list(whole_listing(tree, b"/")),
    "diff": lambda tree, other: list(diff(tree, other)),
    "merge": merged,
}


def every_pair(files: MemoryFiles) -> list[tuple[Place, Place]]:
    return list(permutations(sorted(files.files), 2))


@pytest.mark.parametrize("read", READS)
def test_whatever_file_stands_under_a_name_reads_are_right_or_refused(read: str) -> None:
    files = MemoryFiles()
    states = world(files)
    whole = dict(files.files)

    def answers() -> list[object]:
        found: list[object] = []
        for name, other in ((states[0][1], states[1][1]), (states[1][1], states[0][1])):
            store = TreeStore(files, ALONE)
            try:
                found.append(READS[read](Tree.load(store, name), Tree.load(store, other)))
            except DamagedFileError as error:
                found.append(error)
        return found

    right = answers()
    assert not any(isinstance(answer, CorruptError) for answer in right)
    refused = 0
    for here, there in every_pair(files):
        files.files = {**whole, here: whole[there]}
        for answer, wanted in zip(answers(), right, strict=True):
            if isinstance(answer, DamagedFileError):
                refused += 1
                assert answer.name == here[1]
                assert there[1] in str(answer), "what was found"
                assert here[1] in str(answer), "what was expected"
                assert "fsck" in str(answer), "what to do"
            else:
                assert answer == wanted, (here, there)
    assert refused


def test_of_files_without_labels_ends_count_and_size_are_compared() -> None:
    """Those of earlier versions. Another state of the same keys passes; fsck tells it."""
    files = MemoryFiles()
    states = world(files)
    files.files = {place: without_label(data) for place, data in files.files.items()}
    whole = dict(files.files)
    tree, name = states[0]
    assert [*Tree.load(TreeStore(files, ALONE), name).records()] == [*tree.records()]
    keys = {place: described(data) for place, data in whole.items()}
    for here, there in every_pair(files):
        files.files = {**whole, here: whole[there]}
        try:
            found = list(Tree.load(TreeStore(files, ALONE), name).records())
        except DamagedFileError:
            continue
        assert found == list(tree.records()) or keys[here] == keys[there], (here, there)


def described(data: bytes) -> tuple[object, ...]:
    table = Table(data)
    return (*table.ends(), *table.measures())


@pytest.mark.parametrize("labelled", [True, False])
def test_an_exchanged_copy_is_fetched_again(labelled: bool) -> None:
    files = CachedFiles()
    states = world(files)
    if not labelled:
        files.files = {place: without_label(data) for place, data in files.files.items()}
    whole = dict(files.files)
    for tree, name in states[:2]:
        of_tree = [(METARANGES, str(name)), *((RANGES, range_name) for range_name in names(tree))]
        for here in of_tree:
            for there in whole:
                if not labelled and here[0] == RANGES and described(whole[here]) == described(whole[there]):
                    continue
                files.copies = {here: whole[there]}
                assert list(Tree.load(TreeStore(files, ALONE), name).records()) == list(tree.records()), (here, there)
                assert files.copies[here] == whole[here], "the wrong copy is gone"


def test_a_block_of_another_file_is_not_taken_for_one_of_a_closed_file() -> None:
    """Two files of one block of the same length, of which the first one was open and is closed: its index is at hand."""
    files = MemoryFiles()
    wide = SplitParameters(10_000, 10_000, 1)
    trees = [build(new_store(files), wide, [(b"k", packed(value))]) for value in ("one", "two", "end")]
    places = [(RANGES, tree.info(0).name) for tree in trees]
    assert len({footer(files.files[place]) for place in places}) == 1, "blocks stand at the same places"
    parts = MemoryParts(files, [])
    for exchanged in (False, True):
        store = TreeStore(files, ALONE, max_open_bytes=1, max_block_bytes=0, parts=parts, on_disk=True)
        one, other = with_store(trees[0], store), with_store(trees[1], store)
        one.open(0)
        other.open(0)
        if not exchanged:
            assert one.get(b"k") == packed("one")
            continue
        files.files[places[0]] = files.files[places[2]]
        with pytest.raises(DamagedFileError, match="changed since the file was opened"):
            one.get(b"k")


def test_a_page_that_does_not_go_on_is_an_error_and_not_endless() -> None:
    def stuck(start: bytes, _: bytes | None) -> Iterator[Records]:
        return repeat(([b"a", b"b"], [b"", b""]))

    def falling(start: bytes, _: bytes | None) -> Iterator[Records]:
        return repeat(([start + b"z", start], [b"", b""]))

    def going_back(start: bytes, _: bytes | None) -> Iterator[Records]:
        return repeat(([start, start + b"z"], [b"", b""]))

    for run in (stuck, falling, going_back):
        with pytest.raises(CorruptError, match="out of order"):
            list_page(run, after=b"c", delimiter=b"/", amount=10)


def test_the_label_changes_no_name_and_plain_tables_are_read_as_before() -> None:
    files = MemoryFiles()
    ((tree, name), *_) = world(files)
    assert Table(files.files[METARANGES, name]).label is not None
    assert Tree.load(TreeStore(files, ALONE), name).cut_by == TINY
    files.files = {place: without_label(data) for place, data in files.files.items()}
    old = Tree.load(TreeStore(files, ALONE), name)
    assert (old.name(), old.cut_by) == (name, None)
    assert list(old.records()) == list(tree.records())
