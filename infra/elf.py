"""Shared libraries without what only debuggers read.

A loader reads the segments of a library, which its program headers list; symbol tables and debug information lie behind them, and
are most of some wheels' bytes. Cutting them off needs no tool of the library's architecture.
"""

import struct
from pathlib import Path
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"
"""64 bits, little-endian: both of Lambda's architectures."""
_HEADER_BYTES: Final = 64
_PROGRAM_HEADERS: Final = 0x20
"""Offset of the field with the program headers' offset, 8 bytes; their size and number, 2 bytes each, are at 0x36 and 0x38."""
_SECTION_HEADERS: Final = 0x28


def without_debug_data(library: bytes) -> bytes:
    """Return a library of which everything behind its last segment is cut off, the section headers among it. Segments keep their
    bytes and offsets. What is no such library is returned as it is."""
    if library[: len(_MAGIC)] != _MAGIC:
        return library
    (offset,) = struct.unpack_from("<Q", library, _PROGRAM_HEADERS)
    size, number = struct.unpack_from("<HH", library, 0x36)
    end = max(_HEADER_BYTES, offset + size * number)
    for index in range(number):
        start, _, _, length = struct.unpack_from("<QQQQ", library, offset + index * size + 8)
        end = max(end, start + length)
    trimmed = bytearray(library[:end])
    struct.pack_into("<Q", trimmed, _SECTION_HEADERS, 0)
    struct.pack_into("<HH", trimmed, 0x3C, 0, 0)  # how many there were, and which one names them
    return bytes(trimmed)


def strip_libraries(folder: Path) -> None:
    """Replace each shared library below a folder by itself :func:`without_debug_data`."""
    for path in sorted(folder.rglob("*.so*")):
        if path.is_file():
            path.write_bytes(without_debug_data(path.read_bytes()))
