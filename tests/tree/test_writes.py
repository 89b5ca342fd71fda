"""Several files of a tree under way to the store at once: the same trees, durable once they are handed over."""

from threading import Barrier, BrokenBarrierError, Event, Lock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import UnavailableError
from graveler.runtime.local import LocalRuntime
from graveler.tree.apply import apply
from graveler.tree.store import RANGES, TreeStore
from graveler.tree.writer import TreeWriter, build
from tests.support.campaigns import examples
from tests.support.patience import PATIENCE
from tests.support.trees import ALONE, MemoryFiles
from tests.tree.support import names, same_tree
from tests.tree.test_patch import KEYS, SPLIT, new, tree_of


class Meeting(MemoryFiles):
    """Each put waits until as many are there as ``together``; ``met`` is whether they ever came."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self.barrier = Barrier(together)
        self.met = False
        self.lock = Lock()

    def put(self, kind: str, name: str, data: bytes) -> None:
        if kind == RANGES and not self.met:
            try:
                self.barrier.wait(timeout=PATIENCE)
                self.met = True
            except BrokenBarrierError:
                self.barrier.abort()
        with self.lock:
            super().put(kind, name, data)


class Failing(MemoryFiles):
    """The put of one range fails, when others have been asked for."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.others = Event()

    def put(self, kind: str, name: str, data: bytes) -> None:
        if name == self.name:
            self.others.wait(timeout=PATIENCE)
            raise UnavailableError("no space left")
        self.others.set()
        super().put(kind, name, data)


def test_files_are_under_way_together() -> None:
    files = Meeting(3)
    tree = tree_of(TreeStore(files, LocalRuntime(writes_at_once=3)), dict.fromkeys(KEYS, 0))
    assert files.met
    assert {name for _, name in files.files} == set(names(tree))


@given(
    changed=st.dictionaries(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(1, 3)), max_size=40),
    at_once=st.integers(2, 5),
)
@settings(max_examples=examples(60), deadline=None)
def test_trees_are_the_same_and_complete_when_they_are_handed_over(
    changed: dict[bytes, int | None], at_once: int
) -> None:
    before = dict.fromkeys(KEYS, 0)
    after = {key: value for key in KEYS if (value := changed.get(key, before[key])) is not None}
    files = MemoryFiles()
    store = TreeStore(files, LocalRuntime(writes_at_once=at_once))
    tree = tree_of(store, before)
    changes = [(key, None if value is None else new(value)) for key, value in sorted(changed.items())]
    result = apply(tree, changes, SPLIT)
    assert {(RANGES, name) for name in names(result)} <= files.files.keys()
    assert same_tree(result, tree_of(TreeStore(MemoryFiles(), ALONE), after))


def test_who_goes_on_behind_a_range_that_is_under_way_reads_it() -> None:
    """The last range of a tree is written, taken, and opened again, since more follows."""
    half = len(KEYS) // 2
    store = TreeStore(MemoryFiles(), LocalRuntime(writes_at_once=4))
    writer = TreeWriter(store, SPLIT)
    writer.take(tree_of(store, dict.fromkeys(KEYS[:half], 0)))
    writer.add(KEYS[half:], [new(0)] * (len(KEYS) - half))
    assert same_tree(writer.finish(), tree_of(TreeStore(MemoryFiles(), ALONE), dict.fromkeys(KEYS, 0)))


def test_an_error_of_any_file_is_raised_before_a_tree_is_there() -> None:
    records = [(key, new(0)) for key in KEYS]
    whole = build(TreeStore(MemoryFiles(), ALONE), SPLIT, records)
    for name in names(whole):
        with pytest.raises(UnavailableError, match="no space left"):
            build(TreeStore(Failing(name), LocalRuntime(writes_at_once=3)), SPLIT, records)
