"""Records as columns of Arrow, without a Python object per field.

NumPy reads the two layouts of nearly all records, many at a time (``tree/record.py`` describes their bytes): an object that
graveler named, and one outside the namespace; both with an MD5, a recent time, and the default content type and metadata. All
others go through the codec. About 1 µs a record of the former, 5 µs of the latter.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as compute

from graveler.errors import CorruptError
from graveler.model import DEFAULT_CONTENT_TYPE
from graveler.tree.record import RecordCodec
from graveler.tree.sstable import Records

BATCH_ROWS: Final = 8192
"""Approximate number of rows per batch for Spark."""

OBJECT: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("checksum", pa.string()),
        pa.field("mtime", pa.int64()),
        pa.field("address", pa.string()),
        pa.field("content_type", pa.string()),
        pa.field("metadata", pa.map_(pa.string(), pa.string())),
    ]
)
"""The row of an object: as :class:`graveler.model.ObjectEntry`."""

_VALUES: Final = OBJECT.names[1:]
_EMPTY_MAP: Final = b"\0\0\0\0"
_NAMED: Final = 60
"""Bytes of a record with an MD5, a time in four bytes and a data name: 27 of identity, and ``92 ce <time> c4 19 <name>``."""
_HEAD: Final = 28
"""Bytes of a record before the address outside the namespace."""
_TAIL: Final = 6
"""Bytes after that address: ``91 ce <time>``."""
_DIGITS: Final = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)

Bytes = npt.NDArray[np.uint8]


class RecordColumns:
    """A converter of a repository's packed records to columns. ``namespace`` is the repository's URL."""

    def __init__(self, namespace: str) -> None:
        self._codec = RecordCodec(namespace)
        self._data = np.frombuffer(f"{namespace.rstrip('/')}/data/".encode(), np.uint8)

    def batches(self, blocks: Iterable[Records], columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield the rows of blocks of records, as :data:`OBJECT` or those of its columns; some thousand at a time.
        :class:`graveler.errors.CorruptError`."""
        names = list(columns) or OBJECT.names
        schema = pa.schema([OBJECT.field(name) for name in names])
        for keys, packed in _gathered(blocks):
            columns_by_name = dict(zip(_VALUES, self.values(keys, packed, set(names)), strict=True))
            if "path" in names:
                columns_by_name["path"] = paths(keys)
            yield pa.RecordBatch.from_arrays([columns_by_name[name] for name in names], schema=schema)

    def values(
        self, keys: Sequence[bytes], packed: Sequence[bytes], column_names: set[str] | None = None
    ) -> list[pa.Array]:
        """Return the columns of :data:`OBJECT` after the path, one row per record. Columns that are not among
        ``column_names`` may be wrong."""
        lengths = np.fromiter(map(len, packed), np.int64, len(packed))
        named = np.flatnonzero(lengths == _NAMED)
        matrix = _matrix(_chosen(packed, named) if len(named) < len(packed) else packed, _NAMED)
        right = (
            _starts(matrix, b"\0\x19")
            & (matrix[:, 10] == 16)
            & _starts(matrix[:, 27:], b"\x92\xce")
            & _starts(matrix[:, 33:], b"\xc4\x19")
        )
        if len(named) == len(packed) and right.all():
            return self._named(matrix, column_names)
        parts: list[tuple[npt.NDArray[np.int64], list[pa.Array]]] = []
        if right.any():
            parts.append((named[right], self._named(matrix[right], column_names)))
        unread = np.ones(len(packed), bool)
        unread[named[right]] = False
        rows, columns = self._outside(packed, lengths, np.flatnonzero(unread))
        if len(rows):
            parts.append((rows, columns))
            unread[rows] = False
        remaining_rows = np.flatnonzero(unread)
        if len(remaining_rows):
            parts.append(
                (remaining_rows, self._decoded(_chosen(keys, remaining_rows), _chosen(packed, remaining_rows)))
            )
        return _put_together(parts)

    def _named(self, matrix: Bytes, column_names: set[str] | None) -> list[pa.Array]:
        """Return the columns of records with a data name: ``matrix`` has their bytes, one per row."""
        count = len(matrix)
        if column_names is None or "address" in column_names:
            digits = _base32(matrix[:, 35:60])
            prefix_length = len(self._data)
            address = np.empty((count, prefix_length + 41), np.uint8)
            address[:, :prefix_length] = self._data
            address[:, prefix_length : prefix_length + 20] = digits[:, :20]
            address[:, prefix_length + 20] = ord("/")
            address[:, prefix_length + 21 :] = digits[:, 20:]
            addresses = _strings(address.tobytes(), count, prefix_length + 41)
        else:
            addresses = pa.nulls(count, pa.string())
        return [*_common(matrix, matrix[:, 29:33]), addresses, *_defaults(count)]

    def _outside(
        self, packed: Sequence[bytes], lengths: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], list[pa.Array]]:
        """Return, of these rows, those of objects outside the namespace in the usual layout, and their columns."""
        rows = rows[lengths[rows] > _HEAD + _TAIL]
        records = pa.array(packed if len(rows) == len(packed) else _chosen(packed, rows), pa.binary())
        ends = np.frombuffer(records.buffers()[1], np.int32, len(rows) + 1)
        data = np.frombuffer(records.buffers()[2] or b"", np.uint8)
        heads = data[ends[:-1, None] + np.arange(_HEAD, dtype=np.int32)]
        tails = data[ends[1:, None] + np.arange(-_TAIL, 0, dtype=np.int32)]
        identity = heads[:, 0].astype(np.int64) << 8 | heads[:, 1]
        right = (
            (heads[:, 10] == 16)
            & (heads[:, 27] == 2)
            & (identity + 2 + _TAIL == lengths[rows])
            & _starts(tails, b"\x91\xce")
        )
        if not right.all():
            rows, heads, tails, records = rows[right], heads[right], tails[right], records.filter(pa.array(right))
        addresses = _utf8(compute.binary_slice(records, _HEAD, -_TAIL), "address")
        return rows, [*_common(heads, tails[:, 2:6]), addresses, *_defaults(len(rows))]

    def _decoded(self, keys: Sequence[bytes], packed: Sequence[bytes]) -> list[pa.Array]:
        """Return the columns of any records, decoded one by one."""
        entries = [self._codec.decode(key, record) for key, record in zip(keys, packed, strict=True)]
        rows = [(e.size, e.checksum, e.mtime, e.address, e.content_type, list(e.metadata.items())) for e in entries]
        try:
            return [
                pa.array(column, OBJECT.field(name).type)
                for name, column in zip(_VALUES, zip(*rows, strict=True), strict=True)
            ]
        except (OverflowError, pa.ArrowInvalid) as error:
            raise CorruptError(f"records from {keys[0]!r} on cannot be read: {error}") from None


def paths(keys: Sequence[bytes]) -> pa.Array:
    """Return keys as text. :class:`graveler.errors.CorruptError` for keys that are not UTF-8."""
    return _utf8(pa.array(keys, pa.binary()), "key")


def _utf8(column: pa.Array, field_name: str) -> pa.Array:
    try:
        return column.cast(pa.string())  # checks that each value is UTF-8
    except pa.ArrowInvalid as error:
        raise CorruptError(f"a record's {field_name} is not UTF-8: {error}") from None


def _gathered(blocks: Iterable[Records]) -> Iterator[Records]:
    """Yield blocks joined until they are large enough."""
    keys: list[bytes] = []
    packed: list[bytes] = []
    for more_keys, more_packed in blocks:
        keys += more_keys
        packed += more_packed
        if len(keys) >= BATCH_ROWS:
            yield keys, packed
            keys, packed = [], []
    if keys:
        yield keys, packed


def _chosen(items: Sequence[bytes], rows: npt.NDArray[np.int64]) -> list[bytes]:
    return [items[row] for row in rows.tolist()]


def _matrix(rows: Sequence[bytes], width: int) -> Bytes:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)


def _starts(matrix: Bytes, begin: bytes) -> npt.NDArray[np.bool_]:
    matches: npt.NDArray[np.bool_] = (matrix[:, 0] == begin[0]) & (matrix[:, 1] == begin[1])
    return matches


def _common(heads: Bytes, times: Bytes) -> list[pa.Array]:
    """Return size, checksum and time."""
    count = len(heads)
    sizes = np.ascontiguousarray(heads[:, 2:10]).view(">i8").reshape(count).astype(np.int64)
    seconds = np.ascontiguousarray(times).view(">u4").reshape(count).astype(np.int64)
    digests = _strings(np.ascontiguousarray(heads[:, 11:27]).tobytes().hex().encode(), count, 32)
    return [pa.array(sizes), digests, pa.array(seconds)]


def _defaults(count: int) -> list[pa.Array]:
    """Return the default content type and metadata."""
    kinds = _strings(DEFAULT_CONTENT_TYPE.encode() * count, count, len(DEFAULT_CONTENT_TYPE))
    nothing = pa.py_buffer(_EMPTY_MAP * (count + 1))
    pairs = pa.StructArray.from_arrays(
        [pa.array([], pa.string()), pa.array([], pa.string())],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())],
    )
    return [kinds, pa.Array.from_buffers(OBJECT.field("metadata").type, count, [None, nothing], children=[pairs])]


def _base32(names: Bytes) -> Bytes:
    """Return the 40 digits of each 25 bytes: five bytes at a time, as eight digits."""
    fives = names.reshape(len(names), 5, 5).astype(np.uint64)
    numbers = fives[:, :, 0]
    for digit in range(1, 5):
        numbers = numbers << np.uint64(8) | fives[:, :, digit]
    digits = np.empty((len(names), 5, 8), np.uint8)
    for digit in range(8):
        digits[:, :, digit] = numbers >> np.uint64(35 - 5 * digit) & np.uint64(31)
    return _DIGITS[digits].reshape(len(names), 40)


def _strings(data: bytes, count: int, width: int) -> pa.Array:
    """Return a column of ASCII texts of equal width, stored one after the other in ``data``."""
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data))


def _put_together(parts: Sequence[tuple[npt.NDArray[np.int64], list[pa.Array]]]) -> list[pa.Array]:
    """Return the columns of rows that were split into parts, in the order of the rows."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    columns = (pa.concat_arrays(column) for column in zip(*(columns for _, columns in parts), strict=True))
    return [column.take(pa.array(order)) for column in columns]
