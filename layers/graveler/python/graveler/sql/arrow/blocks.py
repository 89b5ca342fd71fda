"""The entries of many blocks at once, as arrays: where each record's bytes lie, and its key.

A block is parsed entry by entry, as each begins where the last one ends. But every sixteenth entry begins anew, at a *restart
point*, and the block lists these: so the first entries behind all restart points of some hundred blocks are parsed together, then
their second entries, and so on. Keys are put together in the same way: each is the beginning of the one before, and bytes of its
own. See :mod:`graveler.tree.block` for the layout.
"""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graveler.tree.block import RESTART_INTERVAL, SEQUENCE_SIZE, MalformedTableError, entries

Positions = npt.NDArray[np.int64]

_Kind = TypeVar("_Kind", bound=np.generic)

_NOTHING = pa.scalar(b"", pa.binary())
_NUMBER = 4
"""Bytes of a number in a restart array."""
_AHEAD = 16
"""Bytes behind the blocks, so that a number may be read at every position before."""


class Packed:
    """Some records in order. The packed bytes of record n are ``data[starts[n]:ends[n]]``; behind the last one, ``data`` goes on
    for :data:`_AHEAD` bytes. Keys are made when they are first asked for: not every query needs them."""

    def __init__(
        self, make_keys: Callable[[], pa.BinaryArray], data: bytes, starts: Positions, ends: Positions
    ) -> None:
        self._make_keys = make_keys
        self.data = data
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def keys(self) -> pa.BinaryArray:
        """The keys of all records."""
        return self._make_keys()

    def key(self, number: int) -> bytes:
        """Return the key of a record."""
        key: bytes = self.keys[number].as_py()
        return key

    def packed(self, number: int) -> bytes:
        """Return the packed bytes of a record."""
        return self.data[int(self.starts[number]) : int(self.ends[number])]

    def within(self, start: int, stop: int) -> "Packed":
        """Return the records from ``start`` up to, not including, ``stop``."""
        if start == 0 and stop == len(self):
            return self
        return Packed(
            lambda: self.keys.slice(start, stop - start), self.data, self.starts[start:stop], self.ends[start:stop]
        )


def packed_of(keys: Sequence[bytes], packed: Sequence[bytes]) -> Packed:
    """Return records that are at hand one by one."""
    ends = np.cumsum(np.fromiter(map(len, packed), np.int64, len(packed)))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(packed) else ends
    return Packed(lambda: pa.array(keys, pa.binary()), b"".join((*packed, bytes(_AHEAD))), starts, ends)


class _Lane(NamedTuple):
    """The entries that stand at the same place behind each restart point, of all blocks. Where there is none (``is_here``), the
    other arrays have any value."""

    is_here: npt.NDArray[np.bool_]
    shared: Positions
    """Bytes that the key shares with the one before."""
    position: Positions
    """Where the rest of the key begins."""
    key_end: Positions
    end: Positions
    """Where the value ends."""

    @property
    def key_sizes(self) -> Positions:
        """Sizes of the whole keys."""
        return self.shared + self.key_end - self.position


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
    sizes = np.fromiter(map(len, blocks), np.int64, len(blocks))
    if (sizes < 2 * _NUMBER).any():
        raise MalformedTableError("a block's restart array does not fit")
    numbers = numbers_at(data, "<u4")
    ends = np.cumsum(sizes)
    counts = numbers[ends - _NUMBER].astype(np.int64)
    entries_ends = ends - _NUMBER - _NUMBER * counts
    bases = ends - sizes
    if (entries_ends <= bases).any() or not counts.all():
        raise MalformedTableError("a block's restart array does not fit")
    firsts = np.cumsum(counts) - counts
    which = np.arange(counts.sum()) - np.repeat(firsts, counts)
    restarts = numbers[np.repeat(entries_ends, counts) + _NUMBER * which] + np.repeat(bases, counts)
    limits = np.empty_like(restarts)
    limits[:-1] = restarts[1:]
    limits[np.append(firsts[1:], len(limits)) - 1] = entries_ends
    if (
        (restarts[firsts] != bases).any()
        or (limits <= restarts).any()
        or (limits > np.repeat(entries_ends, counts)).any()
    ):
        raise MalformedTableError("a block's restart points are out of order")
    position, limit = restarts, limits
    last = len(data) - _AHEAD
    lanes: list[_Lane] = []
    for number in range(RESTART_INTERVAL):
        is_here = position < limit
        if not is_here.any():
            break
        header = _numbers(numbers, position, is_here)
        if header is None:
            return None
        shared, unshared, length, key_start = header
        key_end = key_start + unshared - SEQUENCE_SIZE
        end = key_start + unshared + length
        if (is_here & ((end > limit) | (key_end < key_start))).any() or (number == 0 and shared.any()):
            raise MalformedTableError("an entry of a block reaches past a restart point")
        lane = _Lane(is_here, shared, key_start, key_end, end)
        if lanes and (is_here & (shared > lanes[-1].key_sizes)).any():
            return None
        lanes.append(lane)
        position = np.where(is_here, end, np.minimum(position, last))
    if (position != limit).any():
        raise MalformedTableError("a block's entries do not end where its restart array begins")
    is_here = _in_order([lane.is_here for lane in lanes])
    starts = _in_order([lane.key_end for lane in lanes])[is_here] + SEQUENCE_SIZE
    return Packed(lambda: _keys(data, lanes), data, starts, _in_order([lane.end for lane in lanes])[is_here])


def _numbers(
    numbers: npt.NDArray[np.uint32], position: Positions, is_here: npt.NDArray[np.bool_]
) -> tuple[Positions, Positions, Positions, Positions] | None:
    """Return the three numbers with which the entries at these positions begin, and where they end; None if a number has more
    than two bytes."""
    octets = numbers[position].astype(np.int64)
    if not (is_here & (octets & 0x8080 != 0)).any():  # only the third, the size of the value, may have two bytes
        is_long = octets >> 23 & 1
        more = (octets >> 24) * is_long
        if (is_here & (more > 127)).any():
            return None
        return octets & 127, octets >> 8 & 127, (octets >> 16 & 127) + (more << 7), position + 3 + is_long
    values: list[Positions] = []
    for _ in range(3):
        octets = numbers[position].astype(np.int64)
        is_long = octets >> 7 & 1
        more = (octets >> 8 & 255) * is_long
        if (is_here & (more > 127)).any():
            return None
        values.append((octets & 127) + (more << 7))
        position = position + 1 + is_long
    shared, unshared, length = values
    return shared, unshared, length, position


def _in_order(of_lanes: Sequence[npt.NDArray[_Kind]]) -> npt.NDArray[_Kind]:
    """Return the values of all lanes, those of each restart point together."""
    return np.stack(of_lanes, axis=1).ravel()


def _keys(data: bytes, lanes: Sequence[_Lane]) -> pa.BinaryArray:
    """Return the keys of all entries, in order. 0.1 µs a key."""
    buffer = pa.py_buffer(data)
    previous = np.arange(len(lanes[0].is_here))
    keys = pa.array([], pa.binary())
    of_lanes: list[pa.BinaryArray] = []
    for number, lane in enumerate(lanes):
        members = np.flatnonzero(lane.is_here)
        lane_keys = slices(buffer, lane.position[members], lane.key_end[members])
        if number:
            if len(members) < len(previous):
                keys = keys.take(pa.array(np.searchsorted(previous, members)))
            bounds = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset :][: len(keys)].astype(np.int64)
            beginnings = slices(keys.buffers()[2], bounds, bounds + lane.shared[members])
            lane_keys = pc.binary_join_element_wise(beginnings, lane_keys, _NOTHING)
        of_lanes.append(lane_keys)
        previous, keys = members, lane_keys
    counts = np.sum([lane.is_here for lane in lanes], axis=0)
    firsts = np.cumsum(counts) - counts
    positions = np.concatenate([firsts[lane.is_here] + number for number, lane in enumerate(lanes)])
    order = np.empty(len(positions), np.int64)
    order[positions] = np.arange(len(positions))
    return pa.concat_arrays(of_lanes).take(pa.array(order))


def numbers_at(data: bytes, kind: str) -> npt.NDArray[Any]:
    """Return the numbers of a type of numpy's that begin at each byte of some data."""
    width = np.dtype(kind).itemsize
    return np.ndarray((len(data) - width + 1,), kind, data, 0, (1,))


def slices(buffer: pa.Buffer, starts: Positions, ends: Positions) -> pa.BinaryArray:
    """Return the parts ``buffer[starts[n]:ends[n]]``, which ascend and do not overlap."""
    # An array holds the bytes between two bounds: here those between two parts are values, too, and are left out.
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = ends
    all_parts = pa.BinaryArray.from_buffers(pa.binary(), max(len(bounds) - 1, 0), [None, pa.py_buffer(bounds), buffer])
    return all_parts.take(_even_numbers(len(starts).bit_length()).slice(0, len(starts)))


@cache
def _even_numbers(bits: int) -> pa.Int64Array:
    """Return the first ``2 ** bits`` even numbers."""
    return pa.array(np.arange(0, 2 << bits, 2))


def texts(values: pa.BinaryArray) -> pa.StringArray:
    """Return the texts of some bytes in UTF-8. ``pyarrow.ArrowInvalid`` for other bytes."""
    return values.cast(pa.string())
