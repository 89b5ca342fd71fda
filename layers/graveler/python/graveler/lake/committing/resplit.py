"""Splitting trees again by other split parameters: each record is read and written, as if the tree were built from them."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from graveler.model import SplitParameters
from graveler.tree.canonical import is_canonical
from graveler.tree.parallel_build import build_parallel
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree

_SHARES: Final = 4
"""The number of shares for each worker: so that all end at about the same time."""


def recut(tree: Tree, split: SplitParameters) -> Tree:
    """Return the canonical tree of the same records by these parameters, whatever the split of the given tree. Reads all of its
    ranges and writes as much, by the store's workers; 3 µs a record. Memory: one range for each worker."""
    shares = min(len(tree), _SHARES * tree.store.workers if tree.store.workers > 1 else 1)
    bounds = [len(tree) * share // max(shares, 1) for share in range(shares + 1)]
    parts = [
        partial(_records, tree.store, tree.lasts[start:stop], tree.packed[start:stop])
        for start, stop in pairwise(bounds)
    ]
    return build_parallel(tree.store, split, parts)


def as_cut(tree: Tree, by: SplitParameters, split: SplitParameters) -> Tree:
    """Return a tree that is split ``by`` some parameters, as a commit says, split by ``split`` instead: itself if they are the
    same."""
    return tree if split in (by, tree.cut_by) else recut(tree, split)


def whoever_cut(tree: Tree, split: SplitParameters, like: Tree) -> Tree:
    """Return a tree that was built elsewhere, split by ``split`` (law F1). ``like`` is a tree that is already split so.

    No request if the tree's metarange says that it has these parameters. Else the cost of
    :func:`graveler.tree.canonical.is_canonical`, and if it is split differently, of :func:`recut`.
    """
    return tree if tree.cut_by == split or is_canonical(tree, split, like) else recut(tree, split)


def _records(store: TreeStore, lasts: Sequence[bytes], packed: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return Tree(store, lasts, packed).records()
