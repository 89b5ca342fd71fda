"""Types of columns: their texts, the format version that each needs, and the JSON values that each has as a default."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from graveler.table_format.plain_documents import Document

NESTED: Final = ("struct", "list", "map")

_NULL_DEFAULTS: Final = ("unknown", "variant", "geometry", "geography")
_TIMES: Final = ("date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_SIMPLE: Final = frozenset(
    ("boolean", "int", "long", "float", "double", "string", "uuid", "binary", *_TIMES, *_NULL_DEFAULTS)
)
_PARAMETERS: Final = re.compile(
    r"(?P<fixed>fixed)\[\s*(?P<length>\d{1,9})\s*\]"
    r"|(?P<decimal>decimal)\(\s*(?P<precision>\d{1,9})\s*,\s*(?P<scale>\d{1,9})\s*\)"
    r"|(?P<geometry>geometry)\(\s*[^,()\s][^,()]*\)"
    r"|(?P<geography>geography)\(\s*[^,()\s][^,()]*(?:,\s*(?:spherical|vincenty|thomas|andoyer|karney)\s*)?\)",
    re.IGNORECASE,
)
_VERSIONS: Final = dict.fromkeys(("timestamp_ns", "timestamptz_ns", *_NULL_DEFAULTS), 3)
MAX_PRECISION: Final = 38
"""The greatest precision of a decimal."""


def type_kind(column_type: str | Document) -> str | None:
    """Return the kind of a type without parameters (``int``, ``decimal``, ``struct``), or None if it is none of Iceberg's."""
    if isinstance(column_type, str):
        return _primitive_kind(column_type)
    kind: str = column_type["type"]
    return kind


@lru_cache(maxsize=1_024)
def _primitive_kind(text: str) -> str | None:
    lower = text.lower()
    if lower in _SIMPLE:
        return lower
    match = _PARAMETERS.fullmatch(text)
    if match is None or (match["decimal"] and int(match["precision"]) > MAX_PRECISION):
        return None
    return lower[: lower.index("[" if match["fixed"] else "(")]


def required_version(kind: str) -> int:
    """Return the first format version that has a kind of type."""
    return _VERSIONS.get(kind, 1)


def type_text(column_type: str | Document) -> str:
    """Return a type for a message: nested ones by their kind."""
    return column_type if isinstance(column_type, str) else str(column_type["type"])


def same_type_text(text: str) -> str:
    """Return a primitive type such that equal types have equal texts: ``decimal(9, 2)`` and ``Decimal(9,2)``."""
    spaceless = text.replace(" ", "")
    return spaceless if spaceless.lower().startswith("geo") else spaceless.lower()


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31


def _is_long(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_null(value: object) -> bool:
    return value is None


_DEFAULTS: Final[dict[str, Callable[[Any], bool]]] = {
    "boolean": lambda value: isinstance(value, bool),
    "int": _is_int,
    "long": _is_long,
    "float": _is_number,
    "double": _is_number,
    "struct": lambda value: value == {},
    "list": lambda value: isinstance(value, list),
    "map": lambda value: isinstance(value, dict),
    **dict.fromkeys(_NULL_DEFAULTS, _is_null),
}


def is_default_of(kind: str, value: object) -> bool:
    """Return whether a JSON value can be the default of a column of this kind of type. Texts are not parsed."""
    check = _DEFAULTS.get(kind)
    return value is None or (check(value) if check else isinstance(value, str))
