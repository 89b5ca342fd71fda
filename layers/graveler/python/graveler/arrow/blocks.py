"""The entries of many blocks at once, as arrays: where each record's bytes lie, and its key.

A block is parsed entry by entry, as each begins where the last one ends. But every sixteenth entry begins anew, at a *restart
point*, and the block lists these: so the first entries behind all restart points of some hundred blocks are parsed together, then
their second entries, and so on. See :mod:`graveler.tree.block` for the layout.
"""

from collections.abc import Sequence
from struct import unpack_from
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graveler.tree.block import RESTART_INTERVAL, SEQUENCE_SIZE, MalformedTableError, entries, restart_points

Positions = npt.NDArray[np.int64]

_AHEAD = 16
"""Bytes behind the blocks, so that a number may be read at every position before."""


class Packed(NamedTuple):
    """Records: their ``keys`` in order, and their packed bytes, ``data[starts[n]:ends[n]]`` for record n. Behind the last record,
    ``data`` goes on for :data:`_AHEAD` bytes."""

    keys: list[bytes]
    data: bytes
    starts: Positions
    ends: Positions

    def within(self, first: int, stop: int) -> "Packed":
        """Return the records from ``first`` up to, not including, ``stop``."""
        if first == 0 and stop == len(self.keys):
            return self
        return Packed(self.keys[first:stop], self.data, self.starts[first:stop], self.ends[first:stop])

    def packed(self, number: int) -> bytes:
        """Return the packed bytes of a record."""
        return self.data[int(self.starts[number]) : int(self.ends[number])]


def packed_of(keys: list[bytes], packed: Sequence[bytes]) -> Packed:
    """Return records that are at hand one by one."""
    ends = np.cumsum(np.fromiter(map(len, packed), np.int64, len(packed)))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(packed) else ends
    return Packed(keys, b"".join((*packed, bytes(_AHEAD))), starts, ends)


def parsed(blocks: Sequence[bytes]) -> Packed:
    """Return the records of some blocks, at least one, in order. 0.2 µs a record. :class:`MalformedTableError` for blocks that
    are damaged."""
    return _parsed_together(blocks) or _parsed_singly(blocks)


def _parsed_singly(blocks: Sequence[bytes]) -> Packed:
    keys: list[bytes] = []
    packed: list[bytes] = []
    for block in blocks:
        some, their = entries(block, SEQUENCE_SIZE)
        keys += some
        packed += their
    return packed_of(keys, packed)


def _parsed_together(blocks: Sequence[bytes]) -> Packed | None:
    """Return :func:`parsed`, or None if a number has more than two bytes, or a key shares bytes of RocksDB's own."""
    data = b"".join((*blocks, bytes(_AHEAD)))
    octets = np.frombuffer(data, np.uint8)
    restarts: list[int] = []
    limits: list[int] = []
    counts: list[int] = []
    for block in blocks:
        count, entries_end = restart_points(block)
        found = unpack_from(f"<{count}I", block, entries_end)
        if not count or found[0] != 0:
            raise MalformedTableError("a block's restart array does not fit")
        restarts += found
        limits += found[1:]
        limits.append(entries_end)
        counts.append(count)
    bases = np.repeat(np.cumsum([0, *map(len, blocks[:-1])]), counts)
    at, limit = np.array(restarts) + bases, np.array(limits) + bases
    if (limit <= at).any():
        raise MalformedTableError("a block's restart points are out of order")
    last = len(data) - _AHEAD
    columns: list[tuple[Positions, ...]] = []
    for number in range(RESTART_INTERVAL):
        is_here = at < limit
        if not is_here.any():
            break
        numbers: list[Positions] = []
        position = at
        for _ in range(3):
            value = octets[position].astype(np.int64)
            is_long = value > 127
            if is_long.any():
                more = octets[position + 1].astype(np.int64)
                if (is_here & is_long & (more > 127)).any():
                    return None
                value = np.where(is_long, value + (more << 7) - 128, value)
                position = position + 1 + is_long
            else:
                position = position + 1
            numbers.append(value)
        shared, unshared, length = numbers
        key_end = position + unshared - SEQUENCE_SIZE
        end = position + unshared + length
        if (is_here & ((end > limit) | (key_end < position))).any() or (number == 0 and shared.any()):
            raise MalformedTableError("an entry of a block reaches past a restart point")
        columns.append((is_here, shared, position, key_end, end))
        at = np.where(is_here, end, np.minimum(at, last))
    if (at != limit).any():
        raise MalformedTableError("a block's entries do not end where its restart array begins")
    is_here = np.stack([column[0] for column in columns], axis=1).ravel()
    shared, position, key_end, end = (
        np.stack([column[number] for column in columns], axis=1).ravel()[is_here] for number in range(1, 5)
    )
    lengths = shared + key_end - position
    if (shared[1:] > lengths[:-1]).any():
        return None
    key = b""
    keys = [
        key := key[:same] + data[begin:stop]
        for same, begin, stop in zip(shared.tolist(), position.tolist(), key_end.tolist(), strict=True)
    ]
    return Packed(keys, data, key_end + SEQUENCE_SIZE, end)


def texts(values: Sequence[bytes]) -> pa.StringArray:
    """Return the texts of some bytes in UTF-8. ``pyarrow.ArrowInvalid`` for other bytes."""
    return pa.array(values, pa.binary()).cast(pa.string())
