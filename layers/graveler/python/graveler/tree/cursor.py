"""A position in a tree, for walking several trees in step without opening what they share."""

from bisect import bisect_left, bisect_right

from graveler.tree.range_info import RangeInfo
from graveler.tree.range_notes import ID_BYTES
from graveler.tree.sstable import MalformedTableError, Table
from graveler.tree.tree import Tree


class Cursor:
    """A position before a range that is not opened yet, before a block of an open one, inside a block, or at the end.

    ``number`` is the range; ``keys``, ``packed`` and ``position`` the block and the position in it (empty while none is read).
    """

    __slots__ = (
        "_after",
        "_before",
        "_block",
        "_ids",
        "_info",
        "_pending",
        "_table",
        "keys",
        "number",
        "packed",
        "position",
        "records_read",
        "tree",
    )

    def __init__(self, tree: Tree, start: bytes = b"") -> None:
        self.tree = tree
        self.number = 0
        self.keys: list[bytes] = []
        self.packed: list[bytes] = []
        self.position = 0
        self.records_read = 0
        """Number of records that this cursor has read so far."""
        self._table: Table | None = None
        self._block = 0
        """The next block to read of the open range."""
        self._before = self._after = 0
        """Number of the range's records before ``keys``, and before the next block; -1 if not counted yet."""
        self._info: RangeInfo | None = None
        self._ids: bytes | None = None
        self._pending = b""
        """Keys below this one of the range ahead are skipped already, though it is not opened."""
        if start:
            self._to(start)

    @property
    def at_start(self) -> bool:
        """True before a whole, unopened range."""
        return self._table is None and not self._pending and self.number < len(self.tree)

    @property
    def unopened(self) -> bool:
        """True before a range that is not opened yet, or inside it after skipping keys without reading them."""
        return self._table is None and self.number < len(self.tree)

    @property
    def at_block(self) -> bool:
        """True before a whole block that is not read yet; before a range's first one also if the range is not opened yet."""
        return self.position >= len(self.keys) and not self._pending and self.number < len(self.tree)

    @property
    def info(self) -> RangeInfo:
        """Description of the range ahead, or of the one that the cursor is in."""
        if self._info is None:
            self._info = self.tree.info(self.number)
        return self._info

    @property
    def key(self) -> bytes | None:
        """The next key, or None at the end. Opens nothing where the range's description has it."""
        if self.position < len(self.keys):
            return self.keys[self.position]
        if self.number == len(self.tree):
            return None
        if self.at_start:
            return self.info.first
        self.load()
        return self.keys[self.position] if self.position < len(self.keys) else self.key

    def load(self) -> None:
        """Make the next records available in ``keys`` and ``packed``; opens the range if necessary. At the end, none."""
        while self.position >= len(self.keys) and self.number < len(self.tree):
            table, pending = self._open(), self._pending
            if pending:
                self._pending = b""
                if (block := bisect_left(table.bounds, pending)) > self._block:
                    self._block, self._after = block, -1
            if self._block >= len(table):
                self._enter(self.number + 1)
                continue
            try:
                self.keys, self.packed = table.read(self._block)
            except MalformedTableError as error:
                raise self.tree.damaged(self.number, error) from None
            self._block += 1
            self.records_read += len(self.keys)
            self._before = self._after
            if self._after >= 0:
                self._after += len(self.keys)
            self.position = bisect_left(self.keys, pending) if pending else 0

    def load_different(self, other: "Cursor") -> bool:
        """Load the records of the blocks ahead of both cursors, without most of those that both share. Returns False, and does
        nothing, where that is impossible. The records' IDs are not available then."""
        if not (self.at_block and other.at_block) or self._table is None or other._table is None:
            return False
        if self._block >= len(self._table) or other._block >= len(other._table):
            return False
        if self._table.bounds[self._block] != other._table.bounds[other._block]:  # they do not even end together
            return False
        try:
            differing = self._table.read_different(self._block, other._table, other._block)
        except MalformedTableError:
            return False  # reading each block finds out whose it is
        if differing is None:
            return False
        self.records_read += differing.looked_at
        for cursor, (keys, packed) in ((self, differing.records), (other, differing.other_records)):
            cursor.keys, cursor.packed, cursor.position = keys, packed, 0
            cursor._block += 1
            cursor._before = cursor._after = -1
            cursor.advance(0)
        return True

    def advance(self, records: int) -> None:
        """Skip records of the current block."""
        self.position += records
        if self.position >= len(self.keys) and self._table is not None and self._block >= len(self._table):
            self._enter(self.number + 1)

    def ids(self, stop: int) -> bytes | None:
        """Return the record IDs of ``keys[at:stop]``, or None if they are not noted."""
        if self._ids is None:
            note = self.tree.note(self.number)
            self._ids = b"" if note is None else note.ids
            if note is not None:
                self._open().set_counts(note.layout, note.counts)
        if not self._ids:
            return None
        if self._before < 0:
            self._before = self._open().start(self._block - 1)
            self._after = self._before + len(self.keys)
        return self._ids[(self._before + self.position) * ID_BYTES : (self._before + stop) * ID_BYTES]

    def same_blocks(self, other: "Cursor") -> int:
        """Return the number of consecutive equal blocks ahead of both, in the ranges that they stand in. Opens both ranges. 1 µs
        a block."""
        table, other_table = self._open(), other._open()
        longest = min(len(table) - self._block, len(other_table) - other._block)
        run = 0
        while run < longest and table.same_block(self._block + run, other_table, other._block + run):
            run += 1
        return run

    def checksums(self) -> list[bytes]:
        """Return the checksums of the range's blocks: equal blocks have equal ones. Opens the range."""
        return self._open().checksums()

    def bound(self, blocks: int) -> bytes:
        """Return a key that is not below the last one of the block ``blocks`` blocks on, and below whatever comes next in this
        tree."""
        return min(self._open().bounds[self._block + blocks], self.info.last)

    def skip_blocks(self, blocks: int) -> None:
        """Skip whole blocks of the open range; the cursor must stand before one."""
        self.keys, self.packed, self.position = [], [], 0
        self._block += blocks
        self._after = -1
        if self._block >= len(self._open()):
            self._enter(self.number + 1)

    def skip_ranges(self, ranges: int) -> None:
        """Skip whole ranges; the cursor must be at the start of one."""
        self._enter(self.number + ranges)

    def skip_upto(self, key: bytes) -> None:
        """Skip all records up to ``key``, inclusive. Opens nothing."""
        if self.keys and key < self.keys[-1]:
            self.position = max(self.position, bisect_right(self.keys, key))
        elif self._table is not None and key < self.info.last:
            self.keys, self.packed, self.position = [], [], 0
            self._pending = max(self._pending, key + b"\0")
        else:
            self._to(key + b"\0")

    def skip_rest(self) -> None:
        """Go to the end. Opens nothing."""
        self._enter(len(self.tree))

    def _open(self) -> Table:
        if self._table is None:
            self._table = self.tree.open(self.number)
        return self._table

    def _to(self, start: bytes) -> None:
        """Move to the first key that is not below ``start``."""
        lasts = self.tree.lasts
        number = self.number
        if number < len(lasts) and lasts[number] < start:
            number = bisect_left(lasts, start, number)
            self._enter(number)
        if number < len(lasts) and self._table is None and self.info.first < start:
            self._pending = max(self._pending, start)

    def _enter(self, number: int) -> None:
        self.number = number
        self.keys, self.packed, self.position = [], [], 0
        self._table = self._info = self._ids = None
        self._block = self._after = 0
        self._pending = b""
