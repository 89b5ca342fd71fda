"""A place in a tree, for walking several trees in step without opening what they share."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from graveler.tree.sstable import Records
from graveler.tree.tree import RangeInfo, Tree


class Cursor:
    """Stands before a range that is not opened yet, inside one, or at the end.

    ``number`` is the range; ``keys``, ``packed`` and ``at`` the block and the place in it (empty while not opened).
    """

    __slots__ = ("_blocks", "_info", "_pending", "at", "keys", "number", "packed", "tree")

    def __init__(self, tree: Tree, start: bytes = b"") -> None:
        self.tree = tree
        self.number = 0
        self.keys: list[bytes] = []
        self.packed: list[bytes] = []
        self.at = 0
        self._blocks: Iterator[Records] | None = None
        self._info: RangeInfo | None = None
        self._pending = b""
        """Keys below this one of the range ahead are passed over already, though it is not opened."""
        if start:
            self._to(start)

    @property
    def at_start(self) -> bool:
        """Before a whole range, unopened."""
        return self._blocks is None and not self._pending and self.number < len(self.tree)

    @property
    def unopened(self) -> bool:
        """Before a range that is not opened yet, or (having passed over keys without looking) inside it."""
        return self._blocks is None and self.number < len(self.tree)

    @property
    def info(self) -> RangeInfo:
        """Description of the range ahead, or the one that the cursor is in."""
        if self._info is None:
            self._info = self.tree.info(self.number)
        return self._info

    @property
    def key(self) -> bytes | None:
        """The next key, or None at the end. Opens nothing where the range's description tells it."""
        if self.at < len(self.keys):
            return self.keys[self.at]
        if self.number == len(self.tree):
            return None
        if self.at_start:
            return self.info.first
        self.load()
        return self.keys[self.at] if self.at < len(self.keys) else self.key

    def load(self) -> None:
        """Make the next records available in ``keys`` and ``packed``: opens the range if need be. At the end, none."""
        while self.at >= len(self.keys) and self.number < len(self.tree):
            if self._blocks is None:
                self._blocks = self.tree.range_blocks(self.number, self._pending)
                self._pending = b""
            self.keys, self.packed = next(self._blocks, ([], []))
            self.at = 0
            if not self.keys:
                self._enter(self.number + 1)

    def advance(self, records: int) -> None:
        """Pass over records of the current block."""
        self.at += records
        if self.at >= len(self.keys) and self._blocks is not None and self.keys and self.keys[-1] == self.info.last:
            self._enter(self.number + 1)

    def skip_ranges(self, ranges: int) -> None:
        """Pass over whole ranges; the cursor must be at the start of one."""
        self._enter(self.number + ranges)

    def skip_upto(self, key: bytes) -> None:
        """Pass over all records up to ``key``, inclusive. Opens nothing."""
        if self.keys and key < self.keys[-1]:
            self.at = bisect_right(self.keys, key, self.at)
        elif self.keys and key < self.info.last:
            self._enter(self.number)
            self._pending = key + b"\0"
        else:
            self._to(key + b"\0")

    def skip_rest(self) -> None:
        """Go to the end. Opens nothing."""
        self._enter(len(self.tree))

    def _to(self, start: bytes) -> None:
        """Stand before the first key that is not below ``start``."""
        lasts = self.tree.lasts
        number = self.number
        if number < len(lasts) and lasts[number] < start:
            number = bisect_left(lasts, start, number)
            self._enter(number)
        if number < len(lasts) and self._blocks is None and self.info.first < start:
            self._pending = max(self._pending, start)

    def _enter(self, number: int) -> None:
        self.number = number
        self.keys, self.packed, self.at = [], [], 0
        self._blocks = self._info = None
        self._pending = b""
