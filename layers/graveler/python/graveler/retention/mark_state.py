"""The stored state of marks: ranges with their numbers, metaranges with what they change, and the files of rows.

::

    _graveler/gc/marks/state.msgpack       SHA-256 of the rest; a map of the fields of version 4

It has 53 bytes a range, and 52 a metarange and 4 for each range that a metarange changes against the one before
(:mod:`.succession`). Earlier versions did not note files of tables, so that of these only the names of ranges and metaranges are
used, and each range is read once more. Version 2 listed all ranges of each metarange: its lists are stored anew as changes.
"""

from array import array
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Final

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE
from graveler.retention.packed_numbers import NAME_BYTES, pack_numbers, unpack_numbers
from graveler.retention.range_numbers import RangeNumbers
from graveler.retention.range_table import RangeTable
from graveler.retention.succession import Succession
from graveler.storage.objects.port import ObjectMissingError, Objects

FOLDER: Final = "_graveler/gc/marks"
STATE: Final = f"{FOLDER}/state.msgpack"
VERSION: Final = 4

_DIGEST: Final = 32


class MarkState(Struct):
    """The state. ``lists`` are the ranges of metaranges that an earlier version listed, by raw name; none of them is in the
    ``succession``. ``files`` are the names of the files of rows."""

    ranges: RangeTable
    succession: Succession
    files: list[str]
    lists: Mapping[bytes, Sequence[int]] = {}


class _Version(Struct):
    version: int


class _Version2(Struct):
    ranges: dict[bytes, int]
    """Raw name (ID and suffix, 48 bytes) → number."""
    marked: set[int]
    metaranges: dict[bytes, list[int]]
    files: list[str]
    next_number: int


class _Version4(Struct):
    """The fields of versions 3 and 4. Of each range its raw name, its number and whether it was read, a byte; of each metarange
    its raw name and how many ranges it changes; the numbers of these. Numbers have four bytes, little endian."""

    range_names: bytes
    range_numbers: bytes
    ranges_read: bytes
    metarange_names: bytes
    change_counts: bytes
    changes: bytes
    files: list[str]
    next_number: int
    version: int = VERSION


def empty_state() -> MarkState:
    """Return the state of a namespace of which nothing was read."""
    return _unpacked(_Version4(b"", b"", b"", b"", b"", b"", [], 0))


def load_state(objects: Objects) -> MarkState:
    """Return the saved state. A damaged one, one of another version, or one whose files of rows are missing counts as empty:
    everything is read again. One object read, and one request for each file of rows."""
    try:
        data = objects.get(STATE)
    except ObjectMissingError:
        return empty_state()
    content = memoryview(data)[_DIGEST:]
    if sha256(content).digest() != data[:_DIGEST]:
        return empty_state()
    try:
        state = _decoded(content)
    except UNREADABLE:
        return empty_state()
    return state if all(_exists(objects, name) for name in state.files) else empty_state()


def save_state(objects: Objects, state: MarkState) -> None:
    """Save the state, apart from its lists. One object write."""
    ranges, succession = state.ranges, state.succession
    content = bytearray(_DIGEST)
    msgspec.msgpack.Encoder().encode_into(
        _Version4(
            ranges.names,
            pack_numbers(ranges.numbers),
            bytes(map(ranges.read.flags(ranges.next_number).__getitem__, ranges.numbers)),
            succession.names,
            pack_numbers(succession.counts),
            pack_numbers(succession.changes),
            state.files,
            ranges.next_number,
        ),
        content,
        _DIGEST,
    )
    content[:_DIGEST] = sha256(memoryview(content)[_DIGEST:]).digest()
    objects.put(STATE, bytes(content))


def _decoded(content: memoryview) -> MarkState:
    """Return the state of some bytes; a ValueError if they are none."""
    match msgspec.msgpack.decode(content, type=_Version).version:
        case 4:
            return _unpacked(msgspec.msgpack.decode(content, type=_Version4))
        case 3:
            return _with_unread_ranges(_unpacked(msgspec.msgpack.decode(content, type=_Version4)))
        case 2:
            return _with_unread_ranges(_converted(msgspec.msgpack.decode(content, type=_Version2)))
        case version:
            raise ValueError(f"version {version}")


def _unpacked(stored: _Version4) -> MarkState:
    numbers, counts, changes = map(unpack_numbers, (stored.range_numbers, stored.change_counts, stored.changes))
    lengths = (len(numbers) * NAME_BYTES, len(numbers), len(counts) * NAME_BYTES, sum(counts))
    if lengths != (len(stored.range_names), len(stored.ranges_read), len(stored.metarange_names), len(changes)):
        raise ValueError("parts of different lengths")
    if max(changes, default=-1) >= stored.next_number or RangeNumbers(changes) - RangeNumbers(numbers):
        raise ValueError("ranges without names")
    read = RangeNumbers([number for number, flag in zip(numbers, stored.ranges_read, strict=True) if flag])
    return MarkState(
        RangeTable(bytearray(stored.range_names), numbers, read, stored.next_number),
        Succession(bytearray(stored.metarange_names), counts, changes),
        stored.files,
    )


def _converted(stored: _Version2) -> MarkState:
    if any(len(name) != NAME_BYTES for name in chain(stored.ranges, stored.metaranges)):
        raise ValueError("a name of another length")
    state = empty_state()
    ordered = sorted(stored.ranges.items(), key=lambda item: item[1])
    state.ranges = RangeTable(
        bytearray(b"".join([name for name, _ in ordered])),
        array("I", [number for _, number in ordered]),
        RangeNumbers(stored.marked),
        stored.next_number,
    )
    state.files, state.lists = stored.files, stored.metaranges
    return state


def _with_unread_ranges(state: MarkState) -> MarkState:
    """Return a state of an earlier version without what was read of ranges."""
    state.ranges.read = RangeNumbers()
    state.files = []
    return state


def _exists(objects: Objects, name: str) -> bool:
    try:
        objects.head(f"{FOLDER}/{name}")
    except ObjectMissingError:
        return False
    return True
