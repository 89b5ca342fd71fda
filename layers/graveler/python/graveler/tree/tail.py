"""The end of a table file: the footer, the metaindex, and the small blocks that the metaindex names.

One of these is ours, the *label*. It says which file this is (kind and name) and, for a metarange, which split parameters are
known to cut its tree this way. RocksDB and earlier versions of graveler ignore it; no ID and no name depends on it. Files written
before labels existed have none.
"""

from collections.abc import Mapping
from struct import Struct as Layout
from struct import pack
from typing import Final

import msgspec

from graveler.errors import UNREADABLE
from graveler.model import SplitParameters
from graveler.tree.block import END_SIZE, MalformedTableError, decompress_block, entries, number, plain_block, varint

FORMAT_VERSION: Final = 5
PROPERTIES: Final = b"rocksdb.properties"
LABEL: Final = b"graveler.label"
_MAGIC: Final = 0x88E241B785F4CFF7
FOOTER_SIZE: Final = 53
"""Checksum type, two handles, padding, version and magic."""
_XXH3: Final = 4
_VERSION_AND_MAGIC: Final = Layout("<IQ")

Handle = tuple[int, int]
"""A block's offset and size, without its trailer."""


class Label(msgspec.Struct, frozen=True, array_like=True):
    """The ``kind`` and ``name`` (the 48 bytes of ID and suffix) of a file. ``cut_by`` are split parameters that make this tree of
    a metarange's objects: minimum, maximum, raggedness. Others may make the same one."""

    kind: str
    name: bytes
    cut_by: tuple[int, int, int] | None = None

    @classmethod
    def of(cls, kind: str, name: str, cut_by: SplitParameters | None = None) -> "Label":
        """Return the label of the file ``name``, ``<ID>-<suffix>``."""
        cuts = None if cut_by is None else (cut_by.min_size, cut_by.max_size, cut_by.raggedness)
        return cls(kind, bytes.fromhex(name.replace("-", "", 1)), cuts)

    @property
    def split(self) -> SplitParameters | None:
        """``cut_by`` as parameters."""
        return None if self.cut_by is None else SplitParameters(*self.cut_by)

    def __str__(self) -> str:
        digits = self.name.hex()
        return f"{self.kind.removesuffix('s')} {digits[:64]}-{digits[64:]}"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Label).decode


def read_label(data: bytes, handle: Handle) -> Label:
    """Return the label in a block. :class:`MalformedTableError` if it is not a label."""
    try:
        return _decode(decompress_block(data, *handle))
    except UNREADABLE as error:
        raise MalformedTableError(f"its label cannot be read: {error}") from None


def with_label(data: bytes, label: Label) -> bytes:
    """Return a table file, which has no label yet, with this label. 30 µs for 500 KB."""
    metaindex, index = footer(data)
    named = dict(zip(*entries(decompress_block(data, *metaindex), 0), strict=True))
    return data[: metaindex[0]] + file_end(metaindex[0], named, index, label)


def file_end(position: int, named: Mapping[bytes, bytes], index: Handle, label: Label | None = None) -> bytes:
    """Return the end of a file, from ``position`` on: the label, the metaindex (``named``: names and packed handles) and the
    footer."""
    blocks = b""
    if label is not None:
        contents = _encode(label)
        named = {**named, LABEL: packed_handle((position, len(contents)))}
        blocks = plain_block(contents)
    metaindex = small_table(named)
    place = position + len(blocks), len(metaindex) - END_SIZE
    head = bytes([_XXH3]) + packed_handle(place) + packed_handle(index)
    end = head.ljust(FOOTER_SIZE - _VERSION_AND_MAGIC.size, b"\0") + _VERSION_AND_MAGIC.pack(FORMAT_VERSION, _MAGIC)
    return b"".join([blocks, metaindex, end])


def footer(data: bytes) -> tuple[Handle, Handle]:
    """Return the handles of the metaindex and the index block. :class:`MalformedTableError` if this is not a table of ours."""
    if len(data) < FOOTER_SIZE:
        raise MalformedTableError(f"truncated to {len(data)} bytes")
    end = data[-FOOTER_SIZE:]
    version, magic = _VERSION_AND_MAGIC.unpack_from(end, FOOTER_SIZE - _VERSION_AND_MAGIC.size)
    if magic != _MAGIC:
        raise MalformedTableError("does not end like a table (it is truncated, or another kind of file)")
    if version != FORMAT_VERSION or end[0] != _XXH3:
        raise MalformedTableError(
            f"has table format {version} with checksum type {end[0]}, which graveler does not write"
        )
    metaindex, position = read_handle(end, 1)
    index, _ = read_handle(end, position)
    return metaindex, index


def file_size(end: bytes) -> int:
    """Return the size in bytes of the file that ends so. :class:`MalformedTableError` if this is not a table of ours."""
    (offset, size), _ = footer(end)
    return offset + size + END_SIZE + FOOTER_SIZE


def read_handle(data: bytes, position: int) -> tuple[Handle, int]:
    """Return a handle, and where its bytes end."""
    offset, position = varint(data, position)
    size, position = varint(data, position)
    return (offset, size), position


def packed_handle(handle: Handle) -> bytes:
    """Return a handle as bytes."""
    offset, size = handle
    return number(offset) + number(size)


def small_table(values: Mapping[bytes, bytes]) -> bytes:
    """Return a block in RocksDB's own format, as it is stored: sorted, nothing shared, not compressed."""
    parts = [b"\0" + number(len(name)) + number(len(value)) + name + value for name, value in sorted(values.items())]
    return plain_block(b"".join(parts) + pack("<2I", 0, 1))
