"""Pages of a listing as text, without an object for each record: whole ranges are rendered once, and pages are cut out of that.

Of a range, the text of its records is kept by block, compressed, with where the text of each record ends. Where in the range a
page begins and ends is looked up in the range's own file: two blocks of it, for a page that spans ten. A range is immutable, and
so is what it is rendered as; it is kept among the notes (:class:`graveler.tree.ids.Notes`), may vanish at any time, and has a
checksum. About as large as the range's file.

A range is rendered when a page of it is asked for the second time. Whoever lists all of it once pays for compressing it, a tenth
of the time; everybody after that takes a fifth.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from struct import Struct as Layout
from struct import pack
from typing import Final, Generic, TypeVar

import msgspec
from xxhash import xxh3_64_hexdigest, xxh3_128_digest

from graveler.errors import UNREADABLE
from graveler.forks import new_lock
from graveler.pauses import expect_at_hand
from graveler.tree.block import zstd
from graveler.tree.ids import Notes
from graveler.tree.listing import out_of_order
from graveler.tree.record import Made, RecordCodec
from graveler.tree.sstable import MalformedTableError, Records
from graveler.tree.tree import RangeInfo, Tree

T = TypeVar("T")

WORTH_RENDERING: Final = 500
"""Records of a range: a smaller one is not worth a file."""
_MAX_BYTES: Final = 4 << 20
"""Of rendered ranges in memory: what was used last. The others are read where they are kept."""
_FEW_RANGES: Final = 8
"""A page that spans more of them may take long."""
_SEEN: Final = 4096
"""Ranges of which it is known that a page was asked for."""
_CHECKSUM_BYTES: Final = 16
_END: Final = Layout("<I")
_SAMPLES: Final[tuple[tuple[str, str, int, str, int, str, dict[str, str]], ...]] = (
    ("a/b", "s3://c/d", 1, "00", 2, "e/f", {"g": "h"}),
    ("i", "j", 3, "k", 4, "l", {}),
)


class Rendering(Generic[T]):
    """How records become text. ``make`` makes something of the fields of each, as for
    :meth:`~graveler.tree.record.RecordCodec.decode_as`, and ``encode`` text of one such thing, or, in brackets and with commas
    between, of a list of them."""

    def __init__(self, make: Made[T], encode: Callable[[T | list[T]], bytes]) -> None:
        self.make = make
        self.encode = encode
        # What was kept by another version is not found if that rendered otherwise.
        self.name = xxh3_64_hexdigest(encode([make(*sample) for sample in _SAMPLES]))

    def texts(self, made: list[T]) -> bytes:
        """The texts of some, with commas between."""
        return self.encode(made)[1:-1]


class RenderedPage(msgspec.Struct):
    """``count`` records, as texts with commas between: ``pieces``, none of them empty, want commas between them, too. ``last`` is
    the key of the last one, if there are as many as were asked for. ``more`` says that something follows."""

    pieces: list[bytes]
    count: int = 0
    last: bytes = b""
    more: bool = False


class _Rendered(msgspec.Struct, frozen=True, array_like=True):
    """A range, rendered. ``counts``: how many records each block has. ``blocks``: of each, compressed, where the text of each
    record ends in this (4 bytes), and the texts, with commas between."""

    counts: list[int]
    blocks: list[memoryview]

    def text(self, block: int, start: int, stop: int) -> bytes:
        """The texts of some records of a block, at least one, with commas between."""
        whole = zstd.decompress(self.blocks[block])
        (end,) = _END.unpack_from(whole, _END.size * (stop - 1))
        begin = (
            _END.size * self.counts[block] if start == 0 else _END.unpack_from(whole, _END.size * (start - 1))[0] + 1
        )
        return whole[begin:end]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Rendered).decode


class Renderer:
    """Renders pages of one repository's trees. ``namespace`` is the repository's, on which the addresses of its own objects
    depend. Without ``notes`` nothing is kept, of what is kept ``max_bytes`` stay in memory too, and of ranges with less than
    ``worth`` records nothing is kept. Safe to share between threads."""

    def __init__(
        self, namespace: str, notes: Notes | None = None, *, max_bytes: int = _MAX_BYTES, worth: int = WORTH_RENDERING
    ) -> None:
        self._codec = RecordCodec(namespace)
        self._notes = notes
        self._prefix = f"rendered-{sha256(namespace.encode()).hexdigest()[:32]}"
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._max_bytes = max_bytes
        self._worth = worth
        self._kept: OrderedDict[str, tuple[_Rendered, int]] = OrderedDict()
        """With the bytes of each."""
        self.kept_bytes = 0
        """Of rendered ranges in memory."""
        self._lock = new_lock()

    def page(self, rendering: Rendering[T], tree: Tree, start: bytes, end: bytes | None, amount: int) -> RenderedPage:
        """The first ``amount`` records with ``start <= key < end``. Opens the ranges that they lie in. Of a range that is
        rendered 0.4 µs a record, else 1.8."""
        page = RenderedPage([])
        first = bisect_left(tree.lasts, start)
        for number in range(first, len(tree)):
            if number == first + _FEW_RANGES:
                expect_at_hand()
            info = tree.info(number)
            if end is not None and info.first >= end:
                break
            if page.count == amount:
                page.more = True
                break
            try:
                rendered = self._rendered(rendering, tree, number, info)
                if rendered is None:
                    self._render(rendering, tree, number, start, end, amount, page)
                else:
                    _cut(rendered, tree, number, info, start, end, amount, page)
            except MalformedTableError as error:
                raise tree.damaged(number, error) from None
            if page.more:
                break
        return page

    def _render(
        self,
        rendering: Rendering[T],
        tree: Tree,
        number: int,
        start: bytes,
        end: bytes | None,
        amount: int,
        page: RenderedPage,
    ) -> None:
        """Add the records of a range to a page, as far as it goes."""
        for keys, packed in _in_order(tree, number, start):
            within = len(keys) if end is None else bisect_left(keys, end)
            stop = min(within, amount - page.count)
            if stop:
                made = self._codec.decode_many(rendering.make, zip(keys[:stop], packed, strict=False))
                page.pieces.append(rendering.texts(made))
                page.count += stop
                page.last = keys[stop - 1]
            page.more = stop < within
            if stop < len(keys):
                return

    def _rendered(self, rendering: Rendering[T], tree: Tree, number: int, info: RangeInfo) -> _Rendered | None:
        """A range as it is rendered, if that is kept, or worth it by now."""
        if self._notes is None or info.count < self._worth:
            return None
        name = f"{self._prefix}-{rendering.name}-{info.name}"
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None:
                self._kept.move_to_end(name)
                return kept[0]
        data = self._notes.get(name)
        found = None if data is None else _read(data, len(tree.look_into(number)), info.count)
        if data is None or found is None:
            if self._is_new(name):
                return None
            expect_at_hand()
            found, data = self._made(rendering, tree, number)
            self._notes.put(name, data)
        self._keep(name, found, len(data))
        return found

    def _is_new(self, name: str) -> bool:
        """Is this the first time that a page of a range is asked for, as far as is known?"""
        with self._lock:
            if name in self._seen:
                self._seen.move_to_end(name)
                return False
            self._seen[name] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)
            return True

    def _made(self, rendering: Rendering[T], tree: Tree, number: int) -> tuple[_Rendered, bytes]:
        """Render a range: what that is, and its bytes. 2.4 µs a record."""
        counts, blocks = [], []
        for keys, packed in _in_order(tree, number, tree.info(number).first):
            made = self._codec.decode_many(rendering.make, zip(keys, packed, strict=True))
            counts.append(len(keys))
            blocks.append(zstd.compress(_block([rendering.encode(each) for each in made])))
        data = _encode((counts, blocks))
        return _Rendered(counts, [memoryview(block) for block in blocks]), xxh3_128_digest(data) + data

    def _keep(self, name: str, rendered: _Rendered, size: int) -> None:
        with self._lock:
            if name not in self._kept:
                self._kept[name] = rendered, size
                self.kept_bytes += size
            while self.kept_bytes > self._max_bytes:
                _, (_, dropped) = self._kept.popitem(last=False)
                self.kept_bytes -= dropped


def _in_order(tree: Tree, number: int, start: bytes) -> Iterator[Records]:
    """The records of a range from ``start`` on, a block at a time. :class:`CorruptError` where they do not ascend: pages of them
    might never end."""
    for keys, packed in tree.range_blocks(number, start):
        if keys[0] < start or keys[-1] < keys[0]:
            raise out_of_order(start, keys[0], keys[-1])
        start = keys[-1]
        yield keys, packed


def _block(texts: Sequence[bytes]) -> bytes:
    _, *ends = accumulate((len(text) + 1 for text in texts), initial=_END.size * len(texts) - 1)
    return pack(f"<{len(ends)}I", *ends) + b",".join(texts)


def _read(data: bytes, blocks: int, records: int) -> _Rendered | None:
    """What was kept of a range of so many blocks and records; None if it is damaged."""
    if xxh3_128_digest(memoryview(data)[_CHECKSUM_BYTES:]) != data[:_CHECKSUM_BYTES]:
        return None
    try:
        found = _decode(memoryview(data)[_CHECKSUM_BYTES:])
    except UNREADABLE:
        return None
    fits = len(found.counts) == len(found.blocks) == blocks and sum(found.counts) == records
    return found if fits else None


def _cut(
    rendered: _Rendered,
    tree: Tree,
    number: int,
    info: RangeInfo,
    start: bytes,
    end: bytes | None,
    amount: int,
    page: RenderedPage,
) -> None:
    """Add the records of a rendered range to a page, as far as it goes."""
    table = tree.look_into(number)
    block, at = (0, 0) if start <= info.first else table.place(start)
    stop = (len(table), 0) if end is None or info.last < end else table.place(end)
    while page.count < amount and (block, at) < stop:
        upto = rendered.counts[block] if block < stop[0] else stop[1]
        taken = min(amount - page.count, upto - at)
        page.pieces.append(rendered.text(block, at, at + taken))
        page.count += taken
        at += taken
        last = block, at - 1
        if at == rendered.counts[block]:
            block, at = block + 1, 0
    page.more = (block, at) < stop
    if page.count == amount:
        page.last = table.key_at(*last)
