"""Tasks read the ranges that come next while they work on one."""

from collections import Counter
from threading import Condition
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import DamagedFileError
from graveler.model import SplitParameters
from graveler.spark.read_ahead import read_ahead
from graveler.tree.diff import diff
from graveler.tree.store import RANGES, TreeStore
from graveler.tree.tree import Tree
from tests.support.patience import PATIENCE
from tests.support.trees import ALONE, MemoryFiles, build_tree
from tests.tree.support import EVERY, LAW, Contents, some_contents, some_split

"""Seconds after which nothing comes any more."""


class WatchedFiles(MemoryFiles):
    """Counts reads of ranges. With ``together``, the first so many of them wait for each other."""

    def __init__(self, together: int = 1) -> None:
        super().__init__()
        self.read: Counter[str] = Counter()
        self.together = together
        self._changed = Condition()

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        if kind == RANGES:
            with self._changed:
                self.read[name] += 1
                self._changed.notify_all()
                until = monotonic() + PATIENCE
                while self.read.total() < self.together:
                    assert self._changed.wait(until - monotonic()), "nobody reads ahead"
        return super().get(kind, name, fresh=fresh)


def grown(files: MemoryFiles, contents: Contents) -> Tree:
    """A tree with a range for each record."""
    return build_tree(TreeStore(files, ALONE), contents, EVERY)


def fresh(files: MemoryFiles, *trees: Tree) -> list[Tree]:
    """The trees in a store that has read nothing."""
    store = TreeStore(files, ALONE)
    return [Tree(store, tree.lasts, tree.packed) for tree in trees]


def test_the_next_four_ranges_are_under_way_while_one_is_read() -> None:
    files = WatchedFiles()
    tree = grown(files, {b"%02d" % n: n for n in range(12)})
    files.read.clear()
    files.together = 5
    with read_ahead(*fresh(files, tree)) as (ahead,):
        assert [key for key, _ in ahead.records()] == [b"%02d" % n for n in range(12)]
    assert set(files.read.values()) == {1}
    assert len(files.read) == 12


@LAW
@given(some_contents, some_split, st.binary(max_size=3))
def test_records_are_those_without_it(contents: Contents, split: SplitParameters, start: bytes) -> None:
    files = WatchedFiles()
    tree = build_tree(TreeStore(files, ALONE), contents, split)
    with read_ahead(*fresh(files, tree)) as (ahead,):
        assert list(ahead.records(start)) == list(tree.records(start))


@LAW
@given(some_contents, some_contents)
def test_differences_are_those_without_it_and_each_range_is_read_once(before: Contents, after: Contents) -> None:
    files = WatchedFiles()
    left, right = grown(files, before), grown(files, after)
    files.read.clear()
    one, other = fresh(files, left, right)
    expected = list(diff(one, other))
    needed, files.read = files.read, Counter()
    with read_ahead(*fresh(files, left, right)) as (a, b):
        assert list(diff(a, b)) == expected
    assert set(files.read) >= set(needed)
    assert set(files.read.values()) <= {1}


def test_a_missing_file_is_told_as_such() -> None:
    files = WatchedFiles()
    tree = grown(files, {b"a": 1, b"b": 2, b"c": 3})
    del files.files[RANGES, tree.info(1).name]
    with read_ahead(*fresh(files, tree)) as (ahead,), pytest.raises(DamagedFileError, match="is missing"):
        list(ahead.records())
