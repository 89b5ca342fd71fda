"""Columns whose types differ: different values stay different, and equal ones equal."""

import io
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.sql.rowdiff.differences import ColumnDifference
from graveler.sql.rowdiff.types import MACROS, cast, common, kind_of
from tests.sql.rowdiff.test_rowdiff import committed, diff

BIG = 2**53
WHOLE = [0, 1, -1, 127, 2**24 + 1, 2**31 - 1, BIG, BIG + 1, 10**16, 2**62, 2**62 + 1, 2**63 - 1, 2**64 - 1, 10**22]
PARTS = ["0.1", "-0.1", "2.50", "0.00001", "1e-30", "0.5", "1234567.891", "9007199254740993.1"]
numbers = st.sampled_from([*WHOLE, *map(Decimal, PARTS)])
RANGES = {
    "TINYINT": (-(2**7), 2**7),
    "UTINYINT": (0, 2**8),
    "INTEGER": (-(2**31), 2**31),
    "UINTEGER": (0, 2**32),
    "BIGINT": (-(2**63), 2**63),
    "UBIGINT": (0, 2**64),
    "HUGEINT": (-(2**127), 2**127),
}
SIZES = {
    f"DECIMAL({width},{scale})": (width, scale)
    for width, scale in ((4, 1), (10, 2), (18, 5), (38, 0), (38, 10), (38, 37))
}
types = st.sampled_from([*RANGES, *SIZES, "FLOAT", "DOUBLE"])
NESTED = ["{0}", "[{0}, NULL]", "{{'A b': {0}}}", "[{{'x': [{0}]}}, NULL]", "MAP {{1: {0}}}"]
LOCAL, ZONED = datetime(2026, 1, 31, 1, 2, 3, 4000), datetime(2026, 1, 31, 1, 2, 3, 4000, UTC)  # noqa: DTZ001 - the first has no zone


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for macro in MACROS:
            made.execute(macro)
        yield made


def of_type(number: Any, type_: str) -> Any:
    """The value of a type that is next to a number, below an assumption that there is one."""
    if type_ == "DOUBLE":
        return float(number)
    if type_ == "FLOAT":
        (found,) = struct.unpack("f", struct.pack("f", float(number)))
        return found
    if type_ in RANGES:
        low, end = RANGES[type_]
        assume(low <= int(number) < end)
        return int(number)
    width, scale = SIZES[type_]
    unscaled = int(Fraction(number) * 10**scale)
    assume(abs(unscaled) < 10**width)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def exactly(value: Any) -> Fraction:
    """The number that a value is: a float with a part behind the point is the shortest decimal that reads back as it."""
    return Fraction(repr(value)) if isinstance(value, float) and not value.is_integer() else Fraction(value)


@given(numbers, st.one_of(st.none(), numbers), types, types, st.sampled_from(NESTED))
def test_numbers_are_equal_if_they_are_the_same_number(
    database: duckdb.DuckDBPyConnection, one: Any, other: Any, first: str, second: str, nested: str
) -> None:
    values = of_type(one, first), of_type(one if other is None else other, second)
    l, r = (  # noqa: E741 - left and right
        nested.format(f"'{value!s}'::{type_}") for value, type_ in zip(values, (first, second), strict=True)
    )
    rows = f"(SELECT {l} AS l, {r} AS r)"
    kinds = [kind_of(type_) for type_ in database.sql(f"FROM {rows}").types]
    left, right = (cast(name, kind, common(kinds)) for name, kind in zip("lr", kinds, strict=True))
    ((same_type, equal),) = database.sql(
        f"SELECT typeof({left}) = typeof({right}), {left} IS NOT DISTINCT FROM {right} FROM {rows}"
    ).fetchall()
    assert same_type
    assert equal == (exactly(values[0]) == exactly(values[1]))


@given(st.lists(types, min_size=3, max_size=5), numbers, numbers)
def test_all_types_of_a_column_have_one_that_keeps_numbers_apart(
    database: duckdb.DuckDBPyConnection, several: list[str], one: Any, other: Any
) -> None:
    kinds = [kind_of(type_) for type_ in database.sql(f"SELECT {', '.join(f'NULL::{each}' for each in several)}").types]
    to = common(kinds)
    texts = set()
    numbers_ = set()
    for number in (one, other):
        for type_, kind in zip(several, kinds, strict=True):
            value = of_type(number, type_)
            numbers_.add(exactly(value))
            ((text,),) = database.sql(
                f"SELECT ({cast('x', kind, to)})::VARCHAR FROM (SELECT '{value}'::{type_} AS x)"
            ).fetchall()
            texts.add(text)
    assert len(texts) == len(numbers_)


def column(values: list[Any], kind: pa.DataType) -> bytes:
    return _file(pa.table({"id": pa.array(range(len(values)), pa.int32()), "v": pa.array(values, kind)}))


@pytest.mark.parametrize(
    ("before", "after", "different"),
    [
        (([BIG + 1, BIG], pa.int64()), ([float(BIG)] * 2, pa.float64()), [0]),
        (([BIG + 1, None], pa.uint64()), ([float(BIG), None], pa.float64()), [0]),
        ((["1", "02", None], pa.string()), ([1, 2, None], pa.int64()), [1]),
        (
            ([Decimal("1.10"), Decimal("2.25")], pa.decimal128(10, 2)),
            ([Decimal("1.1"), Decimal("2.2")], pa.decimal128(9, 1)),
            [1],
        ),
        (
            ([Decimal(10**37), Decimal(1)], pa.decimal128(38, 0)),
            ([Decimal("0.1"), Decimal(1)], pa.decimal128(38, 37)),
            [0],
        ),
        (([2**64 - 1, 5], pa.uint64()), ([-1, 5], pa.int64()), [0]),
        (([b"a", b"\\x41", b"\xff"], pa.binary()), (["a", "A", "\\xFF"], pa.string()), [1, 2]),
        (([date(2026, 1, 31)] * 2, pa.date32()), ([datetime(2026, 1, 31), LOCAL], pa.timestamp("us")), [1]),  # noqa: DTZ001
        (([0, 1001], pa.timestamp("ns")), ([0, 1], pa.timestamp("us")), [1]),
        (([0, 1001], pa.timestamp("ns", "Europe/Berlin")), ([0, 1], pa.timestamp("us", "UTC")), [1]),
        (([0, 1001], pa.timestamp("ns", "Europe/Berlin")), ([0, 1001], pa.timestamp("ns")), []),
        (([ZONED], pa.timestamp("us", "Europe/Berlin")), ([LOCAL], pa.timestamp("ms")), []),
        (([time(1, 2, 3), time(1)], pa.time64("us")), ([3_723_000_000_001, 3_600_000_000_000], pa.time64("ns")), [0]),
        (([True, False], pa.bool_()), ([1, 0], pa.int32()), [0, 1]),
        (([[1], [2]], pa.list_(pa.int32())), ([1, 2], pa.int32()), [0, 1]),
        (
            ([{"a": 1}, None], pa.struct({"a": pa.int64()})),
            ([{"a": 1, "b": None}, None], pa.struct({"a": pa.int32(), "b": pa.int8()})),
            [],
        ),
        (
            ([{"a": 1}, {"a": 2}], pa.struct({"a": pa.int64()})),
            ([{"b": 1}, {"b": None}], pa.struct({"b": pa.int64()})),
            [0, 1],
        ),
        (
            ([[("k", BIG + 1)], None], pa.map_(pa.string(), pa.int64())),
            ([[("k", BIG)], None], pa.map_(pa.string(), pa.float64())),
            [0],
        ),
        (([None, None], pa.null()), ([1, None], pa.int64()), [0]),
        (([[None], []], pa.list_(pa.null())), ([[1], []], pa.list_(pa.int64())), [0]),
        (([nan, inf, -0.0], pa.float32()), ([nan, inf, 0.0], pa.float64()), []),
        (([nan, inf, -0.0], pa.float32()), (["nan", "inf", "0.0"], pa.string()), []),
    ],
)
def test_a_column_of_another_type(
    before: tuple[list[Any], pa.DataType], after: tuple[list[Any], pa.DataType], different: list[int]
) -> None:
    """By key and as whole rows, the same rows differ; and the other way round."""
    for one, other in ((before, after), (after, before)):
        repository = committed({"t.parquet": column(*one)}, {"t.parquet": column(*other)})
        with diff(repository, "t.parquet", ["id"]) as found:
            assert [(row.type, row.key) for row in found] == [("changed", {"id": each}) for each in different]
        with diff(repository, "t.parquet") as found:
            removed, added = (
                [row.before or row.after for row in found if row.type == each] for each in ("removed", "added")
            )
            assert [row and row["id"] for row in removed] == different
            assert [row and row["id"] for row in added] == different


def test_types_that_differ_between_files_of_one_side() -> None:
    """A column of integers in one file, and of doubles in another one, keeps its digits too."""
    kept = {"t/b.parquet": column([0.5], pa.float64())}
    repository = committed(
        {**kept, "t/a.parquet": column([BIG + 1], pa.int64()), "t/c.parquet": column([1.0], pa.float64())},
        {**kept, "t/a.parquet": column([BIG], pa.int64()), "t/c.parquet": column([1.5], pa.float64())},
    )
    with diff(repository, "t") as found:
        assert sorted(str((row.before or row.after or {})["v"]) for row in found) == [
            "1",
            "1.5",
            str(BIG),
            str(BIG + 1),
        ]
        assert found.columns == ()


def test_a_column_without_a_value_takes_the_type_of_others() -> None:
    repository = committed({"t.parquet": column([None], pa.null())}, {"t.parquet": column([1], pa.int64())})
    with diff(repository, "t.parquet", ["id"]) as found:
        assert [row.after for row in found] == [{"id": 0, "v": 1}]


def test_a_column_has_any_name() -> None:
    """Also one that this project's own queries use for an element."""
    kinds = pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32())
    for name in ("x0", "key", "l", "value"):
        before, after = (pa.table({name: pa.array([[("a", 1)]], kind)}) for kind in kinds)
        with diff(committed({"t.parquet": _file(before)}, {"t.parquet": _file(after)}), "t.parquet") as found:
            assert list(found) == []


def test_keys_of_another_type() -> None:
    repository = committed(
        {"t.parquet": column([BIG + 1, 1], pa.int64())}, {"t.parquet": column([float(BIG), 1.0], pa.float64())}
    )
    with diff(repository, "t.parquet", ["v"]) as found:
        assert [(row.type, row.key) for row in found] == [("added", {"v": str(BIG)}), ("removed", {"v": str(BIG + 1)})]
        assert found.columns == (ColumnDifference("v", "BIGINT", "DOUBLE"),)


def test_names_in_another_case_are_one_column() -> None:
    """As in SQL; of the keys too."""
    rows = [{"Id": 1, "v": "a"}, {"ID": 1, "V": "b"}]
    files = [{"t.parquet": _rows([row])} for row in rows]
    for key in ("Id", "ID", "id"):
        with diff(committed(*files), "t.parquet", [key]) as found:
            assert [tuple(row) for row in found] == [("changed", {"Id": 1}, rows[0], {"Id": 1, "v": "b"})]
            assert found.columns == ()


def test_nanoseconds_are_shown_with_all_digits() -> None:
    repository = committed(
        {"t.parquet": column([1], pa.timestamp("ns", "UTC"))}, {"t.parquet": column([2], pa.timestamp("ns", "UTC"))}
    )
    with diff(repository, "t.parquet", ["id"]) as found:
        (row,) = found
        assert (row.before, row.after) == (
            {"id": 0, "v": "1970-01-01 00:00:00.000000001+00"},
            {"id": 0, "v": "1970-01-01 00:00:00.000000002+00"},
        )
        assert found.to_arrow().schema.field("before").type.field("v").type.unit == "ns"


def test_decimals_that_nothing_here_holds_are_refused() -> None:
    kind = pa.decimal256(60, 0)
    repository = committed({"t.parquet": column([Decimal(1)], kind)}, {"t.parquet": column([Decimal("1" * 55)], kind)})
    with pytest.raises(InvalidError, match=r"column 'v' in 't\.parquet' of the left side has decimals of 60 digits"):
        diff(repository, "t.parquet")


def test_numbers_of_json_keep_their_digits() -> None:
    """Integers do, and numbers beyond doubles; a number with a point is the double that all take it for."""
    before = b'{"k": 1, "v": 9007199254740993}\n{"k": 2, "v": 123456789012345678901}\n{"k": 3, "v": 1e400}\n{"k": 4, "v": 0.10}\n'
    after = b'{"k": 1, "v": 9007199254740992}\n{"k": 2, "v": 123456789012345678902}\n{"k": 3, "v": 1e401}\n{"k": 4, "v": 0.1}\n'
    with diff(committed({"t.json": before}, {"t.json": after}), "t.json", ["k"]) as found:
        assert [(row.before and row.before["v"], row.after and row.after["v"]) for row in found] == [
            (BIG + 1, BIG),
            (123456789012345678901, 123456789012345678902),
            (Decimal("1e400"), Decimal("1e401")),
        ]


def _rows(rows: list[dict[str, Any]]) -> bytes:
    return _file(pa.Table.from_pylist(rows))


def _file(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()
