"""Which files of a table's folder are data: every reader takes the same as its engine does on a plain folder."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import polars
import pytest

import graveler.duckdb
import graveler.polars
from graveler.errors import GravelerError
from graveler.sdk.lake import Lake, create_lake
from graveler.values.data_files import is_data, is_empty
from tests.sql.rowdiff.test_rowdiff import committed
from tests.support.campaigns import share
from tests.support.strays import LAYOUTS, PLAIN, STRAYS, parquet, write_folder

Rows = list[tuple[Any, ...]]

FAILURES: Final = (GravelerError, OSError, ValueError, polars.exceptions.PolarsError, duckdb.Error)
OF_HADOOP: Final = ["_", "."]
"""Beginnings of hidden names, by default in the lake, and an option of Polars on a folder."""


class Tables(NamedTuple):
    """Folders that each have a table and a stray file, on disk and on the branch ``main``; ``main~1`` lacks the strays."""

    disk: Path
    lake: Lake

    def folder(self, layout: str, stray: str) -> str:
        return f"{layout}/{list(STRAYS).index(stray)}/t"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    disk = tmp_path_factory.mktemp("disk")
    with create_lake(tmp_path_factory.mktemp("lakes") / "lake") as lake:
        tables = Tables(disk, lake)
        branch = lake.repository("sales").create().branch("main")
        cases = [(layout, stray) for layout in LAYOUTS for stray in STRAYS]
        for layout, stray in cases:
            folder = tables.folder(layout, stray)
            write_folder(disk / folder, LAYOUTS[layout].files)
            for path, content in LAYOUTS[layout].files.items():
                branch.object(f"{folder}/{path}").upload(content)
        branch.commit("Tables")
        for layout, stray in cases:
            folder = tables.folder(layout, stray)
            write_folder(disk / folder, {stray: STRAYS[stray]})
            branch.object(f"{folder}/{stray}").upload(STRAYS[stray])
        branch.commit("Strays")
        yield tables


Reader = Callable[[str], Rows]


def polars_folder(tables: Tables) -> tuple[Reader, Reader]:
    return (
        lambda folder: polars.scan_parquet(tables.disk / folder, hidden_file_prefix=OF_HADOOP).collect().rows(),
        lambda folder: graveler.polars.scan_parquet(f"sales/main/{folder}", tables.lake).collect().rows(),
    )


def polars_pattern(tables: Tables) -> tuple[Reader, Reader]:
    pattern = "**/*.parquet"
    return (
        lambda folder: polars.scan_parquet(tables.disk / folder / pattern).collect().rows(),
        lambda folder: graveler.polars.scan_parquet(f"sales/main/{folder}/{pattern}", tables.lake).collect().rows(),
    )


def duckdb_folder(tables: Tables) -> tuple[Reader, Reader]:
    on_disk, in_lake = duckdb.connect(), graveler.duckdb.connect(tables.lake)
    return (
        lambda folder: on_disk.sql(f"FROM read_parquet('{tables.disk / folder}')").fetchall(),
        lambda folder: in_lake.sql(f"FROM read_parquet('graveler://sales/main/{folder}')").fetchall(),
    )


def duckdb_pattern(tables: Tables) -> tuple[Reader, Reader]:
    on_disk, in_lake = duckdb.connect(), graveler.duckdb.connect(tables.lake)
    return (
        lambda folder: on_disk.sql(f"FROM read_parquet('{tables.disk / folder}/**/*.parquet')").fetchall(),
        lambda folder: in_lake.sql(f"FROM read_parquet('graveler://sales/main/{folder}/**/*.parquet')").fetchall(),
    )


READERS: Final = (polars_folder, polars_pattern, duckdb_folder, duckdb_pattern)
JOBS: Final = {"_temporary/0/part-9.parquet", ".staging/k=a/part-9.parquet"}
"""Files in hidden folders, which Polars reads on disk, as it hides files by their own names only."""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_those_of_the_engine_on_a_plain_folder(tables: Tables, layout: str, reader: Any) -> None:
    """Where the engine fails on a stray file, the lake has the table's own rows."""
    on_disk, in_lake = reader(tables)
    differences = {}
    for stray in STRAYS:
        folder = tables.folder(layout, stray)
        expected = LAYOUTS[layout].rows
        if not (reader is polars_folder and stray in JOBS):
            with suppress(*FAILURES):
                expected = sorted(on_disk(folder))
        try:
            actual: object = sorted(in_lake(folder))
        except FAILURES as error:
            actual = error
        if actual != expected:
            differences[stray] = (actual, expected)
    assert not differences


@pytest.mark.parametrize("pattern", ["**/*.parquet", "**/*", "*/*", "**"])
def test_a_pattern_matches_each_file_once(tables: Tables, pattern: str) -> None:
    """Not again as a part of a folder that it matches, too."""
    path = f"{tables.folder('partitioned', 'd/')}/{pattern}"
    frame = graveler.polars.scan_parquet(f"sales/main/{path}", tables.lake, hive_partitioning=True).collect()
    connection = graveler.duckdb.connect(tables.lake)
    rows = connection.sql(f"FROM read_parquet('graveler://sales/main/{path}')").fetchall()
    assert sorted(frame.rows()) == sorted(rows) == LAYOUTS["partitioned"].rows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_row_diffs_leave_strays_out(tables: Tables, layout: str) -> None:
    reference = tables.lake.repository("sales").ref("main~1")
    for stray in share(list(STRAYS), 3, layout):
        for end in ("", "/", "/**"):
            with reference.diff_rows("main", tables.folder(layout, stray) + end) as differences:
                assert not list(differences), stray


def test_row_diffs_leave_markers_of_the_folder_out() -> None:
    table = PLAIN.files["part-1.parquet"]
    before, after = {"t/": b"", "t/a.parquet": table}, {"t/": b"x", "t/a.parquet": table, "t/b.parquet": table}
    with committed(before, after).ref("main~1").diff_rows("main", "t/") as differences:
        assert [row.after for row in differences] == [{"id": 1}, {"id": 2}]


def test_a_marker_is_no_data_whatever_its_size() -> None:
    for path in ("", "d/", "k=a/", "d_$folder$", "k=a/e_$folder$"):
        assert [is_data(path, size) for size in (0, 1)] == [False, False]
        assert is_empty(path, 1)


def test_a_partition_with_the_name_of_an_unfinished_copy_is_data() -> None:
    assert is_data("k=x._COPYING_/part-1.parquet", 1)
    assert not is_data("k=x/part-1.parquet._COPYING_", 1)


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_a_text_file_without_bytes_stops_no_reader(tables: Tables, ending: str) -> None:
    branch = tables.lake.repository("sales").branch("main")
    folder = f"text/{ending}"
    for number, content in enumerate((b"", b"id\n1\n" if ending == "csv" else b'{"id": 1}\n', b"")):
        branch.object(f"{folder}/{number}.{ending}").upload(content)
    branch.object(f"{folder}/_SUCCESS").upload(b"")
    branch.commit("Texts")
    scan = getattr(graveler.polars, f"scan_{ending}")
    for source in (folder, f"{folder}/*.{ending}"):
        assert scan(f"sales/main/{source}", tables.lake).collect().rows() == [(1,)]
    reader = "read_csv" if ending == "csv" else "read_json"
    connection = graveler.duckdb.connect(tables.lake)
    assert connection.sql(f"FROM {reader}('graveler://sales/main/{folder}/*.{ending}')").fetchall() == [(1,)]
    with tables.lake.repository("sales").ref("main~1").diff_rows("main", folder) as differences:
        assert [str(row.after) for row in differences] in (["{'id': '1'}"], ["{'id': 1}"])


@pytest.mark.parametrize("ending", ["CSV", "csv.gz", "tsv.GZ", "json.gz", "PARQUET"])
def test_an_empty_file_stops_no_pattern_of_duckdb_under_any_name_of_its_format(tables: Tables, ending: str) -> None:
    branch = tables.lake.repository("sales").branch("main")
    reader = "read_parquet" if ending == "PARQUET" else "read_json" if ending.startswith("json") else "read_csv"
    content = parquet(1) if ending == "PARQUET" else b'{"id": 1}\n' if ending.startswith("json") else b"id\n1\n"
    files = (b"", gzip.compress(content) if ending.lower().endswith(".gz") else content, b"")
    for number, part in enumerate(files):
        branch.object(f"endings/{ending}/{number}.{ending}").upload(part)
    connection = graveler.duckdb.connect(tables.lake)
    for pattern in ("*", f"*.{ending}"):
        rows = connection.sql(f"FROM {reader}('graveler://sales/main/endings/{ending}/{pattern}')").fetchall()
        assert rows == [(1,)]


def test_a_csv_file_without_bytes_alone_is_a_table_of_duckdb_without_rows(tables: Tables, tmp_path: Path) -> None:
    branch = tables.lake.repository("sales").branch("main")
    (tmp_path / "0.csv").touch()
    branch.object("empty/0.csv").upload(b"")
    branch.object("empty/").upload(b"")
    connection = graveler.duckdb.connect(tables.lake)
    for source in ("empty", "empty/*.csv"):
        assert connection.sql(f"FROM read_csv('graveler://sales/main/{source}')").fetchall() == []
    assert duckdb.connect().sql(f"FROM read_csv('{tmp_path}/*.csv')").fetchall() == []
