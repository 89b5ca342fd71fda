"""Pairs of tables whose rows the web page and ``graveler diff --rows`` compare alike: ``web/tests/row-differences.json``.

``python -m tests.support.page_rows`` writes the pairs, with the outcome of the command, again.
"""

import json
from base64 import b64encode
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from math import inf, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from graveler.lake.opening.folder import create_folder_lake
from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository

FOLDER: Final = Path(__file__).parents[2] / "web" / "tests"
FILE: Final = FOLDER / "row-differences.json"

_TEXTS: Final = {
    "keys": ("id,amount\n1,100\n2,7\n", "id,amount\n1,250\n3,9\n", ("id",)),
    "whole rows": ("a,b\n1,x\n1,x\n1,x\n2,y\n,\n", "a,b\n,\n1,x\n3,z\n3,z\n", ()),
    "null is empty": ('id,a\n1,\n2,""\n3,NULL\n', 'id,a\n1,""\n2,x\n3,\n', ("id",)),
    "other columns": ("id,a,b\n1,x,\n2,y,z\n", "ID,b,c\n1,,\n2,z,w\n", ("id",)),
    "case of names": ("id,A\n1,x\n", "a;ID\nx;1\n", ()),
    "numbers are texts": ("id,a\n1,1\n2,1.0\n", "id,a\n1,1.0\n2,1.0\n", ("id",)),
    "quotes": ('id,a\n1,"x, ""y"""\n2, "z" \n', 'id,a\n1,"x, ""y"""\n2,z\n', ("id",)),
    "two keys": ("a,b,v\n1,2,x\n12,,y\n,12,z\n", "a,b,v\n,12,z\n1,2,x\n12,,w\n", ("a", "b")),
    "blank lines": ("id\n1\n\n\n2\n", "id\n1\n\n2\n", ()),
    "no rows": ("id,a\n", "id,a\n1,2\n", ("id",)),
}
"""Pairs in CSV, with their keys."""


def _at(day: int, microsecond: int = 0) -> datetime:
    return datetime(2026, 11, day, 4, 0, 0, microsecond, UTC)


_COLUMNS: Final[dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any]]]] = {
    "bigint and double": (pa.int64(), [1, 2, 2**53 + 1, None], pa.float64(), [1.0, 2.5, 2.0**53, None]),
    "decimals": (
        pa.decimal128(10, 2),
        [Decimal("1.50"), Decimal("-0.05"), Decimal(0), None],
        pa.decimal128(12, 4),
        [Decimal("1.5"), Decimal("-0.0501"), Decimal(0), Decimal(0)],
    ),
    "decimal and double": (
        pa.decimal128(5, 1),
        [Decimal("0.1"), Decimal("100.0"), None],
        pa.float64(),
        [0.1, 100.0, 1e-7],
    ),
    "floats": (pa.float64(), [nan, 0.0, inf, nan, 1e300], pa.float64(), [nan, -0.0, -inf, 1.0, 1e300]),
    "float and double": (pa.float32(), [0.5, 0.1, nan], pa.float64(), [0.5, 0.1, nan]),
    "integers": (pa.uint8(), [255, 0, None], pa.int64(), [255, -1, None]),
    "huge": (pa.uint64(), [2**64 - 1, 1], pa.int64(), [-1, 1]),
    "empty text": (pa.string(), ["", None, "x", "ä\u202e"], pa.string(), [None, None, "X", "ä\u202e"]),
    "text and number": (pa.string(), ["1", "1.0", "x"], pa.int64(), [1, 1, 2]),
    "double and text": (pa.float64(), [1.0, 0.00001, 1e16, 0.1], pa.string(), ["1.0", "1e-05", "1e+16", "0.10"]),
    "bytes": (pa.binary(), [b"\x00\xff", b"a", None], pa.binary(), [b"\x00\xfe", b"a", b""]),
    "bytes and text": (pa.binary(), [b"a", b"\xc3\xa4", b"b"], pa.string(), ["a", "ä", "c"]),
    "times": (pa.timestamp("ms", "UTC"), [_at(1), _at(2), None], pa.timestamp("us", "UTC"), [_at(1), _at(2, 1), None]),
    "day and time": (
        pa.date32(),
        [date(2026, 1, 1), date(1960, 2, 29)],
        pa.timestamp("us"),
        [datetime(2026, 1, 1), datetime(1960, 2, 29, 1)],  # noqa: DTZ001 - without a zone
    ),
    "nanoseconds": (pa.timestamp("ns"), [1, 2_000], pa.timestamp("us"), [0, 2]),
    "clock": (pa.time32("ms"), [time(1, 2, 3), time(4)], pa.time64("us"), [time(1, 2, 3), time(4, 0, 0, 1)]),
    "truth": (pa.bool_(), [True, False, None], pa.bool_(), [True, True, False]),
    "lists": (
        pa.list_(pa.float64()),
        [[1.0, nan], [], None, [None]],
        pa.list_(pa.float64()),
        [[1.0, nan], None, None, []],
    ),
    "structs": (
        pa.struct({"a": pa.int32(), "b": pa.string()}),
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
        pa.struct({"a": pa.int32(), "b": pa.string()}),
        [{"a": 1, "b": "y"}, {"a": None, "b": None}, {"a": None, "b": None}],
    ),
    "maps": (
        pa.map_(pa.string(), pa.int32()),
        [[("2", 1), ("1", 2)], [("a", None)], []],
        pa.map_(pa.string(), pa.int32()),
        [[("1", 2), ("2", 1)], [("a", None)], None],
    ),
}
"""Columns on both sides: type and values of each."""


def differences() -> list[dict[str, Any]]:
    """Return each pair as it is, in base64, and what the command line says of it: with its keys, and of whole rows."""
    pairs: list[tuple[str, tuple[bytes, bytes], tuple[str, ...]]] = [
        (f"{name}.csv", (before.encode(), after.encode()), keys) for name, (before, after, keys) in _TEXTS.items()
    ]
    pairs += [(f"{name}.parquet", _parquet(*column), ("id",)) for name, column in _COLUMNS.items()]
    with TemporaryDirectory() as folder, Lake(create_folder_lake(Path(folder) / "lake"), "ana") as lake:
        repository = lake.repository("rows").create()
        main = repository.branch("main")
        for side in (0, 1):
            for path, contents, _ in pairs:
                main.object(path).upload(contents[side])
            main.commit(f"Side {side}")
        return [
            {
                "path": path,
                "sides": [b64encode(side).decode() for side in contents],
                "outcomes": [_outcome(repository, path, named) for named in dict.fromkeys((keys, ()))],
            }
            for path, contents, keys in pairs
        ]


def _parquet(kind: pa.DataType, values: list[Any], later_kind: pa.DataType, later: list[Any]) -> tuple[bytes, bytes]:
    """Return both sides: rows that have an ID, a row that is only in the first, and one that is only in the second."""
    sides = []
    for gone, column_kind, column in ((-1, kind, values), (-2, later_kind, later)):
        table = pa.table(
            {
                "id": pa.array([gone, *range(len(column))], pa.int64()),
                "value": pa.array([column[0], *column], column_kind),
            }
        )
        buffer = BytesIO()
        pq.write_table(table, buffer, store_schema=False, write_statistics=False, compression="snappy")
        sides.append(buffer.getvalue())
    return sides[0], sides[1]


def _outcome(repository: Repository, path: str, keys: tuple[str, ...]) -> dict[str, Any]:
    with repository.ref("main~1").diff_rows("main", path, keys=keys) as difference:
        return {
            "keys": list(keys),
            "counts": {"removed": difference.removed, "changed": difference.changed, "added": difference.added},
            "columns": [list(column) for column in difference.columns],
        }


if __name__ == "__main__":
    FILE.write_text(json.dumps(differences(), indent=1, ensure_ascii=False) + "\n")
