"""Structs in Thrift's compact protocol, of which the metadata of Parquet consists, decoded without trust in them.

Format: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from collections.abc import Container, Iterator
from typing import Any, Final

_DEEPEST: Final = 16
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_FIXED: Final = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}


class CompactStruct:
    """A decoder of one struct. ``IndexError`` if the bytes end before it does, ``ValueError`` for an invalid one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def numbers(self) -> dict[int, int]:
        """Return the integers of the struct by their field; all else is skipped."""
        numbers: dict[int, int] = {}
        for field, kind in self._fields():
            if kind in (_I16, _I32, _I64):
                numbers[field] = self._integer()
            else:
                self._skip(kind, 0)
        return numbers

    def values(self, fields: Container[int]) -> dict[int, Any]:
        """Return these fields of the struct: integers, truth values, bytes, lists, and structs as dictionaries of all of their
        fields. All else is skipped."""
        values: dict[int, Any] = {}
        for field, kind in self._fields():
            if field in fields:
                values[field] = self._value(kind, 0)
            else:
                self._skip(kind, 0)
        return values

    def _value(self, kind: int, depth: int) -> Any:
        """Return the value of a field of this kind."""
        if depth > _DEEPEST:
            raise ValueError("structs are nested too deeply")
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in (_I16, _I32, _I64):
            return self._integer()
        if kind == _STRUCT:
            return {field: self._value(inner, depth + 1) for field, inner in self._fields()}
        start = self.position
        if kind == _BINARY:
            length = self._varint()
            start = self.position
            self._pass(length)
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            inner = head & 15
            if inner in (_TRUE, _FALSE):  # in a list a truth value has a byte of its own
                return [self._byte() == _TRUE for _ in range(count)]
            return [self._value(inner, depth + 1) for _ in range(count)]
        else:
            self._skip(kind, depth)
        return self._data[start : self.position]

    def _fields(self) -> Iterator[tuple[int, int]]:
        field = 0
        while kind := self._byte():
            delta, kind = kind >> 4, kind & 15
            field = field + delta if delta else self._integer()
            yield field, kind

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("structs are nested too deeply")
        if kind in _FIXED:
            self._pass(_FIXED[kind])
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _BINARY:
            self._pass(self._varint())
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            self._skip_all(head & 15, count, depth)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        else:
            raise ValueError(f"a field has the type {kind}, which the metadata of Parquet has not")

    def _skip_all(self, kind: int, count: int, depth: int) -> None:
        for _ in range(count):
            if kind in (_TRUE, _FALSE):
                self._pass(1)  # in a list a truth value has a byte of its own
            else:
                self._skip(kind, depth + 1)

    def _pass(self, count: int) -> None:
        if self.position + count > len(self._data):
            raise IndexError
        self.position += count

    def _byte(self) -> int:
        value = self._data[self.position]
        self.position += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than 64 bits")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
