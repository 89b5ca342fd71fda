"""Work that is cut at keys, anywhere, gives the tree that one call gives."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.model import MergeStrategy
from graveler.tree.apply import Change, Interval, apply
from graveler.tree.merge import merge
from graveler.tree.parts import (
    Load,
    Piece,
    Point,
    apply_part,
    apply_points,
    clip,
    cut,
    cut_at,
    digest,
    join_parts,
    merge_part,
    merge_points,
    total_load,
)
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from tests.support.campaigns import examples
from tests.support.trees import TINY, MemoryFiles, as_dict, build_tree, changes, new_store

KEYS = st.integers(0, 120).map(lambda number: b"%03d" % number)
CONTENTS = st.dictionaries(KEYS, st.integers(0, 3), max_size=90)
EDITS = st.dictionaries(KEYS, st.one_of(st.none(), st.integers(4, 6)), max_size=25)
CUTS = st.sets(st.one_of(KEYS, KEYS.map(lambda key: key + b"x")), max_size=6).map(sorted)


def intervals(cuts: Iterable[bytes]) -> list[Interval]:
    return [piece.interval for piece in cut_at([], list(cuts))]


def edited(contents: Mapping[bytes, int], edits: Mapping[bytes, int | None]) -> dict[bytes, int]:
    merged = {**contents, **edits}
    return {key: value for key, value in merged.items() if value is not None}


def three(
    store: TreeStore, contents: Mapping[bytes, int], here: Mapping[bytes, int | None], there: Mapping[bytes, int | None]
) -> tuple[Tree, Tree, Tree]:
    """Base, source and destination."""
    return (
        build_tree(store, contents),
        build_tree(store, edited(contents, here)),
        build_tree(store, edited(contents, there)),
    )


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(CONTENTS, EDITS, EDITS, CUTS, st.sampled_from([MergeStrategy.SOURCE_WINS, MergeStrategy.DEST_WINS]))
def test_a_merge_in_parts_is_the_merge(
    contents: dict[bytes, int],
    here: dict[bytes, int | None],
    there: dict[bytes, int | None],
    cuts: list[bytes],
    strategy: MergeStrategy,
) -> None:
    store = new_store()
    trees = three(store, contents, here, there)
    whole = merge(*trees, TINY, strategy).tree
    assert whole is not None
    parts = [merge_part(*trees, interval, TINY, strategy).tree for interval in intervals(cuts)]
    joined = join_parts(store, TINY, [part for part in parts if part is not None], trees)
    assert (len(parts), joined.name()) == (len(cuts) + 1, whole.name())


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(CONTENTS, EDITS, EDITS, CUTS)
def test_parts_find_the_conflicts_of_the_whole(
    contents: dict[bytes, int], here: dict[bytes, int | None], there: dict[bytes, int | None], cuts: list[bytes]
) -> None:
    store = new_store()
    trees = three(store, contents, here, there)
    found = [found for interval in intervals(cuts) for found in merge_part(*trees, interval, TINY).conflicts]
    assert tuple(found) == merge(*trees, TINY).conflicts


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(CONTENTS, EDITS, CUTS)
def test_changes_applied_in_parts_are_the_changes_applied(
    contents: dict[bytes, int], edits: dict[bytes, int | None], cuts: list[bytes]
) -> None:
    store = new_store()
    tree, sorted_changes = build_tree(store, contents), changes(edits)

    def of(interval: Interval) -> list[Change]:
        after, upto = interval
        return [
            change
            for change in sorted_changes
            if (after is None or change[0] > after) and (upto is None or change[0] <= upto)
        ]

    parts = [apply_part(tree, of, interval, TINY) for interval in intervals(cuts)]
    assert join_parts(store, TINY, parts, [tree]).name() == apply(tree, sorted_changes, TINY).name()


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(CONTENTS, KEYS, KEYS)
def test_a_clipped_tree_is_the_one_built_of_its_records(contents: dict[bytes, int], one: bytes, other: bytes) -> None:
    store = new_store()
    after, upto = sorted((one, other))
    inside = {key: value for key, value in contents.items() if after < key <= upto}
    assert clip(build_tree(store, contents), (after, upto), TINY).name() == build_tree(store, inside).name()


def test_clipping_at_cuts_opens_and_writes_nothing() -> None:
    files = MemoryFiles()
    tree = build_tree(new_store(files), {b"%04d" % number: 1 for number in range(300)})
    tree = Tree(new_store(files), tree.lasts, tree.packed)
    files.requests.clear()
    part = clip(tree, (tree.lasts[3], tree.lasts[9]), TINY)
    assert (part.lasts, files.requests.total()) == (tree.lasts[4:10], 0)


def side(random: Random, keys: Iterable[bytes], value: int) -> dict[bytes, int | None]:
    """Changes of a side: some keys changed, some added behind them, and some or many removed, so that ranges of one tree reach
    over several of another."""
    changed, removed = random.choice((0.02, 0.1)), random.choice((0.0, 0.15, 0.4))
    edits: dict[bytes, int | None] = {}
    for key in keys:
        if random.random() < 0.1:
            edits[key + b"x"] = value
        if random.random() < changed:
            edits[key] = value
        elif random.random() < removed:
            edits[key] = None
    return edits


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.integers(0, 2**32).map(Random))
def test_points_of_a_merge_ascend_and_have_each_range_once(random: Random) -> None:
    """Also where a range of one tree reaches over several intervals in which all three differ."""
    keys = [b"%03d" % number for number in range(120)]
    trees = three(
        new_store(), {key: 1 for key in keys if random.random() < 0.5}, side(random, keys, 4), side(random, keys, 5)
    )
    points = merge_points(*trees)
    assert all(point.key < following.key for point, following in pairwise(points))
    ranges = Counter(tree.info(number) for tree in trees for number in range(len(tree)))
    assert total_load(points).ranges <= ranges.total()
    assert total_load(points).records <= sum(info.count * times for info, times in ranges.items())


@settings(max_examples=examples(80), deadline=None, derandomize=True)
@given(CONTENTS, EDITS, EDITS, st.integers(1, 9))
def test_planned_parts_cover_all_keys_and_lose_no_work(
    contents: dict[bytes, int], here: dict[bytes, int | None], there: dict[bytes, int | None], count: int
) -> None:
    store = new_store()
    trees = three(store, contents, here, there)
    points = merge_points(*trees)
    pieces = cut(points, count)
    assert pieces[0].interval[0] is None
    assert pieces[-1].interval[1] is None
    assert all(one.interval[1] == other.interval[0] for one, other in pairwise(pieces))
    assert len(pieces) <= count
    assert sum(piece.load.records for piece in pieces) == total_load(points).records
    assert cut_at(points, [piece.interval[1] for piece in pieces[:-1] if piece.interval[1] is not None]) == pieces


def test_planning_opens_nothing_and_counts_only_what_both_sides_changed() -> None:
    files = MemoryFiles()
    store = new_store(files)
    contents = {b"%04d" % number: 1 for number in range(2000)}
    base = build_tree(store, contents)
    new_partition = {b"x%04d" % number: 2 for number in range(1000)}
    source = build_tree(store, {**contents, **new_partition, b"0500": 3, b"1000": 3})
    destination = build_tree(store, {**contents, b"1000": 4})
    files.requests.clear()
    points = merge_points(base, source, destination)
    assert not files.requests
    touched = next(n for n in range(len(base)) if base.lasts[n] >= b"1000")
    tail = base.info(len(base) - 1).count
    assert total_load(points).records <= 3 * base.info(touched).count + 3 * tail + 60
    assert total_load(merge_points(base, source, base)) == Load()
    assert total_load(merge_points(base, base, source)) == Load()


def test_parts_have_similar_work_and_end_where_all_trees_have_a_cut() -> None:
    points = [Point(b"%03d" % number, Load(10, 1, 100), number % 2 == 0) for number in range(1, 101)]
    pieces = cut(points, 4)
    assert [piece.interval[1] for piece in pieces[:-1]] == [b"026", b"052", b"078"]
    assert cut(points, 100, smallest=500) == [
        Piece((None, b"050"), Load(500, 50, 5000)),
        Piece((b"050", None), Load(500, 50, 5000)),
    ]
    assert cut([], 8) == [Piece((None, None), Load())]


def test_points_of_changes_count_each_range_once() -> None:
    tree = build_tree(new_store(), {b"%04d" % number: 1 for number in range(300)})
    last = tree.lasts[2]
    points = apply_points(tree, [(tree.info(2).first, 5), (last, 5), (b"9999", 7), (b"99999", 1)])
    assert [point.key for point in points] == [last, b"9999", b"99999"]
    assert [point.load.records for point in points] == [tree.info(2).count + 10, 7, 1]


def test_a_digest_names_what_is_in_an_interval_and_nothing_else() -> None:
    store = new_store()
    contents = {b"%04d" % number: 1 for number in range(300)}
    tree = build_tree(store, contents)
    changed = build_tree(store, {**contents, b"0250": 2})
    cut_key = tree.lasts[5]
    assert digest([tree], (None, cut_key)) == digest([changed], (None, cut_key))
    assert digest([tree], (cut_key, None)) != digest([changed], (cut_key, None))
    assert digest([tree], (None, cut_key)) != digest([tree], (None, tree.lasts[6]))
    assert as_dict(tree) != as_dict(changed)
