"""The files that a table's state does not reach any more."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import NotFoundError
from graveler.table_format.dropped_files import dropped_files
from graveler.table_format.manifests import ADDED, DELETED, EXISTING
from graveler.table_format.plain_documents import Document
from graveler.table_format.reached_files import Limits, reached_files
from graveler.table_format.table_updates import apply_table_updates
from tests.table_format.tables import History, read_file
from tests.table_format.written_files import Files


def metadata(*snapshots: Document, log: Sequence[str] = (), statistics: Sequence[str] = ()) -> Document:
    """Return the parts of a table's metadata that name files."""
    return {
        "snapshots": list(snapshots),
        "metadata-log": [{"metadata-file": location} for location in log],
        "statistics": [{"statistics-path": location, "file-size-in-bytes": 1} for location in statistics],
    }


class ReadMany:
    """Reads of files by their locations."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __call__(self, locations: Sequence[str]) -> Iterator[bytes]:
        for location in locations:
            if location not in self._files:
                raise NotFoundError(f"no {location}")
            yield self._files.read(location)


def difference(files: Files, before: Document, after: Document) -> set[str]:
    """Return what the older state reaches and the newer one does not, by reading all of both."""
    return set(reached_files(before, files.read)) - set(reached_files(after, files.read))


_STATUSES = st.sampled_from([ADDED, EXISTING, DELETED])
_ENTRIES = st.dictionaries(st.sampled_from("abcdef"), st.tuples(_STATUSES, st.just(1)), min_size=1)


@given(
    manifests=st.lists(st.tuples(st.sampled_from([0, 1]), _ENTRIES), min_size=1, max_size=6),
    snapshots=st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=5),
    removed=st.sets(st.integers(0, 4)),
    logs=st.tuples(st.sets(st.sampled_from("xyz")), st.sets(st.sampled_from("xyz"))),
)
def test_dropped_files_are_those_that_only_the_older_state_reaches(
    manifests: list[tuple[int, dict[str, Any]]],
    snapshots: list[set[int]],
    removed: set[int],
    logs: tuple[set[str], set[str]],
) -> None:
    files = Files()
    written = []
    for number, (content, entries) in enumerate(manifests):
        with_content: dict[str, Any] = {file: (*entry, {"content": content}) for file, entry in entries.items()}
        written.append(files.manifest(f"m{number}", number + 1, 1, content=content, **with_content))
    documents = [
        files.snapshot(number + 1, [written[index] for index in sorted(indexes) if index < len(written)])
        for number, indexes in enumerate(snapshots)
    ]
    before_log, after_log = (sorted(f"s3://b/{name}.metadata.json" for name in names) for names in logs)
    before = metadata(*documents, log=before_log)
    remaining = (snapshot for number, snapshot in enumerate(documents) if number not in removed)
    after = metadata(*remaining, log=after_log)
    assert dropped_files(before, after, ReadMany(files)) == difference(files, before, after)


def test_expiry_of_a_table_of_pyiceberg(history: History) -> None:
    before = history.states[-1]
    current = before["current-snapshot-id"]
    numbers = [snapshot["snapshot-id"] for snapshot in before["snapshots"] if snapshot["snapshot-id"] != current]
    updates: list[Document] = [{"action": "remove-snapshots", "snapshot-ids": numbers}]
    after = apply_table_updates(before, updates, time_ms=before["last-updated-ms"] + 1)
    dropped = dropped_files(before, after, lambda locations: map(read_file, locations))
    assert dropped == set(reached_files(before, read_file)) - set(reached_files(after, read_file))
    assert dropped


def test_nothing_is_read_where_only_the_log_and_statistics_are_shorter() -> None:
    files = Files()
    snapshot = files.snapshot(1, [files.manifest("m1", 1, 1, a=(ADDED, 1))])
    before = metadata(snapshot, log=["s3://b/1.json", "s3://b/2.json"], statistics=["s3://b/s.puffin"])
    after = metadata(snapshot, log=["s3://b/2.json"])
    assert dropped_files(before, after, ReadMany(files)) == {"s3://b/1.json", "s3://b/s.puffin"}
    assert files.reads == []


def test_only_lists_are_read_where_the_remaining_snapshots_have_all_manifests() -> None:
    files = Files()
    first, second = files.manifest("m1", 1, 1, a=(ADDED, 1)), files.manifest("m2", 2, 2, b=(ADDED, 2))
    older, newer = files.snapshot(1, [first]), files.snapshot(2, [first, second])
    assert dropped_files(metadata(older, newer), metadata(newer), ReadMany(files)) == {"s3://b/list-1"}
    assert files.reads == ["s3://b/list-1", "s3://b/list-2"]


def overwritten(files: Files) -> tuple[Document, Document]:
    """Return two snapshots: file ``a`` and ``b``; then ``a`` in another manifest, without ``b``."""
    older = files.snapshot(1, [files.manifest("m1", 1, 1, a=(ADDED, 1), b=(ADDED, 1))])
    return older, files.snapshot(2, [files.manifest("m2", 2, 2, a=(EXISTING, 1), b=(DELETED, 1))])


def test_a_file_that_is_live_in_another_manifest_is_not_dropped() -> None:
    files = Files()
    older, newer = overwritten(files)
    expected = {"s3://b/list-1", "s3://b/m1", "s3://b/b"}
    assert dropped_files(metadata(older, newer), metadata(newer), ReadMany(files)) == expected


@pytest.mark.parametrize("location", ["list-1", "list-2", "m1", "m2"])
def test_what_cannot_be_told_without_a_file_is_not_dropped(location: str) -> None:
    files = Files()
    older, newer = overwritten(files)
    before, after = metadata(older, newer), metadata(newer)
    del files[f"s3://b/{location}"]
    assert dropped_files(before, after, ReadMany(files)) == {"s3://b/list-1"}


def test_data_files_are_not_dropped_beyond_the_limits() -> None:
    files = Files()
    older, newer = overwritten(files)
    before, after = metadata(older, newer), metadata(newer)
    for limits in (Limits(manifests=0), Limits(files=0)):
        assert dropped_files(before, after, ReadMany(files), limits) == {"s3://b/list-1", "s3://b/m1"}


def test_manifests_within_a_snapshot_keep_all_files() -> None:
    files = Files()
    older, _ = overwritten(files)
    after = metadata({"snapshot-id": 3, "manifests": ["s3://b/m1"]})
    assert dropped_files(metadata(older), after, ReadMany(files)) == {"s3://b/list-1"}
