"""``lake.sql`` on each kind of lake: the functions return what the API of the writing process does, on random histories."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import structs
from pyarrow import parquet

from graveler.errors import RefNotFoundError
from graveler.model import ObjectEntry
from graveler.sdk.lake import Lake
from graveler.sdk.repository import Repository
from graveler.sql.arrow import schemas
from tests.sql.arrow.histories import histories
from tests.sql.arrow.kinds import Kind
from tests.sql.arrow.test_tables import change_row, commit_row, object_row, rows
from tests.sql.test_sql import predicates
from tests.sql.test_sql import rows as found_rows

on_each_kind = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sql_rows(lake: Lake, query: str, schema: pa.Schema) -> list[tuple[Any, ...]]:
    with lake.sql(query) as result:
        return rows(result.to_arrow().read_all().cast(schema).to_reader())


def check(lake: Lake, repository: Repository) -> None:
    """Compare each function with the verbs of the repository as another process has it."""
    name, own = repository.id, repository.own
    log = own.log("main", amount=1000).results
    for ref in ("main", "main@", "dev", log[-1].id):
        if ref == "dev" and "dev" not in {branch.name for branch in own.branches().results}:
            continue
        assert sql_rows(lake, f"FROM objects('{name}/{ref}')", schemas.OBJECTS) == [
            object_row(entry) for entry in own.objects(ref)
        ]
    assert sql_rows(lake, f"FROM commits('{name}/main')", schemas.COMMITS) == list(map(commit_row, log))
    for left, right in ((log[-1].id, "main"), ("main", log[len(log) // 2].id)):
        assert sql_rows(lake, f"FROM diff('{name}', '{left}', '{right}')", schemas.DIFF) == [
            change_row(change) for change in own.diff(left, right, amount=1000).results
        ]
    assert sql_rows(lake, f"FROM staged('{name}/main')", schemas.STAGED) == [
        change_row(change) for change in own.uncommitted("main", amount=1000).results
    ]
    assert sql_rows(lake, f"FROM blame('{name}/main')", schemas.BLAME) == [
        (entry.path, entry.size, by.id, by.committer, by.message, by.created)
        for entry in own.objects("main@")
        for by in [own.blame("main", entry.path)]
    ]
    assert sql_rows(lake, f"FROM reflog('{name}/main')", schemas.REFLOG) == [
        (each.event.time_ns, each.event.operation, each.event.operation_id, each.event.by, each.old, each.new)
        for each in own.reflog("main", 1000)
    ]
    assert sql_rows(lake, f"FROM branches('{name}')", schemas.BRANCHES) == [
        (branch.name, branch.commit_id, branch.hidden) for branch in own.branches().results
    ]
    assert sql_rows(lake, f"FROM tags('{name}')", schemas.TAGS) == [
        (tag.name, tag.commit_id) for tag in own.tags().results
    ]
    stored = own.repository
    assert sql_rows(lake, f"FROM repositories() WHERE id = '{name}'", schemas.REPOSITORIES) == [
        (name, stored.namespace, stored.default_branch, stored.created)
    ]


@on_each_kind
@given(history=histories)
def test_functions_return_what_the_api_does(kind: Kind, history: list[tuple[str, object]]) -> None:
    check(kind.lake, kind.build(history))


@on_each_kind
@given(history=histories, one=predicates(), other=predicates())
def test_narrowed_queries_return_what_others_do(
    kind: Kind, history: list[tuple[str, object]], one: str, other: str
) -> None:
    name = kind.build([("branch", "dev"), *history]).id
    on_objects = other.format("o.")
    for query in (
        f"SELECT path, size FROM objects('{name}/main') WHERE {one.format('')}",
        f"SELECT path, size FROM objects('{name}/main@') WHERE {other.format('')}",
        f"SELECT path, commit_id FROM blame('{name}/main') b WHERE {one.format('b.')}",
        f"SELECT d.path FROM diff('{name}', 'main', 'dev') d JOIN objects('{name}/main') o USING (path) WHERE {on_objects}",
    ):
        found = [found_rows(kind.lake, query, narrowed=narrowed) for narrowed in (True, False)]
        assert found[0] == found[1]


def test_a_query_joins_two_states_of_files(kind: Kind) -> None:
    repository = kind.build([])
    main, address = repository.branch("main"), f"graveler://{repository.id}"
    for amount in (1, 2):
        for part in range(3):
            table = pa.table({"id": [part * 10 + row for row in range(3)], "amount": [amount + part] * 3})
            with main.object(f"t/part-{part} é.parquet").writer() as writer:
                parquet.write_table(table, writer)
        main.commit(f"amount {amount}")
    main.object("t/part-1 é.parquet").delete()
    query = (
        f"SELECT old.id, old.amount, new.amount FROM '{address}/main~1/t/*.parquet' old "
        f"LEFT JOIN '{address}/main/t/*.parquet' new USING (id) ORDER BY id"
    )
    with kind.lake.sql(query) as result:
        assert result.fetchall() == [
            (part * 10 + row, 1 + part, None if part == 1 else 2 + part) for part in range(3) for row in range(3)
        ]
    with kind.lake.sql(
        f"SELECT path, f.id FROM staged('{repository.id}') JOIN '{address}/main@/t/*.parquet' f "
        "ON f.id = 10 AND type = $type",
        {"type": "removed"},
    ) as result:
        assert result.fetchall() == [("t/part-1 é.parquet", 10)]


def test_what_a_query_writes_is_staged(kind: Kind) -> None:
    repository = kind.build([])
    with kind.lake.sql(f"COPY (SELECT 1 AS one) TO 'graveler://{repository.id}/main/out.parquet'") as result:
        assert result.fetchall() == []
    assert [change.path for change in repository.branch("main").uncommitted()] == ["out.parquet"]
    with kind.lake.sql(f"FROM 'graveler://{repository.id}/main/out.parquet'") as result:
        assert result.fetchall() == [(1,)]


@pytest.mark.parametrize("options", ["PARTITION_BY (k)", "PER_THREAD_OUTPUT", "FILE_SIZE_BYTES '1kB'"])
def test_a_query_writes_several_files(kind: Kind, options: str) -> None:
    """Into a folder that is not there before."""
    name = kind.build([]).id
    with kind.lake.sql(
        f"COPY (SELECT range AS n, range % 3 AS k FROM range(3000)) TO 'graveler://{name}/main/new' (FORMAT parquet, {options})"
    ) as result:
        assert result.fetchall() == []
    with kind.lake.sql(f"SELECT count(*), sum(n) FROM 'graveler://{name}/main/new/**/*.parquet'") as result:
        assert result.fetchall() == [(3000, 4498500)]
    with pytest.raises(RefNotFoundError):
        kind.lake.sql(f"COPY (SELECT 1 AS k, 2 AS n) TO 'graveler://{name}/none/new' (FORMAT parquet, {options})")


def test_results_are_whole_across_pages(kind: Kind) -> None:
    """2,500 objects, each changed and staged: several requests behind a server."""
    repository = kind.build([])
    entries = [ObjectEntry(f"o/{n:04}", f"mem://out/{n}", n, "00" * 16, n) for n in range(2500)]
    repository.own.link_many("main", entries)
    repository.branch("main").commit("many")
    repository.own.link_many("main", [structs.replace(entry, size=entry.size + 1) for entry in entries])
    name = repository.id
    for query, expected in (
        (f"SELECT path, size FROM objects('{name}/main')", [(entry.path, entry.size + 1) for entry in entries]),
        (f"SELECT path, size FROM blame('{name}/main')", [(entry.path, entry.size) for entry in entries]),
        (
            f"SELECT path, size_after - size_before FROM staged('{name}') WHERE path < 'o/1700'",
            [(entry.path, 1) for entry in entries[:1700]],
        ),
        (
            f"SELECT path, size_after FROM diff('{name}', 'main~1', 'main') WHERE path >= 'o/0100'",
            [(entry.path, entry.size) for entry in entries[100:]],
        ),
    ):
        assert found_rows(kind.lake, query) == expected
