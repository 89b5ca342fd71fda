"""``diff --rows``: differences of rows as lines and as JSON, and every refusal in words."""

import json
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.support import done, put, run

PATH = "lakefs://lake/main"


@pytest.fixture
def sales(lake: Path) -> None:
    for text in ("id,amount\n1,100\n2,7\n", "id,amount,by\n1,250,\n3,9,\x1b[31m\n"):
        put("main", "t/a.csv", text)
        done("commit", PATH, "-m", "Next")


@pytest.mark.usefixtures("sales")
def test_rows_as_lines() -> None:
    assert done("diff", f"{PATH}~1..main", "--rows", "t/a.csv", "--key", "id").out.splitlines() == [
        "+ column by VARCHAR",
        "~ id=1  amount: 100 -> 250",
        "- id=2  amount=7  by=NULL",
        "+ id=3  amount=9  by=\\x1b[31m",
        "rows: 1 added, 1 removed, 1 changed",
    ]
    assert done("diff", f"{PATH}~1", "main", "--rows", "t").out.splitlines()[-1] == "rows: 2 added, 2 removed"
    small = ("--rows", "t/a.csv", "--memory-limit", "100MB")
    assert done("diff", f"{PATH}~1..main", *small).out.splitlines()[-1] == "rows: 2 added, 2 removed"
    assert done("diff", f"{PATH}..main", "--rows", "t").out == "no differences between rows\n"
    assert done("diff", f"{PATH}...main~1", "--rows", "t").out == "no differences between rows\n"


@pytest.mark.usefixtures("sales")
def test_rows_as_json() -> None:
    out = done("diff", f"{PATH}~1..main", "--rows", "t/*.csv", "--key", "id", "--json").out
    column, *rows = map(json.loads, out.splitlines())
    assert column == {"type": "column_added", "column": "by", "before": None, "after": "VARCHAR"}
    assert rows[0] == {
        "type": "changed",
        "key": {"id": "1"},
        "before": {"id": "1", "amount": "100", "by": None},
        "after": {"id": "1", "amount": "250", "by": None},
    }
    assert [row["type"] for row in rows] == ["changed", "removed", "added"]


def strict(line: str) -> Any:
    """Parse JSON, and nothing that Python takes beside it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(line, parse_constant=refuse)


VALUES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "nan": (pa.float64(), nan, "NaN"),
    "infinite": (pa.float64(), inf, "Infinity"),
    "below": (pa.float32(), -inf, "-Infinity"),
    "huge": (pa.uint64(), 2**64 - 1, 2**64 - 1),
    "decimal": (
        pa.decimal128(38, 2),
        Decimal("123456789012345678901234567890.10"),
        "123456789012345678901234567890.10",
    ),
    "date": (pa.date32(), date(2026, 1, 31), "2026-01-31"),
    "time": (pa.time64("us"), time(1, 2, 3), "01:02:03"),
    "local": (pa.timestamp("us"), datetime(2026, 1, 1), "2026-01-01 00:00:00"),  # noqa: DTZ001 - without a zone
    "zoned": (
        pa.timestamp("us", "Europe/Berlin"),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        "2025-12-31 23:00:00+00:00",
    ),
    "binary": (pa.binary(), b"\x00\xff", "00ff"),
    "truth": (pa.bool_(), True, True),
    "none": (pa.int64(), None, None),
    "nested": (pa.list_(pa.struct({"a": pa.float64()})), [{"a": nan}, None], [{"a": "NaN"}, None]),
    "map": (pa.map_(pa.float64(), pa.binary()), [(nan, b"\x01")], {"NaN": "01"}),
}


@pytest.mark.usefixtures("lake")
def test_every_value_is_valid_json(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    columns = {name: pa.array([value], kind) for name, (kind, value, _) in VALUES.items()}
    for number in (1, 2):
        pq.write_table(pa.table({"number": [number], **columns}), file)
        done("put", str(file), f"{PATH}/t.parquet")
        done("commit", PATH, "-m", "Next")
    removed, added = map(strict, done("diff", f"{PATH}~1..main", "--rows", "t.parquet", "--json").out.splitlines())
    assert removed["before"] == {"number": 1, **{name: shown for name, (*_, shown) in VALUES.items()}}
    assert added["after"] == {**removed["before"], "number": 2}


@pytest.mark.usefixtures("lake")
def test_only_values_that_differ_are_shown_of_a_changed_row() -> None:
    for text in ('{"k": 1, "a": NaN, "b": [{"c": 1}], "d": [0]}', '{"k": 1, "a": NaN, "b": [{"c": 1.0}], "d": [0]}'):
        put("main", "t.json", text)
        done("commit", PATH, "-m", "Next")
    lines = done("diff", f"{PATH}~1..main", "--rows", "t.json", "--key", "k").out.splitlines()
    assert lines[0] == "~ k=1  b: [{'c': 1}] -> [{'c': 1.0}]"


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "t", "--summary"], "leave out PATH, --prefix, --folders, --summary, --stat and --patch"),
        (["--rows", "t", "--folders"], "leave out PATH, --prefix, --folders, --summary, --stat and --patch"),
        (["--key", "id"], "--key is for --rows"),
        (["--memory-limit", "1GB"], "--memory-limit is for --rows"),
        (["--rows", "t", "--memory-limit", "much"], "memory_limit 'much' is no size"),
        (["--rows", "none"], "no table at 'none'"),
        (["--rows", "t", "--key", "x"], "no column 'x'"),
    ],
)
def test_refusals(arguments: list[str], words: str) -> None:
    refused = run("diff", f"{PATH}~1..main", *arguments)
    assert refused.code != 0
    assert words in refused.err
