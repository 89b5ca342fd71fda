"""The comparison of existing and needed objects as two sorted streams: pure, in bounded memory.

Objects are identified by their data names, 25 raw bytes, which sort as their keys do. Needed ones come in *rows* of 29 bytes: a
data name and the number (4 bytes, big endian) of the range that names it, in order of the names. So rows of dead ranges need not
be removed from the files that hold them: they are skipped.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct as Layout
from typing import Final, NamedTuple

NAME_BYTES: Final = 25
ROW: Final = Layout(">25sI")
BATCH: Final = 20_000
"""Objects compared at a time."""


class Listed(NamedTuple):
    """An object of the listing, by its raw name."""

    name: bytes
    key: str
    size: int
    etag: str
    modified: float


class Rows:
    """A queue of sorted rows from a stream of bytes."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._buffer = b""
        self._ended = False

    def upto(self, last: bytes) -> bytes:
        """Take the next rows whose name is not above ``last``."""
        pieces = []
        while True:
            count = len(self._buffer) // ROW.size
            end = bisect_right(_Names(self._buffer, count), last)
            if end < count or self._ended:
                pieces.append(self._buffer[: end * ROW.size])
                self._buffer = self._buffer[end * ROW.size :]
                return b"".join(pieces)
            pieces.append(self._buffer[: count * ROW.size])
            rest = self._buffer[count * ROW.size :]
            piece = next(self._pieces, None)
            self._ended = piece is None
            self._buffer = rest + (piece or b"")

    def rest(self, upto: bytes = b"") -> Iterator[bytes]:
        """Yield all remaining rows, or those whose name is not above ``upto``, a piece at a time."""
        while True:
            whole = len(self._buffer) // ROW.size * ROW.size
            if upto and whole and self._buffer[whole - ROW.size : whole - ROW.size + NAME_BYTES] > upto:
                yield self.upto(upto)
                return
            yield self._buffer[:whole]
            piece = next(self._pieces, None)
            if piece is None:
                return
            self._buffer = self._buffer[whole:] + piece


class _Names(Sequence[bytes]):
    """The names in a buffer of rows, for binary search."""

    def __init__(self, buffer: bytes, count: int) -> None:
        self._buffer, self._count = buffer, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]
        return self._buffer[index * ROW.size : index * ROW.size + NAME_BYTES]


def unneeded(
    listed: Iterable[Listed], needed: Sequence[Rows], alive: Sequence[int], also: Iterator[bytes]
) -> Iterator[Listed]:
    """Yield those of ``listed`` (sorted by name) that no row of an ``alive`` range names, and that are not in ``also`` (sorted
    names).

    ``alive`` holds 1 for each number of a range that counts. Streaming: about 0.3 µs per object and row.
    """
    names = _Sorted(also)
    source = iter(listed)
    while batch := list(islice(source, BATCH)):
        last = batch[-1].name
        used = set(names.upto(last))
        for rows in needed:
            used.update([name for name, number in ROW.iter_unpack(rows.upto(last)) if alive[number]])
        yield from (item for item in batch if item.name not in used)


class _Sorted:
    """A queue of sorted names."""

    def __init__(self, names: Iterator[bytes]) -> None:
        self._names = names
        self._next = next(names, None)

    def upto(self, last: bytes) -> Iterator[bytes]:
        while self._next is not None and self._next <= last:
            yield self._next
            self._next = next(self._names, None)
