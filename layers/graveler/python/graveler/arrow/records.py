"""Columns of packed records, without an object for each. See :mod:`graveler.tree.record` for their layout.

Most records have one of two forms: an address outside the namespace and a time, as imports write them, or a name that graveler
gave and a time. Their columns are cut out of all records together. The others, with a content type, metadata or another name,
are read one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graveler.arrow.blocks import Packed, Positions, texts
from graveler.arrow.schemas import OBJECTS
from graveler.errors import CorruptError
from graveler.model import DEFAULT_CONTENT_TYPE
from graveler.tree.record import RecordCodec

Columns = dict[str, pa.Array]
TEXT: Final = pa.utf8()
_TIME_TYPE: Final = OBJECTS.field("mtime").type
Octets = npt.NDArray[np.uint8]
_Addresses = Callable[[bytes, Positions, Positions], pa.Array]

_HEAD: Final = 11
_MD5: Final = 16
_EXTERNAL: Final = 2
_TIME_END: Final = 6
"""Where the time ends in a rest that begins with an array's head and an integer of 32 bits."""
_NAME: Final = 25
_NAMED_END: Final = _TIME_END + 2 + _NAME
_HEX: Final = np.array([f"{octet:02x}".encode() for octet in range(256)], "S2").view(np.uint16)
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuv"
_PAIRS: Final = np.frombuffer(b"".join(bytes((high, low)) for high in _DIGITS for low in _DIGITS), np.uint16)
_GROUP: Final = 5
"""Bytes that are eight digits together."""
_ROW: Final = ("physical_address", "size", "checksum", "mtime", "content_type", "metadata")
_SHIFTS: Final = np.array([30, 20, 10, 0], np.uint64)


def object_columns(codec: RecordCodec, records: Packed, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns of ``schema``, which are some of :data:`~graveler.arrow.schemas.OBJECTS`, of at least one record.
    0.2 µs a record of the usual forms. :class:`CorruptError` for a malformed record."""
    try:
        found = {"path": texts(records.keys)} if "path" in schema.names else {}
    except pa.ArrowInvalid as error:
        raise CorruptError(f"the key of a record is no UTF-8: {error}") from None
    wanted = [name for name in schema.names if name != "path"]
    if wanted:
        try:
            found |= _joined(list(_groups(codec, records, wanted)))
        except pa.ArrowInvalid:  # an address is no UTF-8: this tells of which record
            found |= _one_by_one(codec, records, np.arange(len(records.keys)), wanted)
    return [found[name] for name in schema.names]


def _groups(codec: RecordCodec, records: Packed, wanted: Sequence[str]) -> Iterator[tuple[Positions, Columns]]:
    """Yield the numbers of the records of each form, and their columns."""
    octets = np.frombuffer(records.data, np.uint8)
    starts, ends = records.starts, records.ends
    if (ends - starts <= _HEAD + _MD5).any():
        everything = np.arange(len(starts))
        yield everything, _one_by_one(codec, records, everything, wanted)
        return
    identity_end = starts + 2 + (octets[starts].astype(np.int64) << 8) + octets[starts + 1]
    rest = np.minimum(identity_end, ends)
    tail = starts + _HEAD + _MD5
    is_usual = (octets[starts + 2] < 128) & (octets[starts + _HEAD - 1] == _MD5) & (octets[rest + 1] == 0xCE)
    length = ends - identity_end
    is_outside = is_usual & (length == _TIME_END) & (octets[rest] == 0x91) & (octets[tail] == _EXTERNAL) & (tail < rest)
    is_named = (
        is_usual
        & (length == _NAMED_END)
        & (octets[rest] == 0x92)
        & (octets[np.minimum(rest + _TIME_END, ends - 1)] == 0xC4)
        & (octets[np.minimum(rest + _TIME_END + 1, ends - 1)] == _NAME)
        & (tail == rest)
    )
    forms: tuple[tuple[npt.NDArray[np.bool_], _Addresses], ...] = (
        (is_outside, _outside),
        (is_named, partial(_named, codec)),
    )
    for is_here, addresses in forms:
        here = np.flatnonzero(is_here)
        if len(here):
            some, their = (starts, rest) if len(here) == len(starts) else (starts[here], rest[here])
            makers: dict[str, Callable[[], pa.Array]] = {
                **_usual(octets, some, their),
                "physical_address": partial(addresses, records.data, some, their),
            }
            yield here, {name: makers[name]() for name in wanted}
    others = np.flatnonzero(~(is_outside | is_named))
    if len(others):
        yield others, _one_by_one(codec, records, others, wanted)


def _joined(groups: Sequence[tuple[Positions, Columns]]) -> Columns:
    """Return the columns of some groups of records in the order of their numbers."""
    if len(groups) == 1:
        return groups[0][1]
    order = pa.array(np.argsort(np.concatenate([numbers for numbers, _ in groups]), kind="stable"))
    return {name: pa.concat_arrays([columns[name] for _, columns in groups]).take(order) for name in groups[0][1]}


def _usual(octets: Octets, starts: Positions, rest: Positions) -> dict[str, Callable[[], pa.Array]]:
    """Return what makes the columns, without addresses, of records with an MD5, a time of 32 bits and nothing else."""
    count = len(starts)
    return {
        "size": lambda: pa.array(_cut(octets, starts + 2, 8).view(">u8").ravel().astype(np.int64)),
        "checksum": lambda: _fixed(_HEX[_cut(octets, starts + _HEAD, _MD5)].view(np.uint8).reshape(count, 2 * _MD5)),
        "mtime": lambda: pa.array(_cut(octets, rest + 2, 4).view(">u4").ravel().astype(np.int64)).cast(_TIME_TYPE),
        "content_type": lambda: pa.repeat(pa.scalar(DEFAULT_CONTENT_TYPE, TEXT), count),
        "metadata": lambda: _no_metadata(count),
    }


def _outside(data: bytes, starts: Positions, rest: Positions) -> pa.Array:
    """Return addresses that end their identities. A text array may hold other bytes between its values: here those between two
    addresses are values, too, of which every other one is left out."""
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts + _HEAD + _MD5 + 1
    bounds[1::2] = rest
    all_parts = pa.BinaryArray.from_buffers(
        pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return all_parts.take(pa.array(np.arange(0, len(bounds), 2, dtype=np.int32))).cast(TEXT)


def _named(codec: RecordCodec, data: bytes, starts: Positions, rest: Positions) -> pa.Array:
    """Return the addresses of objects that graveler named: their names, in base 32, 10 bits at a time."""
    above = np.frombuffer(codec.data_address.encode(), np.uint8)
    count = len(starts)
    names = _cut(np.frombuffer(data, np.uint8), rest + _TIME_END + 2, _NAME)
    groups = np.zeros((count, _NAME // _GROUP, 8), np.uint8)
    groups[:, :, 8 - _GROUP :] = names.reshape(count, _NAME // _GROUP, _GROUP)
    numbers = groups.view(">u8").astype(np.uint64)
    digits = _PAIRS[(numbers >> _SHIFTS) & np.uint64(1023)].reshape(count, -1).view(np.uint8)
    half = digits.shape[1] // 2
    whole = np.empty((count, len(above) + digits.shape[1] + 1), np.uint8)
    whole[:, : len(above)] = above
    whole[:, len(above) : len(above) + half] = digits[:, :half]
    whole[:, len(above) + half] = ord("/")
    whole[:, len(above) + half + 1 :] = digits[:, half:]
    return _fixed(whole)


def _one_by_one(codec: RecordCodec, records: Packed, numbers: Positions, wanted: Sequence[str]) -> Columns:
    """Return the columns of some records, whatever they hold. 1.5 µs a record."""
    chosen = [(records.keys[number], records.packed(number)) for number in numbers.tolist()]
    values = dict(zip(_ROW, zip(*codec.decode_many(_row, chosen), strict=True), strict=True))
    return {name: pa.array(values[name], OBJECTS.field(name).type) for name in wanted}


def _row(
    _path: str, address: str, size: int, checksum: str, mtime: int, content_type: str, metadata: Mapping[str, str]
) -> tuple[object, ...]:
    return address, size, checksum, mtime, content_type, list(metadata.items())


def _no_metadata(count: int) -> pa.Array:
    empty = pa.array([], TEXT)
    return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), empty, empty)


def _cut(octets: Octets, positions: Positions, width: int) -> Octets:
    """Return ``width`` bytes from each position on."""
    rows: Octets = np.lib.stride_tricks.sliding_window_view(octets, width)[positions]
    return rows


def _fixed(rows: Octets) -> pa.Array:
    """Return the texts of rows of ASCII bytes."""
    count, width = rows.shape
    bounds = np.arange(0, width * (count + 1), width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(rows)))
