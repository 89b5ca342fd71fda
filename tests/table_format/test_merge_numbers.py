"""Sequence numbers and other numbers of merged tables, where those of the sides are unusual."""

from typing import Any

import msgspec
import pytest

from graveler.table_format.manifest_lists import read_manifest_list, write_manifest_list
from graveler.table_format.merge_results import SideTaken, TableConflicts
from graveler.table_format.plain_documents import Document
from tests.table_format.small_tables import SmallTables, file_of


def _tagged(document: Document) -> Document:
    tag = {"type": "tag", "snapshot-id": document["current-snapshot-id"]}
    return {**document, "refs": {**document["refs"], "v1": tag}}


def _grown(tables: SmallTables, document: Document, count: int) -> Document:
    for number in range(count):
        document = tables.commit(document, file_of(f"file:///grown{number}", "b"))
    return document


def test_a_snapshot_that_comes_with_a_tag_has_no_number_above_the_last() -> None:
    """A cherry-pick: the destination made fewer commits than the base."""
    tables = SmallTables()
    fork = tables.commit(tables.new(), file_of("file:///first", "a"))
    destination = tables.commit(fork, file_of("file:///own", "a"))
    base = _grown(tables, fork, 8)
    source = _tagged(tables.commit(base, file_of("file:///picked", "a")))
    merged = tables.merged(base, source, destination)
    numbers = [snapshot["sequence-number"] for snapshot in merged["snapshots"]]
    assert merged["last-sequence-number"] == numbers[-1] == max(numbers)
    assert len({*numbers}) == len(numbers)
    alone = tables.merged(base, _tagged({**base, "properties": {"a": "b"}}), destination)
    assert alone["last-sequence-number"] >= base["last-sequence-number"]


def test_a_later_delete_by_values_applies_to_all_that_a_merge_brought() -> None:
    """A compaction keeps the number of what it read, which is above the destination's last one after a revert."""
    tables = SmallTables()
    fork = tables.commit(tables.new(), file_of("file:///one", "a"), file_of("file:///two", "a"))
    base = _grown(tables, fork, 8)
    last = base["last-sequence-number"]
    compacted = file_of("file:///compacted", "a", sequence=last, rows=2)
    source = tables.commit(base, compacted, removed={"file:///one", "file:///two"}, operation="replace")
    for destination in (
        tables.commit(fork, file_of("file:///own", "c")),
        {**fork, "properties": {"reverted": "yes"}, "last-updated-ms": base["last-updated-ms"] + 1},
    ):
        merged = tables.merged(base, source, destination)
        after = tables.commit(merged, file_of("file:///delete", "a", content=2, equality_ids=[2]), operation="delete")
        numbers = tables.numbers(after)
        assert numbers["file:///compacted"] < numbers["file:///delete"]


@pytest.mark.parametrize("count", [0, 8])
def test_files_of_the_source_keep_their_order(count: int) -> None:
    """The source compacted, and deletes by values: after the compaction, though the destination is behind the base."""
    tables = SmallTables()
    fork = tables.commit(tables.new(), file_of("file:///one", "a"), file_of("file:///two", "a"))
    destination = tables.commit(fork, file_of("file:///own", "c"))
    base = _grown(tables, fork, count)
    compacted = file_of("file:///compacted", "a", sequence=base["last-sequence-number"], rows=2)
    source = tables.commit(base, compacted, removed={"file:///one", "file:///two"}, operation="replace")
    source = tables.commit(source, file_of("file:///delete", "a", content=2, equality_ids=[2]), operation="delete")
    source = tables.commit(source, file_of("file:///new", "a"))
    numbers = tables.numbers(tables.merged(base, source, destination))
    assert numbers["file:///compacted"] < numbers["file:///delete"] < numbers["file:///new"]


def _both_grown(version: int, **numbers: int) -> tuple[SmallTables, list[Document]]:
    """Return a base with numbers of the destination's, and two sides that append to it."""
    tables = SmallTables()
    base = tables.commit(tables.new(version), file_of("file:///first", "a"))
    source = tables.commit(base, file_of("file:///source", "a", rows=50))
    named = {name.replace("_", "-"): number for name, number in numbers.items()}
    destination = tables.commit({**base, **named}, file_of("file:///destination", "b", rows=10))
    return tables, [base, source, destination]


@pytest.mark.parametrize(
    ("kind", "words", "numbers"),
    [
        ("row-ids", "row IDs above 2^63", {"next_row_id": 2**63 - 20}),
        ("metadata", "sequence number above 2^63", {"last_sequence_number": 2**63 - 2}),
    ],
)
def test_numbers_that_would_be_too_high_are_a_conflict(kind: str, words: str, numbers: dict[str, int]) -> None:
    tables, states = _both_grown(3, **numbers)
    result = tables.merge(*states)
    assert isinstance(result, TableConflicts)
    assert [conflict.kind for conflict in result.conflicts] == [kind]
    assert words in result.conflicts[0].sentence
    assert isinstance(tables.merge(*states, strategy="source-wins"), SideTaken)


def test_a_time_that_no_later_one_follows_merges() -> None:
    tables, states = _both_grown(2, last_updated_ms=2**63 - 2)
    assert tables.merged(*states)["last-updated-ms"] == 2**63 - 1


@pytest.mark.parametrize("total", ["²", "9" * 5000, "-1", "", "x"])
def test_totals_of_a_summary_that_are_no_numbers_are_left_out(total: str) -> None:
    tables, states = _both_grown(2)
    states[2]["snapshots"][-1]["summary"] |= {"total-records": total, "total-data-files": "2"}
    summary = tables.merged(*states, checks_history=False)["snapshots"][-1]["summary"]
    assert "total-records" not in summary
    assert summary["total-data-files"] == "3"


def _without_list(tables: SmallTables, document: Document) -> None:
    """Name the manifests of the current snapshot in itself, as old writers of version 1 do."""
    snapshot = document["snapshots"][-1]
    location = snapshot.pop("manifest-list")
    snapshot["manifests"] = [manifest.path for manifest in read_manifest_list(tables.files[location], location)]


def _without_counts(tables: SmallTables, document: Document) -> None:
    """Take out of the current list what version 1 does not require."""
    location = document["snapshots"][-1]["manifest-list"]
    names = [f"{kind}_{what}" for kind in ("added", "existing", "deleted") for what in ("files", "rows")]
    tables.files[location] = write_manifest_list(
        [
            msgspec.structs.replace(manifest, **dict.fromkeys(names))
            for manifest in read_manifest_list(tables.files[location], location)
        ],
        format_version=1,
        snapshot_id=0,
        parent_snapshot_id=None,
    )


@pytest.mark.parametrize("old", [_without_list, _without_counts])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_that_no_list_describes_are_described_by_themselves(old: Any, version: int) -> None:
    """Lists of version 1 may lack counts, or be missing: before and after an upgrade."""
    tables, states = _both_grown(1)
    for document in states:
        old(tables, document)
        if version > 1:
            document |= {"format-version": version, "last-sequence-number": 0}
        if version > 2:
            document["next-row-id"] = 0
    merged = tables.merged(*states, checks_history=False)
    assert set(tables.numbers(merged)) == {"file:///first", "file:///source", "file:///destination"}
    if version > 2:
        assert merged["next-row-id"] == 61
