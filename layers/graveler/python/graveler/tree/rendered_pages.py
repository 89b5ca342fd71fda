"""Pages of a listing as text, without an object for each record: records are rendered once, and pages are cut out of that.

For each stretch of a range (some blocks that are about a page together), the text of its records is kept by block, compressed,
with the position where the text of each record ends. Where in the range a page begins and ends is looked up in the range's own
file: two blocks of it, for a page that spans ten. A range is immutable, and so is its rendering; it is kept among the notes
(:class:`graveler.tree.range_notes.Notes`), may vanish at any time, and has a checksum. It is half as large again as the range's
file.

A stretch is rendered when it is requested for a second time, which costs some three pages; each time after that costs a third of
a page. Listing everything once costs nothing extra.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import accumulate
from struct import Struct as Layout
from struct import pack
from typing import Final, Generic, TypeVar

import msgspec
from xxhash import xxh3_64_hexdigest, xxh3_128_digest

from graveler.errors import UNREADABLE
from graveler.system.forks import new_lock
from graveler.tree.block import zstd
from graveler.tree.listing import out_of_order
from graveler.tree.range_info import RangeInfo
from graveler.tree.range_notes import Notes
from graveler.tree.record import MakeEntry, RecordCodec
from graveler.tree.sstable import Lookups, MalformedTableError, Records
from graveler.tree.tree import Tree

T = TypeVar("T")

STRETCH: Final = 8
"""Number of blocks that are kept together: about a thousand records."""
LEAST: Final = 2
"""Fewest blocks of a range for which anything is kept."""
_MAX_BYTES: Final = 4 << 20
"""Size of stretches in memory, the most recently used ones. The others are read from the notes."""
_FEW_RANGES: Final = 8
"""A page that spans more ranges may take long."""
_REQUESTED: Final = 10_000
"""Number of stretches remembered as requested once."""
_CHECKSUM_BYTES: Final = 16
_LAYOUT: Final = 1
"""Incremented when the layout of kept data changes."""
_SUM: Final = Layout("<I")
_SAMPLES: Final[tuple[tuple[str, str, int, str, int, str, dict[str, str]], ...]] = (
    ("a/b", "s3://c/d", 1, "00", 2, "e/f", {"g": "h"}),
    ("i", "j", 3, "k", 4, "l", {}),
)


class Rendering(Generic[T]):
    """The conversion of records to text. ``make`` makes a value of the fields of each record, as for
    :meth:`~graveler.tree.record.RecordCodec.decode_as`; ``encode`` returns the text of one such value, or, in brackets and with
    commas between, of a list of them."""

    def __init__(self, make: MakeEntry[T], encode: Callable[[T | list[T]], bytes]) -> None:
        self.make = make
        self.encode = encode
        # Renderings kept by another version are not found if that version rendered differently.
        self.name = xxh3_64_hexdigest(encode([make(*sample) for sample in _SAMPLES]))

    def texts(self, values: list[T]) -> bytes:
        """Return the texts of some values, with commas between."""
        return self.encode(values)[1:-1]


class RenderedPage(msgspec.Struct):
    """A page of ``count`` records, as texts with commas between: ``pieces``, none of them empty, need commas between them, too.
    ``last`` is the key of the last record, if the page is full. ``more``: something follows."""

    pieces: list[bytes | memoryview]
    count: int = 0
    last: bytes = b""
    more: bool = False


class _Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Some blocks of a range, rendered. ``counts``: the number of records in each. ``blocks``: for each block, compressed, the
    total length of the texts up to and with each record's (4 bytes each), and the texts, with commas between."""

    counts: list[int]
    blocks: list[memoryview]

    def text(self, block: int, start: int, stop: int) -> memoryview:
        """Return the texts of some records of a block, at least one, with commas between."""
        whole = zstd.decompress(self.blocks[block])
        texts = _SUM.size * self.counts[block]
        begin = _SUM.unpack_from(whole, _SUM.size * (start - 1))[0] + start if start else 0
        end = _SUM.unpack_from(whole, _SUM.size * (stop - 1))[0] + stop - 1
        return memoryview(whole)[texts + begin : texts + end]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stretch).decode


class Renderer:
    """Renders pages of one repository's trees. ``namespace`` is the repository's, on which the addresses of its own objects
    depend. Without ``notes`` nothing is kept, nor for ranges with fewer than ``least`` blocks; ``max_bytes`` of what is kept stay
    in memory, too. ``require_cached`` is called before work that may take long, and may raise if the caller cannot wait for that.
    Safe to share between threads."""

    def __init__(
        self,
        namespace: str,
        notes: Notes | None = None,
        *,
        require_cached: Callable[[], None] = lambda: None,
        max_bytes: int = _MAX_BYTES,
        least: int = LEAST,
    ) -> None:
        self._codec = RecordCodec(namespace)
        self._notes = notes
        self._require_cached = require_cached
        self._prefix = f"rendered-{_LAYOUT}-{sha256(namespace.encode()).hexdigest()[:32]}"
        self._requested: OrderedDict[str, None] = OrderedDict()
        self._max_bytes = max_bytes
        self._least = least
        self._cached: OrderedDict[str, tuple[_Stretch, int]] = OrderedDict()
        """With the size of each in bytes."""
        self.kept_bytes = 0
        """Size of stretches in memory."""
        self._lock = new_lock()

    def page(self, rendering: Rendering[T], tree: Tree, start: bytes, end: bytes | None, amount: int) -> RenderedPage:
        """Return the first ``amount`` records with ``start <= key < end``. Opens the ranges that they lie in. 0.4 µs a record of
        what is kept, otherwise 1.8. :class:`CorruptError` where the next page would not advance."""
        page = RenderedPage([])
        begin = bisect_left(tree.lasts, start)
        for number in range(begin, len(tree)):
            if number == begin + _FEW_RANGES:
                self._require_cached()
            info = tree.info(number)
            if end is not None and info.first >= end:
                break
            if page.count == amount:
                page.more = True
                break
            try:
                self._add(rendering, tree.look_into(number), info, start, end, amount, page)
            except MalformedTableError as error:
                raise tree.damaged(number, error) from None
            if page.more:
                break
        if page.more and page.last < start:
            raise out_of_order(start, page.last, page.last)
        return page

    def _add(
        self,
        rendering: Rendering[T],
        table: Lookups,
        info: RangeInfo,
        start: bytes,
        end: bytes | None,
        amount: int,
        page: RenderedPage,
    ) -> None:
        """Add the records of a range to a page, as far as it goes."""
        block, index = (0, 0) if start <= info.first else table.position(start)
        stop = (len(table), 0) if end is None or info.last < end else table.position(end)
        stretch: _Stretch | None = None
        number = -1
        while page.count < amount and (block, index) < stop:
            if block // STRETCH != number:
                number = block // STRETCH
                stretch = self._stretch(rendering, table, info, number)
            room = amount - page.count
            if stretch is None:
                keys, packed = _read(table, block)
                count = len(keys)
                upto = min(count if block < stop[0] else stop[1], index + room)
                values = self._codec.decode_many(rendering.make, zip(keys[index:upto], packed[index:upto], strict=True))
                page.pieces.append(rendering.texts(values))
            else:
                count = stretch.counts[block % STRETCH]
                upto = min(count if block < stop[0] else stop[1], index + room)
                page.pieces.append(stretch.text(block % STRETCH, index, upto))
            page.count += upto - index
            last = block, upto - 1
            block, index = (block, upto) if upto < count else (block + 1, 0)
        page.more = (block, index) < stop
        if page.count == amount:
            page.last = table.key_at(*last)

    def _stretch(self, rendering: Rendering[T], table: Lookups, info: RangeInfo, number: int) -> _Stretch | None:
        """Return some blocks of a range as rendered, if their rendering is kept, or is kept from now on."""
        if self._notes is None or len(table) < self._least:
            return None
        name = f"{self._prefix}-{rendering.name}-{info.name}-{number}"
        with self._lock:
            cached = self._cached.get(name)
            if cached is not None:
                self._cached.move_to_end(name)
                return cached[0]
        data = self._notes.get(name)
        stretch = None if data is None else _read_note(name, data)
        if data is None or stretch is None:
            if self._is_new(name):
                return None
            self._require_cached()
            stretch = self._rendered(rendering, table, number)
            noted = _encode(stretch)
            data = _checksum(name, noted) + noted
            self._notes.put(name, data)
        self._keep(name, stretch, len(data))
        return stretch

    def _is_new(self, name: str) -> bool:
        """Return whether this is the first known request for a stretch."""
        with self._lock:
            if name in self._requested:
                self._requested.move_to_end(name)
                return False
            self._requested[name] = None
            if len(self._requested) > _REQUESTED:
                self._requested.popitem(last=False)
            return True

    def _rendered(self, rendering: Rendering[T], table: Lookups, number: int) -> _Stretch:
        """Render some blocks. 2.2 µs a record."""
        counts, blocks = [], []
        for block in range(number * STRETCH, min((number + 1) * STRETCH, len(table))):
            keys, packed = _read(table, block)
            values = self._codec.decode_many(rendering.make, zip(keys, packed, strict=True))
            counts.append(len(keys))
            blocks.append(memoryview(zstd.compress(_block([rendering.encode(value) for value in values]))))
        return _Stretch(counts, blocks)

    def _keep(self, name: str, stretch: _Stretch, size: int) -> None:
        with self._lock:
            if name not in self._cached:
                self._cached[name] = stretch, size
                self.kept_bytes += size
            while self.kept_bytes > self._max_bytes:
                _, (_, dropped) = self._cached.popitem(last=False)
                self.kept_bytes -= dropped


def _read(table: Lookups, block: int) -> Records:
    """Return the records of a block. :class:`CorruptError` where they do not ascend from the block before: pages might never
    end."""
    keys, packed = table.read(block)
    before = table.bounds[block - 1] if block else b""
    if not before < keys[0] <= keys[-1] <= table.bounds[block]:
        raise out_of_order(before, keys[0], keys[-1])
    return keys, packed


def _block(texts: Sequence[bytes]) -> bytes:
    return pack(f"<{len(texts)}I", *accumulate(map(len, texts))) + b",".join(texts)


def _checksum(name: str, noted: bytes | memoryview) -> bytes:
    """Return the checksum of what is noted under this name, and no other."""
    return xxh3_128_digest(xxh3_128_digest(noted) + name.encode())


def _read_note(name: str, data: bytes) -> _Stretch | None:
    """Return the rendering kept under a name; None if it is damaged."""
    noted = memoryview(data)[_CHECKSUM_BYTES:]
    if _checksum(name, noted) != data[:_CHECKSUM_BYTES]:
        return None
    try:
        return _decode(noted)
    except UNREADABLE:
        return None
