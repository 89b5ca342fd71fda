"""Requirements of commits, with the words that Iceberg's clients look for."""

from typing import Any

import pytest

from graveler.errors import InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_requirements import (
    RequirementError,
    check_table_requirements,
    check_view_requirements,
    is_creation,
)
from graveler.table_format.table_updates import apply_table_updates
from tests.table_format.documents import TIME, UUID, add_snapshot, set_ref, table

OTHER = UUID.replace("9", "8")


def committed() -> Document:
    return apply_table_updates(table(), [add_snapshot(1), set_ref(1), set_ref(1, "v1", type="tag")], time_ms=TIME)


def requirement(kind: str, **fields: Any) -> Document:
    return {"type": kind, **{name.replace("_", "-"): value for name, value in fields.items()}}


@pytest.mark.parametrize(
    "holds",
    [
        requirement("assert-table-uuid", uuid=UUID.upper()),
        requirement("assert-ref-snapshot-id", ref="main", snapshot_id=1),
        requirement("assert-ref-snapshot-id", ref="other", snapshot_id=None),
        requirement("assert-ref-snapshot-id", ref="other"),
        requirement("assert-last-assigned-field-id", last_assigned_field_id=2),
        requirement("assert-current-schema-id", current_schema_id=0),
        requirement("assert-last-assigned-partition-id", last_assigned_partition_id=999),
        requirement("assert-default-spec-id", default_spec_id=0),
        requirement("ASSERT-default-sort-order-id", default_sort_order_id=0, unknown=1),
    ],
)
def test_requirements_that_hold(holds: Document) -> None:
    check_table_requirements(committed(), [holds, holds])


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (requirement("assert-create"), "table already exists"),
        (requirement("assert-table-uuid", uuid=OTHER), f"UUID does not match: expected {UUID} != {OTHER}"),
        (
            requirement("assert-ref-snapshot-id", ref="main", snapshot_id=2),
            "branch main has changed: expected id 2 != 1",
        ),
        (requirement("assert-ref-snapshot-id", ref="v1", snapshot_id=2), "tag v1 has changed: expected id 2 != 1"),
        (requirement("assert-ref-snapshot-id", ref="main"), "branch main was created concurrently"),
        (requirement("assert-ref-snapshot-id", ref="b", snapshot_id=2), "branch or tag b is missing, expected 2"),
        (
            requirement("assert-last-assigned-field-id", last_assigned_field_id=1),
            "last assigned field id changed: expected id 1 != 2",
        ),
        (requirement("assert-current-schema-id", current_schema_id=1), "current schema changed: expected id 1 != 0"),
        (
            requirement("assert-last-assigned-partition-id", last_assigned_partition_id=1),
            "last assigned partition id changed: expected id 1 != 999",
        ),
        (
            requirement("assert-default-spec-id", default_spec_id=1),
            "default partition spec changed: expected id 1 != 0",
        ),
        (
            requirement("assert-default-sort-order-id", default_sort_order_id=1),
            "default sort order changed: expected id 1 != 0",
        ),
    ],
)
def test_requirements_that_do_not_hold(fails: Document, words: str) -> None:
    with pytest.raises(RequirementError, match=f"^Requirement failed: {words}"):
        check_table_requirements(committed(), [fails])


def test_a_creation_requires_nothing_else() -> None:
    creation = [requirement("assert-create")]
    assert is_creation(creation)
    assert not is_creation([])
    check_table_requirements(None, creation)
    with pytest.raises(InvalidError, match="Invalid create requirements: assert-table-uuid"):
        is_creation([*creation, requirement("assert-table-uuid", uuid=UUID)])


@pytest.mark.parametrize(
    ("invalid", "words"),
    [
        ([requirement("assert-moon")], "unknown requirement 'assert-moon'"),
        ([requirement("assert-view-uuid", uuid=UUID)], "Cannot validate assert-view-uuid against a table"),
        ([requirement("assert-table-uuid")], "missing required field `uuid`"),
        ([requirement("assert-current-schema-id", current_schema_id="0")], "Expected `int`, got `str`"),
        ([{}], "requirement 0 has no type"),
        ([7], "must be a JSON object"),
        ([requirement("assert-default-spec-id", default_spec_id=0)] * 10_001, "length <= 10000"),
    ],
)
def test_invalid_requirements(invalid: list[Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        check_table_requirements(committed(), invalid)


def test_a_table_that_does_not_exist_has_no_state() -> None:
    with pytest.raises(InvalidError, match="a table that does not exist"):
        check_table_requirements(None, [requirement("assert-table-uuid", uuid=UUID)])


def test_requirements_of_views() -> None:
    view = {"view-uuid": UUID}
    check_view_requirements(view, [requirement("assert-view-uuid", uuid=UUID.upper())])
    with pytest.raises(
        RequirementError, match=f"Requirement failed: view UUID does not match: expected {UUID} != {OTHER}"
    ):
        check_view_requirements(view, [requirement("assert-view-uuid", uuid=OTHER)])
    with pytest.raises(InvalidError, match="Cannot validate assert-create against a view"):
        check_view_requirements(view, [requirement("assert-create")])
