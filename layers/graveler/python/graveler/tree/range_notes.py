"""Notes on ranges that were written, kept nearby: some 34 bytes a record.

A range ID digests the record IDs of all its records, and computing these is the most expensive part of rewriting a range. The
writer of a range knows them, so it notes them under the range's name, with whatever else saves the next writer from looking at
all records (:class:`RangeNote`). Notes are not part of a lake: they may vanish at any time. Record IDs and chunk digests are
trusted only if they digest to the range's name; the rest has a checksum, as the blocks of a file have.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Final, Protocol

import msgspec
from xxhash import xxh3_128_digest

from graveler.errors import UNREADABLE
from graveler.model import SplitParameters
from graveler.system.forks import new_lock
from graveler.tree.range_name import suffix

ID_BYTES: Final = 32
"""Size of a record ID in bytes."""
_CHECKSUM_BYTES: Final = 16
_RECENT: Final = 8


class Notes(Protocol):
    """A bounded store for bytes that can be recomputed. It never fails, and may forget anything at any time."""

    def get(self, name: str) -> bytes | None:
        """Return the note under this name, or None if it is gone."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Store a note, or ignore it."""
        ...


class MemoryNotes:
    """Notes in this process's memory: the most recently used ones, at most ``max_bytes``. Another process starts with none."""

    def __init__(self, max_bytes: int = 32 << 20) -> None:
        self._max_bytes = max_bytes
        self._cached: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = new_lock()

    def __reduce__(self) -> tuple[object, ...]:
        return MemoryNotes, (self._max_bytes,)

    def get(self, name: str) -> bytes | None:
        """See :class:`Notes`."""
        with self._lock:
            if name in self._cached:
                self._cached.move_to_end(name)
            return self._cached.get(name)

    def put(self, name: str, data: bytes) -> None:
        """See :class:`Notes`."""
        with self._lock:
            self._bytes += len(data) - len(self._cached.pop(name, b""))
            self._cached[name] = data
            while self._bytes > self._max_bytes:
                _, dropped = self._cached.popitem(last=False)
                self._bytes -= len(dropped)


class NoNotes:
    """Notes that remember nothing, for a caller that writes each range once."""

    def get(self, name: str) -> None:
        """See :class:`Notes`."""

    def put(self, name: str, data: bytes) -> None:
        """See :class:`Notes`."""


class RangeNote(msgspec.Struct, frozen=True, array_like=True):
    """The note on one range.

    ``ids`` are the range's record IDs and ``digests`` those of its chunks (``range_name``), concatenated in key order. ``counts``
    are the numbers of records per block, in a file with this ``layout``. With the parameters ``split``, no key but the last
    becomes a cut as long as less than ``slack`` bytes (``len(key) + 32`` each) are added to the range.
    """

    ids: bytes
    digests: bytes
    layout: bytes
    counts: list[int]
    split: SplitParameters
    slack: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RangeNote).decode


class RangeNotes:
    """Notes on ranges, as far as ``notes`` remember them. The last few that this process made are kept as they are."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self._recent: OrderedDict[str, RangeNote] = OrderedDict()
        self._lock = new_lock()
        self.kept = not isinstance(notes, NoNotes)
        """False if making notes is pointless."""
        self.shared = self.kept and not isinstance(notes, MemoryNotes)
        """True if other processes may find the notes."""

    def get(self, range_id: bytes, name_suffix: bytes) -> RangeNote | None:
        """Return the note on the range with this ID and second part of its name, or None. Verified: 25 ns a record, unless this
        process made it lately."""
        name = _name(range_id, name_suffix)
        if (recent := self._recent.get(name)) is not None:
            return recent
        data = self.notes.get(name)
        if data is None or xxh3_128_digest(data[_CHECKSUM_BYTES:]) != data[:_CHECKSUM_BYTES]:
            return None
        try:
            note = _decode(memoryview(data)[_CHECKSUM_BYTES:])
        except UNREADABLE:
            return None
        return note if sha256(note.ids).digest() == range_id and suffix(note.digests) == name_suffix else None

    def put(self, range_id: bytes, name_suffix: bytes, note: RangeNote) -> None:
        """Remember this note on a range."""
        data = _encode(note)
        name = _name(range_id, name_suffix)
        self.notes.put(name, xxh3_128_digest(data) + data)
        with self._lock:
            self._recent[name] = note
            self._recent.move_to_end(name)
            if len(self._recent) > _RECENT:
                self._recent.popitem(last=False)

    def record_ids(self, metarange_id: bytes) -> bytes | None:
        """Return the record IDs of the metarange with this ID, or None. They digest to it: 30 ns a range."""
        ids = self.notes.get(_name_of_ids(metarange_id)) if self.shared else None
        return ids if ids is not None and sha256(ids).digest() == metarange_id else None

    def put_record_ids(self, metarange_id: bytes, ids: bytes) -> None:
        """Remember the record IDs of a metarange, for other processes: this one has its tree."""
        if self.shared:
            self.notes.put(_name_of_ids(metarange_id), ids)


def _name_of_ids(metarange_id: bytes) -> str:
    return f"ids-{metarange_id.hex()}"


def _name(range_id: bytes, name_suffix: bytes) -> str:
    return f"note-{range_id.hex()}-{name_suffix.hex()}"
