"""Rows of an Iceberg table at two commits: the differences are those between all live rows of both, by another reader.

``GRAVELER_ROW_HISTORIES=n`` compares n random histories.
"""

import os
from collections import Counter
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyiceberg.types import IntegerType, LongType, StringType

import graveler
from graveler.errors import InvalidError, NotFoundError
from graveler.requests.iceberg import Identifier, TableChange
from graveler.sdk.lake import Lake
from graveler.sdk.rows import RowDiff
from tests.lake.iceberg.histories import Histories, Kind, Operation, Session, Side, random_operation
from tests.lake.iceberg.row_reader import Document, by_columns, names_of, read_rows
from tests.lake.iceberg.support import appended, metadata, write_file
from tests.lake.support import NAME, World

HISTORIES: Final = int(os.environ.get("GRAVELER_ROW_HISTORIES", "4"))
KINDS: Final = [
    Kind(version=2, partitioned=True, isolated=False),
    Kind(version=3, partitioned=True, equality=True),
    Kind(version=2, partitioned=False, equality=True, isolated=False),
    Kind(version=3, partitioned=False, isolated=False),
]
ROWS: Final = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


class Rows:
    """A lake with tables, and the differences between rows of two commits."""

    def __init__(self, folder: Path) -> None:
        self.histories = Histories(folder)
        self.lake: Lake = graveler.open(folder, user="ada")

    def state(self, name: str) -> tuple[str, Document]:
        """Return the head of main, and the metadata of a table there."""
        head = self.lake.repository("sales").branch("main").head.id
        return head, self.lake.repository("sales").ref(head).tables.load(name).metadata

    def diff(self, before: str, after: str, name: str, *keys: str) -> RowDiff:
        """Return the differences between a table's rows at two commits."""
        return self.lake.repository("sales").ref(before).diff_rows(after, name, keys=keys)

    def difference(self, before: str, after: str, name: str, *keys: str) -> list[tuple[Any, ...]]:
        """Return them as tuples."""
        with self.diff(before, after, name, *keys) as rows:
            return [tuple(row) for row in rows]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rows]:
    rows = Rows(tmp_path_factory.mktemp("rows") / "lake")
    with rows.histories, rows.lake:
        yield rows


def recomputed(before: Document, after: Document) -> Counter[tuple[str, Any]]:
    """Return the differences between all rows of two states, by the later one's columns."""
    names = names_of(after)
    counts = [by_columns(read_rows(document), names) for document in (before, after)]
    added, removed = counts[1] - counts[0], counts[0] - counts[1]
    return Counter({("added", row): number for row, number in added.items()}) + Counter(
        {("removed", row): number for row, number in removed.items()}
    )


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_differences_are_those_between_all_live_rows(rows: Rows, seed: int) -> None:
    random, kind = Random(f"rows-{seed}"), KINDS[seed % len(KINDS)]
    table = rows.histories.begin(kind)
    side = Side("main", "base", table)
    work = [Operation("append", 0, 2), Operation("append", 1, 2), *(random_operation(random, kind) for _ in range(6))]
    states = []
    for operation in work:
        Session(rows.histories, side, random, kind).act(operation)
        states.append(rows.state(str(table)))
    pairs = [*pairwise(states), (states[1], states[-1]), (states[-1], states[1])]
    for before, after in pairs:
        with rows.diff(before[0], after[0], str(table)) as difference:
            actual = Counter((row.type, tuple(sorted((row.after or row.before or {}).items()))) for row in difference)
            assert actual == recomputed(before[1], after[1]), (before[0], after[0], work)


def created(rows: Rows, name: str, data: pa.Table = ROWS) -> Any:
    """Return PyIceberg's new table with these rows on main."""
    table = rows.histories.catalog("main").create_table(f"shop.{name}", data.schema)
    table.append(data)
    return table


def head(rows: Rows) -> str:
    return rows.lake.repository("sales").branch("main").head.id


def test_a_file_that_is_rewritten_differs_by_the_rows_that_changed(rows: Rows) -> None:
    table = created(rows, "rewritten")
    before = head(rows)
    table.overwrite(pa.table({"id": pa.array([2], pa.int64()), "name": ["B"]}), "id = 2")
    changed = [("changed", {"id": 2}, {"id": 2, "name": "b"}, {"id": 2, "name": "B"})]
    assert rows.difference(before, "main", "shop.rewritten", "id") == changed
    assert [row[0] for row in rows.difference(before, "main", "shop.rewritten")] == ["added", "removed"]
    by_path = rows.difference(before, "main", "_iceberg/shop/rewritten.table", "id")
    assert by_path == changed


def test_a_renamed_column_is_the_same_and_an_added_one_is_null_before(rows: Rows) -> None:
    table = created(rows, "renamed")
    before = head(rows)
    with table.update_schema() as schema:
        schema.rename_column("name", "title")
        schema.add_column("size", IntegerType())
        schema.delete_column("id")
    assert rows.difference(before, "main", "shop.renamed") == []
    table.append(pa.table({"title": ["d"], "size": pa.array([4], pa.int32())}))
    with rows.diff(before, "main", "shop.renamed") as difference:
        assert [tuple(row) for row in difference] == [("added", None, None, {"title": "d", "size": 4})]
        assert {tuple(column) for column in difference.columns} == {
            ("id", "long", None),
            ("title", "name string", "title string"),
            ("size", None, "int"),
        }


def test_names_that_two_columns_swapped_are_those_of_the_later_state(rows: Rows) -> None:
    table = created(rows, "swapped", pa.table({"a": ["1"], "b": ["2"]}))
    before = head(rows)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        with table.update_schema() as schema:
            schema.rename_column(old, new)
    assert rows.difference(before, "main", "shop.swapped") == []
    table.append(pa.table({"b": ["3"], "a": ["4"]}))
    assert rows.difference(before, "main", "shop.swapped") == [("added", None, None, {"b": "3", "a": "4"})]


def test_a_promoted_type_makes_no_difference(rows: Rows) -> None:
    table = created(rows, "promoted", pa.table({"n": pa.array([1, 2], pa.int32())}))
    before = head(rows)
    with table.update_schema() as schema:
        schema.update_column("n", LongType())
    table.overwrite(pa.table({"n": pa.array([1, 3], pa.int64())}))
    assert rows.difference(before, "main", "shop.promoted") == [
        ("removed", None, {"n": 2}, None),
        ("added", None, None, {"n": 3}),
    ]


def test_a_table_on_one_side_has_only_added_or_removed_rows(rows: Rows) -> None:
    before = head(rows)
    created(rows, "new")
    added = rows.difference(before, "main", "shop.new")
    assert [row[0] for row in added] == ["added"] * 3
    assert [row[0] for row in rows.difference("main", before, "shop.new")] == ["removed"] * 3
    with pytest.raises(NotFoundError, match=r"no table at 'shop\.none'"):
        rows.difference(before, "main", "shop.none")


def test_an_empty_table_has_no_differences(rows: Rows) -> None:
    rows.histories.catalog("main").create_table("shop.empty", ROWS.schema)
    before = head(rows)
    rows.histories.catalog("main").load_table("shop.empty").append(ROWS)
    assert len(rows.difference(before, "main", "shop.empty", "id")) == 3
    assert rows.difference(before, before, "shop.empty") == []


def test_files_without_ids_are_read_by_the_table_s_name_mapping(rows: Rows) -> None:
    table = created(rows, "mapped")
    before = head(rows)
    path = Path(table.location().removeprefix("file://")) / "data" / "outside.parquet"
    pq.write_table(pa.table({"name": ["x"], "id": pa.array([7], pa.int64())}), path)
    table.add_files([f"file://{path}"])
    assert rows.difference(before, "main", "shop.mapped", "id") == [
        ("added", {"id": 7}, None, {"id": 7, "name": "x"}),
    ]


def test_nested_fields_are_compared_by_name_and_refused_where_names_changed(rows: Rows) -> None:
    data = pa.table({"s": pa.array([{"x": 1, "y": 2}], pa.struct({"x": pa.int32(), "y": pa.int32()}))})
    table = created(rows, "nested", data)
    before = head(rows)
    with table.update_schema() as schema:
        schema.delete_column(("s", "y"))
        schema.add_column(("s", "z"), StringType())
    later = pa.table({"s": pa.array([{"x": 1, "z": None}], pa.struct({"x": pa.int32(), "z": pa.string()}))})
    table.overwrite(later)
    assert rows.difference(before, "main", "shop.nested") == []
    with table.update_schema() as schema:
        schema.rename_column(("s", "x"), "w")
    with pytest.raises(InvalidError, match=r"nested field 's\.w' of table shop\.nested was renamed"):
        rows.difference(before, "main", "shop.nested")


def test_a_key_must_be_a_column_and_unique(rows: Rows) -> None:
    table = created(rows, "keyed")
    before = head(rows)
    table.append(ROWS)
    with pytest.raises(InvalidError, match="several rows of the right side have the key id"):
        rows.difference(before, "main", "shop.keyed", "id")
    with pytest.raises(InvalidError, match="no column 'none'"):
        rows.difference(before, "main", "shop.keyed", "none")


def test_a_column_that_was_added_with_a_default_has_it_in_earlier_rows(rows: Rows) -> None:
    kind, random = Kind(version=3, partitioned=False), Random("default")
    table = rows.histories.begin(kind)
    session = Session(rows.histories, Side("main", "base", table), random, kind)
    session.act(Operation("append", 0, 2))
    before, document = rows.state(str(table))
    fields = [*document["schemas"][0]["fields"]]
    fields.append(
        {
            "id": 9,
            "name": "size",
            "type": "decimal(5, 2)",
            "required": False,
            "initial-default": "1.50",
            "write-default": "1.50",
        }
    )
    updates = (
        {"action": "add-schema", "schema": {"type": "struct", "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1},
    )
    rows.histories.repository.commit_tables("main", tables=(TableChange(table, (), updates),))
    assert rows.difference(before, "main", str(table)) == []
    earlier = rows.difference(before, "main~1", str(table))
    assert earlier == []
    session.act(Operation("delete", 0, 2, "position"))
    differences = rows.difference(before, "main", str(table))
    assert {row[0] for row in differences} == {"removed"}
    assert {row[2]["size"] for row in differences} == {Decimal("1.50")}


def test_a_column_that_only_the_partition_has_is_read_from_it() -> None:
    world, table = World(), Identifier(("shop",), "folders")
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": False},
        {"id": 2, "name": "day", "type": "date", "required": False},
    ]
    spec = {"fields": [{"name": "day", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    definition = {"schema": {"type": "struct", "fields": fields}, "partition-spec": spec}
    world.main.create_namespace("main", namespace=("shop",))
    world.main.create_table("main", table=table, definition=definition)
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    contents = BytesIO()
    pq.write_table(pa.table([pa.array([5], pa.int64())], schema=schema), contents)
    write_file(world, "data/day.parquet", contents.getvalue(), table)
    document = metadata(world, table=table)
    change = appended(
        world.main.parts, document, "data/day.parquet", size=len(contents.getvalue()), partition=(20_000,)
    )
    world.main.commit_tables("main", tables=(replace(change, table=table),))
    with (
        Lake(world.lake(), "ada") as lake,
        lake.repository(NAME).ref("main~1").diff_rows("main", "shop.folders") as difference,
    ):
        assert [tuple(row) for row in difference] == [("added", None, None, {"id": 5, "day": date(2024, 10, 4)})]
