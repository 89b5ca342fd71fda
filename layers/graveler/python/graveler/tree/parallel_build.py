"""Building one tree in several processes: each builds the tree of an interval of keys, a join makes them one (law F1)."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from graveler.model import SplitParameters
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build, join

Part = Callable[[], Iterable[tuple[bytes, bytes]]]
"""Returns the records of one key interval, in ascending order. Picklable; called in another process."""


def build_parallel(
    store: TreeStore, split: SplitParameters, parts: Sequence[Part], built: Callable[[Tree], None] = lambda _: None
) -> Tree:
    """Return the tree of the records of all parts, whose intervals ascend and do not overlap.

    The store's workers build parts as they come, if several of both exist; memory is one range per worker. ``built`` is called
    with each part's tree. Writes n/r ranges and rewrites under two a seam. An error in a part is raised here; what was written
    until then is garbage for the collector.
    """
    crew = store.crew() if len(parts) > 1 else None
    if crew is None:
        return join(store, split, _reported((build(store, split, part()) for part in parts), built))
    results = crew.run(_build_part, ((store, split, part) for part in parts))
    return join(store, split, _reported((Tree(store, lasts, packed) for lasts, packed in results), built))


def _reported(trees: Iterable[Tree], built: Callable[[Tree], None]) -> Iterator[Tree]:
    for tree in trees:
        built(tree)
        yield tree


def _build_part(store: TreeStore, split: SplitParameters, part: Part) -> tuple[list[bytes], list[bytes]]:
    tree = build(store, split, part())
    return tree.lasts, tree.packed
