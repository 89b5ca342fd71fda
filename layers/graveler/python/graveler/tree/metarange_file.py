"""The file of a large metarange, made of the file of the tree that it was made from: unchanged blocks are copied, and the IDs of
the descriptions that stayed are not computed again.

A commit of one change in a billion objects changes one description in 100,000, which RocksDB would all pack anew. Trees of fewer
than :data:`LARGE` ranges are written as a whole, which costs less.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from msgspec import Struct

from graveler.tree.assembler import Assembler, even_parts
from graveler.tree.block import BLOCK_SIZE, CHECKSUM_SIZE
from graveler.tree.common_run import Ranges, Run, shared_runs
from graveler.tree.range_notes import ID_BYTES
from graveler.tree.record import record_ids
from graveler.tree.sstable import Table
from graveler.tree.tail import Label

LARGE: Final = 1000
"""From this many ranges on, the blocks of a metarange are kept in memory to be copied, and its record IDs in a note."""
MANY_BLOCKS: Final = 8
"""From this many blocks on, a metarange that is read is compared with the blocks of another one."""
_SMALLEST: Final = BLOCK_SIZE // 4
"""Fewer bytes of descriptions than these are packed together with the block behind them, or before them."""


class StoredBlocks(Struct, frozen=True):
    """The blocks of a metarange's file as they are stored, checksums included. Trees that were made from one another share most.

    Block k describes the ranges from ``starts[k]`` up to, not including, ``starts[k + 1]``; ``bounds[k]`` is its key in the
    index, ``sizes[k]`` the total lengths of its keys and of its packed bytes.
    """

    stored: list[bytes]
    bounds: list[bytes]
    starts: list[int]
    sizes: list[tuple[int, int]]

    @classmethod
    def of(cls, table: Table, lasts: Sequence[bytes], packed: Sequence[bytes]) -> "StoredBlocks":
        """Return the blocks of a metarange's file with these records. 50 ns a record."""
        starts = [0]
        for bound in table.bounds:
            starts.append(bisect_right(lasts, bound, starts[-1]))
        stored = [bytes(table.stored(number, number + 1)[0]) for number in range(len(table))]
        sizes = [_size(lasts[start:stop], packed[start:stop]) for start, stop in pairwise(starts)]
        return cls(stored, table.bounds, starts, sizes)

    def unshared(self, other: "StoredBlocks") -> int:
        """Return the number of ranges in blocks that ``other`` does not hold in memory. 0.1 µs a block."""
        held = set(map(id, other.stored))
        starts = self.starts
        return sum(starts[k + 1] - starts[k] for k, block in enumerate(self.stored) if id(block) not in held)


def unpacked(
    table: Table, relative: Ranges | None, relative_blocks: StoredBlocks | None
) -> tuple[list[bytes], list[bytes], StoredBlocks]:
    """Return the last keys and the descriptions in a large metarange's file, and its blocks. 0.5 µs a description.

    Of a block that is among those of ``relative`` nothing is unpacked: that tree's objects are returned. So two trees that were
    read apart hold the same objects, take less memory, and are compared by their pointers.
    """
    stored_before = [] if relative_blocks is None else relative_blocks.stored
    numbers = {stored[-CHECKSUM_SIZE:]: number for number, stored in enumerate(stored_before)}
    lasts: list[bytes] = []
    packed: list[bytes] = []
    blocks = StoredBlocks([], table.bounds, [0], [])
    for number in range(len(table)):
        stored = bytes(table.stored(number, number + 1)[0])
        same = numbers.get(stored[-CHECKSUM_SIZE:])
        if relative is not None and relative_blocks is not None and same is not None and stored_before[same] == stored:
            stored, size = stored_before[same], relative_blocks.sizes[same]
            block = slice(relative_blocks.starts[same], relative_blocks.starts[same + 1])
            lasts += relative.lasts[block]
            packed += relative.packed[block]
        else:
            keys, values = table.read(number)
            size = _size(keys, values)
            lasts += keys
            packed += values
        blocks.stored.append(stored)
        blocks.starts.append(len(lasts))
        blocks.sizes.append(size)
    return lasts, packed, blocks


def spliced_record_ids(tree: Ranges, sources: Sequence[tuple[Ranges, bytes]], runs: Iterable[Run] = ()) -> bytes:
    """Return the record IDs of a tree's descriptions, copied from the trees that have the same ones: each source comes with its
    own record IDs; ``runs`` are those that the tree shares with the first source. 1.5 µs for each description that no source
    has, and :func:`shared_runs` of what the first has not."""
    return b"".join(_record_ids(tree, 0, len(tree.lasts), sources, runs))


def _record_ids(
    tree: Ranges, start: int, stop: int, sources: Sequence[tuple[Ranges, bytes]], runs: Iterable[Run]
) -> Iterator[bytes]:
    if not sources:
        yield record_ids(tree.lasts[start:stop], tree.packed[start:stop])
        return

    def of_other_sources(begin: int, end: int) -> Iterator[bytes]:
        rest = sources[1:]
        return _record_ids(tree, begin, end, rest, shared_runs(tree, rest[0][0], begin, end) if rest else ())

    _, ids = sources[0]
    done = start
    for i, j, run in runs:
        if i > done:
            yield from of_other_sources(done, i)
        yield ids[j * ID_BYTES : (j + run) * ID_BYTES]
        done = i + run
    if done < stop:
        yield from of_other_sources(done, stop)


def assembled(
    tree: Ranges, blocks: StoredBlocks, runs: Iterable[Run], label: Label
) -> tuple[bytes, StoredBlocks] | None:
    """Return the file of a tree, and its blocks, of which those that describe the same ranges are among ``blocks``: those of a
    tree with which it shares these ``runs``. The other descriptions are packed, 1.2 µs each; the file is put together with 1 ns a
    byte. None if less than half can be copied, which RocksDB packs faster."""
    copies = list(_copies(blocks, runs))
    if sum(copy.stop - copy.start for copy in copies) < len(tree.lasts) // 2:
        return None
    assembler = Assembler()
    sizes: list[tuple[int, int]] = []
    for piece in _with_whole_blocks(tree, copies, blocks.starts):
        if piece.blocks:
            chosen = slice(piece.blocks.start, piece.blocks.stop)
            bounds = blocks.bounds[chosen]
            # What follows may come before the key that the index had: that lay between this block and another one.
            bounds[-1] = tree.lasts[piece.stop - 1]
            counts = [blocks.starts[number + 1] - blocks.starts[number] for number in piece.blocks]
            assembler.copy_stored(blocks.stored[chosen], bounds, counts)
            sizes += blocks.sizes[chosen]
        else:
            lasts, packed = tree.lasts[piece.start : piece.stop], tree.packed[piece.start : piece.stop]
            # Neighbouring keys have most bytes in common, so a block is about as long as its packed bytes.
            for begin, end in even_parts(lasts, packed, max(1, round(_size(lasts, packed)[1] / BLOCK_SIZE))):
                assembler.add(lasts[begin:end], packed[begin:end])
                sizes.append(_size(lasts[begin:end], packed[begin:end]))
    key_bytes, value_bytes = map(sum, zip(*sizes, strict=True))
    data, _ = assembler.finish(key_bytes, value_bytes, label)
    stored = [bytes(part) for part in assembler.parts]
    return data, StoredBlocks(stored, assembler.bounds, [0, *accumulate(assembler.counts)], sizes)


def _size(lasts: Sequence[bytes], packed: Sequence[bytes]) -> tuple[int, int]:
    return sum(map(len, lasts)), sum(map(len, packed))


class _Piece(Struct, frozen=True):
    """Ranges ``start`` to ``stop`` of a tree, and the numbers of the blocks to copy for them; none: to pack."""

    start: int
    stop: int
    blocks: range = range(0)


def _copies(blocks: StoredBlocks, runs: Iterable[Run]) -> Iterator[_Piece]:
    """Yield the ranges of a tree whose descriptions fill whole blocks of the other one."""
    starts = blocks.starts
    for i, j, run in runs:
        numbers = range(bisect_left(starts, j), bisect_right(starts, j + run) - 1)
        if numbers:
            yield _Piece(i + starts[numbers.start] - j, i + starts[numbers.stop] - j, numbers)


def _with_whole_blocks(tree: Ranges, copies: Iterable[_Piece], starts: Sequence[int]) -> list[_Piece]:
    """Return all ranges of the tree in pieces. A stretch to pack that is small takes a block in that could be copied: otherwise
    commits that each append a little would leave a block each."""
    pieces: list[_Piece] = []
    begin = 0
    for copy in copies:
        numbers, start = copy.blocks, copy.start
        while begin < start and numbers and _is_small(tree, begin, start):
            start += starts[numbers.start + 1] - starts[numbers.start]
            numbers = numbers[1:]
        if numbers:
            if begin < start:
                pieces.append(_Piece(begin, start))
            pieces.append(_Piece(start, copy.stop, numbers))
            begin = copy.stop
    if begin < len(tree.lasts):
        if pieces and pieces[-1].blocks and _is_small(tree, begin, len(tree.lasts)):
            before = pieces.pop()
            numbers = before.blocks
            begin -= starts[numbers.stop] - starts[numbers.stop - 1]
            if begin > before.start:
                pieces.append(_Piece(before.start, begin, numbers[:-1]))
        pieces.append(_Piece(begin, len(tree.lasts)))
    return pieces


def _is_small(tree: Ranges, start: int, stop: int) -> bool:
    size = 0
    for number in range(start, stop):
        size += len(tree.lasts[number]) + len(tree.packed[number])
        if size >= _SMALLEST:
            return False
    return True
