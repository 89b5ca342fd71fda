"""Row diffs on each kind of lake, a folder, S3 with DynamoDB Local, and behind a server: tables that another process wrote."""

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings

from graveler.sdk.repository import Repository
from tests.sql.arrow.kinds import Kind
from tests.sql.rowdiff.test_rowdiff import (
    SCHEMA,
    TEXTS,
    Files,
    Row,
    all_rows,
    check_keys,
    check_whole_rows,
    commit_sides,
    csv_text,
    diff,
    edits,
    json_lines,
    parquet,
    states,
    with_nulls,
    without_empty_texts,
)

on_each_kind = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])


def of_kind(kind: Kind, sides: tuple[Files, Files], end: str, content: Callable[[list[Row]], bytes]) -> Repository:
    """Another process commits both states; this is the repository as it is read."""
    written = commit_sides(
        kind.build([]), *({f"t/{name}.{end}": content(rows) for name, rows in side.items()} for side in sides)
    )
    return kind.lake.repository(written.id)


@on_each_kind
@given(sides=states(list(SCHEMA.names)).filter(any))
def test_whole_rows_of_parquet(kind: Kind, sides: tuple[Files, Files]) -> None:
    with diff(of_kind(kind, sides, "parquet", parquet), "t") as found:
        check_whole_rows(found, *map(all_rows, sides))


@on_each_kind
@given(sides=edits(list(SCHEMA.names)).filter(any))
def test_keys_of_parquet(kind: Kind, sides: tuple[Files, Files]) -> None:
    with diff(of_kind(kind, sides, "parquet", parquet), "t/*.parquet", ["k", "s"]) as found:
        check_keys(found, *map(all_rows, sides))


@on_each_kind
@given(sides=states(TEXTS).filter(any))
def test_whole_rows_of_csv(kind: Kind, sides: tuple[Files, Files]) -> None:
    with diff(of_kind(kind, sides, "csv", csv_text), "t") as found:
        check_whole_rows(found, *(all_rows(with_nulls(side)) for side in sides))


@on_each_kind
@given(sides=edits(TEXTS).filter(lambda sides: any(map(all_rows, sides))))
def test_keys_of_json(kind: Kind, sides: tuple[Files, Files]) -> None:
    sides = without_empty_texts(sides[0]), without_empty_texts(sides[1])
    with diff(of_kind(kind, sides, "jsonl", json_lines), "t", ["k", "s"]) as found:
        check_keys(found, *map(all_rows, sides))
