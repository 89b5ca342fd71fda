"""Columns of packed records, without an object for each. See :mod:`graveler.tree.record` for their layout.

Most records have one of two forms: an address outside the namespace and a time, as imports write them, or a name that graveler
gave and a time. Their columns are cut out of all records together. The others, with a content type, metadata or another name,
are read one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graveler.errors import CorruptError
from graveler.model import DEFAULT_CONTENT_TYPE
from graveler.sql.arrow.blocks import Packed, Positions, numbers_at, slices, texts
from graveler.sql.arrow.schemas import OBJECTS
from graveler.tree.record import RecordCodec

Columns = dict[str, pa.Array]
TEXT: Final = pa.utf8()
_TIME_TYPE: Final = OBJECTS.field("mtime").type
Octets = npt.NDArray[np.uint8]
_Addresses = Callable[["_Usual"], pa.Array]

_HEAD: Final = 11
_MD5: Final = 16
_EXTERNAL: Final = 2
_TIME_END: Final = 6
"""The end of the time in a rest that begins with an array's head and an integer of 32 bits."""
_NAME: Final = 25
_ONE_TIME: Final = 0x91CE
"""The bytes before the time in a rest that holds nothing else: an array of one, an integer of 32 bits."""
_TIME_AND_NAME: Final = 0x92CE
_NAME_HEAD: Final = 0xC400 | _NAME
"""The bytes before a name: binary, and its size."""
_NAMED_END: Final = _TIME_END + 2 + _NAME
_HEADS: Final = np.dtype(
    [("length", ">u2"), ("size", ">i8"), ("checksum_size", "u1"), ("checksum", "<u2", _MD5 // 2), ("tail", "u1")]
)
"""The length of the identity, and the identity, up to what follows an MD5."""
_RESTS: Final = np.dtype([("head", ">u2"), ("mtime", ">u4")])
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuv"
_PAIRS: Final = np.frombuffer(b"".join(bytes((high, low)) for high in _DIGITS for low in _DIGITS), np.uint16)
_GROUP: Final = 5
"""Bytes that are eight digits together."""
_ROW: Final = ("physical_address", "size", "checksum", "mtime", "content_type", "metadata")
_SHIFTS: Final = np.array([30, 20, 10, 0], np.uint64)


class _Usual(NamedTuple):
    """Records with an MD5 and a time of 32 bits, and no content type or metadata."""

    data: bytes
    heads: npt.NDArray[Any]
    starts: Positions
    rests: npt.NDArray[Any]
    rest: Positions
    """The positions of the rests."""


def object_columns(codec: RecordCodec, records: Packed, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of ``schema``, which are some of :data:`~graveler.sql.arrow.schemas.OBJECTS`, of at least one record.
    0.2 µs a record of the usual forms. :class:`CorruptError` for a malformed record."""
    try:
        columns = {"path": texts(records.keys)} if "path" in schema.names else {}
    except pa.ArrowInvalid as error:
        raise CorruptError(f"the key of a record is no UTF-8: {error}") from None
    names = [name for name in schema.names if name != "path"]
    if names:
        try:
            columns |= _joined(list(_groups(codec, records, names)))
        except pa.ArrowInvalid:  # an address is no UTF-8: decoding each by itself finds its record
            columns |= _one_by_one(codec, records, np.arange(len(records)), names)
    return [columns[name] for name in schema.names]


def _groups(codec: RecordCodec, records: Packed, columns: Sequence[str]) -> Iterator[tuple[Positions, Columns]]:
    """Yield the numbers of the records of each form, and their columns."""
    starts, ends = records.starts, records.ends
    if (ends - starts <= _HEAD + _MD5).any():
        everything = np.arange(len(starts))
        yield everything, _one_by_one(codec, records, everything, columns)
        return
    data = records.data
    heads = _cut(data, starts, _HEADS)
    identity_end = starts + 2 + heads["length"]
    rest = np.minimum(identity_end, ends)
    rests = _cut(data, rest, _RESTS)
    tail = starts + _HEAD + _MD5
    is_usual = (heads["size"] >= 0) & (heads["checksum_size"] == _MD5)
    length = ends - identity_end
    is_outside = is_usual & (length == _TIME_END) & (rests["head"] == _ONE_TIME)
    is_outside &= (heads["tail"] == _EXTERNAL) & (tail < rest)
    is_named = np.zeros(len(starts), np.bool_)
    if not is_outside.all():
        names = numbers_at(data, ">u2")[np.minimum(rest + _TIME_END, ends - 1)]
        is_named = is_usual & (length == _NAMED_END) & (rests["head"] == _TIME_AND_NAME) & (names == _NAME_HEAD)
        is_named &= tail == rest
    forms: tuple[tuple[npt.NDArray[np.bool_], _Addresses], ...] = (
        (is_outside, _outside),
        (is_named, partial(_named, codec)),
    )
    for has_form, addresses in forms:
        members = np.flatnonzero(has_form)
        if len(members):
            usual = _Usual(data, heads, starts, rests, rest)
            if len(members) < len(starts):
                usual = _Usual(data, heads[members], starts[members], rests[members], rest[members])
            makers: dict[str, Callable[[], pa.Array]] = {
                **_usual(usual),
                "physical_address": partial(addresses, usual),
            }
            yield members, {name: makers[name]() for name in columns}
    unusual = np.flatnonzero(~(is_outside | is_named))
    if len(unusual):
        yield unusual, _one_by_one(codec, records, unusual, columns)


def _joined(groups: Sequence[tuple[Positions, Columns]]) -> Columns:
    """Return the columns of some groups of records in the order of their numbers."""
    if len(groups) == 1:
        return groups[0][1]
    order = pa.array(np.argsort(np.concatenate([numbers for numbers, _ in groups]), kind="stable"))
    return {name: pa.concat_arrays([columns[name] for _, columns in groups]).take(order) for name in groups[0][1]}


def _usual(records: _Usual) -> dict[str, Callable[[], pa.Array]]:
    """Return for each column but the addresses a function that makes it."""
    count = len(records.starts)
    return {
        "size": lambda: pa.array(records.heads["size"].astype(np.int64)),
        "checksum": lambda: _fixed(_hex()[records.heads["checksum"]].view(np.uint8)),
        "mtime": lambda: pa.array(records.rests["mtime"].astype(np.int64)).cast(_TIME_TYPE),
        "content_type": lambda: pa.repeat(pa.scalar(DEFAULT_CONTENT_TYPE, TEXT), count),
        "metadata": lambda: _no_metadata(count),
    }


def _outside(records: _Usual) -> pa.Array:
    """Return the addresses outside of the namespace, each at the end of its record's identity."""
    return slices(pa.py_buffer(records.data), records.starts + _HEAD + _MD5 + 1, records.rest).cast(TEXT)


def _named(codec: RecordCodec, records: _Usual) -> pa.Array:
    """Return the addresses of objects that graveler named: their names, in base 32, 10 bits at a time."""
    folder = np.frombuffer(codec.data_address.encode(), np.uint8)
    count = len(records.starts)
    names = _cut(records.data, records.rest + _TIME_END + 2, np.dtype((np.uint8, _NAME)))
    groups = np.zeros((count, _NAME // _GROUP, 8), np.uint8)
    groups[:, :, 8 - _GROUP :] = names.reshape(count, _NAME // _GROUP, _GROUP)
    numbers = groups.view(">u8").astype(np.uint64)
    digits = _PAIRS[(numbers >> _SHIFTS) & np.uint64(1023)].reshape(count, -1).view(np.uint8)
    half = digits.shape[1] // 2
    addresses = np.empty((count, len(folder) + digits.shape[1] + 1), np.uint8)
    addresses[:, : len(folder)] = folder
    addresses[:, len(folder) : len(folder) + half] = digits[:, :half]
    addresses[:, len(folder) + half] = ord("/")
    addresses[:, len(folder) + half + 1 :] = digits[:, half:]
    return _fixed(addresses)


def _one_by_one(codec: RecordCodec, records: Packed, numbers: Positions, columns: Sequence[str]) -> Columns:
    """Return the columns of some records, whatever they hold. 1.5 µs a record."""
    chosen = [
        *zip(records.keys.take(pa.array(numbers)).to_pylist(), map(records.packed, numbers.tolist()), strict=True)
    ]
    values = dict(zip(_ROW, zip(*codec.decode_many(_row, chosen), strict=True), strict=True))
    return {name: pa.array(values[name], OBJECTS.field(name).type) for name in columns}


def _row(
    _path: str, address: str, size: int, checksum: str, mtime: int, content_type: str, metadata: Mapping[str, str]
) -> tuple[object, ...]:
    return address, size, checksum, mtime, content_type, list(metadata.items())


def _no_metadata(count: int) -> pa.Array:
    empty = pa.array([], TEXT)
    return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), empty, empty)


def _cut(data: bytes, positions: Positions, kind: "np.dtype[Any]") -> npt.NDArray[Any]:
    """Return the values of a structured type that begin at these positions."""
    pieces = numbers_at(data, f"V{kind.itemsize}")[positions]  # as plain bytes, which are copied faster
    return np.ndarray((len(positions), *kind.shape), kind.base, pieces)


@cache
def _hex() -> npt.NDArray[np.uint32]:
    """Return a table of the four hexadecimal digits of two bytes. The index is the bytes as a little-endian number."""
    digits = np.array([f"{octet:02x}".encode() for octet in range(256)], "S2").view(np.uint16)
    both = np.empty((256, 256, 2), np.uint16)
    both[:, :, 0] = digits
    both[:, :, 1] = digits[:, np.newaxis]
    return both.view(np.uint32).ravel()


def _fixed(rows: Octets) -> pa.Array:
    """Return the texts of rows of ASCII bytes."""
    count, width = rows.shape
    bounds = np.arange(0, width * (count + 1), width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(rows)))
