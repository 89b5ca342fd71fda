"""Queries as checks: tables of candidate and base, hostile queries, and the bounds of their process."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.errors import InvalidError
from graveler.lake.gates.checks.definitions import MIB
from graveler.lake.gates.checks.run import check_definition
from graveler.model import Status
from tests.lake.gates.checks.support import ERROR, FAILURE, SUCCESS, Checked
from tests.support.shell import Shell


def parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def orders() -> Checked:
    checked = Checked().commit(
        {
            "orders/day=1/a.parquet": parquet(id=[1, 2], amount=[10, 20]),
            "orders/_SUCCESS": b"",
            "customers.csv": b"id,name\n1,Ada\n2,Grace\n",
        }
    )
    return checked.commit(
        {
            "orders/day=2/b.parquet": parquet(id=[3], amount=[-5]),
            "orders/day=a b%*[1]/c.parquet": parquet(id=[4], amount=[1]),
            "new/x.jsonl": b'{"v": 1}\n{"v": 2}\n',
        }
    )


def query(checked: Checked, text: str, **fields: Any) -> Status:
    tables = {"orders": "orders/", "customers": "*.csv"}
    return checked.status("sql", **{"query": text, "tables": tables, "seconds": 20, **fields})


def test_a_query_without_rows_passes(orders: Checked) -> None:
    status = query(
        orders,
        "WITH lost AS (SELECT id FROM base.orders EXCEPT SELECT id FROM candidate.orders) "
        "FROM lost UNION ALL SELECT id FROM candidate.orders ANTI JOIN candidate.customers USING (id) WHERE day = '1' -- all",
    )
    assert (status.state, status.description) == (SUCCESS, "")


def test_rows_are_shown(orders: Checked) -> None:
    status = query(orders, "SELECT id, amount, day FROM candidate.orders WHERE amount < 2 ORDER BY id;")
    assert status.state is FAILURE
    assert status.description == "the query returned rows: id=3, amount=-5, day=2; id=4, amount=1, day=a b%*[1]"
    many = query(orders, "SELECT repeat('x', 1000) AS x, NULL AS n FROM range(100000000)")
    assert many.state is FAILURE
    assert many.description.startswith("the query returned more than 10 rows: x=xxxx")
    assert len(many.description.encode()) <= 1000


def test_a_query_about_the_candidate_alone_is_about_its_tree(orders: Checked) -> None:
    alone = query(orders, "SELECT 1 FROM candidate.orders WHERE id > 99")
    assert (alone.state, alone.commit_id) == (SUCCESS, "")
    both = query(orders, "SELECT 1 FROM candidate.orders, base.orders WHERE false")
    assert (both.state, both.commit_id) == (SUCCESS, orders.candidate.id)


def test_a_side_without_files_is_empty(orders: Checked) -> None:
    status = query(orders, "SELECT sum(v) AS s, (SELECT count(*) FROM base.new) AS n FROM candidate.new",
                   tables={"new": "new/*.jsonl"})  # fmt: skip
    assert status.description == "the query returned rows: s=3, n=0"


def test_a_query_without_end_is_ended(orders: Checked) -> None:
    status = query(orders, "SELECT sum(a.range + b.range) FROM range(10000000000) a, range(10000000) b", seconds=1)
    assert status.state is ERROR
    assert "its time was up" in status.description or "SIGXCPU" in status.description


def test_files_of_the_machine_are_not_read(orders: Checked) -> None:
    status = query(orders, "SELECT * FROM read_text('/etc/passwd')")
    assert status.state is ERROR
    assert "file system operations are disabled" in status.description
    assert "root:" not in status.description


@pytest.mark.ci
def test_a_file_that_unpacks_to_a_terabyte_is_an_error() -> None:
    """DuckDB's own bound for memory does not count what such a dictionary unpacks to; the kernel's does."""
    indices = pa.array([0] * 1_000_000, pa.int32())
    bomb = parquet(x=pa.DictionaryArray.from_arrays(indices, pa.array(["y" * 1_000_000])))
    assert len(bomb) < 100_000
    checked = Checked().commit({"t/1.parquet": bomb})
    status = query(checked, "SELECT 1 FROM candidate.t HAVING max(length(x)) > 0", tables={"t": "t/"}, memory=64 * MIB)
    assert status.state is ERROR


@pytest.mark.ci
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM glob('/*')", "file system operations are disabled"),
        ("FROM read_csv('https://example.org/x.csv')", ""),
        ("FROM candidate.nothing", "nothing does not exist"),
        ("FROM query_table('ba' || 'se.orders')", "does not exist"),
        ("SELECT error('broken')", "broken"),
        ("FROM sniff_csv('/etc/passwd')", "file system operations are disabled"),
        ("FROM duckdb_secrets()", "file system operations are disabled"),
        ("SELECT list(range) FROM range(1000000000)", "Out of Memory"),
        ("SELECT repeat('x', 2000000000) AS x", "Out of Memory"),
    ],
)
def test_hostile_queries_are_errors(orders: Checked, text: str, words: str) -> None:
    status = query(orders, text, memory=64 * MIB)
    assert status.state is ERROR
    assert words in status.description


REFUSED = [
    ("COPY (SELECT 1) TO 'x.csv'", "must be one SELECT, and is COPY"),
    ("ATTACH 'x.db'", "must be one SELECT, and is ATTACH"),
    ("INSTALL httpfs", "must be one SELECT, and is LOAD"),
    ("SET memory_limit = '1TB'", "must be one SELECT, and is SET"),
    ("SELECT 1; DROP SCHEMA candidate CASCADE", "must be one SELECT, and is SELECT, DROP"),
    ("SELEC 1", "syntax error"),
    ("-- nothing", "must be one SELECT, and is nothing"),
]


@pytest.mark.parametrize(
    ("text", "words"), [REFUSED[0], *(pytest.param(*case, marks=pytest.mark.ci) for case in REFUSED[1:])]
)
def test_other_statements_are_refused_when_the_rule_is_set_and_when_it_runs(
    orders: Checked, text: str, words: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        check_definition({"kind": "sql", "query": text, "tables": {"t": "t/"}})
    assert words in str(refused.value)
    status = query(orders, text)
    assert status.state is ERROR
    assert words in status.description


def test_tables_that_cannot_be_read_are_errors(orders: Checked) -> None:
    nothing = query(orders, "SELECT 1", tables={"t": "nothing/"})
    assert (
        nothing.description == "neither the candidate nor the base has an object that matches 'nothing/', the table 't'"
    )
    mixed = query(orders, "SELECT 1", tables={"t": "**"})
    assert mixed.state is ERROR
    assert "must all be Parquet, CSV or JSON by their suffix" in mixed.description
    large = query(orders, "SELECT 1", most_bytes=100)
    assert large.description == "the tables have more than 100 B, the most_bytes of the check"
    damaged = Checked().commit({"t/1.parquet": b"PAR1 no PAR1"})
    assert query(damaged, "FROM candidate.t", tables={"t": "t/"}).state is ERROR


def test_secrets_are_masked(orders: Checked, shell: Shell) -> None:
    shell.export("AWS_SECRET_ACCESS_KEY", "hidden-secret-value")
    status = query(orders, "SELECT 'hidden-' || 'secret-value' AS x")
    assert status.description == "the query returned rows: x=***"


def test_a_verdict_of_sql_is_used_again(orders: Checked) -> None:
    reads = orders.world.counted()
    text = "SELECT 1 FROM candidate.orders WHERE id > 99"
    assert orders.status("sql", query=text, tables={"orders": "orders/"}, repository=reads.repository).state is SUCCESS
    reads.reset()
    assert orders.status("sql", query=text, tables={"orders": "orders/"}, repository=reads.repository).state is SUCCESS
    assert not any(key.startswith("data/") for _, key in reads.objects.keys)
