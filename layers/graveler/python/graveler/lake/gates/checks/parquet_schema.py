"""The schema of a Parquet file, from its footer: the columns with their types, as texts that can be compared.

Format: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift (``FileMetaData``). The library that
reads footers, pyarrow, does not fit the Lambda layer, and its code in C++ trusts what it reads.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from graveler.values.thrift import CompactStruct

MAGIC: Final = b"PAR1"
_TAIL: Final = 1 << 16
"""Bytes read first: most footers are smaller."""
_MOST_FOOTER: Final = 1 << 24
_MOST_COLUMNS: Final = 20_000
_LONGEST_COLUMN: Final = 2_000
"""Characters of a column with all that it lies in."""
_SCHEMA: Final = 2
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _LOGICAL = 1, 2, 3, 4, 5, 6, 7, 8, 10

_PHYSICAL: Final = ("boolean", "int32", "int64", "int96", "float", "double", "binary", "fixed")
_LOGICAL_TYPES: Final = {
    1: "string", 2: "map", 3: "list", 4: "enum", 6: "date", 12: "json", 13: "bson", 14: "uuid", 15: "float16",
    16: "variant", 17: "geometry", 18: "geography",
}  # fmt: skip
_DECIMAL, _TIME, _TIMESTAMP, _INTEGER = 5, 7, 8, 10
_UNITS: Final = {1: "ms", 2: "us", 3: "ns"}
_CONVERTED_TYPES: Final = {
    0: "string", 1: "map", 2: "map", 3: "list", 4: "enum", 6: "date", 7: "time[ms, UTC]", 8: "time[us, UTC]",
    9: "timestamp[ms, UTC]", 10: "timestamp[us, UTC]", 11: "uint8", 12: "uint16", 13: "uint32", 14: "uint64", 15: "int8",
    16: "int16", 17: "int32", 18: "int64", 19: "json", 20: "bson", 21: "interval",
}  # fmt: skip
_CONVERTED_DECIMAL: Final = 5

Columns = Mapping[str, str]
"""Types by column. A field of a struct is ``column.field``, the element of a list ``column[]``."""


def columns_of(size: int, read: Callable[[int, int], bytes]) -> Columns:
    """Return the columns of a Parquet file of ``size`` bytes. ``read`` returns bytes by offset and length; it is called once, or
    twice for a footer of more than 64 KiB. ``ValueError`` for anything that is no such file."""
    tail = read(max(0, size - _TAIL), min(size, _TAIL))
    if size < 12 or tail[-4:] != MAGIC:
        raise ValueError("it does not end like a Parquet file")
    length = int.from_bytes(tail[-8:-4], "little")
    if length > min(size - 12, _MOST_FOOTER):
        raise ValueError(f"its footer claims {length:,} bytes, and the file has {size:,}")
    footer = tail[-8 - length : -8] if length + 8 <= len(tail) else read(size - 8 - length, length)
    try:
        schema = CompactStruct(footer).values((_SCHEMA,)).get(_SCHEMA)
        if not isinstance(schema, list) or not schema or len(schema) > _MOST_COLUMNS:
            raise ValueError("its footer has no schema")
        columns: dict[str, str] = {}
        _add(columns, schema, 0, "")
    except (IndexError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ValueError(f"its footer cannot be read ({type(error).__name__})") from None
    del columns[""]
    return columns


def _add(columns: dict[str, str], schema: list[dict[int, Any]], number: int, path: str) -> int:
    """Add the element ``number`` under a path, and what it contains; return the number of the next one."""
    if len(path) > _LONGEST_COLUMN:
        raise ValueError("it has a column whose name is too long")
    element = schema[number]
    children = element.get(_CHILDREN, 0)
    kind = _type(element)
    columns[path] = f"repeated {kind}" if path and element.get(_REPETITION) == 2 else kind
    following = number + 1
    if kind == "list" and children == 1 and schema[following].get(_CHILDREN) == 1:
        return _add(columns, schema, following + 1, f"{path}[]")  # writers name the two below a list differently
    for _ in range(children):
        name = schema[following][_NAME].decode(errors="backslashreplace")
        following = _add(columns, schema, following, f"{path}.{name}" if path else name)
    return following


def _type(element: Mapping[int, Any]) -> str:
    """Return the type of a column, from the logical type, else from what earlier writers say, else as it is stored."""
    logical = element.get(_LOGICAL)
    for kind, fields in (logical or {}).items():
        if kind in _LOGICAL_TYPES:
            return _LOGICAL_TYPES[kind]
        if kind == _DECIMAL:
            return f"decimal({fields[2]}, {fields[1]})"
        if kind in (_TIME, _TIMESTAMP):
            [unit] = fields[2]
            zone = ", UTC" if fields[1] else ""
            return f"{'time' if kind == _TIME else 'timestamp'}[{_UNITS.get(unit, unit)}{zone}]"
        if kind == _INTEGER:
            return f"{'int' if fields[2] else 'uint'}{fields[1][0]}"
    converted = element.get(_CONVERTED)
    if converted == _CONVERTED_DECIMAL:
        return f"decimal({element.get(_PRECISION)}, {element.get(_SCALE, 0)})"
    if converted in _CONVERTED_TYPES:
        return _CONVERTED_TYPES[converted]
    if _CHILDREN in element:
        return "struct"
    physical = _PHYSICAL[element[_TYPE]]
    return f"{physical}[{element[_LENGTH]}]" if physical == "fixed" else physical
