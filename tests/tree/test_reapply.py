"""Applying again after the head has moved (promise C6): the result equals that of applying to the new head."""

import itertools
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.model import SplitParameters
from graveler.tree.apply import Change, Interval, apply, reapply
from graveler.tree.common_run import aligned, common_ranges
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build
from tests.support.campaigns import examples
from tests.support.trees import TINY, build_tree, new_store, packed
from tests.tree.support import EVERY, LAW, UNIVERSE, Contents, same_tree, some_contents, some_split, tables_written_once


def inside(key: bytes, interval: Interval) -> bool:
    after, upto = interval
    return (after is None or key > after) and (upto is None or key <= upto)


def random_tree(store: TreeStore, records: dict[bytes, bytes], split: SplitParameters) -> Tree:
    return build(store, split, sorted(records.items()))


def test_reapplying_equals_applying_to_the_new_head_times_and_addresses_included(seed: int) -> None:
    """Few values and many times: a change often brings what is there already, and then the older record stays."""
    random = Random(seed)

    def record() -> bytes:
        return packed(random.randrange(2), mtime=random.randrange(3))

    with tables_written_once():
        for case in range(1500):
            store, split = (
                new_store(),
                random.choice((TINY, EVERY, SplitParameters(min_size=60, max_size=200, raggedness=2))),
            )
            density = random.choice((0.0, 0.5, 1.0))
            old = {key: record() for key in UNIVERSE if random.random() < density}
            new = dict(old)
            for _ in range(random.choice((0, 1, 2, 30))):
                at = random.randrange(len(UNIVERSE))
                for key in UNIVERSE[at : at + random.choice((1, 1, 10))]:
                    if random.random() < 0.5:
                        new[key] = record()
                    else:
                        new.pop(key, None)
            change: list[Change] = [
                (key, None if random.random() < 0.4 else record()) for key in UNIVERSE if random.random() < 0.2
            ]
            old_head, new_head = random_tree(store, old, split), random_tree(store, new, split)
            asked: list[Interval] = []

            def between(
                interval: Interval, change: list[Change] = change, asked: list[Interval] = asked
            ) -> list[Change]:
                asked.append(interval)
                return [c for c in change if inside(c[0], interval)]

            result = reapply(old_head, apply(old_head, change, split), new_head, between, split)
            assert same_tree(result, apply(new_head, change, split)), f"case {case} of seed {seed}"
            for one, other in itertools.pairwise(asked):
                assert one[1] is not None
                assert other[0] is not None
                assert one[1] < other[0], "one question should have served both"


@settings(LAW, max_examples=examples(300))
@given(some_contents, some_contents, some_split, st.booleans())
def test_two_trees_are_cut_into_intervals_with_the_same_ranges_and_with_different_ones_by_turns(
    one: Contents, other: Contents, split: SplitParameters, close: bool
) -> None:
    if close:
        other = one | dict(list(other.items())[:2])
    store = new_store()
    left, right = build_tree(store, one, split), build_tree(store, other, split)
    intervals = list(aligned(left, right))
    assert intervals[0][0][0] is None
    assert intervals[-1][0][1] is None
    for (a, same_a), (b, same_b) in itertools.pairwise(intervals):
        assert a[1] == b[0]
        assert same_a != same_b or b[1] is None
        assert not (same_a is same_b is False)
    for interval, same in intervals:
        assert interval[1] is None or (interval[1] in left.lasts and interval[1] in right.lasts)
        mine, theirs = (
            [(last, p) for last, p in zip(tree.lasts, tree.packed, strict=True) if inside(last, interval)]
            for tree in (left, right)
        )
        if same:
            assert mine == theirs
        else:
            assert mine != theirs
            assert interval[1] is None or not (mine and theirs and mine[0] == theirs[0])


@settings(LAW, max_examples=examples(300))
@given(st.lists(st.booleans(), max_size=60), st.integers(0, 5), st.integers(0, 5))
def test_a_common_run_ends_at_the_first_difference(equal: list[bool], i: int, j: int) -> None:
    store = new_store()
    lasts = [b"%03d" % n for n in range(len(equal))]
    left = Tree(store, [b"!"] * i + lasts, [b"x"] * (i + len(equal)))
    right = Tree(store, [b"!"] * j + lasts, [b"x"] * j + [b"x" if same else b"y" for same in equal])
    assert common_ranges(left, i, right, j) == (equal.index(False) if False in equal else len(equal))
