"""Sets of numbers of ranges, a byte for each number: 60,000 of 60,100 numbers take 60 KB, where a set of Python's takes 5 MB."""

from collections.abc import Collection, Iterator
from itertools import compress, count
from typing import Final

_ORDER: Final = "little"


class RangeNumbers:
    """A set of numbers. Memory: a byte for each number up to the highest."""

    __slots__ = ("_flags",)

    def __init__(self, numbers: Collection[int] = ()) -> None:
        self._flags = flags = bytearray(max(numbers, default=-1) + 1)
        for number in numbers:
            flags[number] = 1

    @classmethod
    def from_flags(cls, flags: bytearray) -> "RangeNumbers":
        """Return the set of those numbers at which there is a 1, where the others have a 0."""
        numbers = cls()
        numbers._flags = flags
        return numbers

    def flags(self, size: int) -> bytes:
        """Return 1 for each number of the set and 0 for the others, up to ``size`` or the highest number, if that is above."""
        return bytes(self._flags.ljust(size, b"\0"))

    def add(self, number: int) -> None:
        """Add a number."""
        if number >= len(self._flags):
            self._flags.extend(bytes(number + 1 - len(self._flags)))
        self._flags[number] = 1

    def __contains__(self, number: int | None) -> bool:
        return number is not None and number < len(self._flags) and self._flags[number] == 1

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers, ascending."""
        return compress(count(), self._flags)

    def __len__(self) -> int:
        return self._flags.count(1)

    def __or__(self, other: "RangeNumbers") -> "RangeNumbers":
        return self._of_bits(other, self._bits() | other._bits())

    def __and__(self, other: "RangeNumbers") -> "RangeNumbers":
        return self._of_bits(other, self._bits() & other._bits())

    def __sub__(self, other: "RangeNumbers") -> "RangeNumbers":
        return self._of_bits(other, self._bits() & ~other._bits())

    def _bits(self) -> int:
        return int.from_bytes(self._flags, _ORDER)

    def _of_bits(self, other: "RangeNumbers", bits: int) -> "RangeNumbers":
        size = max(len(self._flags), len(other._flags))
        return RangeNumbers.from_flags(bytearray(bits.to_bytes(size, _ORDER)))
