"""Files that are not what their names say: an error names the file, its side, and what is wrong; what can be read is read."""

import gzip
import io
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.errors import InvalidError
from tests.sql.rowdiff.test_rowdiff import committed, diff

GOOD = b"k,v\n1,a\n2,b\n"
LINES = b'{"k": 1}\n{"k": 2}\n'
PARQUET = io.BytesIO()
pq.write_table(pa.table({"k": [1, 2]}), PARQUET)
BROKEN_PAGE = bytearray(PARQUET.getvalue())
BROKEN_PAGE[8:30] = b"\xff" * 22
MANY = b"k,v\n" + b"".join(b"%d,a\n" % number for number in range(10, 100_010))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv.gz", GOOD, "CSV: it is not compressed with gzip"),
        ("a.csv.gz", gzip.compress(MANY, mtime=0)[:-20], "CSV: its gzip stream ends early"),
        ("a.csv", b'k,v\n1,a\n2,"b\n', "CSV: line 3: unexpected end"),
        ("a.csv", MANY + b'1,"b\n', "CSV: line 100002: unexpected end"),
        ("a.csv", b"k,v\n1,a\n2,b,c\n", "CSV: line 3 has 3 values, and the first one names 2 columns"),
        ("a.csv", b"k,v\n1\n", "CSV: line 2 has 1 value, and the first one names 2 columns"),
        ("a.csv", b"k\n1,2\n", "CSV: line 2 has 2 values, and the first one names 1 column"),
        ("a.csv", b'k,v\n1,"a"b\n', "CSV: line 2: ',' expected after '\"'"),
        ("a.csv", b"\n1,2\n", "CSV: its first line, which names the columns, is empty"),
        ("a.csv", "k,v\n1,é\n".encode("utf-16"), "CSV: it is not UTF-8"),
        ("a.csv", MANY + "3,é\n".encode("latin-1"), "CSV: it is not UTF-8"),
        ("a.csv", gzip.compress(GOOD, mtime=0), "CSV: it is not UTF-8"),
        ("a.csv", PARQUET.getvalue(), "CSV: it is not UTF-8"),
        ("a.json", b'{"k": 1}\n{"k":\n{"k": 3}\n', r"JSON: .*in line 3"),
        ("a.json", b'{"k": 1, "k": 2}\n', r'JSON: .*duplicate key "k"'),
        ("a.csv", b"k,v\r\n1,a\n2,b\r\n", "CSV: its lines end in several ways"),
        ("a.csv", b"k,v\n1," + b"x" * 200_000 + b"\n2,b,c\n", "CSV: line 3 has 3 values"),
        ("a.json", b"1\n2.5\n", "records that are no objects"),
        ("a.json", b'{"k": 1}\n2\n', "records that are no objects"),
        ("a.json", b"[[1], [2]]", "records that are no objects"),
        ("a.json.gz", LINES, "JSON: .*not a GZIP stream"),
        ("a.parquet", PARQUET.getvalue()[:-20], "Parquet: "),
        ("a.parquet", PARQUET.getvalue()[20:], "Parquet: "),
        ("a.parquet", bytes(BROKEN_PAGE), "Parquet: "),
        ("a.parquet", GOOD, "Parquet: "),
    ],
)
def test_a_broken_file(name: str, content: bytes, words: str) -> None:
    good = {
        "csv": GOOD,
        "csv.gz": gzip.compress(GOOD, mtime=0),
        "json": LINES,
        "json.gz": gzip.compress(LINES, mtime=0),
    }
    kept = {f"t/z.{name.partition('.')[2]}": good.get(name.partition(".")[2], PARQUET.getvalue())}
    path = f"t/{name}"
    for side, repository in (
        ("right", committed(kept, {**kept, path: content})),
        ("left", committed({**kept, path: content}, kept)),
    ):
        for keys in ([], ["k"]):
            with pytest.raises(InvalidError) as raised:
                diff(repository, "t", keys)
            text = str(raised.value)
            assert re.search(words, text)
            assert f"'{path}' of the {side} side" in text
            assert "graveler://" not in text


def test_a_file_without_bytes_is_no_parquet_where_the_path_names_it() -> None:
    repository = committed({"t/a.parquet": b""}, {"t/a.parquet": PARQUET.getvalue()})
    with pytest.raises(InvalidError, match=r"'t/a.parquet' of the left side cannot be read as Parquet: .*too small"):
        diff(repository, "t/a.parquet")
    with diff(repository, "t") as found:
        assert [row.after for row in found] == [{"k": 1}, {"k": 2}]
    for name in ("a.parquet", "a.csv"):
        with diff(committed({f"t/{name}": b""}, {f"t/{name}": b""}), "t") as found:
            assert list(found) == []


def rows(before: bytes, after: bytes, name: str = "a.csv") -> list[Any]:
    with diff(committed({name: before}, {name: after}), name) as found:
        return [row.before or row.after for row in found]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"k;v\n1;a\n2;b\n", "a.csv"),
        (b"k|v\n1|a\n2|b\n", "a.csv"),
        (b"k\tv\n1\ta\n2\tb\n", "a.tsv"),
        (b"k,v\n1,a\n2,b\n", "a.tsv"),
        (b"\xef\xbb\xbfk,v\n1,a\n2,b\n", "a.csv"),
        (b"k,v\r\n1,a\r\n2,b\r\n", "a.csv"),
        (b'"k","v"\n"1","a"\n"2","b"', "a.csv"),
        (b"k,v\n\n1,a\n\n2,b\n", "a.csv"),
    ],
)
def test_csv_in_another_dialect_has_the_same_rows(content: bytes, name: str) -> None:
    good = GOOD.replace(b",", b"\t") if name == "a.tsv" else GOOD
    assert rows(good, content, name) == []


def test_what_separates_values_is_taken_from_the_first_line() -> None:
    """Files of one side may differ in it. A line break, or what separates, counts for nothing within quotes."""
    before = {"t/a.csv": b"k;v\n1;a,b,c\n", "t/b.csv": GOOD, "t/c.csv": b'"k\n;;;",v\n1,"x\ny"\n'}
    with diff(committed(before, {"t/b.csv": b"k\n1\n"}), "t") as found:
        assert sorted(str(row.before) for row in found if row.before) == [
            "{'k': '1', 'v': 'a', 'k\\n;;;': None}",
            "{'k': '1', 'v': 'a,b,c', 'k\\n;;;': None}",
            "{'k': '2', 'v': 'b', 'k\\n;;;': None}",
            "{'k': None, 'v': 'x\\ny', 'k\\n;;;': '1'}",
        ]
        assert [row.after for row in found if row.after] == [{"k": "1", "v": None, "k\n;;;": None}]


def test_tables_without_rows() -> None:
    both = [{"k": "1", "v": "a"}, {"k": "2", "v": "b"}]
    for empty in (b"", b"k,v\n", b"k,v"):
        assert rows(GOOD, empty) == both
        assert rows(empty, GOOD) == both
    assert rows(b"", b"k,v\n") == []
    assert rows(LINES, b"", "a.json") == [{"k": 1}, {"k": 2}]
    for empty in (b"[]", b" \n"):
        for before, after in ((LINES, empty), (empty, LINES)):
            with diff(committed({"a.json": before}, {"a.json": after}), "a.json", ["k"]) as found:
                assert [row.before or row.after for row in found] == [{"k": 1}, {"k": 2}]
        for keys in ([], ["k"]):
            with diff(committed({"a.json": b""}, {"a.json": empty}), "a.json", keys) as found:
                assert list(found) == []


@pytest.mark.parametrize(("before", "after"), [(0, 3), (3, 1), (2, 2), (4000, 1)])
def test_rows_without_columns_are_rows(before: int, after: int) -> None:
    """A row counts as often as it is there, also where no row of the table has a column."""

    def table(amount: int) -> dict[str, bytes]:
        return {"t/same.json": b"{}\n", "t/lines.json": b"{}\n" * amount, "t/array.json": b"[{}, {}]"}

    repository = committed(table(before), {**table(after), "t/array.json": b"[{},{}]"})
    with diff(repository, "t") as found:
        assert (found.added, found.removed) == (max(after - before, 0), max(before - after, 0))
        assert [(row.before, row.after) for row in found] == [(None, {})] * found.added + [({}, None)] * found.removed
        assert found.to_arrow().read_all().num_rows == found.added + found.removed
        assert len(found.to_pandas()) == len(found.to_polars()) == found.added + found.removed
    with pytest.raises(InvalidError, match="the left side has no column 'k', and no other one"):
        diff(repository, "t", ["k"])


def test_json_as_lines_and_as_an_array_is_the_same() -> None:
    assert rows(LINES, b'[{"k": 1},\n {"k": 2}]', "a.json") == []


def test_json_of_many_columns_is_no_map() -> None:
    before, after = (json.dumps({f"c{number}": number for number in range(amount)}).encode() for amount in (300, 299))
    with diff(committed({"a.json": before}, {"a.json": after}), "a.json", ["c0"]) as found:
        (row,) = found
        assert (row.before or {})["c299"] == 299
        assert (row.after or {})["c299"] is None


def test_json_with_a_column_named_json() -> None:
    """DuckDB's name of a whole record."""
    assert rows(b'{"json": 1}', b'{"json": 2}', "a.json") == [{"json": 1}, {"json": 2}]
    assert rows(b'{"JSON": {}}', b"[]", "a.json") == [{"JSON": {}}]
    assert rows(b"{}", b'{"k": 1}', "a.json") == [{"k": 1}, {"k": None}]


def test_names_that_repeat_get_a_number() -> None:
    with diff(committed({"a.csv": b"k,k,\n1,2,3\n"}, {"a.csv": b"k,k,\n1,4,3\n"}), "a.csv", ["k"]) as found:
        (row,) = found
        assert (row.key, row.before) == ({"k": "1"}, {"k": "1", "k_1": "2", "column2": "3"})
