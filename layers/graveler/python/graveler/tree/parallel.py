"""Building one tree in several processes: each builds the tree of an interval of keys, a join makes them one (law F1)."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from graveler.model import SplitParameters
from graveler.tree.files import TreeStore
from graveler.tree.tree import Tree
from graveler.tree.writer import build, join

Part = Callable[[], Iterable[tuple[bytes, bytes]]]
"""Picklable; returns the records of one key interval, in ascending order. Called in another process."""


def build_parallel(store: TreeStore, split: SplitParameters, parts: Sequence[Part], processes: int) -> Tree:
    """The tree of the records of all parts, whose intervals ascend and do not overlap.

    Each of ``processes`` workers builds parts as they come; memory is one range per worker. Writes n/r ranges and rewrites
    under two a seam. An error in a part is raised here; what was written until then is garbage for the collector.
    """
    if processes <= 1 or len(parts) <= 1:
        return join(store, split, (build(store, split, part()) for part in parts))
    # Spawned, not forked: the caller may hold threads, locks and database connections.
    with ProcessPoolExecutor(min(processes, len(parts)), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_build_part, store, split, part) for part in parts]
        try:
            built = [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return join(store, split, (Tree(store, lasts, packed) for lasts, packed in built))


def _build_part(store: TreeStore, split: SplitParameters, part: Part) -> tuple[list[bytes], list[bytes]]:
    tree = build(store, split, part())
    return tree.lasts, tree.packed
