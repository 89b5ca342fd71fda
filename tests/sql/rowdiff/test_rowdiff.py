"""``ref.diff_rows``: what it finds is what a comparison row by row finds, whatever files the rows are in."""

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError, NotFoundError
from graveler.lake.lake import Lake as LakeVerbs
from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from graveler.sdk.rows import RowDiff
from graveler.sql.rowdiff.differences import ColumnDifference
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables

Row: TypeAlias = dict[str, Any]
Files: TypeAlias = dict[str, list[Row]]

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "s": pa.string(),
        "f": pa.float64(),
        "l": pa.list_(pa.struct({"a": pa.int32()})),
        "d": pa.decimal128(10, 2),
        "t": pa.timestamp("us"),
    }
)
EXAMPLES: dict[str, list[Any]] = {
    "k": [None, 0, 1, 2, 2**53, 2**53 + 1],
    "s": [None, "", "a", "é'\"", "a,b", "x\ny", ";|\t", "#", "NULL", "1"],
    "f": [None, float("nan"), 0.0, -0.0, 1.5, float("inf")],
    "l": [None, [], [None], [{"a": None}], [{"a": 1}, {"a": 2}]],
    "d": [None, Decimal("0.00"), Decimal("-1.10"), Decimal("12345678.99")],
    "t": [None, datetime(2026, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)],  # noqa: DTZ001 - without a zone
}
TEXTS = ("k", "s", "u")
EXAMPLES["u"] = EXAMPLES["s"]


def rows_of(columns: Sequence[str]) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries({name: st.sampled_from(EXAMPLES[name]) for name in columns})


@st.composite
def states(draw: st.DrawFn, columns: Sequence[str]) -> tuple[Files, Files]:
    """Two states of a table's files, of which some are the same."""
    file = st.lists(rows_of(columns), max_size=5)
    before = draw(st.dictionaries(st.sampled_from("abc"), file, max_size=3))
    after = {**before, **draw(st.dictionaries(st.sampled_from("abcd"), file, max_size=2))}
    for name in draw(st.sets(st.sampled_from("abcd"), max_size=1)):
        after.pop(name, None)
    return before, after


@st.composite
def edits(draw: st.DrawFn, columns: Sequence[str]) -> tuple[Files, Files]:
    """As :func:`states`, with keys ``k`` and ``s`` that stand once on each side, if not all rows."""
    sides = draw(states(columns))
    for files in sides:
        seen = set[tuple[Any, ...]]()
        for name, rows in files.items():
            kept = []
            for row in rows:
                if (key := (row["k"], row["s"] or None)) not in seen:
                    seen.add(key)
                    kept.append(row)
            if kept != rows:
                files[name] = kept
    return sides


def parquet(rows: list[Row], schema: pa.Schema = SCHEMA) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), out)
    return out.getvalue()


def csv_text(rows: list[Row], columns: Sequence[str] = TEXTS) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def json_lines(rows: list[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def empty_repository() -> Repository:
    lake = Lake(LakeVerbs(MemoryTables(), MemoryObjects), "ada")
    lake.own.create_repository("demo", "mem://demo")
    return lake.repository("demo")


def committed(before: dict[str, bytes], after: dict[str, bytes]) -> Repository:
    """A new repository with two commits, as :func:`commit_sides` makes them."""
    return commit_sides(empty_repository(), before, after)


def commit_sides(repository: Repository, before: dict[str, bytes], after: dict[str, bytes]) -> Repository:
    """Make two commits, ``main~1`` and ``main``. Objects with equal bytes stay what they are."""
    main = repository.branch("main")
    held: dict[str, bytes] = {}
    for number, side in enumerate((before, after)):
        for path, content in side.items():
            if held.get(path) != content:
                main.object(path).upload(content)
        if gone := held.keys() - side.keys():
            main.delete_objects(sorted(gone))
        main.object("number").upload(str(number).encode())
        main.commit(str(number))
        held = side
    return repository


def diff(repository: Repository, path: str, keys: Sequence[str] = (), **options: Any) -> RowDiff:
    return repository.ref("main~1").diff_rows("main", path, keys=keys, **options)


def comparable(value: Any) -> Any:
    """A value that is equal to another one and hashes as it, if both are the same in a table."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return tuple((name, comparable(each)) for name, each in sorted(value.items()))
    return tuple(map(comparable, value)) if isinstance(value, list) else value


def multiset(rows: Iterator[Row] | list[Row]) -> "Counter[Any]":
    return Counter(comparable(row) for row in rows)


def check_whole_rows(found: RowDiff, before: list[Row], after: list[Row]) -> None:
    old, new = multiset(before), multiset(after)
    changes = list(found)
    removed = multiset([change.before for change in changes if change.before is not None])
    added = multiset([change.after for change in changes if change.after is not None])
    assert removed == old - new
    assert added == new - old
    assert old - removed + added == new
    assert (found.added, found.removed, found.changed) == (added.total(), removed.total(), 0)
    assert {change.type for change in changes if change.before is not None} <= {"removed"}
    assert all(change.key is None for change in changes)


def check_keys(found: RowDiff, before: list[Row], after: list[Row]) -> None:
    def key_of(row: Row) -> Any:
        return comparable([row["k"], row["s"]])

    old, new = ({key_of(row): comparable(row) for row in rows} for rows in (before, after))
    state = dict(old)
    types = Counter[str]()
    for change in found:
        assert change.key is not None
        key = comparable(list(change.key.values()))
        types[change.type] += 1
        assert (None if change.before is None else comparable(change.before)) == old.get(key)
        assert (None if change.after is None else comparable(change.after)) == new.get(key)
        assert old.get(key) != new.get(key)
        if change.after is None:
            del state[key]
        else:
            state[key] = comparable(change.after)
        assert change.type == ("added" if key not in old else "removed" if key not in new else "changed")
    assert state == new
    assert types == Counter(added=found.added, removed=found.removed, changed=found.changed)


def all_rows(files: Files) -> list[Row]:
    return [row for rows in files.values() for row in rows]


def with_nulls(files: Files) -> Files:
    """What CSV and JSON keep of texts: CSV has no numbers, and no empty texts."""
    return {
        name: [{each: str(value) if value not in (None, "") else None for each, value in row.items()} for row in rows]
        for name, rows in files.items()
    }


def without_empty_texts(files: Files) -> Files:
    """The rows whose key is no empty text, which keys of :func:`edits` take for NULL."""
    return {name: [row for row in rows if row["s"] != ""] for name, rows in files.items()}


@settings(max_examples=20)
@given(states(list(SCHEMA.names)))
def test_whole_rows_of_parquet(sides: tuple[Files, Files]) -> None:
    before, after = sides
    repository = committed(*({f"t/{name}.parquet": parquet(rows) for name, rows in side.items()} for side in sides))
    if not before and not after:
        with pytest.raises(NotFoundError):
            diff(repository, "t")
        return
    with diff(repository, "t") as found:
        check_whole_rows(found, all_rows(before), all_rows(after))
        assert found.columns == ()


@settings(max_examples=20)
@given(edits(list(SCHEMA.names)).filter(any))
def test_keys_of_parquet(sides: tuple[Files, Files]) -> None:
    repository = committed(*({f"t/{name}.parquet": parquet(rows) for name, rows in side.items()} for side in sides))
    with diff(repository, "t/*.parquet", ["k", "s"]) as found:
        check_keys(found, *map(all_rows, sides))


@settings(max_examples=20)
@given(states(TEXTS).filter(any))
def test_whole_rows_of_csv(sides: tuple[Files, Files]) -> None:
    repository = committed(*({f"t/{name}.csv": csv_text(rows) for name, rows in side.items()} for side in sides))
    with diff(repository, "t") as found:
        check_whole_rows(found, *(all_rows(with_nulls(side)) for side in sides))


@settings(max_examples=15)
@given(edits(TEXTS).filter(any))
def test_keys_of_compressed_csv(sides: tuple[Files, Files]) -> None:
    contents = (
        {f"t/{name}.csv.gz": gzip.compress(csv_text(rows), mtime=0) for name, rows in side.items()} for side in sides
    )
    with diff(committed(*contents), "t", ["k", "s"]) as found:
        check_keys(found, *(all_rows(with_nulls(side)) for side in sides))


@settings(max_examples=15)
@given(edits(TEXTS).filter(lambda sides: any(map(all_rows, sides))))
def test_keys_of_json(sides: tuple[Files, Files]) -> None:
    sides = without_empty_texts(sides[0]), without_empty_texts(sides[1])
    repository = committed(*({f"t/{name}.jsonl": json_lines(rows) for name, rows in side.items()} for side in sides))
    with diff(repository, "t", ["k", "s"]) as found:
        check_keys(found, *map(all_rows, sides))


def test_only_files_that_differ_are_read() -> None:
    """The same broken file on both sides is not read; with keys it is."""
    content = {"t/a.parquet": parquet([{"k": 1}]), "t/b.parquet": b"broken"}
    repository = committed(content, {**content, "t/a.parquet": parquet([{"k": 2}])})
    with diff(repository, "t") as found:
        assert (found.added, found.removed) == (1, 1)
    with pytest.raises(InvalidError, match=r"t/b\.parquet"):
        diff(repository, "t", ["k"])


def test_equal_commits_have_no_differences() -> None:
    repository = committed({}, {"t.csv": b"k\n1\n"})
    for keys in ([], ["k"]):
        with repository.ref("main").diff_rows("main", "t.csv", keys=keys) as found:
            assert list(found) == []
            assert found.to_arrow().read_all().num_rows == 0
            assert (found.added, found.removed, found.changed, repr(found)) == (0, 0, 0, "rows: equal")


def test_a_key_that_no_side_has_is_refused_if_no_file_differs() -> None:
    """One file's schema tells; a column that only another file has is a column nevertheless."""
    files = {"t/a.csv": b"k\n1\n", "t/b.csv": b"k,v\n1,2\n"}
    main = committed({}, files).ref("main")
    with pytest.raises(InvalidError, match="no column 'kk'; its columns are 'k', 'v'"):
        main.diff_rows("main", "t", keys=["kk"])
    with main.diff_rows("main", "t", keys=["v"]) as found:
        assert list(found) == []


def test_columns_that_differ_are_told_and_compared_as_null() -> None:
    before = pa.schema({"k": pa.int32(), "gone": pa.string(), "n": pa.int32()})
    after = pa.schema({"k": pa.int64(), "n": pa.float64(), "new": pa.bool_()})
    repository = committed(
        {"t/a.parquet": parquet([{"k": 1, "gone": None, "n": 1}, {"k": 2, "gone": "x", "n": 2}], before)},
        {"t/a.parquet": parquet([{"k": 1, "n": 1.0, "new": None}, {"k": 2, "n": 2.5, "new": True}], after)},
    )
    with diff(repository, "t", ["k"]) as found:
        assert found.columns == (
            ColumnDifference("k", "INTEGER", "BIGINT"),
            ColumnDifference("gone", "VARCHAR", None),
            ColumnDifference("n", "INTEGER", "DOUBLE"),
            ColumnDifference("new", None, "BOOLEAN"),
        )
        assert [tuple(row) for row in found] == [
            (
                "changed",
                {"k": 2},
                {"k": 2, "gone": "x", "n": 2.0, "new": None},
                {"k": 2, "gone": None, "n": 2.5, "new": True},
            )
        ]


def test_columns_of_equal_files_count() -> None:
    """A column that only one side's differing files have is not new, if an equal file has it too."""
    two, one = pa.schema({"k": pa.int64(), "n": pa.int64()}), pa.schema({"k": pa.int64()})
    kept = {"t/a.parquet": parquet([{"k": 1, "n": 1}], two)}
    repository = committed(
        {**kept, "t/b.parquet": parquet([{"k": 2}], one)}, {**kept, "t/b.parquet": parquet([{"k": 2, "n": 3}], two)}
    )
    with diff(repository, "t") as found:
        assert found.columns == ()
        assert (found.added, found.removed) == (1, 1)


def test_keys_whose_type_depends_on_equal_files() -> None:
    """Of the files that differ, the key is a number; with the equal one, all are texts, as which 1 is not 1.0."""
    number, text = pa.schema({"k": pa.float64()}), pa.schema({"k": pa.string()})
    kept = {"t/a.parquet": parquet([{"k": "z"}], text)}
    repository = committed(
        {**kept, "t/b.parquet": parquet([{"k": 1.0}], number)},
        {**kept, "t/b.parquet": parquet([{"k": 1}], pa.schema({"k": pa.int64()}))},
    )
    with diff(repository, "t", ["k"]) as found:
        assert [row.key for row in found] == [{"k": "1"}, {"k": "1.0"}]


def test_folders_give_columns() -> None:
    one = pa.schema({"k": pa.int64()})
    repository = committed(
        {"t/day=01/a.parquet": parquet([{"k": 1}], one)}, {"t/day=02/a.parquet": parquet([{"k": 1}], one)}
    )
    with diff(repository, "t", ["day", "k"]) as found:
        assert [(row.type, row.key) for row in found] == [
            ("removed", {"day": "01", "k": 1}),
            ("added", {"day": "02", "k": 1}),
        ]


@pytest.mark.parametrize("end", ["parquet", "csv", "json"])
def test_folders_give_texts_in_each_format(end: str) -> None:
    """As Hive writes them: other characters as ``%`` and digits, and NULL by a name. They come before a file's own column."""
    content = {
        "parquet": parquet([{"k": 1, "p": "own"}], pa.schema({"k": pa.int64(), "p": pa.string()})),
        "csv": b"k,p\n1,own\n",
        "json": b'{"k": 1, "p": "own"}',
    }[end]
    values = {"01": "01", "a%20b": "a b", "x=y": "x=y", "__HIVE_DEFAULT_PARTITION__": None, "%ff": "%ff", "": ""}
    repository = committed({f"t/p={name}/a.{end}": content for name in values}, {"t/p=new/a." + end: content})
    with diff(repository, "t", ["p"]) as found:
        keys = [row.key and row.key["p"] for row in found if row.type == "removed"]
    assert sorted(keys, key=str) == sorted(values.values(), key=str)


def test_folders_that_only_some_files_have_give_no_column() -> None:
    deep = {"t/day=1/a.csv": b"k\n1\n", "t/day=1/hour=2/a.csv": b"k\n2\n"}
    repository = committed(deep, {**deep, "t/day=1/hour=2/a.csv": b"k\n3\n"})
    for keys in ([], ["day", "k"]):
        with diff(repository, "t", keys) as found:
            assert sorted(str(row.before or row.after) for row in found) == [
                "{'k': '2', 'day': '1'}",
                "{'k': '3', 'day': '1'}",
            ]


def test_wide_tables_fit_into_memory() -> None:
    """DuckDB holds 2,048 values of each column in each thread, however few rows there are."""
    names = ",".join(f"c{number}" for number in range(3000))
    before, after = (f"{names}\n{'1,' * 2999}{last}\n".encode() for last in (1, 2))
    with diff(committed({"t.csv": before}, {"t.csv": after}), "t.csv", ["c0"]) as found:
        assert found.changed == 1


def test_a_closed_diff_says_so() -> None:
    for name, content in (("t.parquet", parquet([{"k": 1}])), ("t.csv", b"k\n1\n")):
        found = diff(committed({}, {name: content}), name)
        found.close()
        found.close()
        for read in (list, RowDiff.to_arrow, RowDiff.to_polars):
            with pytest.raises(InvalidError, match="is closed"):
                read(found)


@pytest.mark.parametrize("limit", ["", "5", "much"])
def test_a_memory_limit_that_is_no_size(limit: str) -> None:
    with pytest.raises(InvalidError, match=f"memory_limit '{limit}' is no size"):
        diff(committed({}, {"t.csv": b"k\n1\n"}), "t.csv", memory_limit=limit)


@pytest.mark.parametrize("name", ["a*b?[c].csv", "ä 'q' \"d\" %20#.csv", "deep/x=1/y.csv"])
def test_any_path(name: str) -> None:
    other = {f"t/{'aXbYc'}.csv": b"k\n9\n"}
    repository = committed({f"t/{name}": b"k\n1\n", **other}, {f"t/{name}": b"k\n2\n", **other})
    with diff(repository, f"t/{name}", ["k"]) as found:
        assert [(row.type, row.key and row.key["k"]) for row in found] == [("removed", "1"), ("added", "2")]


def test_a_folder_leaves_out_what_is_no_table() -> None:
    noise = {"t/_log/1.json": b"{}", "t/.crc.csv": b"x", "t/README": b"text", "t2/a.parquet": b"no", "t/empty.csv": b""}
    repository = committed({**noise, "t/a.csv": b"k\n1\n"}, {**noise, "t/a.csv": b"k\n1\n2\n"})
    for path in ("t", "t/", "t/*", "t/**"):
        with diff(repository, path) as found:
            assert [row.after for row in found] == [{"k": "2"}]


def test_data_frames_keep_numbers() -> None:
    repository = committed(
        {"a.parquet": parquet([{"k": 1}])}, {"a.parquet": parquet([{"k": 1, "s": "x"}, {"k": 2**53 + 1}])}
    )
    with diff(repository, "a.parquet", ["k"]) as found:
        assert found.to_arrow().schema.names == ["type", "key", "before", "after"]
        frame = found.to_pandas()
        assert list(frame["type"]) == ["changed", "added"]
        assert [row and row["k"] for row in frame["before"]] == [1, None]
        assert frame["after"][1]["k"] == 2**53 + 1
        polars = found.to_polars()
        assert polars["after"].struct.field("s").to_list() == ["x", None]


@pytest.mark.parametrize(
    ("path", "keys", "words"),
    [
        ("t/a.csv", ["x"], "left side has no column 'x'; its columns are 'k', 'v'"),
        ("t/a.csv", ["k"], "several rows of the right side have the key k = 1"),
        ("t/a.csv", ["k", "k"], "named twice"),
        ("number", [], "'number' is no table"),
        ("mixed", [], r"CSV \('mixed/a.csv'\) and JSON \('mixed/b.json'\)"),
        ("bad/a.parquet", [], r"bad/a\.parquet"),
        ("bad/a.json", [], r"bad/a\.json"),
    ],
)
def test_refusals(path: str, keys: list[str], words: str) -> None:
    before = {"t/a.csv": b"k,v\n1,a\n", "mixed/a.csv": b"k\n1\n", "mixed/b.json": b"{}"}
    bad = {f"bad/a.{end}": b'{"k": 1\n' for end in ("parquet", "json")}
    repository = committed(before, {**before, **bad, "t/a.csv": b"k,v\n1,a\n1,b\n"})
    with pytest.raises(InvalidError, match=words):
        diff(repository, path, keys)


def test_a_table_on_no_side() -> None:
    repository = committed({}, {})
    for path in ("t", "t/*.csv", "t.csv"):
        with pytest.raises(NotFoundError, match="on either side"):
            diff(repository, path)
