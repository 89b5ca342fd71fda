"""Ranges that are fetched before they are opened: the same results from the same requests, and hardly any unnecessary ones."""

import os
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Event, Lock, get_ident
from typing import Final

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from graveler.errors import DamagedFileError, UnavailableError
from graveler.model import MergeStrategy, SplitParameters
from graveler.runtime.local import LocalRuntime
from graveler.tree.apply import apply
from graveler.tree.diff import diff
from graveler.tree.expected_ranges import listed
from graveler.tree.listing import list_page
from graveler.tree.merge import merge
from graveler.tree.range_info import RangeInfo
from graveler.tree.store import RANGES, TreeStore
from graveler.tree.tree import Tree
from tests.support.campaigns import examples
from tests.support.children import end_process
from tests.support.patience import PATIENCE
from tests.support.trees import ALONE, MemoryFiles, build_tree
from tests.tree.support import (
    EVERY,
    LAW,
    UNIVERSE,
    Contents,
    WatchedFiles,
    changes_between,
    names,
    some_contents,
    some_split,
    with_store,
)

ROOT: Final = Path(__file__).parents[2]
AT_ONCE: Final = 3
WALKS_THAT_MAY_END_EARLY: Final = ("diff between", "merge")
"""Or may find out from records that a range is not needed; metaranges do not tell it."""


class Locked(WatchedFiles):
    """For several threads."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = Lock()

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        with self.lock:
            return super().get(kind, name, fresh=fresh)

    def put(self, kind: str, name: str, data: bytes) -> None:
        with self.lock:
            super().put(kind, name, data)


Walk = Callable[[Tree, Tree, Tree, SplitParameters], object]
"""Of three trees, base, left and right."""


def _merged(base: Tree, left: Tree, right: Tree, split: SplitParameters) -> object:
    done = merge(base, left, right, split, MergeStrategy.SOURCE_WINS)
    return None if done.tree is None else names(done.tree)


WALKS: Final[dict[str, Walk]] = {
    "diff": lambda _, left, right, __: list(diff(left, right)),
    "diff between": lambda _, left, right, __: list(diff(left, right, b"k10", b"k30")),
    "merge": _merged,
    "scan": lambda base, _, __, ___: list(base.blocks()),
    "scan between": lambda base, _, __, ___: list(base.blocks(b"a/", b"k20")),
    "get many": lambda base, _, __, ___: list(base.get_many(UNIVERSE[::3])),
}


@given(base=some_contents, left=some_contents, right=some_contents, split=some_split)
@limits(LAW, max_examples=examples(60))
@pytest.mark.parametrize("name", WALKS)
def test_walks_find_the_same_by_the_same_requests(
    name: str, base: Contents, left: Contents, right: Contents, split: SplitParameters
) -> None:
    files = Locked()
    made = [build_tree(TreeStore(files, ALONE), contents, split) for contents in (base, left, right)]
    found, read = [], []
    for at_once in (1, AT_ONCE):
        files.forget()
        store = TreeStore(files, LocalRuntime(reads_at_once=at_once))
        one, other, third = (with_store(tree, store) for tree in made)
        found.append(WALKS[name](one, other, third, split))
        read.append(sorted(files.read))
    assert found[0] == found[1]
    assert len(read[1]) == len(set(read[1])), "nothing is read twice"
    if name in WALKS_THAT_MAY_END_EARLY:
        assert set(read[0]) <= set(read[1])
    else:
        assert read[0] == read[1]


@given(before=some_contents, after=some_contents, split=some_split)
@limits(LAW, max_examples=examples(60))
def test_changes_give_the_same_tree_by_the_same_requests(
    before: Contents, after: Contents, split: SplitParameters
) -> None:
    files = Locked()
    tree = build_tree(TreeStore(files, ALONE), before, split)
    found = []
    for at_once in (1, AT_ONCE):
        files.forget()
        store = TreeStore(files, LocalRuntime(reads_at_once=at_once))
        done = apply(with_store(tree, store), iter(changes_between(before, after)), split)
        found.append((names(done), sorted(files.read)))
    assert found[0] == found[1]


@given(
    contents=some_contents,
    prefix=st.sampled_from([b"", b"k", b"long/", b"a/", b"none"]),
    after=st.one_of(st.just(b""), st.sampled_from(UNIVERSE)),
    delimiter=st.sampled_from([b"", b"/", b"0"]),
    split=some_split,
)
@limits(LAW, max_examples=examples(100))
def test_a_listing_opens_what_was_expected(
    contents: Contents, prefix: bytes, after: bytes, delimiter: bytes, split: SplitParameters
) -> None:
    files = WatchedFiles()
    store = TreeStore(files, ALONE)
    tree = build_tree(store, contents, split)
    for amount in (1, 4, 1000):
        expected = [info.name for info in listed(tree, prefix, after, delimiter, amount)]
        cold = with_store(tree, TreeStore(files, ALONE))
        files.forget()
        list_page(cold.run, prefix=prefix, after=after, delimiter=delimiter, amount=amount)
        assert set(files.read) <= set(expected)


class Meeting(Locked):
    """Each read of a range waits until as many are there as ``together``; ``met`` is whether they ever came."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self.barrier = Barrier(together)
        self.met = False
        self.under_way = self.most = 0

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        if not self.met:
            try:
                self.barrier.wait(timeout=PATIENCE)
                self.met = True
            except BrokenBarrierError:
                self.barrier.abort()
        try:
            return super().get(kind, name, fresh=fresh)
        finally:
            with self.lock:
                self.under_way -= 1


def many(files: MemoryFiles) -> Tree:
    tree = build_tree(TreeStore(files, ALONE), dict.fromkeys(UNIVERSE, 0), EVERY)
    assert len(tree) == len(UNIVERSE)
    return tree


def test_ranges_are_under_way_together_and_not_too_many() -> None:
    plain = Locked()
    tree = many(plain)
    files = Meeting(AT_ONCE + 1)  # who walks reads the first one
    files.files = plain.files
    assert len(list(with_store(tree, TreeStore(files, LocalRuntime(reads_at_once=AT_ONCE))).get_many(UNIVERSE))) == len(
        UNIVERSE
    )
    assert files.met
    assert files.most <= AT_ONCE + 1


def test_who_ends_early_has_read_few_for_nothing() -> None:
    files = Locked()
    tree = many(files)
    other = build_tree(TreeStore(files, ALONE), dict.fromkeys(UNIVERSE, 1), EVERY)
    for wanted in (1, 5):
        watched = Locked()  # of this walk alone: threads may still be reading for the one before
        watched.files = files.files
        store = TreeStore(watched, LocalRuntime(reads_at_once=AT_ONCE))
        found = list(islice(diff(with_store(tree, store), with_store(other, store)), wanted))
        assert len(found) == wanted
        assert wanted <= len(watched.read) <= 2 * wanted + AT_ONCE


class Trouble(Locked):
    """The read of one range fails in other threads than the one that made this."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.maker = get_ident()
        self.failed = Event()

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        if name == self.name and get_ident() != self.maker:
            self.failed.set()
            raise UnavailableError("the network is gone")
        return super().get(kind, name, fresh=fresh)


def test_what_could_not_be_fetched_ahead_is_asked_for_again_where_it_is_wanted() -> None:
    plain = Locked()
    tree = many(plain)
    files = Trouble(names(tree)[4])
    files.files = plain.files
    store = TreeStore(files, LocalRuntime(reads_at_once=AT_ONCE))
    assert None not in with_store(tree, store).get_many(UNIVERSE)
    assert files.failed.is_set()
    files.maker = 0  # now it fails whoever asks
    with pytest.raises(UnavailableError, match="network"):
        list(with_store(tree, TreeStore(files, LocalRuntime(reads_at_once=AT_ONCE))).get_many(UNIVERSE))


def test_an_error_of_what_nobody_wants_is_nobodys() -> None:
    plain = Locked()
    tree = many(plain)
    files = Trouble(names(tree)[1])
    files.files = plain.files
    store = TreeStore(files, LocalRuntime(reads_at_once=AT_ONCE))
    walk = with_store(tree, store).get_many(UNIVERSE)
    assert next(walk) is not None
    assert files.failed.wait(timeout=PATIENCE)


def test_a_range_that_is_missing_or_damaged_is_named() -> None:
    for wrong in (None, b"no table"):
        files = Locked()
        tree = many(files)
        name = names(tree)[3]
        if wrong is None:
            del files.files[RANGES, name]
        else:
            files.files[RANGES, name] = wrong
        with pytest.raises(DamagedFileError, match=name):
            list(with_store(tree, TreeStore(files, LocalRuntime(reads_at_once=AT_ONCE))).get_many(UNIVERSE))


class Held(Locked):
    """Reads in other threads than the one that made this wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = os.getpid(), get_ident()
        self.go = Event()

    def get(self, kind: str, name: str, *, fresh: bool = False) -> bytes:
        if os.getpid() == self.maker[0] and get_ident() != self.maker[1]:
            assert self.go.wait(timeout=PATIENCE)
        return super().get(kind, name, fresh=fresh)


def test_a_forked_child_reads_for_itself_what_its_parent_is_fetching() -> None:
    plain = Locked()
    tree = many(plain)
    files = Held()
    files.files = plain.files
    walk = with_store(tree, TreeStore(files, LocalRuntime(reads_at_once=AT_ONCE))).get_many(UNIVERSE)
    assert next(walk) is not None
    child = os.fork()
    if child == 0:
        try:
            end_process(0 if len(list(walk)) == len(UNIVERSE) - 1 else 1)
        except BaseException:  # noqa: BLE001 - pytest must not go on in the child
            end_process(2)
    _, status = os.waitpid(child, 0)
    files.go.set()
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(list(walk)) == len(UNIVERSE) - 1


HANGS = """
from threading import Event, get_ident
from graveler.runtime.local import LocalRuntime
from graveler.tree.store import TreeStore
from tests.support.trees import ALONE, MemoryFiles
from tests.tree.support import EVERY, UNIVERSE, with_store
from tests.support.trees import build_tree

class Hanging(MemoryFiles):
    maker, begun = get_ident(), Event()

    def get(self, kind, name, *, fresh=False):
        if get_ident() != self.maker:
            self.begun.set()
            Event().wait()
        return super().get(kind, name, fresh=fresh)

files = Hanging()
tree = build_tree(TreeStore(files, ALONE), dict.fromkeys(UNIVERSE, 0), EVERY)
walk = with_store(tree, TreeStore(files, LocalRuntime(reads_at_once=3))).get_many(UNIVERSE)
assert next(walk) is not None
files.begun.wait()
print("read one")
"""


def test_the_process_ends_although_a_read_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (0, "read one\n"), done.stderr


def test_what_is_expected_of_keys_is_what_they_may_be_in() -> None:
    tree = build_tree(TreeStore(MemoryFiles(), ALONE), dict.fromkeys(UNIVERSE[::2], 0))
    expected: list[RangeInfo] = []
    for key in UNIVERSE:
        number = bisect_left(tree.lasts, key)
        if number < len(tree) and tree.info(number).first <= key and tree.info(number) not in expected:
            expected.append(tree.info(number))
    assert list(tree.ranges_of(UNIVERSE)) == expected
    assert list(tree.ranges_of([])) == []
