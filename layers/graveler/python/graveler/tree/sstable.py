"""Files of sorted records: RocksDB's block-based tables, written by RocksDB itself and read by a small reader of our own.

``rocksdict`` writes them (``SstFileWriter``); it has no reader for a single file, and opening a scratch database for each one
costs 9 ms where parsing the file's index costs 0.1. So :class:`Table` reads the part of the format that our options produce:
format version 5, zstd or plain blocks, XXH3 checksums, a binary-search index with user keys and full block handles (RocksDB
wiki, "Rocksdb BlockBasedTable Format"; ``docs/format.md`` tells it again). A test opens our files with RocksDB and compares.

All checksums of a file are verified when it is opened, so what a :class:`Table` hands out is what was written.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, count
from pathlib import Path
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812
from struct import unpack_from
from tempfile import TemporaryDirectory
from threading import local
from typing import Final

from rocksdict import BlockBasedOptions, ChecksumType, DBCompressionType, Options, SstFileWriter
from xxhash import xxh3_64_intdigest
from zstandard import ZstdDecompressor, ZstdError, frame_content_size

from graveler.errors import UnavailableError

BLOCK_SIZE: Final = 16 * 1024
_RESTART_INTERVAL: Final = 16
_FORMAT_VERSION: Final = 5

_MAGIC: Final = 0x88E241B785F4CFF7
_FOOTER_SIZE: Final = 53
_TRAILER_SIZE: Final = 5
_XXH3: Final = 4
_PLAIN, _ZSTD = 0, 7
_TRAILER: Final = b"\x01" + bytes(7)
"""RocksDB appends type (1: a value) and sequence number (0) to each key, and shares prefixes of keys with it."""
_SEQUENCE_SIZE: Final = len(_TRAILER)
_MAX_BLOCK: Final = 1 << 26
_WORTH_PARSING: Final = 12
"""So many keys are found faster in all of a block's records than one by one."""
_CHECKSUM: Final = Layout("<I")
_VERSION_AND_MAGIC: Final = Layout("<IQ")

Records = tuple[list[bytes], list[bytes]]
"""Keys, and the packed bytes of each."""


class MalformedTableError(ValueError):
    """Bytes that are not a whole, undamaged table of the kind that we write."""


class _Zstd(local):
    """A decompressor for each thread: it must not be shared by two at a time."""

    def __init__(self) -> None:
        self.decompress = ZstdDecompressor().decompress


_zstd = _Zstd()


@lru_cache(maxsize=1)
def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.zstd())
    blocks = BlockBasedOptions()
    blocks.set_block_size(BLOCK_SIZE)
    blocks.set_block_restart_interval(_RESTART_INTERVAL)
    blocks.set_index_block_restart_interval(1)
    blocks.set_format_version(_FORMAT_VERSION)
    blocks.set_checksum_type(ChecksumType.xxh3())
    options.set_block_based_table_factory(blocks)
    return options


def write_table(keys: Sequence[bytes], packed: Sequence[bytes], scratch: Path) -> bytes:
    """The bytes of a table of these records, which must be in ascending order. ``scratch`` is a folder that RocksDB may write to
    meanwhile, best in memory; :class:`graveler.errors.UnavailableError` if it cannot. 0.4 µs a record."""
    try:
        with TemporaryDirectory(dir=scratch, prefix="graveler-") as folder:
            path = f"{folder}/table"
            writer = SstFileWriter(_options())
            writer.open(path)
            put = writer.__setitem__
            for key, value in zip(keys, packed, strict=True):
                put(key, value)
            writer.finish()
            return Path(path).read_bytes()
    except Exception as error:
        # RocksDB's own errors are plain ones.
        if isinstance(error, OSError) or (type(error) is Exception and str(error).startswith("IO error")):
            raise UnavailableError(
                f"a file of {len(keys)} records cannot be written in {scratch}: {error}. "
                "Make room there, or give another folder for files that are being written"
            ) from None
        raise


class BlockCache:
    """Decompressed blocks for point lookups, about ``max_bytes`` of them, those used last. Shared by tables and threads.

    Two generations: what is used moves to the new one, and when that is full the old one is dropped. Each step is one
    operation on a dict, so threads need no lock.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
        self._new: dict[tuple[int, int], bytes] = {}
        self._old: dict[tuple[int, int], bytes] = {}
        self._bytes = 0

    def limit(self, max_bytes: int) -> None:
        """Keep about so many bytes from now on."""
        self._half = max_bytes // 2

    def get(self, place: tuple[int, int]) -> bytes | None:
        """The block at ``(table, number)`` if it is here."""
        block = self._new.get(place)
        if block is None:
            block = self._old.get(place)
            if block is not None:
                self.put(place, block)
        return block

    def put(self, place: tuple[int, int], block: bytes) -> None:
        """Keep a block."""
        if self._bytes >= self._half:
            self._old, self._new, self._bytes = self._new, {}, 0
        self._new[place] = block
        self._bytes += len(block)


_table_numbers = count()


class Table:
    """One file, open. Immutable and safe to share between threads.

    ``data`` is the whole file; :class:`MalformedTableError` if it is not one, or if any block fails its checksum. ``cache`` keeps
    blocks that :meth:`get` has looked into. ``bounds`` has for each block a key that is not below its last one, and below the
    next block's first.
    """

    __slots__ = ("_cache", "_data", "_handles", "_number", "_starts", "bounds")

    def __init__(self, data: bytes, cache: BlockCache | None = None) -> None:
        self._data = data
        self._cache = cache
        self._number = next(_table_numbers)
        self._starts: list[int] = []
        try:
            metaindex, index = _footer(data)
            _verify(data, *metaindex)
            for value in _entries(_block(data, *metaindex), 0)[1]:
                handle, _ = _handle(value, 0)
                _verify(data, *handle)
            _verify(data, *index)
            self.bounds, self._handles = _index(_block(data, *index))
            for handle in self._handles:
                _verify(data, *handle)
        except (IndexError, StructError, ValueError) as error:
            raise MalformedTableError(str(error) or type(error).__name__) from None

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self._handles)

    def raw(self, number: int) -> bytes:
        """A block as it is in the file, compressed. Equal ones hold equal records."""
        offset, size = self._handles[number]
        return self._data[offset : offset + size + 1]

    def start(self, number: int) -> int:
        """How many records come before block ``number``. Decompresses all blocks when it is asked first: 0.1 µs a record."""
        if not self._starts:
            try:
                counts = [_count(_block(self._data, *handle)) for handle in self._handles]
            except (IndexError, StructError, ZstdError) as error:
                raise MalformedTableError(str(error)) from None
            self._starts = list(accumulate(counts, initial=0))
        return self._starts[number]

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._data)

    def blocks(self, start: bytes = b"") -> Iterator[Records]:
        """The records from ``start`` on, a block at a time. About 0.3 µs a record."""
        first = bisect_left(self.bounds, start) if start else 0
        for number in range(first, len(self._handles)):
            keys, packed = self.read(number)
            if start and number == first:
                at = bisect_left(keys, start)
                keys, packed = keys[at:], packed[at:]
                if not keys:
                    continue
            yield keys, packed

    def get(self, key: bytes) -> bytes | None:
        """The packed bytes of ``key``, or None. 4 µs if the block is in the cache, 10 µs more to decompress it."""
        number = bisect_left(self.bounds, key)
        if number == len(self.bounds):
            return None
        try:
            return _search(self._kept(number), key)
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The packed bytes of each of these keys, which ascend, or None. Looks into each block once."""
        found: list[bytes | None] = []
        while len(found) < len(keys):
            number = bisect_left(self.bounds, keys[len(found)])
            if number == len(self.bounds):
                found += [None] * (len(keys) - len(found))
                break
            here = keys[len(found) : bisect_right(keys, self.bounds[number], len(found))]
            if len(here) < _WORTH_PARSING:
                try:
                    block = self._kept(number)
                    found += [_search(block, key) for key in here]
                except (IndexError, StructError, ZstdError) as error:
                    raise MalformedTableError(str(error)) from None
            else:
                found += map(dict(zip(*self.read(number), strict=True)).get, here)
        return found

    def _kept(self, number: int) -> bytes:
        """A block, decompressed; from the cache if it is there, and there afterwards."""
        if self._cache is None:
            return _block(self._data, *self._handles[number])
        block = self._cache.get((self._number, number))
        if block is None:
            block = _block(self._data, *self._handles[number])
            self._cache.put((self._number, number), block)
        return block

    def read(self, number: int) -> Records:
        """The records of one block."""
        try:
            return _entries(_block(self._data, *self._handles[number]), _SEQUENCE_SIZE)
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None


def _footer(data: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Handles (offset, size) of the metaindex and the index block."""
    if len(data) < _FOOTER_SIZE:
        raise MalformedTableError(f"truncated to {len(data)} bytes")
    footer = data[-_FOOTER_SIZE:]
    version, magic = _VERSION_AND_MAGIC.unpack_from(footer, _FOOTER_SIZE - 12)
    if magic != _MAGIC:
        raise MalformedTableError("does not end like a table (truncated, or another kind of file)")
    if version != _FORMAT_VERSION or footer[0] != _XXH3:
        raise MalformedTableError(f"has table format {version} with checksum type {footer[0]}, which is not ours")
    metaindex, at = _handle(footer, 1)
    index, _ = _handle(footer, at)
    return metaindex, index


def _verify(data: bytes, offset: int, size: int) -> None:
    """Compare a block with its checksum."""
    end = offset + size
    if end + _TRAILER_SIZE > len(data):
        raise MalformedTableError(f"block at {offset} reaches past the end")
    (expected,) = _CHECKSUM.unpack_from(data, end + 1)
    # RocksDB digests all but the last byte, the compression type, and mixes that one in.
    digest = (xxh3_64_intdigest(data[offset:end]) ^ data[end] * 0x6B9083D9) & 0xFFFFFFFF
    if digest != expected:
        raise MalformedTableError(f"block at {offset} fails its checksum")


def _block(data: bytes, offset: int, size: int) -> bytes:
    """The contents of a block, decompressed."""
    kind = data[offset + size]
    if kind == _PLAIN:
        return data[offset : offset + size]
    if kind != _ZSTD:
        raise MalformedTableError(f"block at {offset} has compression type {kind}, which is not ours")
    length, at = _varint(data, offset)
    if length > _MAX_BLOCK:
        raise MalformedTableError(f"block at {offset} claims {length} bytes")
    frame = data[at : offset + size]
    try:
        if frame_content_size(frame) > length:  # the decompressor would believe the frame, and allocate what it claims
            raise MalformedTableError(f"block at {offset} claims two different lengths")
        return _zstd.decompress(frame, max_output_size=length)
    except ZstdError as error:
        raise MalformedTableError(f"block at {offset} cannot be decompressed: {error}") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise MalformedTableError("a number is too long")


def _restarts(block: bytes) -> tuple[int, int]:
    """Number of restart points, and where their array begins, which is where the entries end."""
    (count,) = _CHECKSUM.unpack_from(block, len(block) - 4)
    end = len(block) - 4 - 4 * count
    if end < 0:
        raise MalformedTableError("a block's restart array does not fit")
    return count, end


def _count(block: bytes) -> int:
    """Number of entries of a block of records: all restart points but the last stand for sixteen."""
    restarts, end = _restarts(block)
    (at,) = _CHECKSUM.unpack_from(block, len(block) - 8)
    entries = _RESTART_INTERVAL * (restarts - 1)
    while at < end:
        _, at = _varint(block, at)
        unshared, at = _varint(block, at)
        length, at = _varint(block, at)
        at += unshared + length
        entries += 1
    return entries


def _entries(block: bytes, suffix: int) -> Records:
    """Keys, without the last ``suffix`` bytes of each, and values of a block."""
    _, end = _restarts(block)
    keys: list[bytes] = []
    values: list[bytes] = []
    add_key, add_value = keys.append, values.append
    at = 0
    key = b""
    while at < end:
        shared = block[at]
        unshared = block[at + 1]
        length = block[at + 2]
        if length < 128 and unshared < 128 and shared < 128:
            at += 3
        elif unshared < 128 and shared < 128 and block[at + 3] < 128:
            length += (block[at + 3] << 7) - 128
            at += 4
        else:
            shared, at = _varint(block, at)
            unshared, at = _varint(block, at)
            length, at = _varint(block, at)
        stop = at + unshared
        if shared > len(key):  # what is shared reaches into what RocksDB appended: "k" and "k\x01"
            key += _TRAILER
        key = key[:shared] + block[at : stop - suffix]
        at = stop + length
        add_key(key)
        add_value(block[stop:at])
    if at != end:
        raise MalformedTableError("a block's entries do not end where its restart array begins")
    return keys, values


def _search(block: bytes, key: bytes) -> bytes | None:
    """The value of ``key`` in a block of records: binary search over the restart points, then at most 16 entries."""
    restarts, end = _restarts(block)
    places = unpack_from(f"<{restarts}I", block, end)
    low, high = 0, restarts - 1
    while low < high:
        middle = (low + high + 1) >> 1
        at = places[middle] + 1  # nothing is shared at a restart point: one zero byte
        unshared, length = block[at], block[at + 1]
        if unshared < 128 and (length < 128 or block[at + 2] < 128):
            at += 2 if length < 128 else 3
        else:
            unshared, at = _varint(block, at)
            _, at = _varint(block, at)
        if block[at : at + unshared - _SEQUENCE_SIZE] <= key:
            low = middle
        else:
            high = middle - 1
    at = places[low]
    current = b""
    while at < end:
        shared, unshared, length = block[at], block[at + 1], block[at + 2]
        if length < 128 and unshared < 128 and shared < 128:
            at += 3
        elif unshared < 128 and shared < 128 and block[at + 3] < 128:
            length += (block[at + 3] << 7) - 128
            at += 4
        else:
            shared, at = _varint(block, at)
            unshared, at = _varint(block, at)
            length, at = _varint(block, at)
        stop = at + unshared
        if shared > len(current):
            current += _TRAILER
        current = current[:shared] + block[at : stop - _SEQUENCE_SIZE]
        at = stop + length
        if current >= key:
            return block[stop:at] if current == key else None
    return None


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """A block's offset and size, and where the bytes that say so end."""
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return (offset, size), at


def _index(block: bytes) -> tuple[list[bytes], list[tuple[int, int]]]:
    """For each block of records: a key that is not below its last and below the next block's first one, and its handle.

    Entries of an index have no value length, and every one is a restart point.
    """
    _, end = _restarts(block)
    bounds, handles = [], []
    at = 0
    while at < end:
        shared, at = _varint(block, at)
        unshared, at = _varint(block, at)
        bounds.append(block[at : at + unshared])
        handle, at = _handle(block, at + unshared)
        handles.append(handle)
        if shared:
            raise MalformedTableError("the index shares parts of its keys, which ours never do")
    if at != end:
        raise MalformedTableError("the index does not end where its restart array begins")
    return bounds, handles
