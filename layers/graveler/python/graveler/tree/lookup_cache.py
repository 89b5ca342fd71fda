"""The cache of point lookups: the records that they found, and the stretches between restart points that held them, decompressed.

A record takes some 340 bytes and is found at once, however its range is stored. A block has some hundred records in seven
stretches, and a lookup of scattered keys needs one of them: so the same memory serves several times as many keys as with whole
blocks. Once several stretches of a block were needed, all of it is kept.
"""

from typing import Final, Generic, TypeVar

from graveler.tree.block import restart_keys

_MANY: Final = 3
"""Once this many stretches of a block were needed, the others probably will be."""
_OVERHEAD: Final = 300
"""Memory of a cached block's objects, in bytes."""
_KEY_OVERHEAD: Final = 60
_RECORD_OVERHEAD: Final = 230
"""Memory of a cached record's objects and of its place in a dict, in bytes."""

K = TypeVar("K")
V = TypeVar("V")


class CachedBlock:
    """A block of which some stretches are kept. ``keys`` are those at its restart points, ``stretches`` the entries from each up
    to the next, or None. Shared by threads: at worst, something is kept twice."""

    __slots__ = ("_offsets", "counted", "keys", "size", "stretches")

    def __init__(self, block: bytes) -> None:
        self.keys, self._offsets = restart_keys(block)
        self.stretches: list[bytes | None] = [None] * len(self.keys)
        self.size = _OVERHEAD + sum(map(len, self.keys)) + _KEY_OVERHEAD * len(self.keys)
        """Approximate size in memory, in bytes."""
        self.counted = 0
        """Number of these bytes that a cache has counted."""

    def keep(self, number: int, block: bytes) -> bytes:
        """Keep stretch ``number`` of the block, and return it."""
        missing = self.stretches.count(None)
        for index in range(len(self.keys)) if len(self.keys) - missing + 1 >= _MANY else (number,):
            if self.stretches[index] is None:
                self.stretches[index] = block[self._offsets[index] : self._offsets[index + 1]]
                self.size += self._offsets[index + 1] - self._offsets[index]
        stretch = self.stretches[number]
        assert stretch is not None
        return stretch


class _UsedLast(Generic[K, V]):
    """About ``max_bytes`` of the most recently used entries. Shared by threads.

    Two generations: a used entry moves to the new one, and when that is full the old one is dropped. Each step is one operation
    on a dict, so threads need no lock.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._bytes = 0

    def limit(self, max_bytes: int) -> None:
        """Keep about ``max_bytes`` from now on."""
        self._half = max_bytes // 2

    def get(self, key: K) -> V | None:
        """Return the entry for ``key``, or None."""
        cached = self._new.get(key)
        if cached is None:
            cached = self._old.get(key)
            if cached is not None:
                self.put(key, cached)
        return cached

    def put(self, key: K, cached: V) -> None:
        """Keep an entry, or more of it than before."""
        if self._bytes >= self._half:
            self._old, self._new, self._bytes = self._new, {}, 0
        self._bytes += self._uncounted(key, cached)
        self._new[key] = cached

    def _uncounted(self, key: K, cached: V) -> int:
        """Return the entry's bytes that were not counted in this generation."""
        raise NotImplementedError


class BlockCache(_UsedLast[tuple[int, int], CachedBlock]):
    """Blocks decompressed for point lookups, by table and number of the block."""

    def _uncounted(self, key: tuple[int, int], cached: CachedBlock) -> int:
        counted = cached.counted if self._new.get(key) is cached else 0
        cached.counted = cached.size
        return cached.size - counted


class RecordCache(_UsedLast[tuple[bytes, bytes], bytes]):
    """Packed records that point lookups found, by key and by the description of their range, which pins its contents."""

    def _uncounted(self, key: tuple[bytes, bytes], cached: bytes) -> int:
        return 0 if key in self._new else _RECORD_OVERHEAD + len(key[1]) + len(cached)
