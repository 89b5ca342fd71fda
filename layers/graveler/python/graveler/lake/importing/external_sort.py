"""Sorting records that may not fit in memory: sorted runs in a temporary file, and a merge of them.

The method is the textbook's: Knuth, The Art of Computer Programming, volume 3, 5.4.
"""

import heapq
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Final

import msgspec

from graveler.errors import UnavailableError
from graveler.storage.durable_files import unavailable

Block = tuple[list[bytes], list[int], list[bytes]]
"""Some records, column by column: keys, origins (a unique number for each record), packed bytes."""

_Row = tuple[bytes, int, bytes]

_OVERHEAD: Final = 220
"""Bytes of memory that a record takes besides those of its key and its packed bytes: a tuple, two headers, a number."""
_BATCH: Final = 4096
_LEAST_PIECE: Final = 4096

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Block).decode


def sort_blocks(blocks: Iterable[Block], memory: int, folder: Path | None = None) -> Iterator[Block]:
    """Yield the same records by key, and those of one key by origin.

    Takes about ``memory`` bytes, and twice that while a run is sorted. Records that do not fit go to a nameless temporary file
    in ``folder`` (the system's by default), of about the size of keys and packed bytes, which is removed when the iterator is
    done, closed or garbage, or the process killed. :class:`graveler.errors.UnavailableError` when the disk is full.
    """
    rows: list[_Row] = []
    used = 0
    spill: _Spill | None = None
    try:
        for keys, origins, packed in blocks:
            rows.extend(zip(keys, origins, packed, strict=True))
            used += sum(map(len, keys)) + sum(map(len, packed)) + _OVERHEAD * len(keys)
            if used >= memory:
                rows.sort()
                spill = spill or _Spill(folder, max(memory // 512, _LEAST_PIECE))
                spill.write(rows)
                rows, used = [], 0
        rows.sort()
        sources = [iter(rows), *(spill.runs() if spill else ())]
        merged = heapq.merge(*sources) if len(sources) > 1 else sources[0]
        while batch := list(islice(merged, _BATCH)):
            yield [row[0] for row in batch], [row[1] for row in batch], [row[2] for row in batch]
    finally:
        if spill is not None:
            spill.close()


class _Spill:
    """Sorted runs in one temporary file. ``piece`` is the number of bytes that are written and read at a time."""

    def __init__(self, folder: Path | None, piece: int) -> None:
        self._folder = folder or Path(gettempdir())
        self._piece = piece
        self._runs: list[list[tuple[int, int]]] = []
        self._size = 0
        try:
            self._file = TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - close() does
        except OSError as error:
            raise self._failed(error) from None

    def write(self, rows: list[_Row]) -> None:
        """Add a run."""
        pieces: list[tuple[int, int]] = []
        size = sum(len(row[0]) + len(row[2]) for row in rows)
        step = max(1, len(rows) * self._piece // max(1, size))
        try:
            for begin in range(0, len(rows), step):
                keys, origins, packed = zip(*rows[begin : begin + step], strict=True)
                data = memoryview(_encode((keys, origins, packed)))
                pieces.append((self._size, len(data)))
                self._size += len(data)
                while data:
                    data = data[self._file.write(data) :]
        except OSError as error:
            raise self._failed(error) from None
        self._runs.append(pieces)

    def runs(self) -> list[Iterator[_Row]]:
        """Return an iterator over each run. Memory for one piece of each."""
        return [self._read(pieces) for pieces in self._runs]

    def close(self) -> None:
        """Free the space."""
        self._file.close()

    def _read(self, pieces: list[tuple[int, int]]) -> Iterator[_Row]:
        for offset, length in pieces:
            try:
                data = os.pread(self._file.fileno(), length, offset)
            except OSError as error:
                raise self._failed(error) from None
            yield from zip(*_decode(data), strict=True)

    def _failed(self, error: OSError) -> UnavailableError:
        return unavailable(
            error, f"sorting in the temporary folder {str(self._folder)!r} (TMPDIR or `scratch` names another one)"
        )
