"""Lookups in a metarange of which only its end and some blocks are read.

A cold process that looks up one object needs one description of 100,000. The end of the file has the index, and a block some 60
descriptions. As with ranges, the label says which file it is, and checksums protect each part. Whoever needs the whole tree reads
it, and then its digest is verified (:meth:`graveler.tree.tree.Tree.load`).

The file may be replaced after its end was read, by one that describes the same ranges in other blocks: whoever writes a tree that
exists already makes its file young. What is at a block's place then is refused, or holds some of the same descriptions, in order;
what comes before the first of them and behind the last is not known.
"""

from bisect import bisect_left
from collections.abc import Callable
from struct import error as StructError  # noqa: N812
from typing import Final

from zstandard import ZstdError

from graveler.errors import NotFoundError
from graveler.model import MetarangeName
from graveler.tree.block import (
    END_SIZE,
    SEQUENCE_SIZE,
    MalformedTableError,
    OtherFileError,
    Records,
    decompress_block,
    entries,
    verify,
)
from graveler.tree.range_info import RangeInfo
from graveler.tree.sstable import index_entries
from graveler.tree.store import METARANGES
from graveler.tree.tail import LABEL, Handle, Label, file_size, footer, read_handle, read_label

END_BYTES: Final = 1 << 16
"""Bytes of a metarange's end that are read first. A file no longer than this is read whole; the index of a longer one is in them,
up to some 100,000 ranges."""
_MOST_BLOCKS: Final = 16
"""Once so many blocks were read, the whole file costs less than the next ones."""

Part = Callable[[int, int], bytes]
"""Returns bytes of the file: so many from an offset on."""


class MetarangeLookup:
    """The index of one metarange, and the blocks of it that were needed. ``end`` are the file's last bytes. Shared by threads.

    :class:`MalformedTableError` for a damaged file, for another one than ``name`` says, and for one without a label: the caller
    reads it as a whole then, which says more.
    """

    def __init__(self, name: MetarangeName, end: bytes, part: Part) -> None:
        self._part = part
        self._blocks: dict[int, Records] = {}
        metaindex, index = footer(end)
        self._size = file_size(end)
        self._end = end
        if self._size - metaindex[0] > len(end):
            raise MalformedTableError("its metaindex is larger than any that graveler writes")
        try:
            label = None
            for entry, value in zip(*entries(self._contents(metaindex), 0), strict=True):
                if entry == LABEL:
                    handle, _ = read_handle(value, 0)
                    label = read_label(*self._stored(handle))
            if label is None or label != Label.of(METARANGES, name, label.split):
                raise OtherFileError(f"has the label of {label or 'no file'}")
            self._bounds, self._handles = index_entries(self._contents(index))
        except (IndexError, StructError, ZstdError, ValueError) as error:
            raise MalformedTableError(str(error) or type(error).__name__) from None
        if len(end) < self._size:
            self._end = b""

    @property
    def size(self) -> int:
        """Bytes of the file that are in memory: none, or all of it if that was at hand."""
        return len(self._end)

    @property
    def is_used_much(self) -> bool:
        """True if so many blocks were read that the whole tree should be."""
        return len(self._blocks) >= _MOST_BLOCKS

    def description(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the last key and the packed description of the range that may hold ``key``, or None. Reads one block at most,
        two for a key between two blocks. :class:`MalformedTableError` for a damaged one; and, unless the whole file was at hand,
        for a key between the last range of one block and the first of another."""
        for number in range(bisect_left(self._bounds, key), len(self._bounds)):
            lasts, packed = self._block(number)
            index = bisect_left(lasts, key)
            if index < len(lasts):
                if number and not index and not self._end and key < RangeInfo.unpack(lasts[0], packed[0]).first:
                    raise MalformedTableError(f"block {number} does not tell what comes before it")
                return lasts[index], packed[index]
            if number == len(self._bounds) - 1 and not self._end:
                raise MalformedTableError(f"block {number} ends before the last range")
        return None

    def _block(self, number: int) -> Records:
        block = self._blocks.get(number)
        if block is None:
            try:
                lasts, packed = entries(self._contents(self._handles[number]), SEQUENCE_SIZE)
            except (IndexError, StructError, ZstdError) as error:
                raise MalformedTableError(str(error)) from None
            below = self._bounds[number - 1] if number else b""
            if not lasts or lasts[0] <= below or lasts[-1] > self._bounds[number]:
                raise MalformedTableError(f"block {number} is not the one that the index describes")
            block = self._blocks[number] = lasts, packed
        return block

    def _contents(self, handle: Handle) -> bytes:
        data, (offset, size) = self._stored(handle)
        return decompress_block(data, offset, size)

    def _stored(self, handle: Handle) -> tuple[bytes, Handle]:
        """Return bytes with a stored block in them, verified, and where it is in these."""
        offset, size = handle
        if offset + size + END_SIZE > self._size:
            raise MalformedTableError(f"block at {offset} reaches past the end")
        inside = offset - (self._size - len(self._end))
        if inside >= 0:
            verify(self._end, inside, size)
            return self._end, (inside, size)
        try:
            data = self._part(offset, size + END_SIZE)
        except NotFoundError:
            raise MalformedTableError("it is missing from the object store") from None
        verify(data, 0, size)
        return data, (0, size)
