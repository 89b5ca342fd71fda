"""Avro object container files: a header with a schema, and blocks of records, each compressed for itself.

The files are untrusted input, so sizes are bounded before memory is allocated, and a damaged file is a
:class:`~graveler.errors.CorruptError` with its location. What is written is a function of the records: the marker between blocks,
elsewhere random, is a digest of what is in the file. Another build of zlib may compress to other bytes; the marker is the same.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import zstandard

from graveler.errors import UNREADABLE
from graveler.table_format.avro_types import (
    DAMAGE,
    AvroType,
    Reader,
    parse_type,
    read_bytes,
    read_long,
    reader,
    write_bytes,
)
from graveler.table_format.avro_types import write_long as _long
from graveler.table_format.damaged_files import damaged_file

MAX_FILE: Final = 128 << 20
"""Bytes of a file. A manifest has 8 MiB, unless its table is set up otherwise."""
MAX_CONTENTS: Final = 512 << 20
"""Bytes of a file's records, decompressed."""
MAX_RATIO: Final = 200
"""Bytes of records for each compressed one, beyond ``FREE_CONTENTS``. Paths and counts of files shrink to a fortieth."""
FREE_CONTENTS: Final = 16 << 20
MAX_HEADER: Final = 16 << 20
"""Bytes of a header, which has the schema of the table in it."""
MAX_KEYS: Final = 1_000
MAX_RECORDS: Final = 2_000_000

BLOCK: Final = 128 << 10
"""Bytes of a block that is written, about, before they are compressed."""

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class Block:
    """Records, encoded one behind the other."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class AvroFile:
    """A file: the metadata of its header as text, with the schema as it stands there, the type that this is, and the blocks,
    decompressed."""

    location: str
    metadata: dict[str, str]
    type: AvroType
    blocks: tuple[Block, ...]

    @property
    def schema(self) -> str:
        """The schema of a record, as JSON."""
        return self.metadata["avro.schema"]

    def records(self, read: Reader | None = None) -> list[Any]:
        """Return the records, read by a function for their type or, without it, as plain values.
        :class:`CorruptError` for damaged ones."""
        read = read or reader(self.type)
        records: list[Any] = []
        for block in self.blocks:
            position = 0
            try:
                for _ in range(block.count):
                    record, position = read(block.data, position)
                    records.append(record)
            except DAMAGE as error:
                raise damaged_file(self.location, f"record {len(records):,} is damaged ({error})") from error
            if position != len(block.data):
                raise damaged_file(
                    self.location, f"{len(block.data) - position:,} bytes follow record {len(records):,} of a block"
                )
        return records


def read_avro_file(contents: bytes, location: str) -> AvroFile:
    """Return a file, its blocks decompressed and its records not yet read. ``location`` is for the sentences of errors.

    :class:`CorruptError` for bytes that are no such file, or that exceed a bound.
    """
    if len(contents) > MAX_FILE:
        raise damaged_file(location, f"it has {len(contents):,} bytes, and {MAX_FILE:,} are allowed")
    if contents[: len(_MAGIC)] != _MAGIC:
        raise damaged_file(location, "it is not an Avro file")
    try:
        header, position = _read_header(contents)
        metadata = {key: value.decode() for key, value in header.items()}
        avro_type = parse_type(metadata.get("avro.schema", ""))
    except (*DAMAGE, *UNREADABLE) as error:
        raise damaged_file(location, f"its header cannot be read ({error})") from error
    decompress = _CODECS.get(metadata.get("avro.codec", "null"))
    if decompress is None:
        codec = metadata["avro.codec"][:40]
        raise damaged_file(location, f"it is compressed with {codec!r}, and only null, deflate and zstandard are read")
    if avro_type.smallest == 0:
        raise damaged_file(location, "its schema has records of no bytes")
    sync = contents[position : position + _SYNC]
    if len(sync) != _SYNC:
        raise damaged_file(location, "it ends within its header")
    budget = min(MAX_CONTENTS, FREE_CONTENTS + MAX_RATIO * len(contents))
    try:
        blocks = tuple(_read_blocks(contents, position + _SYNC, sync, decompress, budget))
    except (*DAMAGE, zlib.error, zstandard.ZstdError) as error:
        raise damaged_file(location, f"one of its blocks is damaged ({error})") from error
    if sum(block.count for block in blocks) > MAX_RECORDS:
        raise damaged_file(location, f"it has more than {MAX_RECORDS:,} records")
    return AvroFile(location, metadata, avro_type, blocks)


def _read_header(contents: bytes) -> tuple[dict[str, bytes], int]:
    position = len(_MAGIC)
    header: dict[str, bytes] = {}
    while True:
        count, position = read_long(contents, position)
        if count == 0:
            return header, position
        if count < 0:
            count = -count
            _, position = read_long(contents, position)
        if len(header) + count > MAX_KEYS:
            raise ValueError(f"it has more than {MAX_KEYS:,} keys")
        for _ in range(count):
            key, position = read_bytes(contents, position)
            value, position = read_bytes(contents, position)
            header[key.decode()] = value
            if position > MAX_HEADER:
                raise ValueError(f"it has more than {MAX_HEADER:,} bytes")


Decompressor = Callable[[bytes, int], bytes]
"""Decompresses a block to a number of bytes at most; more is a :class:`ValueError`."""


def _read_blocks(contents: bytes, position: int, sync: bytes, decompress: Decompressor, budget: int) -> Iterable[Block]:
    while position < len(contents):
        count, position = read_long(contents, position)
        compressed, position = read_bytes(contents, position)
        if contents[position : position + _SYNC] != sync:
            raise ValueError(f"the marker behind it, at byte {position:,}, is not that of the file")
        position += _SYNC
        data = decompress(compressed, budget)
        if not 0 <= count <= len(data):
            raise ValueError(f"it has {len(data):,} bytes for {count:,} records")
        budget -= len(data)
        yield Block(count, data)


def _too_large(limit: int) -> ValueError:
    return ValueError(f"decompressed, it has more than {limit:,} bytes")


def _stored(block: bytes, limit: int) -> bytes:
    if len(block) > limit:
        raise _too_large(limit)
    return block


def _inflate(block: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    data = stream.decompress(block, limit + 1)
    if len(data) > limit:
        raise _too_large(limit)
    if not stream.eof:
        raise ValueError("its compressed bytes end early")
    return data


def _inflate_zstandard(block: bytes, limit: int) -> bytes:
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTANDARD_WINDOW).stream_reader(block)
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise _too_large(limit)
    return data


_ZSTANDARD_WINDOW: Final = 1 << 27

_CODECS: Final[dict[str, Decompressor]] = {"null": _stored, "deflate": _inflate, "zstandard": _inflate_zstandard}


def write_avro_file(metadata: Mapping[str, str], schema: str, records: Iterable[bytes]) -> bytes:
    """Return a file of encoded records, in blocks compressed by deflate. Equal parameters give equal bytes.

    ``metadata`` is for the header, in its order; the schema and the codec are added.
    """
    header = dict(metadata) | {"avro.schema": schema, "avro.codec": "deflate"}
    encoded_header = b"".join(
        (
            _MAGIC,
            _long(len(header)),
            *(write_bytes(key.encode()) + write_bytes(value.encode()) for key, value in header.items()),
            b"\0",
        )
    )
    blocks = list(_blocks(records))
    digest = sha256(encoded_header)
    for block in blocks:
        digest.update(b"%d:%d:" % (block.count, len(block.data)))
        digest.update(block.data)
    sync = digest.digest()[:_SYNC]
    parts = [encoded_header, sync]
    for block in blocks:
        stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        parts += (_long(block.count), write_bytes(stream.compress(block.data) + stream.flush()), sync)
    return b"".join(parts)


def _blocks(records: Iterable[bytes]) -> Iterable[Block]:
    pending: list[bytes] = []
    size = 0
    for record in records:
        pending.append(record)
        size += len(record)
        if size >= BLOCK:
            yield Block(len(pending), b"".join(pending))
            pending, size = [], 0
    if pending:
        yield Block(len(pending), b"".join(pending))
