"""Working in several processes: the same trees, differences and conflicts as alone (law F1); errors arrive."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from graveler.errors import DamagedFileError, InvalidError
from graveler.model import MergeStrategy, SplitParameters
from graveler.runtime.crew import Crew
from graveler.runtime.local import LocalRuntime
from graveler.tree import apply as applying
from graveler.tree import diff as differing
from graveler.tree import stretches as sharing
from graveler.tree.apply import apply
from graveler.tree.cursor import Cursor
from graveler.tree.diff import diff
from graveler.tree.merge import merge
from graveler.tree.parts import apply_part, join_parts
from graveler.tree.store import RANGES, TreeStore
from graveler.tree.stretches import cut_out, stretches
from graveler.tree.tree import Tree
from graveler.tree.writer import StoppedError, build, join
from tests.support.trees import ALONE, MemoryFiles, changes, packed
from tests.tree.make_golden import FolderFiles
from tests.tree.support import changes_between, same_tree

SPLIT = SplitParameters(min_size=400, max_size=4_000, raggedness=10)
KEYS = [b"key/%05d" % n for n in range(3000)]

T = TypeVar("T")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TreeStore:
    """Two workers, and what is worth sharing is little."""
    for module in (applying, sharing, differing):
        monkeypatch.setattr(module, "ENOUGH", 300)
    for module in (applying, sharing):
        monkeypatch.setattr(module, "TASK", 150)
    return TreeStore(FolderFiles(tmp_path), LocalRuntime(workers=2))


def alone(tree: Tree) -> Tree:
    """The same tree for a process that works alone."""
    return Tree(TreeStore(tree.store.files, ALONE), tree.lasts, tree.packed)


def some_keys(random: Random) -> list[bytes]:
    """Spread changes, adjacent ones, some of both."""
    start = random.randrange(len(KEYS))
    spread = random.sample(KEYS, random.choice((0, 30, 300, 2000)))
    return sorted({*spread, *KEYS[start : start + random.choice((1, 400))]})


def changed(contents: dict[bytes, int], random: Random) -> dict[bytes, int]:
    """Values changed, records removed, and some added between others and behind all."""
    after = dict(contents)
    for key in some_keys(random):
        what = random.random()
        if what < 0.2:
            after.pop(key, None)
        elif what < 0.4:
            after[key + b"+"] = 5
        else:
            after[key] = random.randrange(5, 9)
    if random.random() < 0.3:
        after |= {b"last/%04d" % n: n for n in range(random.choice((1, 700)))}
    return after


@pytest.mark.parametrize("example", range(6))
def test_workers_make_the_tree_that_one_process_makes(store: TreeStore, example: int) -> None:
    random = Random(example)
    before = {key: 1 for key in KEYS if random.random() < 0.95}
    after = changed(before, random)
    tree = build(store, SPLIT, ((key, packed(before[key])) for key in sorted(before)))
    result = apply(tree, changes_between(before, after), SPLIT)
    assert same_tree(result, build(alone(tree).store, SPLIT, ((key, packed(after[key])) for key in sorted(after))))
    assert list(diff(tree, result)) == list(diff(alone(tree), alone(result)))
    low, high = sorted(random.sample(KEYS, 2))
    assert list(diff(tree, result, low, high)) == list(diff(alone(tree), alone(result), low, high))


@pytest.mark.parametrize("example", range(6))
def test_workers_merge_as_one_process_does_conflicts_included(store: TreeStore, example: int) -> None:
    random = Random(100 + example)
    contents = dict.fromkeys(KEYS, 1)
    states = contents, changed(contents, random), changed(contents, random)
    trees = [build(store, SPLIT, ((key, packed(state[key])) for key in sorted(state))) for state in states]
    for strategy in MergeStrategy:
        shared = merge(trees[0], trees[1], trees[2], SPLIT, strategy)
        single = merge(alone(trees[0]), alone(trees[1]), alone(trees[2]), SPLIT, strategy)
        assert shared.conflicts == single.conflicts
        assert (shared.tree is None) == (single.tree is None)
        assert shared.tree is None or single.tree is None or same_tree(shared.tree, single.tree)


def test_very_many_changes_behind_all_ranges_and_in_one_place_are_shared_too(store: TreeStore) -> None:
    tree = build(store, SPLIT, [(b"a", packed(1)), (b"z", packed(1))])
    for prefix in (b"m", b"zz"):
        change = changes({b"%s%05d" % (prefix, n): n for n in range(1500)})
        assert same_tree(apply(tree, change, SPLIT), apply(alone(tree), change, SPLIT))


def test_parts_of_very_many_changes_in_one_place_join_as_they_are(store: TreeStore, tmp_path: Path) -> None:
    """Each part ends where the rule ends a range: none is read and written again."""
    records = [(key, packed(1)) for key in KEYS]
    expected = build(alone(Tree(store)).store, SPLIT, records)
    files, runtime = Puts(tmp_path / "other"), Counted(has_crew=False)
    result = apply(Tree(TreeStore(files, runtime)), records, SPLIT)
    assert same_tree(result, expected)
    assert runtime.tasks > 5
    assert not files.names  # put by this process


def test_workers_that_run_already_get_less_than_is_worth_starting_them(tmp_path: Path) -> None:
    few, many = changes(dict.fromkeys(KEYS[:400], 2)), changes(dict.fromkeys(KEYS[::2], 2))
    stopped, running = Counted(has_crew=False), Counted(has_crew=True)
    files = FolderFiles(tmp_path)
    tree = build(TreeStore(files, ALONE), SPLIT, ((key, packed(1)) for key in KEYS))
    with patch.object(applying, "AT_HAND", 500), patch.object(applying, "TASK", 150):
        apply(Tree(TreeStore(files, stopped), tree.lasts, tree.packed), many, SPLIT)
        beside = Tree(TreeStore(files, running), tree.lasts, tree.packed)
        apply(beside, few, SPLIT)
        assert stopped.tasks == running.tasks == 0
        assert same_tree(apply(beside, many, SPLIT), apply(tree, many, SPLIT))
    assert running.tasks > 1


class Puts(FolderFiles):
    """Notes what this process puts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.names: list[str] = []

    def put(self, kind: str, name: str, data: bytes) -> None:
        self.names.append(name)
        super().put(kind, name, data)


class Counted(LocalRuntime):
    """Two workers, which run already or do not, and the number of tasks that they got."""

    has_crew = False

    def __init__(self, *, has_crew: bool) -> None:
        super().__init__(workers=2)
        self.has_crew = has_crew
        self.tasks = 0

    def crew(self) -> Crew:
        return CountedCrew(self, super().crew())


class CountedCrew(Crew):
    """Counts the tasks of a crew."""

    def __init__(self, runtime: Counted, crew: Crew) -> None:
        self._runtime, self._crew = runtime, crew

    def can(self, *values: object) -> bool:
        return self._crew.can(*values)

    def run(self, function: Callable[..., T], tasks: Iterable[tuple[object, ...]]) -> Iterator[T]:
        return self._crew.run(function, map(self._count, tasks))

    def _count(self, task: tuple[object, ...]) -> tuple[object, ...]:
        self._runtime.tasks += 1
        return task


def test_stretches_cover_all_ranges_and_end_where_every_tree_has_a_cut(store: TreeStore) -> None:
    random = Random(7)
    contents = dict.fromkeys(KEYS, 1)
    trees = [
        build(store, SPLIT, ((key, packed(state[key])) for key in sorted(state)))
        for state in (contents, changed(contents, random), changed(contents, random))
    ]
    found = list(stretches(trees, [0, 0, 0]))
    assert len(found) > 3
    for n, tree in enumerate(trees):
        assert found[0][n][0] == 0
        assert found[-1][n][1] == len(tree)
        assert all(one[n][1] == other[n][0] for one, other in pairwise(found))
        parts = [cut_out(tree, stretch[n]) for stretch in found]
        assert same_tree(join(tree.store, SPLIT, parts), tree)
    for stretch in found[:-1]:
        assert len({tree.lasts[stop - 1] for tree, (_, stop) in zip(trees, stretch, strict=True)}) == 1


def test_an_error_in_a_worker_is_raised_here(store: TreeStore, tmp_path: Path) -> None:
    tree = build(store, SPLIT, ((key, packed(1)) for key in KEYS))
    (tmp_path / RANGES / tree.info(len(tree) - 2).name).write_bytes(b"damaged")
    change = changes(dict.fromkeys(KEYS, 7))
    with pytest.raises(DamagedFileError, match="range"):
        apply(tree, change, SPLIT)
    with pytest.raises(InvalidError, match="order"):
        apply(tree, [*change[:2000], *change[:10]], SPLIT)


def test_a_consumer_that_stops_early_leaves_nothing_behind(store: TreeStore) -> None:
    left, right = (build(store, SPLIT, ((key, packed(n)) for key in KEYS)) for n in (1, 2))
    found = diff(left, right)
    assert [key for key, _, _ in (next(found) for _ in range(1000))] == KEYS[:1000]
    found.close()  # type: ignore[attr-defined]
    assert len(list(diff(left, right))) == len(KEYS)


def test_files_of_this_process_alone_are_worked_on_alone() -> None:
    class Here(MemoryFiles):
        """No other process can import this class."""

    assert TreeStore(Here(), LocalRuntime(workers=2)).crew() is None
    assert TreeStore(MemoryFiles(), ALONE).crew() is None


def test_cursors_that_have_read_little_share_nothing(store: TreeStore) -> None:
    tree = build(store, SPLIT, ((key, packed(1)) for key in KEYS))
    assert not sharing.worth_sharing((Cursor(tree), Cursor(tree)))


def test_workers_work_ahead_for_who_takes_all_and_not_for_a_page(
    store: TreeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, changed_tree = (build(store, SPLIT, ((key, packed(value)) for key in KEYS)) for value in (1, 2))
    asked = Counter[str]()
    run = Crew.run

    def counted(crew: Crew, function: Any, tasks: Any) -> Any:
        asked[function.__name__] += 1
        return run(crew, function, tasks)

    monkeypatch.setattr(Crew, "run", counted)
    page = list(islice(diff(tree, changed_tree, most=150), 150))
    assert page == list(islice(diff(alone(tree), alone(changed_tree)), 150))
    assert not asked
    for most in (None, 3000):
        assert len(list(diff(tree, changed_tree, most=most))) == len(KEYS)
    assert asked.total() == 2


def test_who_is_asked_to_stop_joins_no_more_shares(store: TreeStore, seed: int) -> None:
    random = Random(seed)
    before = dict.fromkeys(KEYS, 1)
    tree = build(store, SPLIT, [(key, packed(value)) for key, value in before.items()])
    changed_ones = changes(dict.fromkeys(sorted(random.sample(KEYS, 1500)), 2))
    final = apply(tree, changed_ones, SPLIT)
    handed_over = 0
    for moment in (1, 6, 12):
        left = iter(range(moment))

        def stop(left: Iterator[int] = left) -> bool:
            return next(left, None) is None

        with pytest.raises(StoppedError) as stopped:
            apply(tree, changed_ones, SPLIT, stop)
        built, upto = stopped.value.tree, stopped.value.upto
        if upto is not None:
            handed_over += 1
            behind = [one for one in changed_ones if one[0] > upto]
            rest = apply_part(tree, lambda _, behind=behind: behind, (upto, None), SPLIT)  # type: ignore[misc]
            assert built.lasts == final.lasts[: len(built)]
            assert same_tree(join_parts(store, SPLIT, [built, rest]), final)
    assert handed_over > 1
