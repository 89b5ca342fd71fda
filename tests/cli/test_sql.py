"""SQL over the lake's files: one state, two states, every form of output, every refusal in words."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graveler.cli.exits import ExitCode
from tests.cli.support import done, put, run
from tests.support.patience import PATIENCE

COMMAND = [sys.executable, "-m", "graveler.cli"]

PATH = "lakefs://lake/main"


@pytest.fixture
def sales(lake: Path) -> None:
    """Two commits of a table, and a change that is not committed."""
    for amount, message in ((100, "One"), (250, "Two")):
        put("main", "t/a.csv", f"id,amount\n1,{amount}\n2,7\n")
        done("commit", PATH, "-m", message)
    put("main", "t/b.csv", "id,amount\n3,5\n")


@pytest.mark.usefixtures("sales")
def test_a_query_reads_any_state() -> None:
    query = "SELECT sum(amount) AS total, count(*) AS n FROM 'graveler://lake/{}/t/*.csv'"
    totals = {ref: done("sql", query.format(ref), "--format", "csv").out for ref in ("main", "main@", "main~1")}
    assert totals == {"main": "total,n\n262,3\n", "main@": "total,n\n257,2\n", "main~1": "total,n\n107,2\n"}
    joined = """SELECT id, old.amount AS before, new.amount AS after FROM 'graveler://lake/main~1/t/a.csv' old
                JOIN 'graveler://lake/main/t/a.csv' new USING (id) WHERE old.amount <> new.amount"""
    assert done("sql", "-", "--format", "csv", stdin=joined.encode()).out == "id,before,after\n1,100,250\n"


@pytest.mark.usefixtures("sales")
def test_rows_come_in_each_form(tmp_path: Path) -> None:
    query = "SELECT 1 AS id, 'a\x1b[31m' AS text, NULL AS nothing, DATE '2026-11-01' AS day, [1, 2] AS list"
    assert done("sql", query).out.splitlines() == [
        "id  text       nothing  day         list",
        r" 1  a\x1b[31m  NULL     2026-11-01  [1, 2]",
    ]
    assert json.loads(done("sql", query, "--format", "json").out) == {
        "id": 1,
        "text": "a\x1b[31m",
        "nothing": None,
        "day": "2026-11-01",
        "list": [1, 2],
    }
    assert done("sql", query, "--format", "csv").out.startswith("id,text,nothing,day,list\n1,")
    for form in ("parquet", "csv", "json"):
        file = tmp_path / f"out.{form}"
        done("sql", "SELECT 7 AS n", "--format", form, "-o", file)
        assert done("sql", f"FROM '{file}'", "--format", "csv").out == "n\n7\n"
    assert "the first 200 rows" in done("sql", "FROM range(201)").out
    assert len(done("sql", "FROM range(3001)", "--format", "json").lines) == 3001


@pytest.mark.usefixtures("sales")
def test_what_is_written_is_staged() -> None:
    done("sql", "COPY (SELECT 1 AS one) TO 'graveler://lake/main/new.parquet'; SELECT 2")
    assert "+ new.parquet" in done("status", PATH).out
    assert done("sql", "FROM 'graveler://lake/main/new.parquet'", "--format", "csv").out == "one\n1\n"
    assert done("sql", "CREATE TABLE nothing_to_show (n INT)").out == ""


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELEC 1", 2, "syntax error"),
        ("SELECT none", 2, "none"),
        ("", 2, "the query is empty"),
        ("FROM 'graveler://lake/main/none.parquet'", 3, "none.parquet"),
        ("FROM 'graveler://lake/nowhere/t/a.csv'", 3, "nowhere"),
        ("FROM 'graveler://nothing/main/t/a.csv'", 3, "nothing"),
        ("COPY (SELECT 1) TO 'graveler://lake/main~1/x.csv'", 6, "is not a branch"),
    ],
)
@pytest.mark.usefixtures("sales")
def test_what_is_wrong_is_said(query: str, code: int, words: str) -> None:
    result = run("sql", query)
    assert (result.code, result.out) == (code, ""), result
    assert words in result.err
    assert "Traceback" not in result.err


@pytest.mark.usefixtures("sales")
def test_parquet_needs_a_file(tmp_path: Path) -> None:
    result = run("sql", "SELECT 1", "--format", "parquet")
    assert (result.code, "--output FILE" in result.err) == (2, True)
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "kept.csv"
    file.write_text("old")
    assert run("sql", "SELECT error('no') AS n", "--format", "csv", "-o", file).code == 2
    assert file.read_text() == "old"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.usefixtures("sales")
def test_no_rows_have_their_columns(tmp_path: Path) -> None:
    query = "SELECT path, size FROM objects('lake/main') WHERE path > 'u'"
    assert done("sql", query).out == "path  size\n"
    assert done("sql", query, "--format", "csv").out == "path,size\n"
    assert done("sql", query, "--format", "json").out == ""
    for form, columns in (("parquet", "path,size\n"), ("csv", "path,size\n")):
        file = tmp_path / f"none.{form}"
        done("sql", query, "--format", form, "-o", file)
        assert done("sql", f"FROM '{file}'", "--format", "csv").out == columns
    done("sql", query, "--format", "json", "-o", tmp_path / "none.json")
    assert (tmp_path / "none.json").read_text() == ""


@pytest.mark.usefixtures("sales")
def test_rows_of_any_statement_are_printed() -> None:
    assert (
        done("sql", "CREATE TABLE t (n INT); INSERT INTO t VALUES (7) RETURNING n", "--format", "csv").out == "n\n7\n"
    )
    assert done("sql", "CREATE TABLE t (n INT); INSERT INTO t VALUES (7)", "--format", "csv").out == ""
    assert done("sql", "PIVOT (SELECT 'a' AS x) ON x USING count(*)", "--format", "csv").out == "a\n1\n"
    assert "PYTHON_ARROW_SCAN" in done("sql", "EXPLAIN FROM objects('lake/main')").out


@pytest.mark.usefixtures("lake")
def test_columns_of_one_name_are_all_printed() -> None:
    query = "SELECT 1 AS n, 2 AS n, 3 AS n_1, 4 AS n"
    assert done("sql", query, "--json").json == {"n": 1, "n_2": 2, "n_1": 3, "n_3": 4}
    assert done("sql", query, "--format", "csv").out == "n,n,n_1,n\n1,2,3,4\n"


@pytest.mark.usefixtures("lake")
def test_values_that_python_has_not_are_exact() -> None:
    query = """SELECT INTERVAL 3 MONTH AS i, DATE 'infinity' AS d, TIMESTAMP_NS '2026-01-02 03:04:05.123456789' AS n,
               ['a', 'b c'] AS l, MAP {'k': INTERVAL 1 MONTH} AS m, 1 AS i ORDER BY ALL"""
    text = {"i": "3 months", "d": "infinity", "n": "2026-01-02 03:04:05.123456789"}
    found = done("sql", query, "--json").json
    assert {name: found[name] for name in text} == text
    assert (found["l"], found["i_1"]) == (["a", "b c"], 1)
    cells = [*text.values(), "[a, b c]", "{k=1 month}", "1"]
    assert [*csv.reader(done("sql", query, "--format", "csv").out.splitlines())] == [
        ["i", "d", "n", "l", "m", "i"],
        cells,
    ]
    assert done("sql", query).out.splitlines()[1].split("  ") == cells
    ordered = "SELECT n, [n] AS l FROM range(5000) t(n) ORDER BY n DESC"
    assert done("sql", ordered, "--format", "csv").out.splitlines()[1:] == [f"{n},[{n}]" for n in reversed(range(5000))]


@pytest.mark.usefixtures("lake")
def test_bytes_are_digits_in_each_form() -> None:
    query = r"SELECT '\xAB\x01'::BLOB AS b, 'nan'::DOUBLE AS n"
    assert done("sql", query).out.splitlines()[1].split() == ["ab01", "NaN"]
    assert done("sql", query, "--format", "csv").out == "b,n\nab01,NaN\n"
    assert done("sql", query, "--json").json == {"b": "ab01", "n": "NaN"}


@pytest.mark.usefixtures("lake")
def test_infinite_times_and_nested_values_are_exact() -> None:
    query = """SELECT 'infinity'::TIMESTAMP_S AS s, 'infinity'::TIMESTAMP_MS AS ms, '-infinity'::TIMESTAMPTZ AS z,
               TIME_NS '12:00:00.123456789' AS t, (DATE 'infinity', 2) AS p"""
    assert done("sql", query, "--format", "csv").out.splitlines()[1] == (
        'infinity,infinity,-infinity,12:00:00.123456789,"(infinity, 2)"'
    )
    texts = {"s": "infinity", "ms": "infinity", "z": "-infinity", "t": "12:00:00.123456789"}
    assert done("sql", query, "--json").json == {**texts, "p": ["infinity", 2]}
    query = """SELECT [{'a "b"': TIMESTAMP_NS '2026-01-02 03:04:05.123456789', 'n': 1.50}] AS l,
               MAP {DATE 'infinity': [INTERVAL 1 MONTH]} AS m, [DATE '-infinity', NULL]::DATE[2] AS a,
               [union_value(d := DATE 'infinity')] AS u, [1, 2] AS n"""
    assert done("sql", query, "--json").json == {
        "l": [{'a "b"': "2026-01-02 03:04:05.123456789", "n": "1.50"}],
        "m": {"infinity": ["1 month"]},
        "a": ["-infinity", None],
        "u": ["infinity"],
        "n": [1, 2],
    }


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("end", ["; -- ü", ";;/* a; */ ; -- b", " -- only a comment", ";\n\n"])
def test_a_query_may_end_with_comments(end: str) -> None:
    query = f"SELECT 'ü;' AS \"-- é;\", DATE '2026-01-02' AS d /* ; */{end}"
    assert done("sql", query, "--format", "csv").out == "-- é;,d\nü;,2026-01-02\n"
    assert "comment" in run("sql", "SELECT 1; /* open").err


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_reader_that_goes_away_is_no_error(form: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "sql", "FROM range(1000000)", "--format", form], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (ExitCode.READER_GONE, b"")


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.usefixtures("sales")
def test_only_files_are_replaced(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    for other in (pipe, folder):
        result = run("sql", "SELECT 1", "--format", form, "-o", other)
        assert (result.code, "is not a file" in result.err) == (2, True)
    assert pipe.is_fifo()
    assert list(folder.iterdir()) == [pipe]


@pytest.mark.usefixtures("sales")
def test_a_relative_path_that_is_here_and_in_the_lake_is_ambiguous(working_folder: Path) -> None:
    (working_folder / "t").mkdir()
    (working_folder / "t/a.csv").write_text("id,amount\n9,9\n")
    (working_folder / "only.csv").write_text("id,amount\n9,9\n")
    assert done("sql", "SELECT id FROM 't/a.csv'", "--format", "csv").out == "id\n9\n"
    done("use", PATH)
    either = "write './{0}' or 'lakefs://lake/main/{0}'"
    for query, name in (
        ("SELECT id FROM 't/a.csv'", "t/a.csv"),
        ('SELECT id FROM "t/a.csv"', "t/a.csv"),
        ("FROM read_csv(['only.csv', 't/a.csv'], header=true)", "t/a.csv"),
        ("FROM read_csv('t/*.csv')", "t/*.csv"),
    ):
        refused = run("sql", query)
        assert (refused.code, refused.out) == (ExitCode.INVALID, ""), refused
        assert f"'{name}' is ambiguous" in refused.err
        assert either.format(name) in refused.err
    for query, ids in (
        ("SELECT id FROM './t/a.csv'", "id\n9\n"),
        ("SELECT id FROM 'lakefs://lake/main/t/a.csv'", "id\n1\n2\n"),
        ("SELECT id FROM 'only.csv'", "id\n9\n"),
        ("SELECT 't/a.csv' AS id", "id\nt/a.csv\n"),
    ):
        assert done("sql", query, "--format", "csv").out == ids
    done("sql", "COPY (SELECT 1 AS id) TO 't/a.csv'")
    assert (working_folder / "t/a.csv").read_text() == "id\n1\n"


@pytest.mark.usefixtures("sales")
def test_a_path_that_only_the_lake_has_is_named_in_full() -> None:
    assert "default branch" not in run("sql", "FROM 't/b.csv'").err
    done("use", PATH)
    refused = run("sql", "FROM 't/b.csv'")
    assert refused.code == ExitCode.NOT_FOUND
    assert (
        "no file of this machine is called 't/b.csv'; the one on the default branch is 'lakefs://lake/main/t/b.csv'"
        in (refused.err)
    )
    assert "default branch" not in run("sql", "FROM 't/none.csv'").err
