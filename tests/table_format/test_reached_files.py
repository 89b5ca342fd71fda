"""The files that a table reaches: all of them, and those that a commit added."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from graveler.errors import InvalidError
from graveler.table_format.file_locations import normal_location
from graveler.table_format.manifest_lists import manifests_of, write_manifest_list
from graveler.table_format.manifests import ADDED, EXISTING
from graveler.table_format.reached_files import (
    FileKind,
    Limits,
    ReachedFile,
    added_files,
    reached_files,
)
from tests.table_format.tables import History, read_file
from tests.table_format.written_files import Files


def _location(path: Path) -> str:
    return normal_location(str(path))


def test_all_files_of_a_table_of_pyiceberg(history: History) -> None:
    reached = reached_files(history.states[-1], read_file)
    on_disk = {_location(path): path for path in history.folder.rglob("*") if path.is_file()}
    current = _location(Path(history.locations[-1].removeprefix("file://")))
    assert set(reached) == set(on_disk) - {current}
    for location, file in reached.items():
        assert file.size is None or file.size == on_disk[location].stat().st_size
        suffix = {FileKind.DATA: ".parquet", FileKind.METADATA: ".json", FileKind.STATISTICS: ".puffin"}
        assert location.endswith(suffix.get(file.kind, ".avro"))
    assert {file.kind for file in reached.values()} >= {
        FileKind.DATA,
        FileKind.METADATA,
        FileKind.MANIFEST,
        FileKind.STATISTICS,
    }


def test_each_commit_adds_what_the_state_before_did_not_reach(history: History) -> None:
    for before, after in zip([None, *history.states], history.states, strict=False):
        reads: list[str] = []

        def read(location: str, reads: list[str] = reads) -> bytes:
            reads.append(location)
            return read_file(location)

        expected = set(reached_files(after, read_file)) - (set(reached_files(before, read_file)) if before else set())
        added = added_files(before, after, read)
        assert {file.location for file in added.values() if not file.presumed} == expected
        old = {snapshot["snapshot-id"] for snapshot in (before or {}).get("snapshots", [])}
        lists = [snapshot["manifest-list"] for snapshot in after["snapshots"] if snapshot["snapshot-id"] not in old]
        manifests = [file.location for file in added.values() if file.kind is FileKind.MANIFEST and not file.presumed]
        assert sorted(map(normal_location, reads)) == sorted([*map(normal_location, lists), *manifests])


def _names(reached: dict[str, ReachedFile], *, presumed: bool) -> set[str]:
    return {location.removeprefix("s3://b/") for location, file in reached.items() if file.presumed is presumed}


def test_manifests_of_expired_snapshots_are_presumed() -> None:
    files = Files()
    expired = files.manifest("m1", 1, 1, a=(ADDED, 1))
    second = files.manifest("m2", 2, 2, b=(ADDED, 2))
    before = {"last-sequence-number": 2, "snapshots": [files.snapshot(2, [expired, second])]}
    third = files.manifest("m3", 3, 3, c=(ADDED, 3), a=(EXISTING, 1), d=(EXISTING, 3))
    snapshot = files.snapshot(3, [expired, second, third], 2)
    after = {"last-sequence-number": 3, "snapshots": [*before["snapshots"], snapshot]}  # type: ignore[misc]
    added = added_files(before, after, files.read)
    assert files.reads == ["s3://b/list-3", "s3://b/m3"]
    assert _names(added, presumed=False) == {"list-3", "m3", "c", "d"}
    assert _names(added, presumed=True) == {"m1", "m2", "a"}


def test_a_presumed_manifest_that_is_missing_is_read() -> None:
    files = Files()
    expired = [files.manifest("m1", 1, 1, a=(ADDED, 1)), files.manifest("m2", 2, 2, b=(ADDED, 2))]
    third = files.manifest("m3", 3, 3, c=(ADDED, 3))
    after = {"last-sequence-number": 3, "snapshots": [files.snapshot(3, [*expired, third], 2)]}
    presumed: list[str] = []

    def find_missing(locations: Collection[str]) -> list[str]:
        presumed.extend(locations)
        return ["s3://b/m2"]

    before = {"last-sequence-number": 2, "snapshots": [files.snapshot(4, [])]}
    added = added_files(before, after, files.read, find_missing=find_missing)
    assert presumed == ["s3://b/m1", "s3://b/m2"]
    assert files.reads == ["s3://b/list-3", "s3://b/m3", "s3://b/m2"]
    assert _names(added, presumed=False) == {"list-3", "m3", "c", "b"}


def test_manifests_of_another_branch_are_new() -> None:
    files = Files()
    before = {"last-sequence-number": 2, "snapshots": [files.snapshot(2, [])]}
    of_branch = files.manifest("m5", 5, 3, x=(ADDED, 3))
    after = {"last-sequence-number": 3, "snapshots": [files.snapshot(6, [of_branch], 2)]}
    assert _names(added_files(before, after, files.read), presumed=False) == {"list-6", "m5", "x"}


def test_a_snapshot_whose_list_was_replaced_is_new() -> None:
    files = Files()
    before = {"last-sequence-number": 2, "snapshots": [files.snapshot(2, [])]}
    files["s3://b/other"] = write_manifest_list(
        [files.manifest("m", 2, 2, a=(ADDED, 2))], format_version=2, snapshot_id=2, parent_snapshot_id=None
    )
    after = {"last-sequence-number": 2, "snapshots": [{"snapshot-id": 2, "manifest-list": "s3://b/other"}]}
    assert _names(added_files(before, after, files.read), presumed=False) == {"other", "m", "a"}


def test_version_1_reads_the_list_of_the_parent() -> None:
    files = Files()
    old = files.manifest("m1", 1, 0, 1, a=(ADDED, 0))
    before = {"snapshots": [files.snapshot(2, [old], 1, 1)]}
    new = files.manifest("m3", 3, 0, 1, b=(ADDED, 0))
    after = {"snapshots": [*before["snapshots"], files.snapshot(3, [old, new], 2, 1)]}
    added = added_files(before, after, files.read)
    assert _names(added, presumed=False) == {"list-3", "m3", "b"}
    assert files.reads == ["s3://b/list-3", "s3://b/list-2", "s3://b/m3"]


def test_snapshots_with_manifests_in_themselves() -> None:
    files = Files()
    files.manifest("m1", 1, 0, 1, a=(ADDED, 0))
    reached = reached_files({"snapshots": [{"snapshot-id": 1, "manifests": ["s3://b/m1"]}]}, files.read)
    assert _names(reached, presumed=False) == {"m1", "a"}


def test_limits() -> None:
    files = Files()
    manifests = [files.manifest(f"m{number}", 1, 1, a=(ADDED, 1), b=(ADDED, 1)) for number in range(3)]
    metadata = {"snapshots": [files.snapshot(1, manifests)]}
    with pytest.raises(InvalidError, match="more than 2 manifests"):
        reached_files(metadata, files.read, Limits(manifests=2))
    with pytest.raises(InvalidError, match="more than 5 files"):
        reached_files(metadata, files.read, Limits(files=5))
    assert len(reached_files(metadata, files.read, Limits(3, 6))) == 6


def test_a_manifest_is_read_once() -> None:
    files = Files()
    manifest = files.manifest("m", 1, 1, a=(ADDED, 1))
    metadata = {"snapshots": [files.snapshot(1, [manifest]), files.snapshot(2, [manifest])]}
    reached_files(metadata, files.read)
    assert files.reads.count("s3://b/m") == 1
    assert [manifest.path for manifest in manifests_of(metadata["snapshots"][0], files.read)] == ["s3://b/m"]


@pytest.mark.parametrize(
    ("location", "normal"),
    [
        ("/a/b", "file:///a/b"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a/b", "file:///a/b"),
        ("FILE:///a//./b", "file:///a/b"),
        ("file://localhost/a/b", "file:///a/b"),
        ("file:/a%20b/ä b?c#d", "file:///a%20b/ä b?c#d"),
        ("s3a://b/k%2F//x", "s3://b/k%2F//x"),
        ("S3://b/../k", "s3://b/../k"),
        ("gs://b/日 本\u00a0", "gs://b/日 本\u00a0"),
    ],
)
def test_locations(location: str, normal: str) -> None:
    assert normal_location(location) == normal
    assert normal_location(normal) == normal


@pytest.mark.parametrize(
    "location",
    [
        "",
        "a/b",
        "file:a",
        "file://host/a",
        "file:///a/../b",
        "file:///",
        "a:b",
        "s3://b/\0",
        "s3://b/\n",
        "x" * 5000,
        "s3://b/\ud800",
    ],
)
def test_locations_that_are_none(location: Any) -> None:
    with pytest.raises(InvalidError, match="location"):
        normal_location(location)
