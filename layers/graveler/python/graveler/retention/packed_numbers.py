"""Packed forms of many numbers and names: four bytes a number, 48 a name."""

import sys
from array import array
from binascii import unhexlify
from typing import Final

from graveler.errors import CorruptError

NAME_BYTES: Final = 48
"""Size of a raw name of a range or metarange: 32 bytes of its ID, 16 of its suffix."""

_ID: Final = 32


def unpack_numbers(data: bytes) -> "array[int]":
    """Return the numbers that :func:`pack_numbers` packed; ValueError if the last one is incomplete."""
    packed = array("I")
    packed.frombytes(data)
    return _little_endian(packed)


def pack_numbers(numbers: "array[int]") -> bytes:
    """Return numbers below 2^32 as they are stored: four bytes each, little endian."""
    return _little_endian(numbers).tobytes()


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


def split_names(packed: bytes | bytearray) -> list[bytes]:
    """Return the names of 48 bytes in some bytes."""
    data = bytes(packed)
    return [data[start : start + NAME_BYTES] for start in range(0, len(data), NAME_BYTES)]


def raw_name(name: str) -> bytes:
    """Return the raw name of a range or metarange, by its file's name. :class:`CorruptError` if it is none."""
    try:
        raw = unhexlify(name.replace("-", "", 1))
    except ValueError:
        raw = b""
    if len(raw) != NAME_BYTES:
        raise CorruptError(f"{name!r} is not the name of a range or metarange")
    return raw


def file_name(raw: bytes) -> str:
    """Return the file's name of a range or metarange."""
    return f"{raw[:_ID].hex()}-{raw[_ID:].hex()}"
