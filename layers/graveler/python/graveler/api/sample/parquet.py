"""A writer of the plainest Parquet files: required columns, one row group, one uncompressed page for each column.

The functions of a deployment have no library for it, and this takes none. What the bytes mean is said in the format's definition
(``parquet.thrift``, and for the framing Thrift's compact protocol).
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

_MAGIC: Final = b"PAR1"
_PLAIN, _RLE = 0, 3
"""Encodings."""
_REQUIRED, _UTF8, _DATA_PAGE, _UNCOMPRESSED = 0, 0, 0, 0
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
"""Kinds of fields in the compact protocol."""

Field = tuple[int, int, bytes]
"""A field's ID, kind and encoded value."""


class Kind(IntEnum):
    """Kinds of columns, by the format's numbers of their physical types."""

    INT64 = 2
    DOUBLE = 5
    TEXT = 6


Column = tuple[str, Kind, Sequence[object]]
"""Name, kind, and a value for each row."""


def parquet_file(columns: Sequence[Column]) -> bytes:
    """The file that holds these columns, all of one length: of int, float or str, as their kind says."""
    rows = len(columns[0][2])
    file, chunks = bytearray(_MAGIC), []
    for name, kind, values in columns:
        begin, page = len(file), _plain(kind, values)
        header = _struct(
            (1, _I32, _int(_DATA_PAGE)),
            (2, _I32, _int(len(page))),
            (3, _I32, _int(len(page))),
            (
                5,
                _STRUCT,
                _struct((1, _I32, _int(rows)), (2, _I32, _int(_PLAIN)), (3, _I32, _int(_RLE)), (4, _I32, _int(_RLE))),
            ),
        )
        file += header + page
        size = _int(len(header) + len(page))
        said = _struct(
            (1, _I32, _int(kind)),
            (2, _LIST, _list(_I32, [_int(_PLAIN), _int(_RLE)])),
            (3, _LIST, _list(_BINARY, [_text(name)])),
            (4, _I32, _int(_UNCOMPRESSED)),
            (5, _I64, _int(rows)),
            (6, _I64, size),
            (7, _I64, size),
            (9, _I64, _int(begin)),
        )
        chunks.append(_struct((2, _I64, _int(begin)), (3, _STRUCT, said)))
    group = _struct((1, _LIST, _list(_STRUCT, chunks)), (2, _I64, _int(len(file) - len(_MAGIC))), (3, _I64, _int(rows)))
    footer = _struct(
        (1, _I32, _int(1)),
        (2, _LIST, _list(_STRUCT, _schema(columns))),
        (3, _I64, _int(rows)),
        (4, _LIST, _list(_STRUCT, [group])),
        (6, _BINARY, _text("graveler")),
    )
    return bytes(file) + footer + struct.pack("<I", len(footer)) + _MAGIC


def _schema(columns: Sequence[Column]) -> list[bytes]:
    elements = [_struct((4, _BINARY, _text("schema")), (5, _I32, _int(len(columns))))]
    for name, kind, _ in columns:
        text = [(6, _I32, _int(_UTF8))] if kind is Kind.TEXT else []
        elements.append(_struct((1, _I32, _int(kind)), (3, _I32, _int(_REQUIRED)), (4, _BINARY, _text(name)), *text))
    return elements


def _plain(kind: Kind, values: Sequence[object]) -> bytes:
    if kind is Kind.TEXT:
        encoded = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    return struct.pack(f"<{len(values)}{'q' if kind is Kind.INT64 else 'd'}", *values)


def _struct(*fields: Field) -> bytes:
    encoded, last = bytearray(), 0
    for number, kind, value in fields:
        encoded.append((number - last) << 4 | kind)
        encoded += value
        last = number
    return bytes(encoded) + b"\0"


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return head + b"".join(items)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _varint(len(encoded)) + encoded


def _int(value: int) -> bytes:
    return _varint(value << 1)  # zigzag, of what is never negative here


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
