"""Check that a tree is cut as split parameters cut it (law F1)."""

from itertools import pairwise

from graveler.model import SplitParameters
from graveler.tree.range_info import RangeInfo
from graveler.tree.record import IDENTITY_OVERHEAD
from graveler.tree.split import cuts_after, first_cut
from graveler.tree.tree import Tree


def is_canonical(tree: Tree, split: SplitParameters, like: Tree | None = None) -> bool:
    """Return whether these parameters would make these ranges of the tree's records. ``like`` is a tree known to be cut by them.

    Descriptions say where ranges end, so most trees that are cut differently are recognised without a request. Only a range's
    keys tell whether it should have ended earlier: each range that is long enough for that and that ``like`` does not have is
    read, at 0.5 µs a record.
    """
    if not ends_by(tree, split):
        return False
    accepted = set() if like is None else set(like.packed)
    return not any(
        packed not in accepted and _may_end_earlier(tree.info(number), split) and _ends_earlier(tree, number, split)
        for number, packed in enumerate(tree.packed)
    )


def ends_by(tree: Tree, split: SplitParameters) -> bool:
    """Return whether ranges end only where these parameters may end one, by their descriptions. No request; 2 µs a range."""
    infos = map(tree.info, range(len(tree)))
    return all(
        cuts_after(split, info.size, info.last) and info.last < following.first for info, following in pairwise(infos)
    )


def _may_end_earlier(info: RangeInfo, split: SplitParameters) -> bool:
    return info.size - len(info.last) - IDENTITY_OVERHEAD >= split.min_size


def _ends_earlier(tree: Tree, number: int, split: SplitParameters) -> bool:
    keys = [key for some, _ in tree.range_blocks(number) for key in some]
    return first_cut(split, keys) < len(keys)
