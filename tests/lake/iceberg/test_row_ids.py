"""Row IDs on branches (format version 3): a branch's rows are numbered apart, so rows that it rewrote after adding them merge."""

from collections.abc import Iterator
from random import Random

import pytest
from pyiceberg.catalog import load_catalog

from graveler.requests.iceberg import Identifier
from graveler.table_format.row_id_blocks import CYCLE_ROWS
from tests.lake.iceberg.histories import Histories, Kind, Operation, Session, Side
from tests.lake.iceberg.row_reader import multiset

KIND = Kind(version=3, partitioned=True, isolated=False)
RANDOM = Random("row-ids")


@pytest.fixture
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Histories]:
    with Histories(tmp_path_factory.mktemp("row-ids") / "lake") as histories:
        yield histories


def act(histories: Histories, branch: str, table: Identifier, *operations: Operation) -> None:
    side = Side(branch, branch, table)
    for operation in operations:
        Session(histories, side, RANDOM, KIND).act(operation)


def next_row_id(histories: Histories, ref: str, table: Identifier) -> int:
    """Return the number from which a client that opens the catalog at a ref gives row IDs."""
    properties = {"py-catalog-impl": "graveler.iceberg.Catalog", "lake": histories.location}
    catalog = load_catalog("test", warehouse=f"sales@{ref}", **properties)
    try:
        number = catalog.load_table((*table.namespace, table.name)).metadata.model_dump(by_alias=True)["next-row-id"]
        assert isinstance(number, int)
        return number
    finally:
        catalog.close()


def test_rows_that_a_branch_added_and_rewrote_merge_beside_those_of_the_destination(histories: Histories) -> None:
    table = histories.begin(KIND)
    act(histories, "main", table, Operation("append", 0, 2))
    histories.fork("source")
    act(histories, "source", table, Operation("append", 1, 3), Operation("update", 1, 3, "copy"))
    act(histories, "main", table, Operation("append", 0, 4))
    histories.repository.merge("source", "main")
    rows = multiset(histories.load("main", table).document)
    assert sorted(dict(row)["origin"] for row in rows.elements()) == ["main"] * 4 + ["source"] * 2
    histories.check("main", table)
    act(histories, "main", table, Operation("append", 0, 5), Operation("update", 0, 5, "copy"))
    act(histories, "source", table, Operation("append", 1, 6))
    histories.repository.merge("source", "main")
    histories.check("main", table)
    assert multiset(histories.load("main", table).document).total() == 10


def test_each_branch_is_served_numbers_of_its_own(histories: Histories) -> None:
    table = histories.begin(KIND)
    act(histories, "main", table, Operation("append", 0, 2))
    histories.fork("source")
    assert next_row_id(histories, "main", table) == next_row_id(histories, "main@", table) == 2
    begin = next_row_id(histories, "source", table)
    assert begin >= CYCLE_ROWS
    assert next_row_id(histories, "source@", table) == 2
    act(histories, "source", table, Operation("append", 0, 2))
    assert next_row_id(histories, "source", table) == begin + 2
    histories.repository.merge("source", "main")
    assert next_row_id(histories, "main@", table) == begin + 2
    assert next_row_id(histories, "main", table) % CYCLE_ROWS == 0
