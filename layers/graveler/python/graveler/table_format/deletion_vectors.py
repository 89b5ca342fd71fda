"""Deletion vectors of format version 3: the positions of deleted rows of one data file, a Roaring bitmap in a file of Puffin.

The `Puffin spec <https://iceberg.apache.org/puffin-spec/>`_ has the blob ``deletion-vector-v1``, and the `Roaring format
<https://github.com/RoaringBitmap/RoaringFormatSpec>`_ its bitmaps. All containers are read; arrays and bitmaps are written.
"""

import json
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator, Set
from typing import Final, NamedTuple

from graveler.errors import UNREADABLE, InvalidError
from graveler.table_format.damaged_files import damaged_file
from graveler.table_format.reserved_columns import DELETED_POSITION

MAX_POSITIONS: Final = 8_000_000
"""Positions of a vector that are read into memory: about 60 bytes each."""

_PUFFIN: Final = b"PFA1"
_MAGIC: Final = b"\xd1\xd3\x39\x64"
_PLAIN, _WITH_RUNS = 12346, 12347
_ARRAY_MAX: Final = 4096
_BITMAP_BYTES: Final = 8192
_NO_OFFSETS: Final = 4

_BIG: Final = struct.Struct(">I")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_U16X2: Final = struct.Struct("<HH")
_U16: Final = struct.Struct("<H")
_SWAP: Final = array("H", [1]).tobytes() != b"\1\0"


class VectorFile(NamedTuple):
    """A file of Puffin with one vector, and where this lies in it."""

    contents: bytes
    offset: int
    size: int


def read_vector(contents: bytes, offset: int, size: int, location: str) -> frozenset[int]:
    """Return the positions of the vector at an offset of a file of Puffin.

    Raises :class:`~graveler.errors.CorruptError` for damaged bytes, or more than :data:`MAX_POSITIONS`. Costs about 0.1 µs for
    each position.
    """
    blob = contents[offset : offset + size]
    try:
        if offset < 0 or size < 20 or len(blob) != size or blob[4:8] != _MAGIC or _BIG.unpack_from(blob)[0] != size - 8:
            raise damaged_file(location, "there is no deletion vector at the offset of the manifest")
        if _BIG.unpack_from(blob, size - 4)[0] != zlib.crc32(blob[4:-4]):
            raise damaged_file(location, "the checksum of its deletion vector is wrong")
        return frozenset(_positions(blob, location))
    except (struct.error, IndexError) as error:
        raise damaged_file(location, f"its deletion vector ends early ({error})") from error


def _positions(blob: bytes, location: str) -> Iterator[int]:
    (count,) = _U64.unpack_from(blob, 8)
    position, total = 16, 0
    for _ in range(min(count, len(blob))):
        (key,) = _U32.unpack_from(blob, position)
        containers, position = _containers(blob, position + 4, location)
        for high, values in containers:
            total += len(values)
            if total > MAX_POSITIONS:
                raise damaged_file(
                    location, f"its deletion vector has more than {MAX_POSITIONS:,} positions, which is not read"
                )
            prefix = key << 32 | high << 16
            yield from [prefix | value for value in values]


def _containers(blob: bytes, position: int, location: str) -> tuple[list[tuple[int, "array[int] | list[int]"]], int]:
    (cookie,) = _U32.unpack_from(blob, position)
    position += 4
    runs = b""
    if cookie == _PLAIN:
        (size,) = _U32.unpack_from(blob, position)
        position += 4
    elif cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        runs = blob[position : position + (size + 7) // 8]
        position += len(runs)
    else:
        raise damaged_file(location, "its deletion vector is not a Roaring bitmap")
    if size > 1 << 16:
        raise damaged_file(location, "its deletion vector has too many containers")
    headers = [_U16X2.unpack_from(blob, position + 4 * index) for index in range(size)]
    position += 4 * size
    if not runs or size >= _NO_OFFSETS:
        position += 4 * size
    containers: list[tuple[int, array[int] | list[int]]] = []
    for index, (high, less_one) in enumerate(headers):
        values: array[int] | list[int]
        if runs and runs[index // 8] >> index % 8 & 1:
            (count,) = _U16.unpack_from(blob, position)
            pairs = _array(blob[position + 2 : position + 2 + 4 * count], 2 * count)
            values = [
                value
                for start, length in zip(pairs[::2], pairs[1::2], strict=True)
                for value in range(start, min(start + length, 0xFFFF) + 1)
            ]
            position += 2 + 4 * count
        elif less_one < _ARRAY_MAX:
            length = 2 * (less_one + 1)
            values = _array(blob[position : position + length], less_one + 1)
            position += length
        else:
            bits = int.from_bytes(blob[position : position + _BITMAP_BYTES], "little")
            values = [value for value, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"]
            position += _BITMAP_BYTES
        containers.append((high, values))
    return containers, position


def _array(data: bytes, count: int) -> "array[int]":
    values = array("H", data)
    if len(values) != count:
        raise IndexError(f"{count} values, and {len(values)} are there")
    if _SWAP:
        values.byteswap()
    return values


def write_vector(positions: Set[int], data_file: str) -> VectorFile:
    """Return a file of Puffin with a vector of positions of a data file. Equal parameters give equal bytes.

    Costs about 0.2 µs for each position.
    """
    groups: dict[int, dict[int, array[int]]] = {}
    for position in sorted(positions):
        groups.setdefault(position >> 32, {}).setdefault(position >> 16 & 0xFFFF, array("H")).append(position & 0xFFFF)
    vector = b"".join(
        (_MAGIC, _U64.pack(len(groups)), *(_U32.pack(key) + _bitmap(groups[key]) for key in sorted(groups)))
    )
    blob = _BIG.pack(len(vector)) + vector + _BIG.pack(zlib.crc32(vector))
    footer = json.dumps(
        {
            "blobs": [
                {
                    "type": "deletion-vector-v1",
                    "fields": [DELETED_POSITION],
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": len(_PUFFIN),
                    "length": len(blob),
                    "properties": {"referenced-data-file": data_file, "cardinality": str(len(positions))},
                }
            ],
            "properties": {"created-by": "graveler"},
        },
        separators=(",", ":"),
    ).encode()
    contents = b"".join((_PUFFIN, blob, _PUFFIN, footer, _U32.pack(len(footer)), bytes(4), _PUFFIN))
    return VectorFile(contents, len(_PUFFIN), len(blob))


def with_data_files(contents: bytes, location: str, move: Callable[[str], str]) -> bytes:
    """Return a file of Puffin whose vectors are those of data files at other places. Its blobs stay where they are.

    :class:`~graveler.errors.CorruptError` for a file that is none, :class:`~graveler.errors.InvalidError` for a footer that is
    compressed.
    """
    trailer = 4 + 4 + len(_PUFFIN)
    if len(contents) < 3 * len(_PUFFIN) + trailer or not contents.startswith(_PUFFIN) or not contents.endswith(_PUFFIN):
        raise damaged_file(location, "it is not a Puffin file")
    (size,) = _U32.unpack_from(contents, len(contents) - trailer)
    flags = contents[-8:-4]
    start = len(contents) - trailer - size
    if start < 2 * len(_PUFFIN) or contents[start - len(_PUFFIN) : start] != _PUFFIN:
        raise damaged_file(location, "it has no footer")
    if any(flags):
        raise InvalidError(
            f"{location}: its footer is compressed, and cannot be written anew; compact the table's deletes"
        )
    try:
        footer = json.loads(contents[start : start + size])
        for blob in footer["blobs"]:
            properties = blob.get("properties") or {}
            if "referenced-data-file" in properties:
                properties["referenced-data-file"] = move(properties["referenced-data-file"])
    except (*UNREADABLE, LookupError, TypeError, AttributeError) as error:
        raise damaged_file(location, f"its footer is damaged ({error!r})") from error
    payload = json.dumps(footer, separators=(",", ":")).encode()
    return b"".join((contents[:start], payload, _U32.pack(len(payload)), flags, _PUFFIN))


def _bitmap(containers: "dict[int, array[int]]") -> bytes:
    encoded = [_container(values) for values in containers.values()]
    headers = [_U16X2.pack(high, len(values) - 1) for high, values in containers.items()]
    offset = 8 + 8 * len(encoded)
    offsets = []
    for container in encoded:
        offsets.append(_U32.pack(offset))
        offset += len(container)
    return b"".join((_U32.pack(_PLAIN), _U32.pack(len(encoded)), *headers, *offsets, *encoded))


def _container(values: "array[int]") -> bytes:
    if len(values) > _ARRAY_MAX:
        bits = bytearray(_BITMAP_BYTES)
        for value in values:
            bits[value >> 3] |= 1 << (value & 7)
        return bytes(bits)
    if _SWAP:
        values = array("H", values)
        values.byteswap()
    return values.tobytes()
