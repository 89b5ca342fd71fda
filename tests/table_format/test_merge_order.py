"""The order of deletes and data in merged tables: a delete applies as it did at the source, or the merge is refused."""

from typing import Any

import pytest

from graveler.table_format.live_files import EQUALITY_DELETES
from graveler.table_format.merge_results import MergeResult, TableConflicts
from graveler.table_format.plain_documents import Document
from tests.table_format.small_tables import AddedFile, SmallTables, file_of, position_deletes

FILE = "file:///external"


def _equality_deletes(path: str) -> AddedFile:
    return file_of(path, "a", content=EQUALITY_DELETES, equality_ids=[2])


def _loose_deletes(path: str) -> AddedFile:
    """Return deletes by position whose manifest does not say of which files."""
    return file_of(path, "a", content=1)


def _fork() -> tuple[SmallTables, Document]:
    tables = SmallTables()
    return tables, tables.commit(tables.new(), file_of("file:///first", "b"))


def _kinds(result: MergeResult) -> set[str]:
    assert isinstance(result, TableConflicts), result
    return {conflict.kind for conflict in result.conflicts}


@pytest.mark.parametrize("count", [0, 5])
def test_a_file_that_was_added_again_lies_above_deletes_of_its_former_rows(count: int) -> None:
    tables, base = _fork()
    source = tables.commit(base, file_of(FILE, "a"))
    source = tables.commit(source, position_deletes("file:///delete", FILE), operation="delete")
    source = tables.commit(source, removed={FILE}, operation="delete")
    source = tables.commit(source, file_of(FILE, "a"))
    destination = base
    for number in range(count):
        destination = tables.commit(destination, file_of(f"file:///own{number}", "c"))
    destination = tables.commit(destination, file_of("file:///own", "b"))
    numbers = tables.numbers(tables.merged(base, source, destination))
    assert numbers["file:///delete"] < numbers[FILE]


@pytest.mark.parametrize("count", [0, 5])
def test_deletes_of_the_source_apply_to_its_files_and_to_those_of_the_base(count: int) -> None:
    tables, base = _fork()
    source = tables.commit(base, file_of(FILE, "a"))
    deletes = [position_deletes("file:///delete", FILE), position_deletes("file:///delete2", "file:///first", "b")]
    source = tables.commit(source, *deletes, operation="delete")
    destination = base
    for number in range(count + 1):
        destination = tables.commit(destination, file_of(f"file:///own{number}", "c"))
    numbers = tables.numbers(tables.merged(base, source, destination))
    assert numbers[FILE] <= numbers["file:///delete"]
    assert numbers["file:///first"] <= numbers["file:///delete2"]


@pytest.mark.parametrize("delete", [position_deletes("file:///delete", FILE), _equality_deletes("file:///delete")])
def test_a_file_of_the_base_that_the_source_added_again_above_its_deletes_is_a_conflict(delete: AddedFile) -> None:
    """The destination has the file below its deletes, which no side changed."""
    tables, base = _fork()
    base = tables.commit(base, file_of(FILE, "a"))
    base = tables.commit(base, delete, operation="delete")
    source = tables.commit(base, removed={FILE}, operation="delete")
    source = tables.commit(source, file_of(FILE, "a"))
    destination = tables.commit(base, file_of("file:///own", "c"))
    kind = "equality-deletes" if delete.file["content"] == EQUALITY_DELETES else "position-deletes"
    assert kind in _kinds(tables.merge(base, source, destination))
    numbers = tables.numbers(tables.merged(base, destination, source))
    assert numbers["file:///delete"] < numbers[FILE]


def test_a_file_of_both_sides_that_the_source_added_again_above_its_deletes_is_a_conflict() -> None:
    """Both sides have the file since a cherry-pick."""
    tables, base = _fork()
    source = tables.commit(base, position_deletes("file:///delete", FILE), operation="delete")
    source = tables.commit(source, file_of(FILE, "a"))
    destination = tables.commit(base, file_of(FILE, "a"))
    assert "position-deletes" in _kinds(tables.merge(base, source, destination))


def test_a_delete_by_values_of_both_sides_applies_to_what_it_applied_to_at_the_source() -> None:
    """Both sides have the delete since a cherry-pick, and the source has rows below it that the destination has not."""
    tables, base = _fork()
    source = tables.commit(base, file_of(FILE, "a"))
    source = tables.commit(source, _equality_deletes("file:///delete"), operation="delete")
    destination = tables.commit(base, _equality_deletes("file:///delete"), operation="delete")
    assert "equality-deletes" in _kinds(tables.merge(base, source, destination))
    later = tables.commit(destination, file_of(FILE, "a"))
    numbers = tables.numbers(tables.merged(base, later, destination))
    assert numbers["file:///delete"] < numbers[FILE]


@pytest.mark.parametrize(
    ("positions", "conflict"),
    [(None, False), ({"file:///mine": frozenset({1})}, False), ({FILE: frozenset({1})}, True)],
)
def test_a_merge_back_of_deletes_whose_files_are_unknown(positions: Any, conflict: bool) -> None:
    """The source deleted by position, and then an earlier merge brought a file, which these deletes cannot name."""
    tables, base = _fork()
    main = tables.commit(base, file_of(FILE, "a"))
    dev = tables.commit(base, file_of("file:///mine", "a"))
    dev = tables.commit(dev, _loose_deletes("file:///delete"), operation="delete")
    dev = tables.merged(base, main, dev)
    later = tables.commit(main, file_of("file:///own", "c"))
    result = tables.merge(main, dev, later, read_positions=lambda _: positions)
    assert isinstance(result, TableConflicts) == conflict, result
