"""Files of sorted rows (:mod:`.comparison`), with checksums: an unnoticed loss of a row would remove an object.

::

    blocks      32,768 rows each, the last one may have fewer; each followed by its CRC-32
    footer      first name, last name, number of rows (8 bytes), CRC-32 of these

Numbers are big endian. Every reader detects damage, truncation, and parts of another file, wherever it begins.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from zlib import crc32

from graveler.errors import CorruptError
from graveler.retention.comparison import NAME_BYTES, ROW, Rows
from graveler.storage.durable_files import temporary_files
from graveler.storage.objects.port import Objects
from graveler.system.temporary_files import own_folder

ROWS: Final = 1 << 15
"""Rows per block."""

_PAYLOAD: Final = ROWS * ROW.size
_SUM: Final = 4
_BLOCK: Final = _PAYLOAD + _SUM
_FOOTER: Final = 2 * NAME_BYTES + 8 + _SUM


class RowFile(NamedTuple):
    """The footer of a file: the number of rows, and the names of the first and the last (empty without rows)."""

    key: str
    rows: int
    first: bytes
    last: bytes


def put_rows(objects: Objects, key: str, pieces: Iterable[bytes]) -> None:
    """Write sorted rows, which come in pieces of whole rows. One object write; a temporary file of its size."""
    count, lowest, highest, waiting = 0, bytes(NAME_BYTES), bytes(NAME_BYTES), b""
    with temporary_files("sorting data names"), TemporaryDirectory(dir=own_folder(), prefix="gc-") as folder:
        path = Path(folder) / "rows"
        with path.open("wb") as file:
            for piece in pieces:
                if piece:
                    lowest = lowest if count else piece[:NAME_BYTES]
                    highest = piece[-ROW.size :][:NAME_BYTES]
                    count += len(piece) // ROW.size
                    waiting += piece
                while len(waiting) >= _PAYLOAD:
                    file.write(_summed(waiting[:_PAYLOAD]))
                    waiting = waiting[_PAYLOAD:]
            if waiting:
                file.write(_summed(waiting))
            file.write(_summed(lowest + highest + count.to_bytes(8)))
        objects.put(key, path)


def look_at_rows(objects: Objects, key: str) -> RowFile:
    """Return the footer of a file. One request. :class:`CorruptError`."""
    footer = _checked(objects.get_range(key, -_FOOTER, _FOOTER), _FOOTER, key)
    count = int.from_bytes(footer[2 * NAME_BYTES :])
    return RowFile(key, count, footer[:NAME_BYTES], footer[NAME_BYTES : 2 * NAME_BYTES])


def read_rows(objects: Objects, key: str, above: bytes = b"") -> Rows:
    """Return the rows of a file whose names are above one. Blocks before it are not read: that takes a dozen requests, otherwise
    two. Streaming. :class:`CorruptError`, at the latest when the damage is reached."""
    file = look_at_rows(objects, key)
    begin, end = 0, -(-file.rows // ROWS)
    if not above:
        return Rows(_payloads(objects, file, 0))
    while end - begin > 1:
        middle = (begin + end) // 2
        if name_at(objects, key, middle * ROWS) <= above:
            begin = middle
        else:
            end = middle
    payloads = _payloads(objects, file, begin)
    block = next(payloads, b"")
    if begin and block[:NAME_BYTES] > above:  # a damaged name has misled the search
        raise _damaged(key)
    rows = Rows(_chain(block, payloads))
    rows.upto(above)
    return rows


def name_at(objects: Objects, key: str, number: int) -> bytes:
    """Return the name in the row of that number. One request. Not checked for damage."""
    block, row = divmod(number, ROWS)
    return objects.get_range(key, block * _BLOCK + row * ROW.size, NAME_BYTES)


def _payloads(objects: Objects, file: RowFile, begin: int) -> Iterator[bytes]:
    """Yield the rows from a block on, a block at a time, after checking its checksum."""
    remaining = file.rows - begin * ROWS
    if remaining <= 0:
        return
    length = remaining * ROW.size + -(-remaining // ROWS) * _SUM
    waiting = b""
    for piece in objects.stream(file.key, begin * _BLOCK, length):
        waiting += piece
        while remaining and len(waiting) >= (size := min(remaining, ROWS) * ROW.size + _SUM):
            yield _checked(waiting[:size], size, file.key)
            waiting = waiting[size:]
            remaining -= min(remaining, ROWS)
    if remaining or waiting:
        raise _damaged(file.key)


def _chain(block: bytes, payloads: Iterator[bytes]) -> Iterator[bytes]:
    yield block
    yield from payloads


def _summed(data: bytes) -> bytes:
    return data + crc32(data).to_bytes(_SUM)


def _checked(data: bytes, size: int, key: str) -> bytes:
    """Return ``data`` without its checksum, after checking it."""
    if len(data) != size or _summed(data[:-_SUM]) != data:
        raise _damaged(key)
    return data[:-_SUM]


def _damaged(key: str) -> CorruptError:
    return CorruptError(
        f"{key} is damaged or incomplete, so nothing was collected; remove it, and the next run reads the trees again"
    )
