"""What point lookups keep of the blocks that they decompress: the stretches between restart points that held what was asked for.

A block has some hundred records in seven stretches, and who looks up keys from everywhere needs one of them: so the same memory
serves several times as many keys as with whole blocks. Where several stretches of a block were asked for, all of it is kept.
"""

from typing import Final

from graveler.tree.block import restart_keys

_MANY: Final = 3
"""Where so many stretches of a block were asked for, the others will be."""
_OVERHEAD: Final = 300
"""Bytes of the objects that stand for a block."""
_KEY_OVERHEAD: Final = 60


class KeptBlock:
    """A block of which some stretches are kept. ``keys`` are those at its restart points, ``stretches`` the entries from each up
    to the next, or None. Shared by threads: at worst, something is kept twice."""

    __slots__ = ("_places", "counted", "keys", "size", "stretches")

    def __init__(self, block: bytes) -> None:
        self.keys, self._places = restart_keys(block)
        self.stretches: list[bytes | None] = [None] * len(self.keys)
        self.size = _OVERHEAD + sum(map(len, self.keys)) + _KEY_OVERHEAD * len(self.keys)
        """Bytes of memory, about."""
        self.counted = 0
        """How many of them a cache has counted."""

    def keep(self, number: int, block: bytes) -> bytes:
        """Keep stretch ``number`` of the block, and return it."""
        known = sum(stretch is not None for stretch in self.stretches)
        for at in range(len(self.keys)) if known + 1 >= _MANY else (number,):
            if self.stretches[at] is None:
                self.stretches[at] = block[self._places[at] : self._places[at + 1]]
                self.size += self._places[at + 1] - self._places[at]
        found = self.stretches[number]
        assert found is not None
        return found


class BlockCache:
    """What was decompressed for point lookups, about ``max_bytes`` of it, used last. Shared by tables and threads.

    Two generations: what is used moves to the new one, and when that is full the old one is dropped. Each step is one
    operation on a dict, so threads need no lock.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
        self._new: dict[tuple[int, int], KeptBlock] = {}
        self._old: dict[tuple[int, int], KeptBlock] = {}
        self._bytes = 0

    def limit(self, max_bytes: int) -> None:
        """Keep about so many bytes from now on."""
        self._half = max_bytes // 2

    def get(self, place: tuple[int, int]) -> KeptBlock | None:
        """What is kept of the block at ``(table, number)``."""
        block = self._new.get(place)
        if block is None:
            block = self._old.get(place)
            if block is not None:
                self.put(place, block)
        return block

    def put(self, place: tuple[int, int], block: KeptBlock) -> None:
        """Keep a block, or more of it than before."""
        if self._bytes >= self._half:
            self._old, self._new, self._bytes = self._new, {}, 0
        self._bytes += block.size - (block.counted if self._new.get(place) is block else 0)
        block.counted = block.size
        self._new[place] = block
