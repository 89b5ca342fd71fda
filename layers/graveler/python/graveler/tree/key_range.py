"""Ranges of keys."""

from bisect import bisect_left

from msgspec import Struct

from graveler.tree.listing import prefix_end
from graveler.tree.tree import Tree


class KeyRange(Struct, frozen=True):
    """Keys with ``start <= key < end``; an end of None is unbounded."""

    start: bytes = b""
    end: bytes | None = None

    @classmethod
    def of_prefix(cls, prefix: bytes) -> "KeyRange":
        """Return the keys that begin with a prefix."""
        return cls(prefix, prefix_end(prefix))

    def __and__(self, other: "KeyRange") -> "KeyRange":
        ends = [end for end in (self.end, other.end) if end is not None]
        return KeyRange(max(self.start, other.start), min(ends, default=None))

    @property
    def empty(self) -> bool:
        """True if no key can lie in it."""
        return self.end is not None and self.end <= self.start

    def numbers(self, tree: Tree) -> range:
        """Return the ranges of a tree that may hold such keys."""
        if self.empty:
            return range(0)
        begin = bisect_left(tree.lasts, self.start)
        if self.end is None:
            return range(begin, len(tree))
        stop = bisect_left(tree.lasts, self.end, begin)
        return range(begin, stop + 1 if stop < len(tree) and tree.info(stop).first < self.end else stop)
