"""``lake.sql``: its rows are the API's; narrowed queries return what others do, and read no more than they need."""

import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graveler.errors import InvalidError, NotFoundError, RefNotFoundError, RepositoryNotFoundError
from graveler.lake.lake import Lake as LakeVerbs
from graveler.model import ObjectEntry, SplitParameters
from graveler.sdk.lake import Lake, create_lake, open_lake
from graveler.sql.calls import Call, rewritten
from graveler.sql.session import Session
from graveler.sql.sources import Source, Sources
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.sql.arrow.histories import PATHS, build, built_lake, histories
from tests.support.instruments import CountingObjects
from tests.support.patience import PATIENCE

MAIN = "objects('demo/main')"


def rows(lake: Lake, query: str, *, narrowed: bool = True) -> list[tuple[Any, ...]]:
    with closing(Session(lake, narrowed=narrowed)) as session:
        return rows_of(session, query)


def rows_of(session: Session, query: str) -> list[tuple[Any, ...]]:
    session.execute(session.all_but_last(query))
    return session.connection.fetchall()


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def ends_no_escape(pattern: str) -> bool:
    """Whether no ``_`` that escapes what follows is last: DuckDB takes that for a mistake, once it compares a row."""
    return (len(pattern) - len(pattern.rstrip("_"))) % 2 == 0


# chr(0) cannot stand in a query
literals = st.sampled_from([path for path in PATHS if "\0" not in path] + ["", "t/", "t/dt=01", "b/_", "zz", "T/"])
patterns = st.builds(lambda text, end: text + end, literals, st.sampled_from(["", "%", "_%", "%part%", "_"]))
columns = st.sampled_from(["{0}path", '{0}"path"', "{0}PATH", "lower({0}path)", "{0}path COLLATE nocase"])


@st.composite
def predicates(draw: st.DrawFn, depth: int = 3) -> str:
    """A condition of one table, whose name with a dot takes the place of ``{0}``."""
    kind = draw(st.sampled_from(["and", "or", "not", "leaf", "leaf", "leaf"] if depth else ["leaf"]))
    if kind == "not":
        return f"NOT ({draw(predicates(depth - 1))})"
    if kind != "leaf":
        return f"({draw(predicates(depth - 1))} {kind} {draw(predicates(depth - 1))})"
    column, value = draw(columns), quoted(draw(literals))
    found: str = draw(
        st.one_of(
            st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "=="]).map(lambda sign: f"{column} {sign} {value}"),
            st.sampled_from(["=", "<", "<=", ">", ">="]).map(lambda sign: f"{value} {sign} {column}"),
            literals.map(lambda other: f"{column} BETWEEN {value} AND {quoted(other)}"),
            literals.map(lambda other: f"{column} BETWEEN {value} AND {quoted(other)} COLLATE nocase"),
            literals.map(lambda other: f"{column} NOT BETWEEN {value} AND {quoted(other)}"),
            st.lists(literals, min_size=1, max_size=3).map(
                lambda some: f"{column} IN ({', '.join(map(quoted, some))})"
            ),
            st.lists(literals, min_size=1, max_size=2).map(
                lambda some: f"{column} NOT IN ({', '.join(map(quoted, some))})"
            ),
            patterns.map(lambda pattern: f"{column} LIKE {quoted(pattern)}"),
            patterns.map(lambda pattern: f"{column} NOT LIKE {quoted(pattern)}"),
            patterns.map(lambda pattern: f"{column} ILIKE {quoted(pattern)}"),
            patterns.filter(ends_no_escape).map(lambda pattern: f"{column} LIKE {quoted(pattern)} ESCAPE '_'"),
            st.just(f"starts_with({column}, {value})"),
            st.just(f"{column} ^@ {value}"),
            st.just(f"{column} IS NULL"),
            st.just(f"{column} IS NOT DISTINCT FROM {value}"),
            st.just("{0}size > 1"),
            st.just("NULL"),
        )
    )
    return found


DEV = "objects('demo/main@')"
SHAPES = [
    "SELECT path FROM " + MAIN + " WHERE {plain}",
    "FROM " + MAIN + " o SELECT o.path, size WHERE {o}",
    "SELECT objects.path FROM " + MAIN + " WHERE {objects}",
    "SELECT o.path, d.path FROM " + MAIN + " o JOIN " + DEV + " d ON o.path = d.path AND {d} WHERE {o}",
    "SELECT o.path, d.path FROM " + MAIN + " o LEFT JOIN " + DEV + " d ON o.path = d.path AND {d} WHERE {o}",
    "SELECT o.path, d.path FROM " + MAIN + " o LEFT JOIN " + DEV + " d ON o.path = d.path AND {o} WHERE {d}",
    "SELECT o.path, d.path FROM " + MAIN + " o FULL JOIN " + DEV + " d ON o.path = d.path AND {d} WHERE {o}",
    "SELECT o.path, d.path FROM " + MAIN + " o RIGHT JOIN " + DEV + " d USING (path) WHERE {d}",
    "SELECT o.path FROM " + MAIN + " o ANTI JOIN " + DEV + " d ON o.path = d.path AND {d} WHERE {o}",
    "SELECT o.path FROM " + MAIN + " o SEMI JOIN " + DEV + " d ON o.path = d.path AND {d}",
    "SELECT o.path, d.path FROM " + MAIN + " o ASOF JOIN " + DEV + " d ON o.path >= d.path WHERE {d}",
    "SELECT o.path, d.path FROM " + MAIN + " o POSITIONAL JOIN " + DEV + " d WHERE {d}",
    "SELECT o.path, d.path FROM " + MAIN + " o, " + DEV + " d WHERE {o} AND {d}",
    "SELECT path FROM (SELECT path, size FROM " + MAIN + ") WHERE {plain}",
    "WITH q AS (FROM " + MAIN + " WHERE {plain}) SELECT a.path FROM q a JOIN q b USING (path)",
    "SELECT upper(path) AS path FROM " + MAIN + " WHERE {plain}",
    "SELECT path FROM " + MAIN + " o(path, size, c, mtime) WHERE {plain}",
    "SELECT path FROM " + MAIN + " o(s, size, path) WHERE " + "{o}",
    "SELECT path, row_number() OVER (ORDER BY path) FROM " + MAIN + " WHERE {plain}",
    "SELECT path FROM " + MAIN + " WHERE {plain} UNION ALL SELECT path FROM " + DEV + " WHERE {objects}",
    "SELECT path FROM " + MAIN + " o WHERE EXISTS (FROM " + DEV + " d WHERE d.path = o.path AND {d}) AND {o}",
    "SELECT type, path FROM diff('demo', 'main~1', 'main') WHERE {diff}",
    "SELECT type, path FROM staged('demo/main') WHERE {staged}",
    "SELECT path, commit_id FROM blame('demo/main') WHERE {blame}",
    "SELECT count(*), min(path) FROM " + MAIN + " WHERE {plain} HAVING count(*) > 1",
    "PRAGMA default_collation = 'nocase'; SELECT path FROM " + MAIN + " WHERE {plain}",
]


@given(histories, st.sampled_from(SHAPES), predicates(), predicates())
@example([], SHAPES[0], "{0}path NOT LIKE 'a'", "NULL")
@example([], SHAPES[0], "{0}path NOT IN ('a')", "NULL")
@example([("upload", ("T", b"", ""))], SHAPES[0], "{0}path BETWEEN 's' AND 'z' COLLATE nocase", "NULL")
@example([], SHAPES[0], "{0}path NOT BETWEEN 'a' AND 'b'", "NULL")
def test_narrowed_queries_return_what_others_do(
    history: list[tuple[str, object]], shape: str, one: str, other: str
) -> None:
    lake = built_lake([*history, ("upload", ("t/dt=01/x", b"1", "")), ("commit", "last")])
    names = {name: one.format(f"{name}.") for name in ("o", "objects", "diff", "staged", "blame")}
    for name in ("diff", "staged", "blame"):
        names[name] = names[name].replace(f"{name}.size", f"length({name}.path)")
    query = shape.format(plain=one.format(""), d=other.format("d."), **names)
    assert sorted(rows(lake, query), key=repr) == sorted(rows(lake, query, narrowed=False), key=repr)


@given(histories)
def test_rows_are_those_of_the_api(history: list[tuple[str, object]]) -> None:
    lake = built_lake(history)
    with closing(Session(lake)) as session:
        repository = lake.repository("demo")
        own = repository.own
        assert rows_of(session, f"SELECT path, size, epoch(mtime), physical_address FROM {MAIN} ORDER BY path") == [
            (entry.path, entry.size, entry.mtime, entry.address) for entry in own.objects("main")
        ]
        log = list(repository.ref("main").log())
        assert rows_of(session, "SELECT id, message, committer, epoch(created) FROM commits('demo')") == [
            (commit.id, commit.message, commit.committer, commit.created) for commit in log
        ]
        if log[0].parents:
            assert rows_of(session, "SELECT type, path FROM diff('demo', 'main~1', 'main')") == [
                (change.type.value, change.path) for change in own.diff("main~1", "main", amount=1000).results
            ]
        assert rows_of(session, "SELECT type, path FROM staged('demo/main')") == [
            (change.type.value, change.path) for change in own.uncommitted("main", amount=1000).results
        ]
        assert rows_of(session, "SELECT id, commit_id FROM branches('demo')") == [
            (branch.name, branch.commit_id) for branch in own.branches().results
        ]
        assert rows_of(session, "SELECT id, commit_id FROM tags('demo')") == [
            (tag.name, tag.commit_id) for tag in own.tags().results
        ]
        assert rows_of(session, "SELECT path, commit_id FROM blame('demo/main')") == [
            (entry.path, own.blame("main", entry.path).id) for entry in own.objects("main@")
        ]
        assert rows_of(session, "SELECT operation, new_commit_id FROM reflog('demo/main')") == [
            (entry.event.operation, entry.new) for entry in own.reflog("main")
        ]
        assert rows_of(session, "SELECT id FROM repositories()") == [("demo",)]


@pytest.fixture
def counted() -> tuple[Lake, list[CountingObjects]]:
    """A lake of 2,000 objects in some 30 ranges, freshly opened."""
    tables, objects = MemoryTables(), MemoryObjects("mem://demo")
    lake = LakeVerbs(tables, lambda _: objects)
    repository = lake.create_repository("demo", "mem://demo", split=SplitParameters(1024, 8192, 60))
    repository.link_many("main", [ObjectEntry(f"t/{n:05}", f"mem://o/{n}", n, "00" * 16, 0) for n in range(2000)])
    repository.commit("main", "many", committer="ada")
    stores = [CountingObjects(objects)]
    return Lake(LakeVerbs(tables, lambda _: stores[0]), "ada"), stores


@pytest.mark.parametrize(
    ("condition", "most"),
    [
        ("path = 't/00100'", 1),
        ("path LIKE 't/0010%'", 2),
        ("starts_with(path, 't/0010')", 2),
        ("path >= 't/00100' AND path < 't/00110'", 2),
        ("path BETWEEN 't/00100' AND 't/00110'", 2),
        ("path IN ('t/00100', 't/01900')", 2),
        ("(path = 't/00100' OR path = 't/01900') AND size > 5", 2),
        ("path > 'u'", 0),
    ],
)
def test_a_query_of_some_paths_opens_their_ranges(
    counted: tuple[Lake, list[CountingObjects]], condition: str, most: int
) -> None:
    lake, (store,) = counted
    assert lake.repository("demo").own.tree("main@")
    before = store.calls["get"]
    found = rows(lake, f"SELECT path, size FROM {MAIN} WHERE {condition}")
    assert store.calls["get"] - before <= most
    assert bool(found) == bool(most)
    assert rows(lake, f"SELECT path, size FROM {MAIN} WHERE {condition}", narrowed=False) == found


def test_a_query_sees_one_state() -> None:
    """A ref that a query names twice is read in one state, whatever is committed meanwhile."""
    lake = built_lake([("upload", ("a", b"1", "")), ("commit", "one")])
    repository = lake.repository("demo")
    with lake.sql(f"SELECT a.path FROM {DEV} a JOIN {DEV} b USING (path)") as result:
        repository.branch("main").object("b").upload(b"2")
        repository.branch("main").commit("two")
        assert result.fetchall() == [("a",)]


def test_results_have_many_forms() -> None:
    lake = built_lake([("upload", ("a", b"1", "")), ("upload", ("b", b"22", ""))])
    query = f"SELECT path, size FROM {MAIN} WHERE size > $least"
    with lake.sql(query, {"least": 0}) as result:
        assert result.columns == ("path", "size")
        assert next(result) == ("a", 1)
        assert result.fetchall() == [("b", 2)]
        assert result.fetchall() == []
    assert lake.sql(query, {"least": 1}).to_arrow().read_all().to_pydict() == {"path": ["b"], "size": [2]}
    assert lake.sql(query, {"least": 1}).to_pandas().to_dict("list") == {"path": ["b"], "size": [2]}
    assert lake.sql(query, {"least": 1}).to_polars().to_dict(as_series=False) == {"path": ["b"], "size": [2]}
    assert lake.sql("CREATE TABLE x (y INT)").fetchall() == []
    assert lake.sql("SET threads = 2").to_arrow().read_all().num_rows == 0


@pytest.mark.parametrize(
    ("query", "kind", "said"),
    [
        ("FROM objects('demo/none')", RefNotFoundError, "none"),
        ("FROM objects('none/main')", RepositoryNotFoundError, "none"),
        ("FROM objects('')", InvalidError, "names no repository"),
        ("FROM objects(main)", InvalidError, "objects('REPOSITORY/REF')"),
        ("FROM objects('a', 'b')", InvalidError, "objects('REPOSITORY/REF')"),
        ("FROM diff('demo', 'main')", InvalidError, "diff('REPOSITORY', 'REF', 'REF')"),
        ("FROM reflog('demo/none')", RefNotFoundError, "none"),
        ("FROM staged('demo/none')", RefNotFoundError, "none"),
        ("FROM objects('demo/main') WHERE nothing = 1", InvalidError, "nothing"),
        ("FROM objects('demo/main'", InvalidError, "syntax error"),
        ("SELECT tags('demo')", InvalidError, "tags"),
        ("  ", InvalidError, "empty"),
        ("SELECT '\ud800'", InvalidError, "UTF-8"),
        ("FROM 'graveler://demo/main/none.parquet'", NotFoundError, "none.parquet"),
    ],
)
def test_bad_queries_are_told(query: str, kind: type[Exception], said: str) -> None:
    lake = built_lake([("upload", ("a", b"1", ""))])
    with pytest.raises(kind) as raised:
        lake.sql(query).fetchall()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "graveler_objects" not in str(raised.value)


def test_other_text_stays_as_it_is() -> None:
    query = "SELECT 'FROM objects(''a/b'')' AS \"objects\", 'é' /* FROM tags('x') */ FROM objects('demo/main') -- objects('y')"
    found = rewritten(query, bool)
    assert [call.arguments for call in found.calls] == [("demo/main",)]
    (call,) = found.calls
    assert found.text == query.replace("objects('demo/main')", f"{call.view} AS objects")
    assert rewritten("SELECT 1", bool).calls == ()
    assert rewritten("SELECT 'objects('", bool).calls == ()


def test_plain_queries_do_without_sqlglot() -> None:
    program = (
        "import sys; from graveler.sql.calls import rewritten; rewritten('SELECT 1', bool); "
        "sys.exit(any(name.partition('.')[0] in ('sqlglot', 'pyarrow') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_repository_is_read_by_its_name_alone() -> None:
    lake = built_lake([("commit", "x")])
    assert rows(lake, "FROM commits('demo')") == rows(lake, "FROM commits('lakefs://demo/main')")


INTERRUPTED = """
import signal, sys, threading
from graveler.sql.sources import Source
from tests.sql.arrow.histories import built_lake

lake = built_lake([("upload", ("a", b"1", "")), ("commit", "x")])
batches = Source.batches

def interrupting(self):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # while DuckDB runs the query
    yield from batches(self)

Source.batches = interrupting
query = "FROM objects('demo/main') o, range(1e9::BIGINT) a, range(1e9::BIGINT) b SELECT sum(o.size * a.range * b.range)"
read = sys.argv[1]
try:
    with lake.sql(query) as result:
        rows = result.to_arrow() if read == "to_arrow" else result
        rows.read_all() if read == "to_arrow" else getattr(result, read)()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("read", ["fetchall", "to_arrow", "to_pandas", "to_polars"])
def test_an_interrupt_ends_a_query(read: str) -> None:
    """In a process of its own, which can be killed: the query takes for ever."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, read], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_an_interrupt_ends_work_of_a_session() -> None:
    session = Session(built_lake([("commit", "x")]))

    def long_query() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        session.execute(session.all_but_last("SELECT sum(a.range * b.range) FROM range(200000) a, range(10000) b"))

    with pytest.raises(KeyboardInterrupt):
        session.interruptibly(long_query)
    session.close()


TWICE = [
    "objects('demo/main')",
    "objects('demo/main@')",
    "objects('demo/main~1')",
    "staged('demo/main')",
    "staged('demo')",
    "blame('demo/main')",
    "commits('demo/main')",
    "diff('demo', 'main~1', 'main')",
    "branches('demo')",
    "tags('demo')",
    "reflog('demo/main')",
    "repositories()",
]


def disturb(folder: Path) -> None:
    """Change what every function returns, as another process: commit, stage, commit again, and create a branch, a tag and a
    repository. What is staged under the token that a query reads may show in it; nothing is here."""
    with open_lake(folder, user="ada") as lake:
        lake.repository("demo").branch("main").commit("what was staged", allow_empty=True)
    with open_lake(folder, user="ada") as lake:  # which has not seen the token before
        repository = lake.repository("demo")
        main = repository.branch("main")
        main.object("later").upload(b"2")
        main.commit("later")
        repository.branch("later").create("main")
        repository.tag("later").create("main")
        lake.repository("later").create()


def lake_in(folder: Path, history: list[tuple[str, object]]) -> Lake:
    lake = create_lake(folder, user="ada")
    build(lake, "demo", f"{lake.verbs.home}demo", history)
    return lake


@pytest.mark.parametrize("source", TWICE)
def test_what_a_query_names_twice_is_of_one_state(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes between two scans of a query."""
    history: list[tuple[str, object]] = [("upload", (path, b"1", "")) for path in ("a", "b", "c")]
    history += [("commit", "one"), ("delete", ["a"]), ("commit", "two"), ("tag", "v1"), *history]
    begun: list[Source] = []
    batches = Source.batches

    def disturbed(self: Source) -> Any:
        begun.append(self)
        yield from batches(self)
        if len(begun) == 2:
            disturb(tmp_path)

    monkeypatch.setattr(Source, "batches", disturbed)
    with lake_in(tmp_path, history) as lake:
        expected = lake.sql(f"FROM {source}").fetchall()
        assert expected
        query = f"SELECT 1 AS n, * FROM {source} UNION ALL SELECT 2 AS n, * FROM {source}"
        found = lake.sql(query).fetchall()
    assert len(begun) == 3
    assert sorted(found, key=repr) == sorted(((n, *row) for n in (1, 2) for row in expected), key=repr)


def test_refs_that_have_a_base_in_common_are_of_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = Sources.of

    def disturbed(self: Sources, call: Call) -> Source:
        found = of(self, call)
        if call.function == "objects":
            disturb(tmp_path)
        return found

    monkeypatch.setattr(Sources, "of", disturbed)
    history: list[tuple[str, object]] = [("upload", ("a", b"1", "")), ("commit", "one")]
    history += [("upload", ("b", b"2", "")), ("commit", "two"), ("upload", ("c", b"3", ""))]
    query = (
        "SELECT path, type FROM objects('demo') LEFT JOIN diff('demo', 'main@~', 'main@') USING (path) ORDER BY path"
    )
    with lake_in(tmp_path, history) as lake:
        assert lake.sql(query).fetchall() == [("a", None), ("b", "added"), ("c", None)]
