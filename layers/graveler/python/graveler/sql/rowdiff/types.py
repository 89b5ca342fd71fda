"""Types of DuckDB in which values of different types can be compared without the loss of a digit.

DuckDB's own common types lose some: BIGINT and DOUBLE become DOUBLE, and DECIMALs that need over 38 digits lose the last ones.
Where no type has all values of two, their texts are compared, written so that equal numbers, dates and times have equal texts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias
from typing import cast as cast_type

if TYPE_CHECKING:
    from duckdb.sqltypes import DuckDBPyType


@dataclass(frozen=True)
class Plain:
    """A type without a parameter that matters here, by DuckDB's name."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """Numbers with ``width`` digits, ``scale`` of them after the point."""

    width: int
    scale: int


@dataclass(frozen=True)
class List:
    """Lists of any length."""

    of: "Kind"


@dataclass(frozen=True)
class Struct:
    """Values by name. SQL does not distinguish names by their case."""

    fields: tuple[tuple[str, "Kind"], ...]


@dataclass(frozen=True)
class Map:
    """Keys, and a value of each."""

    key: "Kind"
    value: "Kind"


@dataclass(frozen=True)
class Text:
    """The texts of values whose types have no other one in common; of ``numbers`` or ``moments`` alone, equal ones are equal."""

    of: str = ""


Kind: TypeAlias = Plain | Decimal | List | Struct | Map | Text

VARCHAR: Final = Plain("VARCHAR")
JSON: Final = Plain("JSON")
NULL: Final = Plain('"NULL"')
"""The type of a column without a value, which goes with any other."""
BLOB: Final = Plain("BLOB")
DOUBLE: Final = Plain("DOUBLE")
TEXT: Final = Text()
NUMBERS: Final = Text("numbers")
MOMENTS: Final = Text("moments")

_MOST_DIGITS: Final = 38
_SIGNED: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_UNSIGNED: Final = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
_DIGITS: Final = dict(zip(_SIGNED + _UNSIGNED, (3, 5, 10, 19, 39, 3, 5, 10, 20, 39), strict=True))
_IN_A_DOUBLE: Final = {"FLOAT", "DOUBLE", "TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"}
_FLOATING: Final = {"FLOAT", "DOUBLE"}
_NUMBERS: Final = {*_DIGITS, *_FLOATING}
_ZONED: Final = {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}
_FINE: Final = {"TIMESTAMP_NS", "TIMESTAMPTZ_NS"}
_STAMPS: Final = {"DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", *_ZONED, *_FINE}

MACROS: Final = (
    """CREATE MACRO graveler_double_text(x) AS CASE
        WHEN NOT isfinite(x) THEN x::VARCHAR
        WHEN x = trunc(x) THEN coalesce(TRY_CAST(x AS HUGEINT)::VARCHAR, x::VARCHAR)
        ELSE CASE WHEN x < 0 THEN '-' ELSE '' END || CASE
            WHEN contains(x::VARCHAR, 'e') THEN
                '0.' || repeat('0', -TRY_CAST(split_part(x::VARCHAR, 'e', 2) AS INTEGER) - 1)
                || replace(ltrim(split_part(x::VARCHAR, 'e', 1), '-'), '.', '')
            ELSE ltrim(x::VARCHAR, '-') END
        END""",
    """CREATE MACRO graveler_decimal_text(x) AS CASE WHEN x < 0 THEN '-' ELSE '' END
        || CASE WHEN starts_with(abs(x)::VARCHAR, '.') THEN '0' ELSE '' END || rtrim(rtrim(abs(x)::VARCHAR, '0'), '.')""",
)
"""What the casts need: the texts of a DOUBLE, with all digits of a whole one and else the fewest that read back as it, and of a
DECIMAL with a scale, without zeros at its end."""


def kind_of(type_: "DuckDBPyType") -> Kind:
    """Return a type of DuckDB."""
    if type_.id == "decimal":
        sizes = dict(cast_type("list[tuple[str, int]]", type_.children))
        return Decimal(sizes["precision"], sizes["scale"])
    if type_.id not in ("list", "struct", "map"):
        return Plain(str(type_))
    inner = cast_type("list[tuple[str, DuckDBPyType]]", type_.children)
    children = [(name, kind_of(child)) for name, child in inner]
    if type_.id == "struct":
        return Struct(tuple(children))
    return List(children[0][1]) if type_.id == "list" else Map(children[0][1], children[1][1])


def common(kinds: Iterable[Kind]) -> Kind:
    """Return what all these types, at least one, can be cast to by :func:`cast` without making different values equal."""
    return reduce(_common, kinds)


def _common(kind: Kind, other: Kind) -> Kind:
    if kind == other or other == NULL:
        return kind
    if kind == NULL:
        return other
    match kind, other:
        case List(), List():
            return List(_common(kind.of, other.of))
        case Map(), Map():
            return Map(_common(kind.key, other.key), _common(kind.value, other.value))
        case Struct(), Struct():
            return Struct(tuple(merged((kind.fields, other.fields)).items()))
    if _is_number(kind) and _is_number(other):
        return _common_number(kind, other)
    if {kind, other} == {VARCHAR, BLOB}:
        return BLOB
    names = {side.name if isinstance(side, Plain) else "" for side in (kind, other)}
    if names <= _STAMPS:
        if not names & _FINE:
            return Plain("TIMESTAMP WITH TIME ZONE" if names & _ZONED else "TIMESTAMP")
        return Plain("TIMESTAMPTZ_NS") if names <= _FINE else MOMENTS
    if MOMENTS in (kind, other) and names - {""} <= _STAMPS:
        return MOMENTS
    return TEXT


def with_all_digits(kind: Kind) -> Kind:
    """Return a type whose values Python has with all digits: it has no nanoseconds, so these are texts."""
    match kind:
        case List():
            return List(with_all_digits(kind.of))
        case Map():
            return Map(with_all_digits(kind.key), with_all_digits(kind.value))
        case Struct():
            return Struct(tuple((name, with_all_digits(field_kind)) for name, field_kind in kind.fields))
    return TEXT if isinstance(kind, Plain) and kind.name in {*_FINE, "TIME_NS"} else kind


def merged(sides: Iterable[Iterable[tuple[str, Kind]]]) -> dict[str, Kind]:
    """Return the names of all, in their order, with their common types. Names that differ only in case are one, as in SQL."""
    names: dict[str, str] = {}
    kinds: dict[str, list[Kind]] = {}
    for side in sides:
        for name, kind in side:
            kinds.setdefault(names.setdefault(name.lower(), name), []).append(kind)
    return {name: common(of_name) for name, of_name in kinds.items()}


def _is_number(kind: Kind) -> bool:
    return isinstance(kind, Decimal) or kind == NUMBERS or (isinstance(kind, Plain) and kind.name in _NUMBERS)


def _common_number(kind: Kind, other: Kind) -> Kind:
    names = [side.name for side in (kind, other) if isinstance(side, Plain)]
    if len(names) == len((kind, other)):
        if _FLOATING.intersection(names):
            return DOUBLE if _IN_A_DOUBLE.issuperset(names) else NUMBERS
        signed, unsigned = ([table.index(name) for name in names if name in table] for table in (_SIGNED, _UNSIGNED))
        if not signed:
            return Plain(_UNSIGNED[max(unsigned)])
        size = max(signed + [side + 1 for side in unsigned])
        return Plain(_SIGNED[size]) if size < len(_SIGNED) else NUMBERS
    if NUMBERS in (kind, other) or _FLOATING.intersection(names):
        return NUMBERS
    decimals = [side if isinstance(side, Decimal) else Decimal(_DIGITS[side.name], 0) for side in (kind, other)]  # type: ignore[union-attr]
    scale = max(side.scale for side in decimals)
    width = max(side.width - side.scale for side in decimals) + scale
    return Decimal(width, scale) if width <= _MOST_DIGITS else NUMBERS


def sql(kind: Kind) -> str:
    """Return a type's name in SQL."""
    match kind:
        case Plain():
            return kind.name
        case Decimal():
            return f"DECIMAL({kind.width},{kind.scale})"
        case List():
            return f"{sql(kind.of)}[]"
        case Map():
            return f"MAP({sql(kind.key)}, {sql(kind.value)})"
        case Struct():
            return f"STRUCT({', '.join(f'{quoted_name(name)} {sql(field_kind)}' for name, field_kind in kind.fields)})"
        case Text():
            return VARCHAR.name


def cast(expression: str, kind: Kind, to: Kind, depth: int = 0) -> str:
    """Return an expression of SQL for a value of one type as one of :func:`common`."""
    if kind == to:
        return expression
    element = f"graveler_element_{depth}"  # a column of this name would be taken for it
    match kind, to:
        case List(), List():
            return f"list_transform({expression}, lambda {element}: {cast(element, kind.of, to.of, depth + 1)})"
        case Map(), Map():
            key = cast(f"{element}.key", kind.key, to.key, depth + 1)
            value = cast(f"{element}.value", kind.value, to.value, depth + 1)
            pairs = f"lambda {element}: struct_pack(key := {key}, value := {value})"
            return f"map_from_entries(list_transform(map_entries({expression}), {pairs}))"
        case Struct(), Struct():
            return f"CASE WHEN {expression} IS NOT NULL THEN {_cast_struct(expression, kind, to, depth)} END"
        case _, Text():
            return _text(expression, kind, to)
    if (kind, to) == (VARCHAR, BLOB):
        return f"encode({expression})"
    return f"({expression})::{sql(to)}"


def _cast_struct(expression: str, kind: Struct, to: Struct, depth: int) -> str:
    fields_by_name: Mapping[str, tuple[str, Kind]] = {
        name.lower(): (name, field_kind) for name, field_kind in kind.fields
    }
    fields = []
    for name, target in to.fields:
        source = fields_by_name.get(name.lower())
        value = f"NULL::{sql(target)}"
        if source is not None:
            value = cast(f"struct_extract({expression}, {quoted(source[0])})", source[1], target, depth)
        fields.append(f"{quoted_name(name)} := {value}")
    return f"struct_pack({', '.join(fields)})"


def _text(expression: str, kind: Kind, to: Text) -> str:
    is_float = isinstance(kind, Plain) and kind.name in _FLOATING
    if to == NUMBERS:
        if is_float:
            return f"graveler_double_text(({expression})::DOUBLE)"
        if isinstance(kind, Decimal) and kind.scale:
            return f"graveler_decimal_text({expression})"
    elif to == MOMENTS and isinstance(kind, Plain):
        return f"({expression})::{'TIMESTAMP_NS' if kind.name in _FINE else 'TIMESTAMP'}::VARCHAR"
    elif is_float:
        return f"CASE WHEN {expression} = 0 THEN '0.0' ELSE ({expression})::VARCHAR END"
    return f"({expression})::VARCHAR"


def quoted_name(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Sequence[str]) -> str:
    """Return a list of texts as SQL writes it."""
    return f"[{', '.join(map(quoted, texts))}]"
