"""Metaranges whose descriptions are made up: their ranges do not exist, which only who reads ranges notices."""

from collections.abc import Mapping
from hashlib import sha256

from graveler.runtime.local import LocalRuntime
from graveler.storage.objects.port import Objects
from graveler.storage.objects.tree_files import ImmutableFiles
from graveler.tree.range_info import RangeInfo
from graveler.tree.store import TreeStore
from graveler.tree.tree import Tree

Ranges = Mapping[int, int]
"""The ranges of a metarange: position of its keys → number of the contents."""


def described(position: int, contents: int, key_bytes: int = 0) -> RangeInfo:
    """Return the description of a range; with ``key_bytes`` its keys are that long."""
    key = f"{position:09}".encode().ljust(key_bytes, b".")
    digest = sha256(f"{position}/{contents}".encode()).digest()
    return RangeInfo(key, digest, key, 10_000, 1 << 20, contents, sha256(digest).digest()[:16])


class MadeTrees:
    """A writer of such metaranges. ``key_bytes`` is the length of keys, of which two are in a description: 16 KiB are a block."""

    def __init__(self, objects: Objects, key_bytes: int = 0) -> None:
        self._store = TreeStore(ImmutableFiles(objects, None), LocalRuntime())
        self._key_bytes = key_bytes
        self._last: tuple[Tree, ...] = ()

    def save(self, ranges: Ranges) -> str:
        """Write a metarange, made of the one before, if it is large; return its name. One object write."""
        infos = [described(position, ranges[position], self._key_bytes) for position in sorted(ranges)]
        lasts, packed = [info.last for info in infos], [info.pack() for info in infos]
        tree = Tree(self._store, lasts, packed, made_of=self._last)
        name = tree.save()
        self._last = (tree,)
        return name

    def names(self, ranges: Ranges) -> frozenset[str]:
        """Return the names of the ranges."""
        return frozenset(described(position, ranges[position], self._key_bytes).name for position in ranges)
