"""The proof by exhaustion: in a small world, every change between any two states, every seam, and every merge of few keys.

As ``model/tree.py`` of the design does it with integers, but with the real writer and real files. The universe's size
is ``GRAVELER_UNIVERSE`` (default 6 keys; each key more costs four times the time).
"""

import os
from itertools import combinations

import pytest

from graveler.model import SplitParameters
from graveler.tree.apply import apply
from graveler.tree.merge import merge
from graveler.tree.split import cuts_after
from graveler.tree.tree import Tree
from graveler.tree.writer import TreeWriter, join
from tests.support.campaigns import share
from tests.support.trees import build_tree, new_store, packed
from tests.tree.support import changes_between, keys, same_tree, tables_written_once

LETTERS = "abcdefghijkl"
SIZE = int(os.environ.get("GRAVELER_UNIVERSE", "6"))

# A record counts 33 bytes here. Cut candidates: with raggedness 2 acdfghkl, with 3 cdfk, with 4 afg.
WORLDS = [
    SplitParameters(min_size=1, max_size=10**6, raggedness=3),
    SplitParameters(min_size=66, max_size=132, raggedness=3),
    SplitParameters(min_size=66, max_size=99, raggedness=2),
    SplitParameters(min_size=66, max_size=99, raggedness=10**9),
    SplitParameters(min_size=1, max_size=66, raggedness=4),
]


def test_the_worlds_have_cut_candidates_and_others() -> None:
    for split in WORLDS[:3] + WORLDS[4:]:
        candidates = [key for key in keys(LETTERS[:8]) if cuts_after(split, split.min_size, key)]
        assert 2 <= len(candidates) <= 6


@pytest.mark.parametrize("split", WORLDS, ids=lambda s: f"{s.min_size}-{s.max_size}-{s.raggedness}")
def test_every_change_and_every_seam_of_a_small_world_gives_the_canonical_tree(split: SplitParameters) -> None:
    universe = keys(LETTERS[:SIZE])
    store = new_store()
    with tables_written_once():
        subsets = [dict.fromkeys(c, 0) for size in range(SIZE + 1) for c in combinations(universe, size)]
        built = {tuple(subset): build_tree(store, subset, split) for subset in subsets}
        for before in subsets:
            tree = built[tuple(before)]
            for after in subsets:
                assert same_tree(apply(tree, changes_between(before, after), split), built[tuple(after)]), (
                    before,
                    after,
                )
            for seam in range(SIZE + 1):
                low = tuple(key for key in before if key in universe[:seam])
                high = tuple(key for key in before if key in universe[seam:])
                assert same_tree(join(store, split, [built[low], built[high]]), tree), (before, seam)


@pytest.mark.parametrize("split", WORLDS, ids=lambda s: f"{s.min_size}-{s.max_size}-{s.raggedness}")
def test_every_copy_of_an_interval_gives_the_canonical_tree(split: SplitParameters) -> None:
    universe = keys(LETTERS[: min(SIZE, 7)])
    store = new_store()
    bounds = [None, *universe]
    with tables_written_once():
        for size in range(len(universe) + 1):
            for subset in combinations(universe, size):
                tree = build_tree(store, dict.fromkeys(subset, 0), split)
                for after in bounds:
                    for upto in bounds:
                        writer = TreeWriter(store, split)
                        writer.copy(tree, after, upto)
                        expected = {k: 0 for k in subset if (after or b"") < k and (upto is None or k <= upto)}
                        assert same_tree(writer.finish(), build_tree(store, expected, split)), (subset, after, upto)


@pytest.mark.parametrize("split", WORLDS[:3], ids=lambda s: f"{s.min_size}-{s.max_size}-{s.raggedness}")
def test_every_merge_of_a_small_world_follows_the_table(split: SplitParameters) -> None:
    """Each of four keys is absent, or one of two contents, on each of three sides; the last key of each world is a neighbour
    that nobody changes. A third of the sources with each base, all in `make soak`."""
    universe = keys("acdf")
    store = new_store()
    with tables_written_once():
        states: list[dict[bytes, int]] = [{}]
        for key in universe[:3]:
            states = [state | more for state in states for more in ({}, {key: 0}, {key: 1})]
        states = [state | {universe[3]: 0} for state in states]
        trees: list[tuple[dict[bytes, int], Tree]] = [(state, build_tree(store, state, split)) for state in states]
        by_state = {tuple(sorted(state.items())): tree for state, tree in trees}
        for b, base in trees:
            for s, source in share(trees, 3, f"{split} {b}"):
                for d, destination in trees:
                    wanted: dict[bytes, int] = {}
                    conflicts = []
                    for key in universe:
                        x, y, z = b.get(key), s.get(key), d.get(key)
                        if y != z and x not in (y, z):
                            conflicts.append((key, *(None if v is None else packed(v) for v in (x, y, z))))
                        value = z if y in (z, x) else y
                        if value is not None:
                            wanted[key] = value
                    result = merge(base, source, destination, split)
                    assert [(c.key, c.base, c.source, c.destination) for c in result.conflicts] == conflicts, (b, s, d)
                    if not conflicts:
                        assert result.tree is not None
                        assert same_tree(result.tree, by_state[tuple(sorted(wanted.items()))]), (b, s, d)
