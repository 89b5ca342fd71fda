"""Types of Avro: untrusted schemas, checked and bounded, and the functions that read, skip and write their values.

A value is read into plain Python: numbers, text, bytes, lists, dictionaries. Of logical types only decimals count: a
decimal is its unscaled integer. Reading takes time and memory in proportion to the bytes: a type whose values have no bytes is no
item of an array. Readers raise one of :data:`DAMAGE`, and their caller says of which file.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final

DAMAGE: Final = (IndexError, ValueError, OverflowError, error)
"""The exceptions of readers for bytes that are no value of their type."""

Position = int
Reader = Callable[[bytes, Position], tuple[Any, Position]]
"""Reads a value at a position: returns it, and the position behind it."""
Skipper = Callable[[bytes, Position], Position]
"""Returns the position behind the value at a position."""
Writer = Callable[[Any], bytes]
"""Returns the encoding of a value."""

MAX_DEPTH: Final = 24
"""Types within types."""
MAX_TYPES: Final = 2_000
"""Types of a schema, with those that a name stands for. A manifest's has about 70, and 2 for each field of a partition."""
MAX_EMPTY: Final = 16
"""Types of a schema whose values have no bytes."""
MAX_NAME: Final = 1_000

_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record, with Iceberg's ID of it (-1 without)."""

    name: str
    id: int
    type: "AvroType"


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type. ``kind`` is Avro's name of it, or ``decimal``, whose values are ``size`` bytes long or, with -1, of any length.
    ``smallest`` is the least number of bytes of a value."""

    kind: str
    fields: tuple[AvroField, ...] = ()
    items: "AvroType | None" = None
    branches: tuple["AvroType", ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = -1
    smallest: int = 1

    @property
    def present(self) -> "AvroType":
        """The type of values that are not null."""
        branches = [branch for branch in self.branches if branch.kind != "null"]
        return branches[0] if len(branches) == 1 else self


def parse_type(text: str) -> AvroType:
    """Return the type of a schema, which is JSON. :class:`ValueError` for a schema that is none, recurses, or exceeds the bounds;
    :class:`RecursionError` for JSON that is nested too deeply."""
    parse = _recent_type if len(text) <= LARGE_SCHEMA else _parsed_type
    return parse(text)


LARGE_SCHEMA: Final = 1 << 18
"""Characters of a schema that is too large to be remembered."""


def _parsed_type(text: str) -> AvroType:
    return _Parser().parse(json.loads(text), "", 0)


_recent_type: Final = lru_cache(maxsize=32)(_parsed_type)


@dataclass(slots=True)
class _Parser:
    named: dict[str, tuple[AvroType | None, int, int]] = field(default_factory=dict)
    types: int = 0
    empty: int = 0

    def parse(self, schema: Any, namespace: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise ValueError(f"its schema is nested deeper than {MAX_DEPTH} types")
        if isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            return self.parse(schema["type"], namespace, depth + 1)
        kind = "union" if isinstance(schema, list) else schema if isinstance(schema, str) else _text(schema, "type")
        if kind in _PRIMITIVES:
            decimal = kind == "bytes" and isinstance(schema, dict) and schema.get("logicalType") == "decimal"
            avro_type = AvroType("decimal" if decimal else kind, smallest=_SMALLEST.get(kind, 1))
        elif kind in ("record", "error", "enum", "fixed"):
            return self._named_type(kind, schema, namespace, depth)
        elif kind == "array" or kind == "map":
            of = schema.get("items" if kind == "array" else "values") if isinstance(schema, dict) else None
            items = self.parse(of, namespace, depth + 1)
            if items.smallest == 0 and kind == "array":
                raise ValueError("its schema has an array whose items have no bytes")
            avro_type = AvroType(kind, items=items)
        elif kind == "union":
            branches = tuple(self.parse(branch, namespace, depth + 1) for branch in schema)
            if not branches or any(branch.kind == "union" for branch in branches):
                raise ValueError("its schema has a union of nothing, or of unions")
            self.empty -= sum(branch.kind == "null" for branch in branches)  # the number of the branch is a byte
            avro_type = AvroType(kind, branches=branches)
        else:
            return self._reference(kind, namespace)
        self._count(1, avro_type.smallest == 0)
        return avro_type

    def _named_type(self, kind: str, schema: dict[str, Any], namespace: str, depth: int) -> AvroType:
        name = _text(schema, "name")
        space = schema.get("namespace", namespace)
        if not isinstance(space, str):
            raise ValueError(f"its schema has {_shortened(space)} as namespace")
        full = f"{space}.{name}" if space and "." not in name else name
        if full in self.named:
            raise ValueError(f"its schema defines {name!r} twice")
        self.named[full] = (None, 0, 0)
        types, empty = self.types, self.empty
        if kind == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
                raise ValueError(f"its schema has no symbols in {name!r}")
            avro_type = AvroType(kind, symbols=tuple(symbols))
        elif kind == "fixed":
            size = schema.get("size")
            if type(size) is not int or not 0 <= size < 1 << 24:
                raise ValueError(f"its schema has {size!r} as the size of {name!r}")
            decimal = schema.get("logicalType") == "decimal" and size > 0
            avro_type = AvroType("decimal" if decimal else kind, size=size, smallest=size)
        else:
            inner = full.rpartition(".")[0]
            fields = schema.get("fields")
            if not isinstance(fields, list):
                raise ValueError(f"its schema has no fields in {name!r}")
            parsed = tuple(self._field(part, inner, depth) for part in fields)
            if len({record_field.name for record_field in parsed}) != len(parsed):
                raise ValueError(f"its schema has two fields of one name in {name!r}")
            avro_type = AvroType("record", fields=parsed, smallest=sum(part.type.smallest for part in parsed))
        self._count(1, avro_type.smallest == 0)
        self.named[full] = (avro_type, self.types - types, self.empty - empty)
        return avro_type

    def _field(self, schema: Any, namespace: str, depth: int) -> AvroField:
        if not isinstance(schema, dict) or "type" not in schema:
            raise ValueError("its schema has a field without a type")
        number = schema.get("field-id", -1)
        if type(number) is not int:
            raise ValueError(f"its schema has {number!r} as the ID of a field")
        return AvroField(_text(schema, "name"), number, self.parse(schema["type"], namespace, depth + 1))

    def _reference(self, name: str, namespace: str) -> AvroType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        avro_type, types, empty = self.named.get(full, self.named.get(name, (None, -1, 0)))
        if avro_type is None:
            problem = "has a type that contains itself" if types == 0 else "has an unknown type"
            raise ValueError(f"its schema {problem}, {name!r}")
        self._count(types, empty)
        return avro_type

    def _count(self, types: int, empty: int) -> None:
        self.types += types
        self.empty += empty
        if self.types > MAX_TYPES:
            raise ValueError(f"its schema has more than {MAX_TYPES:,} types")
        if self.empty > MAX_EMPTY:
            raise ValueError(f"its schema has more than {MAX_EMPTY} types without bytes")


_SMALLEST: Final = {"null": 0, "float": 4, "double": 8}


def _text(schema: Any, key: str) -> str:
    text = schema.get(key) if isinstance(schema, dict) else None
    if not isinstance(text, str) or not 0 < len(text) <= MAX_NAME:
        raise ValueError(f"its schema has {_shortened(text)} as {key}")
    return text


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def read_long(data: bytes, position: Position) -> tuple[int, Position]:
    """Read an ``int`` or a ``long``."""
    byte = data[position]
    position += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 127, 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than ten bytes")
    if number >> 64:
        raise ValueError("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def read_bytes(data: bytes, position: Position) -> tuple[bytes, Position]:
    """Read ``bytes``."""
    length, position = read_long(data, position)
    end = position + length
    if length < 0 or end > len(data):
        raise ValueError(f"{length:,} bytes are expected where {len(data) - position:,} are")
    return data[position:end], end


def _read_string(data: bytes, position: Position) -> tuple[str, Position]:
    length = data[position]
    if length < 128 and not length & 1:
        position += 1
        end = position + (length >> 1)
        if end > len(data):
            raise ValueError("a text ends behind the end")
        return str(data[position:end], "utf-8"), end
    encoded, end = read_bytes(data, position)
    return str(encoded, "utf-8"), end


def _read_null(data: bytes, position: Position) -> tuple[None, Position]:  # noqa: ARG001  # as every reader
    return None, position


def _read_boolean(data: bytes, position: Position) -> tuple[bool, Position]:
    byte = data[position]
    if byte > 1:
        raise ValueError(f"{byte} is no boolean")
    return byte == 1, position + 1


def _read_float(data: bytes, position: Position) -> tuple[float, Position]:
    return _FLOAT.unpack_from(data, position)[0], position + 4


def _read_double(data: bytes, position: Position) -> tuple[float, Position]:
    return _DOUBLE.unpack_from(data, position)[0], position + 8


def reader(avro_type: AvroType) -> Reader:
    """Return the function that reads values of a type."""
    if simple := _READERS.get(avro_type.kind):
        return simple
    return _COMPOUND_READERS[avro_type.kind](avro_type)


_READERS: Final[dict[str, Reader]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": read_long,
    "long": read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": read_bytes,
    "string": _read_string,
}


def _fixed_reader(avro_type: AvroType) -> Reader:
    size = avro_type.size

    def read(data: bytes, position: Position) -> tuple[bytes, Position]:
        end = position + size
        if end > len(data):
            raise ValueError(f"{size} bytes are expected where {len(data) - position:,} are")
        return data[position:end], end

    return read


def _decimal_reader(avro_type: AvroType) -> Reader:
    read_encoded = read_bytes if avro_type.size < 0 else _fixed_reader(avro_type)

    def read(data: bytes, position: Position) -> tuple[int, Position]:
        encoded, position = read_encoded(data, position)
        return int.from_bytes(encoded, "big", signed=True), position

    return read


def _enum_reader(avro_type: AvroType) -> Reader:
    symbols = avro_type.symbols

    def read(data: bytes, position: Position) -> tuple[str, Position]:
        index, position = read_long(data, position)
        if index < 0:
            raise ValueError("an enumeration has no such symbol")
        return symbols[index], position

    return read


def _block_length(data: bytes, position: Position) -> tuple[int, Position]:
    count, position = read_long(data, position)
    if count < 0:
        count = -count
        _, position = read_long(data, position)
    if count > len(data) - position:
        raise ValueError(f"{count:,} items are expected in {len(data) - position:,} bytes")
    return count, position


def _array_reader(avro_type: AvroType) -> Reader:
    assert avro_type.items is not None
    read_item = reader(avro_type.items)

    def read(data: bytes, position: Position) -> tuple[list[Any], Position]:
        items: list[Any] = []
        while data[position]:
            count, position = _block_length(data, position)
            for _ in range(count):
                item, position = read_item(data, position)
                items.append(item)
        return items, position + 1

    return read


def _map_reader(avro_type: AvroType) -> Reader:
    assert avro_type.items is not None
    read_item = reader(avro_type.items)

    def read(data: bytes, position: Position) -> tuple[dict[str, Any], Position]:
        values: dict[str, Any] = {}
        while data[position]:
            count, position = _block_length(data, position)
            for _ in range(count):
                key, position = _read_string(data, position)
                values[key], position = read_item(data, position)
        return values, position + 1

    return read


def _union_reader(avro_type: AvroType) -> Reader:
    readers = [reader(branch) for branch in avro_type.branches]
    kinds = [branch.kind for branch in avro_type.branches]
    if kinds[0] == "null" and len(kinds) == 2:
        read_present = readers[1]

        def read_optional(data: bytes, position: Position) -> tuple[Any, Position]:
            index = data[position]
            if index == 0:
                return None, position + 1
            if index == 2:
                return read_present(data, position + 1)
            raise ValueError("a union has no such branch")

        return read_optional

    def read(data: bytes, position: Position) -> tuple[Any, Position]:
        index, position = read_long(data, position)
        if index < 0:
            raise ValueError("a union has no such branch")
        return readers[index](data, position)

    return read


def _record_reader(avro_type: AvroType) -> Reader:
    fields = [(record_field.name, reader(record_field.type)) for record_field in avro_type.fields]

    def read(data: bytes, position: Position) -> tuple[dict[str, Any], Position]:
        record = {}
        for name, read_field in fields:
            record[name], position = read_field(data, position)
        return record, position

    return read


_COMPOUND_READERS: Final[dict[str, Callable[[AvroType], Reader]]] = {
    "fixed": _fixed_reader,
    "decimal": _decimal_reader,
    "enum": _enum_reader,
    "array": _array_reader,
    "map": _map_reader,
    "union": _union_reader,
    "record": _record_reader,
}


@lru_cache(maxsize=1024)
def _numbers(count: int) -> re.Pattern[bytes]:
    return re.compile(rb"(?:[\x80-\xff]*[\x00-\x7f]){%d}" % count)


_NUMBERS_PER_MATCH: Final = 512


def _skip_numbers(data: bytes, position: Position, count: int) -> Position:
    while count > 0:
        match = _numbers(min(count, _NUMBERS_PER_MATCH)).match(data, position)
        if match is None:
            raise ValueError("a list of numbers ends behind the end")
        position = match.end()
        count -= _NUMBERS_PER_MATCH
    return position


def skipper(avro_type: AvroType) -> Skipper:
    """Return the function that skips values of a type. Arrays, such as the metrics of columns, are skipped without decoding their
    items: only what determines the length of a value is checked."""
    if avro_type.kind == "array":
        assert avro_type.items is not None
        return _array_skipper(avro_type.items)
    branches = avro_type.branches
    if len(branches) == 2 and branches[0].kind == "null":
        skip_present = skipper(branches[1])

        def skip_optional(data: bytes, position: Position) -> Position:
            index = data[position]
            if index == 0:
                return position + 1
            if index == 2:
                return skip_present(data, position + 1)
            raise ValueError("a union has no such branch")

        return skip_optional
    read = reader(avro_type)
    return lambda data, position: read(data, position)[1]


def _array_skipper(items: AvroType) -> Skipper:
    kinds = [part.type.kind for part in items.fields] or [items.kind]
    if all(kind in ("int", "long") for kind in kinds):
        numbers = len(kinds)

        def skip_numbers(data: bytes, position: Position) -> Position:
            while data[position]:
                count, position = _block_length(data, position)
                position = _skip_numbers(data, position, count * numbers)
            return position + 1

        return skip_numbers
    skip_item = _skip_pair if kinds in (["int", "bytes"], ["int", "string"]) else skipper(items)

    def skip(data: bytes, position: Position) -> Position:
        while data[position]:
            count, position = _block_length(data, position)
            for _ in range(count):
                position = skip_item(data, position)
        return position + 1

    return skip


def _skip_pair(data: bytes, position: Position) -> Position:
    while data[position] > 127:
        position += 1
    position += 1
    length = data[position]
    position += 1
    if length > 127 or length & 1:
        return read_bytes(data, position - 1)[1]
    return position + (length >> 1)


def write_long(number: int) -> bytes:
    """Return the encoding of an ``int`` or a ``long``. :class:`ValueError` outside of 64 bits."""
    zigzag = (number << 1) ^ (number >> 63)
    if zigzag < 128:
        return _BYTES[zigzag]
    if zigzag >> 64:
        raise ValueError(f"{number} has more than 64 bits")
    encoded = bytearray()
    while zigzag > 127:
        encoded.append(zigzag & 127 | 128)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def write_bytes(value: bytes) -> bytes:
    """Return the encoding of ``bytes``."""
    return write_long(len(value)) + value


_BYTES: Final = tuple(bytes((number,)) for number in range(128))


def writer(avro_type: AvroType) -> Writer:
    """Return the function that writes values of a type, as its reader returns them. It raises :class:`ValueError` for others."""
    if simple := _WRITERS.get(avro_type.kind):
        return simple
    return _COMPOUND_WRITERS[avro_type.kind](avro_type)


def _write_null(value: None) -> bytes:
    if value is not None:
        raise ValueError(f"{_shortened(value)} is not null")
    return b""


_WRITERS: Final[dict[str, Writer]] = {
    "null": _write_null,
    "boolean": lambda value: b"\1" if value else b"\0",
    "int": write_long,
    "long": write_long,
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "bytes": write_bytes,
    "string": lambda value: write_bytes(value.encode()),
}


def _fixed_writer(avro_type: AvroType) -> Writer:
    def write(value: bytes) -> bytes:
        if len(value) != avro_type.size:
            raise ValueError(f"{len(value)} bytes are not {avro_type.size}")
        return value

    return write


def _decimal_writer(avro_type: AvroType) -> Writer:
    if avro_type.size < 0:
        return lambda value: write_bytes(decimal_bytes(value))
    return lambda value: int(value).to_bytes(avro_type.size, "big", signed=True)


def decimal_bytes(unscaled: int) -> bytes:
    """Return the two's complement of an unscaled integer, with as few bytes as possible, the highest one before the others."""
    return unscaled.to_bytes(((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8, "big", signed=True)


def _array_writer(avro_type: AvroType) -> Writer:
    assert avro_type.items is not None
    write_item = writer(avro_type.items)
    return lambda value: b"".join((write_long(len(value)), *map(write_item, value), b"\0")) if value else b"\0"


def _map_writer(avro_type: AvroType) -> Writer:
    assert avro_type.items is not None
    write_item = writer(avro_type.items)

    def write(value: dict[str, Any]) -> bytes:
        items = [write_bytes(key.encode()) + write_item(item) for key, item in value.items()]
        return b"".join((write_long(len(items)), *items, b"\0")) if items else b"\0"

    return write


def _union_writer(avro_type: AvroType) -> Writer:
    """A value that is not null is written as the only branch for such values, or as the first that takes it."""
    branches = [(write_long(index), branch.kind, writer(branch)) for index, branch in enumerate(avro_type.branches)]
    null = next((index for index, kind, _ in branches if kind == "null"), None)
    present = [(index, write) for index, kind, write in branches if kind != "null"]

    def write(value: Any) -> bytes:
        if value is None and null is not None:
            return null
        for index, write_branch in present:
            try:
                return index + write_branch(value)
            except (ValueError, TypeError, AttributeError, error):
                if len(present) == 1:
                    raise
        raise ValueError(f"{_shortened(value)} is of no branch of a union")

    return write


def _record_writer(avro_type: AvroType) -> Writer:
    fields = [(part.name, writer(part.type)) for part in avro_type.fields]
    return lambda value: b"".join([write(value.get(name)) for name, write in fields])


_COMPOUND_WRITERS: Final[dict[str, Callable[[AvroType], Writer]]] = {
    "fixed": _fixed_writer,
    "decimal": _decimal_writer,
    "enum": lambda avro_type: lambda value: write_long(avro_type.symbols.index(value)),
    "array": _array_writer,
    "map": _map_writer,
    "union": _union_writer,
    "record": _record_writer,
}
