"""Columns from records, without an object for each: most records of an import have an MD5, a time of 32 bits and an address
outside the namespace, and nothing else (:mod:`graveler.tree.record`). Of such, every field is cut out of all records at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from graveler.arrow.schemas import OBJECTS
from graveler.model import DEFAULT_CONTENT_TYPE

_MOST_BYTES: Final = (1 << 31) - 1
_SHORTEST: Final = 36
"""Bytes of such a record with an empty address."""
_ADDRESS: Final = 28
"""Where its address begins."""
_HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


def plain_columns(keys: Sequence[bytes], packed: Sequence[bytes], names: Sequence[str]) -> list[pa.Array] | None:
    """Return the columns of these names, of :data:`~graveler.arrow.schemas.OBJECTS`, for records at least one of which there is;
    None unless all are of this kind, or if one is damaged. About 1 µs a record."""
    count = len(packed)
    data = b"".join(packed)
    lengths = np.fromiter(map(len, packed), np.int64, count)
    if len(data) > _MOST_BYTES or lengths.min() < _SHORTEST:
        return None
    starts = np.cumsum(lengths) - lengths
    octets = np.frombuffer(data, np.uint8)
    ends = starts + lengths - 6  # of the identity, where the rest begins
    identity = octets[starts].astype(np.int64) << 8 | octets[starts + 1]
    if not (
        (identity == lengths - 8).all()
        and (octets[starts + 10] == 16).all()
        and (octets[starts + 27] == 2).all()
        and (octets[ends] == 0x91).all()
        and (octets[ends + 1] == 0xCE).all()
        and (octets[starts + 2] < 128).all()
    ):
        return None

    def cut(
        at: "np.ndarray[tuple[int], np.dtype[np.int64]]", width: int
    ) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
        found: np.ndarray[tuple[int, int], np.dtype[np.uint8]] = sliding_window_view(octets, width)[at]
        return found

    def checksums() -> pa.Array:
        digits = _HEX.take(cut(starts + 11, 16))
        offsets = np.arange(count + 1, dtype=np.int32) * 32
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(digits))

    def addresses() -> pa.Array:
        # The records and what is between their addresses, as values in turn; every other one is kept.
        bounds = np.zeros(2 * count + 1, np.int32)
        bounds[1::2] = starts + _ADDRESS
        bounds[2::2] = ends
        pieces = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
        return pieces.take(pa.array(np.arange(1, 2 * count, 2))).cast(pa.utf8())

    def metadata() -> pa.Array:
        none = pa.array([], pa.utf8())
        return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), none, none)

    made: Mapping[str, Callable[[], pa.Array]] = {
        "path": lambda: pa.array(keys, pa.binary()).cast(pa.utf8()),
        "size": lambda: pa.array(cut(starts + 2, 8).view(">i8")[:, 0].astype(np.int64)),
        "checksum": checksums,
        "physical_address": addresses,
        "mtime": lambda: pa.array(cut(ends + 2, 4).view(">u4")[:, 0].astype(np.int64)).cast(
            OBJECTS.field("mtime").type
        ),
        "content_type": lambda: pa.repeat(DEFAULT_CONTENT_TYPE, count),
        "metadata": metadata,
    }
    try:
        return [made[name]() for name in names]
    except pa.ArrowInvalid:  # no UTF-8, which the reader of single records reports
        return None
