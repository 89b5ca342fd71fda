"""The partial result of a call whose time is up, for the operation that continues from there.

The ranges are stored, and so is a metarange that names them. The interval of keys that they cover has the name that a part of an
operation has (:mod:`graveler.operations.parts.division`), made of everything that the ranges depend on. So an operation that is
planned on the same head, with the same changes, finds this part done; on another head it does not, and builds the part anew.
"""

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from graveler.model import MergeStrategies, PartialResult, SplitParameters, Token
from graveler.tree.apply import Interval
from graveler.tree.parts import digest
from graveler.tree.tree import Tree, Trees
from graveler.tree.writer import StoppedError


def part_name(terms: bytes, trees: Sequence[Tree], interval: Interval) -> str:
    """Return the name of the result for an interval. ``terms`` is everything that it depends on besides the trees. Opens
    nothing."""
    return sha256(sha256(terms).digest() + digest(trees, interval)).hexdigest()[:32]


def commit_terms(tokens: tuple[Token, ...], split: SplitParameters) -> bytes:
    """Return what a part of a commit depends on besides the head's tree."""
    return b"commit\0" + msgspec.msgpack.encode((tokens, split))


def merge_terms(strategies: MergeStrategies, split: SplitParameters) -> bytes:
    """Return what a part of a merge depends on besides the three trees."""
    return b"merge\0" + msgspec.msgpack.encode((strategies, split))


def keep(trees: Trees, stopped: StoppedError, terms: bytes, read: Sequence[Tree]) -> PartialResult | None:
    """Keep what was built from ``read``; None if that is nothing. One object write, the metarange's."""
    if stopped.upto is None:
        return None
    return PartialResult(stopped.upto, part_name(terms, read, (None, stopped.upto)), trees.save(stopped.tree))
