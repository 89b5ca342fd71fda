"""Statements of every kind in ``lake.sql``: each runs once, reads and writes what it says, and says what is wrong."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from graveler.errors import InvalidError, RefNotFoundError, RepositoryNotFoundError
from graveler.sdk.lake import Lake
from graveler.sdk.query import Result
from graveler.sql.session import Session
from tests.sql.arrow.histories import built_lake
from tests.support.shell import Shell


@pytest.fixture
def lake() -> Lake:
    """Objects ``a`` and ``b'é`` in a commit, and ``c`` that is staged."""
    return built_lake(
        [
            ("upload", ("a", b"1", "")),
            ("upload", ("b'é", b"22", "text/csv")),
            ("commit", "x"),
            ("upload", ("c", b"1", "")),
        ]
    )


PATHS = [("a",), ("b'é",), ("c",)]
MAIN = "objects('demo/main')"
READS: list[Callable[[Result], object]] = [
    Result.fetchall,
    lambda result: result.to_arrow().read_all(),
    Result.to_pandas,
    Result.to_polars,
]


@pytest.mark.parametrize(
    ("query", "parameters", "expected"),
    [
        (
            f"WITH q AS MATERIALIZED (FROM {MAIN}) SELECT a.path FROM q a JOIN q b USING (path) ORDER BY ALL",
            None,
            PATHS,
        ),
        ("WITH objects AS (SELECT 1) FROM objects", None, [(1,)]),
        (f"SELECT path FROM {MAIN} WHERE path = 'b''é'", None, PATHS[1:2]),
        (f"SELECT path FROM {MAIN} WHERE path IN (?, ?)", ["a", "c"], [("a",), ("c",)]),
        (f"SELECT path FROM {MAIN} WHERE path = ANY($paths) ORDER BY path", {"paths": ["a", "c"]}, [("a",), ("c",)]),
        (f"SELECT path FROM {MAIN} WHERE path IN ('a', {', '.join(f'$${n}$$' for n in range(3000))})", None, PATHS[:1]),
        (f"SELECT path FROM {MAIN} WHERE path IN (SELECT path FROM staged('demo'))", None, PATHS[2:]),
        (f"SELECT (SELECT count(*) FROM staged('demo')), min(path) FROM {MAIN}", None, [(1, "a")]),
        (f"SELECT path FROM {MAIN} LIMIT 1; SELECT 2", None, [(2,)]),
        ("SELECT path FROM Objects ( 'demo/main' ) AS objects WHERE objects.path < 'b'", None, PATHS[:1]),
        (f"CREATE VIEW v AS FROM {MAIN}; SELECT path FROM v", None, PATHS),
        (f"CREATE TABLE t AS FROM {MAIN}; DELETE FROM t WHERE path = 'a'; SELECT path FROM t", None, PATHS[1:]),
        (f"BEGIN; CREATE TABLE t AS FROM {MAIN}; ROLLBACK; SELECT count(*) FROM {MAIN}", None, [(3,)]),
        (f"CREATE MACRO m(x) AS TABLE SELECT path FROM {MAIN} WHERE path = x; FROM m('a')", None, PATHS[:1]),
        (f"PREPARE p AS SELECT path FROM {MAIN} WHERE path > $1; EXECUTE p('a')", None, PATHS[1:]),
        (f"PIVOT (SELECT content_type FROM {MAIN}) ON content_type USING count(*)", None, [(2, 1)]),
        (f"FROM (PIVOT (SELECT content_type FROM {MAIN}) ON content_type USING count(*))", None, [(2, 1)]),
        (f"SELECT object.path FROM {MAIN} object, staged('demo') date WHERE object.path = date.path", None, PATHS[2:]),
        (f"FROM o: {MAIN} SELECT o.path WHERE o.path = 'a'", None, PATHS[:1]),
        (f"FROM {MAIN.replace('(', ' /* all */ (')} SELECT path WHERE objects.path = 'a'", None, PATHS[:1]),
        (
            f"CREATE VIEW v AS SELECT path FROM {MAIN} WHERE path = 'A'; SET default_collation = 'nocase'; FROM v",
            None,
            PATHS[:1],
        ),
        (f"CREATE MACRO m(path) AS TABLE SELECT o.path FROM {MAIN} o WHERE path = 'a'; FROM m('a')", None, PATHS),
        ("CREATE TABLE t (i INT); INSERT INTO t VALUES (1), (2) RETURNING i", None, [(1,), (2,)]),
        ("CREATE TABLE t (i INT); INSERT INTO t VALUES (1)", None, []),
        ("CREATE TABLE t (i INT)", None, []),
        ("SET threads = 2", None, []),
    ],
)
def test_statements_return_their_rows(lake: Lake, query: str, parameters: Any, expected: list[tuple[Any, ...]]) -> None:
    with lake.sql(query, parameters) as result:
        assert result.fetchall() == expected
    with lake.sql(query, parameters) as result:
        assert [tuple(row.values()) for row in result.to_arrow().read_all().to_pylist()] == expected


def test_an_alias_may_be_any_word_that_duckdb_takes(lake: Lake) -> None:
    """Its unreserved keywords are names of tables, too, though sqlglot has tokens of their own for many."""
    with lake.sql("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'unreserved'") as words:
        aliases = [word for (word,) in words]
    for at in range(0, len(aliases), 40):
        some = (f"SELECT {word}.id FROM tags('demo') {word}" for word in aliases[at : at + 40])
        assert lake.sql(" UNION ALL ".join(some)).fetchall() == []


@pytest.mark.parametrize("query", [f"EXPLAIN FROM {MAIN}", f"EXPLAIN ANALYZE FROM {MAIN}", f"DESCRIBE FROM {MAIN}"])
def test_plans_are_shown(lake: Lake, query: str) -> None:
    assert lake.sql(query).fetchall()


def test_a_statement_runs_once(lake: Lake, tmp_path: Path) -> None:
    """Reading what a statement returned does not run it again; an analysed one has run, too."""
    file = tmp_path / "t.db"
    for statement in (
        "INSERT INTO t VALUES (1) RETURNING i",
        "INSERT INTO t VALUES (1)",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1)",
        "PREPARE p AS INSERT INTO t VALUES (1) RETURNING i; EXECUTE p",
    ):
        for read in READS[:2]:
            file.unlink(missing_ok=True)
            with lake.sql(f"ATTACH '{file}' AS d; USE d; CREATE TABLE t (i INT); {statement}") as result:
                read(result)
            with lake.sql(f"ATTACH '{file}' AS d; FROM d.t") as result:
                assert result.fetchall() == [(1,)], statement


def test_what_is_written_stays_where_it_was_told(lake: Lake, tmp_path: Path, shell: Shell) -> None:
    shell.cd(tmp_path)
    lake.sql("CREATE TABLE t AS SELECT 1 AS n; CREATE VIEW v AS FROM t").close()
    with lake.sql(f"COPY (FROM {MAIN}) TO 'graveler://demo/main/d.parquet' (RETURN_FILES)") as result:
        assert result.fetchall() == [(3, ["graveler://demo/main/d.parquet"])]
    staged = [change.path for change in lake.repository("demo").branch("main").uncommitted()]
    assert (staged, list(tmp_path.iterdir())) == (["c", "d.parquet"], [])
    with pytest.raises(InvalidError, match="Table with name t does not exist"):
        lake.sql("FROM t")


@pytest.mark.parametrize(
    ("query", "kind", "said"),
    [
        ("FROM objects(?)", InvalidError, "objects('REPOSITORY/REF')"),
        ("FROM objects('demo/ma''in')", RefNotFoundError, "ma'in"),
        ("FROM objects('démo/main')", RepositoryNotFoundError, "démo"),
        ("FROM objects('demo/main~9')", RefNotFoundError, "'main~9'"),
        ("FROM diff('demo', 'main~9', 'main')", RefNotFoundError, "'main~9'"),
        ("FROM parameters", InvalidError, "parameters does not exist"),
        ("FROM statement", InvalidError, "statement does not exist"),
        ("ATTACH 'graveler://demo/main/t.db' AS d", InvalidError, "objects are written as a whole"),
        ("SELECT error('no')", InvalidError, "no"),
        ("SELECT CASE WHEN range < 5000 THEN 1 ELSE error('no') END FROM range(10000)", InvalidError, "no"),
        ("SELECT range::TINYINT FROM range(10000)", InvalidError, "out of range"),
    ],
)
def test_what_is_wrong_is_told_however_rows_are_read(lake: Lake, query: str, kind: type[Exception], said: str) -> None:
    for read in READS:
        with pytest.raises(kind) as raised:
            read(lake.sql(query))
        assert said in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "Traceback" not in str(raised.value)


def test_an_error_in_duckdb_itself_comes_without_its_stack(lake: Lake) -> None:
    session = Session(lake)
    with pytest.raises(InvalidError, match=r"^INTERNAL Error: a mismatch$"), session.explained():
        raise duckdb.InternalException("INTERNAL Error: a mismatch\n\nStack Trace:\n\n/lib/duckdb.so(_ZN6) [0x7f]\n")
    session.close()


def test_a_query_that_failed_has_no_end(lake: Lake) -> None:
    """Reading on would look as if there were no more rows."""
    result = lake.sql("SELECT CASE WHEN range < 9000 THEN 1 ELSE error('no') END FROM range(10000)")
    for said in ("no", "failed before"):
        with pytest.raises(InvalidError, match=said):
            result.fetchall()
    result.close()
    begun = lake.sql("FROM range(3)")
    next(begun)
    with pytest.raises(InvalidError, match="one by one"):
        begun.to_arrow()
    assert begun.fetchall() == [(1,), (2,)]


def test_threads_query_one_lake(lake: Lake) -> None:
    found: list[list[tuple[Any, ...]]] = []

    def query() -> None:
        text = f"SELECT a.path FROM {MAIN} a JOIN staged('demo') USING (path)"
        found.extend(lake.sql(text).fetchall() for _ in range(5))

    threads = [threading.Thread(target=query) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [PATHS[2:]] * 20


def test_a_name_that_is_used_again_is_another_repository(lake: Lake) -> None:
    lake.repository("demo").delete()
    with pytest.raises(RepositoryNotFoundError):
        lake.sql(f"FROM {MAIN}")
    made = lake.repository("demo").create("mem://other")
    made.branch("main").object("new").upload(b"")
    assert lake.sql(f"SELECT path FROM {MAIN}").fetchall() == [("new",)]
    assert lake.sql("FROM reflog('demo') SELECT operation").fetchall() == [("create repository",)]
