"""Files of sorted records: RocksDB's block-based tables, written by RocksDB itself (or by ``assembler``, where most blocks can be
copied) and read by a small reader of our own.

``rocksdict`` writes them (``SstFileWriter``); it has no reader for a single file, and opening a scratch database for each one
costs 9 ms where parsing the file's index costs 0.1. So :class:`Table` reads the part of the format that our options produce:
format version 5, zstd or plain blocks, XXH3 checksums, a binary-search index with user keys and full block handles (RocksDB wiki,
"Rocksdb BlockBasedTable Format"; ``docs/format.md`` describes it too). A test opens our files with RocksDB and compares.

All checksums of a file are verified when it is opened, so a :class:`Table` returns exactly what was written.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, count, pairwise
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Final, NamedTuple

from xxhash import xxh3_128_digest
from zstandard import ZstdError

from graveler.errors import NotFoundError, UnavailableError
from graveler.tree.block import (
    BLOCK_SIZE,
    CHECKSUM_SIZE,
    END_SIZE,
    RESTART_INTERVAL,
    SEQUENCE_SIZE,
    ZSTD_LEVEL,
    Differing,
    MalformedTableError,
    OtherFileError,
    Records,
    count_entries,
    decompress_block,
    differing_records,
    entries,
    find,
    restart_keys,
    restart_points,
    stretch_entries,
    varint,
    verify,
)
from graveler.tree.lookup_cache import BlockCache, CachedBlock
from graveler.tree.tail import FORMAT_VERSION, LABEL, PROPERTIES, Handle, Label, footer, read_handle, read_label

if TYPE_CHECKING:
    from rocksdict import Options

    from graveler.tree.runtime import Scratch

__all__ = [
    "BLOCK_SIZE",
    "ClosedTable",
    "MalformedTableError",
    "OtherFileError",
    "Records",
    "Table",
    "TableIndex",
    "write_table",
]

_WINDOW_BITS: Final = -14
"""RocksDB's own default; zstd does not use it."""
_VALUE_BYTES: Final = b"rocksdb.raw.value.size"
_KEY_BYTES: Final = b"rocksdb.raw.key.size"
_RECORDS: Final = b"rocksdb.num.entries"
_WORTH_PARSING: Final = 12
"""From this many keys on, parsing all of a block's records is faster than finding the keys one by one."""


@lru_cache(maxsize=1)
def _options() -> "Options":
    from rocksdict import BlockBasedOptions, ChecksumType, DBCompressionType, Options

    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.zstd())
    options.set_compression_options(_WINDOW_BITS, ZSTD_LEVEL, 0, 0)
    blocks = BlockBasedOptions()
    blocks.set_block_size(BLOCK_SIZE)
    blocks.set_block_restart_interval(RESTART_INTERVAL)
    blocks.set_index_block_restart_interval(1)
    blocks.set_format_version(FORMAT_VERSION)
    blocks.set_checksum_type(ChecksumType.xxh3())
    options.set_block_based_table_factory(blocks)
    return options


def write_table(keys: Sequence[bytes], packed: Sequence[bytes], scratch: "Scratch") -> bytes:
    """Return the bytes of a table of these records, which must be in ascending order. RocksDB writes it in ``scratch``, best in
    memory; :class:`graveler.errors.UnavailableError` if it cannot. 0.4 µs a record."""
    from rocksdict import SstFileWriter  # readers do not need it

    def write(path: str) -> None:
        writer = SstFileWriter(_options())
        writer.open(path)
        # This loop takes no interpreter step per record.
        deque(map(writer.__setitem__, keys, packed), maxlen=0)
        writer.finish()

    try:
        return scratch.bytes_of(write)
    except Exception as error:
        # RocksDB raises its own errors as plain Exceptions.
        if isinstance(error, OSError) or (type(error) is Exception and str(error).startswith("IO error")):
            raise UnavailableError(
                f"a file of {len(keys)} records cannot be written in {scratch}: {error}. "
                "Free some space there, or choose another temporary folder"
            ) from None
        raise


_table_numbers = count()


class TableIndex(NamedTuple):
    """The index of a file: bounds and handles of its blocks, its ``layout`` and ``label`` as in :class:`Table`, and the handle of
    its properties."""

    bounds: list[bytes]
    handles: list[Handle]
    layout: bytes
    properties: Handle
    label: Label | None


class Lookups:
    """Lookup of single records in a file by its index and access to its blocks. Shared by threads."""

    __slots__ = ("_cache", "_handles", "_lasts", "_number", "bounds")

    bounds: list[bytes]
    _handles: list[tuple[int, int]]
    _cache: BlockCache | None
    _number: int
    """The file's number in ``_cache``."""
    _lasts: dict[int, bytes]
    """The last keys of blocks that were read; bounds may be above them."""

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._handles)

    def get(self, key: bytes) -> bytes | None:
        """Return the packed bytes of ``key``, or None. 4 µs if the cache holds its stretch, 12 µs more to decompress its
        block."""
        number = bisect_left(self.bounds, key)
        if number == len(self.bounds):
            return None
        return self._look_up(number, (key,))[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the packed bytes of each of these ascending keys, or None. Looks into each block once."""
        values: list[bytes | None] = []
        while len(values) < len(keys):
            number = bisect_left(self.bounds, keys[len(values)])
            if number == len(self.bounds):
                values += [None] * (len(keys) - len(values))
                break
            block_keys = keys[len(values) : bisect_right(keys, self.bounds[number], len(values))]
            if len(block_keys) < _WORTH_PARSING:
                values += self._look_up(number, block_keys)
            else:
                values += map(dict(zip(*self.read(number), strict=True)).get, block_keys)
        return values

    def _look_up(self, number: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the packed bytes of keys that belong to one block, or None. Caches what it decompresses."""
        position = self._number, number
        cached = None if self._cache is None else self._cache.get(position)
        try:
            block = None
            if cached is None:
                block = self._block(number)
                cached = CachedBlock(block)
            values: list[bytes | None] = []
            for key in keys:
                index = bisect_right(cached.keys, key) - 1
                if index < 0:
                    values.append(None)
                    continue
                stretch = cached.stretches[index]
                if stretch is None:
                    block = self._block(number) if block is None else block
                    stretch = cached.keep(index, block)
                values.append(find(stretch, key))
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None
        if block is not None and self._cache is not None:
            self._cache.put(position, cached)
        return values

    def position(self, key: bytes) -> tuple[int, int]:
        """Return the position of the first record not below ``key``: its block, and the number of records before it in that
        block. Behind the last record: the number of blocks, and 0. 25 µs."""
        number = bisect_left(self.bounds, key)
        if number == len(self.bounds):
            return number, 0
        try:
            block = self._block(number)
            keys, offsets = restart_keys(block)
            stretch = max(bisect_right(keys, key) - 1, 0)
            stretch_keys, _ = stretch_entries(block[offsets[stretch] : offsets[stretch + 1]])
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None
        index = bisect_left(stretch_keys, key)
        if index == len(stretch_keys) and stretch == len(keys) - 1:  # between the block's last key and its bound
            return number + 1, 0
        return number, stretch * RESTART_INTERVAL + index

    def key_at(self, number: int, index: int) -> bytes:
        """Return the key of a record, given its block and the number of records before it in that block. 25 µs."""
        try:
            block = self._block(number)
            _, offsets = restart_keys(block)
            stretch, index = divmod(index, RESTART_INTERVAL)
            return stretch_entries(block[offsets[stretch] : offsets[stretch + 1]])[0][index]
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None

    def contents(self, number: int) -> bytes:
        """Return one block, decompressed."""
        try:
            return self._block(number)
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None

    def read(self, number: int) -> Records:
        """Return the records of one block."""
        try:
            keys, packed = entries(self._block(number), SEQUENCE_SIZE)
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None
        if keys:
            self._lasts[number] = keys[-1]
        return keys, packed

    def _block(self, number: int) -> bytes:
        """Return the contents of a block."""
        raise NotImplementedError


class Table(Lookups):
    """One open file. Immutable, and safe to share between threads.

    ``data`` is the whole file; :class:`MalformedTableError` if it is not one, or if any block fails its checksum. ``index`` is
    passed by the file's own writer: then there is nothing to parse or to verify. ``cache`` keeps blocks that :meth:`get` has
    looked into. ``bounds`` has for each block a key that is not below its last one, and below the
    next block's first. ``layout`` is a digest of the index: files whose records are cut into blocks differently have different
    ones. ``label`` identifies the file; None for files written before labels existed.
    """

    __slots__ = ("_data", "_properties", "_starts", "label", "layout")

    def __init__(self, data: bytes, cache: BlockCache | None = None, index: TableIndex | None = None) -> None:
        self._data = data
        self._cache = cache
        self._number = next(_table_numbers)
        self._starts: list[int] = []
        self._lasts = {}
        self.bounds, self._handles, self.layout, self._properties, self.label = index or _verified_index(data)

    def raw(self, number: int) -> bytes:
        """Return a block as it is in the file, compressed. Equal raw blocks hold equal records."""
        offset, size = self._handles[number]
        return self._data[offset : offset + size + 1]

    def checksums(self) -> list[bytes]:
        """Return the four checksum bytes behind each block. 0.1 µs a block."""
        data = self._data
        return [data[offset + size + 1 : offset + size + END_SIZE] for offset, size in self._handles]

    def stored(self, start: int, stop: int) -> tuple[memoryview, list[Handle]]:
        """Return the blocks from ``start`` up to, not including, ``stop`` as they are in the file, checksums included; and each
        block's offset in these bytes and its size, without its trailer."""
        begin = self._handles[start][0]
        last, size = self._handles[stop - 1]
        extents = [(offset - begin, size) for offset, size in self._handles[start:stop]]
        return memoryview(self._data)[begin : last + size + END_SIZE], extents

    def start(self, number: int) -> int:
        """Return the number of records before block ``number``. The first call decompresses all blocks (0.1 µs a record), unless
        the caller has passed the counts to :meth:`set_counts`."""
        if not self._starts:
            try:
                counts = [count_entries(decompress_block(self._data, *handle)) for handle in self._handles]
            except (IndexError, StructError, ZstdError) as error:
                raise MalformedTableError(str(error)) from None
            self._starts = list(accumulate(counts, initial=0))
        return self._starts[number]

    def counts(self) -> list[int]:
        """Return the number of records in each block. Cost as of :meth:`start`."""
        self.start(0)
        return [stop - start for start, stop in pairwise(self._starts)]

    def set_counts(self, layout: bytes, counts: Sequence[int]) -> None:
        """Set the number of records in each block, for a file of this layout. Ignored if this file has another layout."""
        if not self._starts and layout == self.layout and len(counts) == len(self._handles):
            self._starts = list(accumulate(counts, initial=0))

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return len(self._data)

    @property
    def value_bytes(self) -> int:
        """Total size in bytes of all packed records, from the file's properties."""
        return self._measured((_VALUE_BYTES,))[0]

    def measures(self) -> tuple[int, int]:
        """Return the number of records and the total size of all keys in bytes, from the file's properties. 20 µs."""
        records, key_bytes = self._measured((_RECORDS, _KEY_BYTES))
        return records, key_bytes - SEQUENCE_SIZE * records

    def ends(self) -> tuple[bytes, bytes]:
        """Return the first and the last key, read from their blocks: 40 µs. :class:`MalformedTableError` if there is none."""
        try:
            first_keys, _ = restart_keys(self._block(0))
            block = self._block(len(self._handles) - 1)
            _, offsets = restart_keys(block)
            last_keys, _ = stretch_entries(block[offsets[-2] : offsets[-1]])
            return first_keys[0], last_keys[-1]
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(f"its first or last key cannot be read: {error}") from None

    def _measured(self, properties: Sequence[bytes]) -> list[int]:
        """Return numbers from the file's properties."""
        try:
            names, values = entries(decompress_block(self._data, *self._properties), 0)
            return [varint(values[names.index(name)], 0)[0] for name in properties]
        except (IndexError, StructError, ValueError) as error:
            raise MalformedTableError(f"its properties cannot be read: {error}") from None

    def blocks(self, start: bytes = b"") -> Iterator[Records]:
        """Yield the records from ``start`` on, a block at a time. About 0.3 µs a record."""
        begin = bisect_left(self.bounds, start) if start else 0
        if (
            self._lasts.get(begin, start) < start
        ):  # between a block's last key and its bound: nothing to read there again
            begin += 1
        for number in range(begin, len(self._handles)):
            keys, packed = self.read(number)
            if start and number == begin:
                index = bisect_left(keys, start)
                keys, packed = keys[index:], packed[index:]
                if not keys:
                    continue
            yield keys, packed

    def contents_between(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the blocks that may hold records with ``start <= key < end``, decompressed."""
        for number in range(bisect_left(self.bounds, start), len(self._handles)):
            yield self.contents(number)
            if end is not None and self.bounds[number] >= end:
                return

    def same_block(self, number: int, other: "Table", other_number: int) -> bool:
        """Return whether a block's bytes in the file equal those of a block of another file, so both hold equal records."""
        (begin, size), (other_begin, other_size) = self._handles[number], other._handles[other_number]
        if size != other_size:
            return False
        # The checksums of different blocks differ too, but for one in 4 billion.
        end, other_end = begin + size + END_SIZE, other_begin + size + END_SIZE
        data, other_data = self._data, other._data
        return (
            data[end - CHECKSUM_SIZE : end] == other_data[other_end - CHECKSUM_SIZE : other_end]
            and data[begin:end] == other_data[other_begin:other_end]
        )

    def read_different(self, number: int, other: "Table", other_number: int) -> Differing | None:
        """Return the records of a block and of a block of another file, without most of those that both share; None if all have
        to be read."""
        try:
            return differing_records(
                decompress_block(self._data, *self._handles[number]),
                decompress_block(other._data, *other._handles[other_number]),
            )
        except (IndexError, StructError, ZstdError) as error:
            raise MalformedTableError(str(error)) from None

    def _block(self, number: int) -> bytes:
        return decompress_block(self._data, *self._handles[number])


def _verified_index(data: bytes) -> TableIndex:
    """Return the index of a file whose checksums all hold. :class:`MalformedTableError`."""
    properties, label = (0, 0), None
    try:
        metaindex, index = footer(data)
        verify(data, *metaindex)
        for name, value in zip(*entries(decompress_block(data, *metaindex), 0), strict=True):
            handle, _ = read_handle(value, 0)
            verify(data, *handle)
            if name == PROPERTIES:
                properties = handle
            elif name == LABEL:
                label = read_label(data, handle)
        verify(data, *index)
        contents = decompress_block(data, *index)
        bounds, handles = index_entries(contents)
        for handle in handles:
            verify(data, *handle)
    except (IndexError, StructError, ValueError) as error:
        raise MalformedTableError(str(error) or type(error).__name__) from None
    return TableIndex(bounds, handles, xxh3_128_digest(contents), properties, label)


class ClosedTable(Lookups):
    """A file of which only the index is in memory. ``part(offset, length)`` reads some of its bytes: a block when it is needed,
    verified, 20 µs. Its checksum must be the one that it had when the file was open, so a block of another file is never mistaken
    for it."""

    __slots__ = ("_checksums", "_part")

    def __init__(self, table: Table, part: Callable[[int, int], bytes]) -> None:
        self.bounds, self._handles, self._lasts = table.bounds, table._handles, table._lasts
        self._cache, self._number = table._cache, table._number
        self._checksums = b"".join(table.checksums())
        self._part = part

    def _block(self, number: int) -> bytes:
        offset, size = self._handles[number]
        try:
            data = self._part(offset, size + END_SIZE)
        except NotFoundError:
            raise MalformedTableError("it is missing from the object store") from None
        verify(data, 0, size)
        position = number * CHECKSUM_SIZE
        if data[size + 1 : size + END_SIZE] != self._checksums[position : position + CHECKSUM_SIZE]:
            raise MalformedTableError(f"block at {offset} has changed since the file was opened")
        return decompress_block(data, 0, size)


def layout_of(data: bytes, keys: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """Return the ``layout`` of a table that was just written of these keys, and the number of keys in each block. 10 ns a key."""
    _, index = footer(data)
    contents = decompress_block(data, *index)
    stops = [0]
    for bound in index_entries(contents)[0]:
        stops.append(bisect_right(keys, bound, stops[-1]))
    return xxh3_128_digest(contents), [stop - start for start, stop in pairwise(stops)]


def index_entries(block: bytes) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Return for each block of records a key that is not below its last and below the next block's first one, and its handle.

    Entries of an index have no value length, and every one is a restart point.
    """
    _, end = restart_points(block)
    bounds, handles = [], []
    position = 0
    while position < end:
        shared, position = varint(block, position)
        unshared, position = varint(block, position)
        bounds.append(block[position : position + unshared])
        handle, position = read_handle(block, position + unshared)
        handles.append(handle)
        if shared:
            raise MalformedTableError("the index shares parts of its keys, which graveler never writes")
    if position != end:
        raise MalformedTableError("the index does not end where its restart array begins")
    return bounds, handles
