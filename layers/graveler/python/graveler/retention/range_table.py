"""The table of ranges: a number for each, by which marks and rows call it, and whether it was read."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from graveler.errors import CorruptError
from graveler.retention.packed_numbers import NAME_BYTES, split_names
from graveler.retention.range_numbers import RangeNumbers


class RangeTable:
    """Raw names of ranges and their numbers, which never change, and are not used again. ``next_number`` is above all of them;
    ``read`` has the numbers of ranges whose rows are stored.

    Memory: 52 bytes a range, and 170 more from the first look-up on, until :meth:`release`.
    """

    def __init__(self, names: bytearray, numbers: "array[int]", read: RangeNumbers, next_number: int) -> None:
        """``names`` are 48 bytes each, ``numbers`` theirs, ascending."""
        self._names = names
        self._numbers = numbers
        self._by_name: dict[bytes, int] | None = None
        self.read = read
        self.next_number = next_number

    @property
    def names(self) -> bytes:
        """All names, in the order of their numbers."""
        return bytes(self._names)

    @property
    def numbers(self) -> "array[int]":
        """All numbers, ascending."""
        return self._numbers

    def number(self, name: bytes) -> int:
        """Return the number of a range, a new one if it has none. :class:`CorruptError` unless the name has 48 bytes."""
        by_name = self.by_name()
        number = by_name.get(name)
        if number is None:
            if len(name) != NAME_BYTES:
                raise CorruptError(f"a range is described by a name of {len(name)} bytes, so nothing was collected")
            number = by_name[name] = self.next_number
            self._names += name
            self._numbers.append(number)
            self.next_number += 1
        return number

    def by_name(self) -> dict[bytes, int]:
        """Return the numbers of all ranges by name. The first look-up makes this dict, 0.2 µs a range."""
        if self._by_name is None:
            self._by_name = dict(zip(split_names(self._names), self._numbers, strict=True))
        return self._by_name

    def named(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """Yield these numbers, each with the range's name. KeyError for a number of no range."""
        for number in numbers:
            position = bisect_left(self._numbers, number)
            if self._numbers[position : position + 1] != array("I", (number,)):
                raise KeyError(number)
            yield number, bytes(self._names[position * NAME_BYTES : (position + 1) * NAME_BYTES])

    def keep(self, numbers: RangeNumbers) -> None:
        """Drop all ranges but these."""
        if not RangeNumbers(self._numbers) - numbers:
            return
        pairs = [pair for pair in zip(split_names(self._names), self._numbers, strict=True) if pair[1] in numbers]
        self._names = bytearray(b"".join([name for name, _ in pairs]))
        self._numbers = array("I", (number for _, number in pairs))
        self._by_name = None

    def release(self) -> None:
        """Free the dict by name until the next look-up."""
        self._by_name = None
