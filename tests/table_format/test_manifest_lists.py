"""Manifest lists: those of PyIceberg are read as it reads them, and it reads those written here."""

from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, PartitionFieldSummary
from pyiceberg.manifest import ManifestFile as TheirFile
from pyiceberg.manifest import read_manifest_list as read_theirs
from pyiceberg.manifest import write_manifest_list as write_theirs
from pyiceberg.typedef import TableVersion

from graveler.errors import CorruptError, InvalidError
from graveler.table_format.manifest_lists import (
    DATA,
    DELETES,
    ManifestFile,
    PartitionSummary,
    manifests_of,
    read_manifest_list,
    write_manifest_list,
)

NUMBERS = st.integers(0, (1 << 63) - 1)
COUNTS = st.integers(0, (1 << 31) - 1)
SUMMARIES = st.builds(
    PartitionSummary, st.booleans(), st.none() | st.booleans(), st.none() | st.binary(), st.none() | st.binary()
)
MANIFESTS = st.builds(
    ManifestFile,
    path=st.text(min_size=1),
    length=NUMBERS,
    spec_id=COUNTS,
    content=st.sampled_from([DATA, DELETES]),
    sequence_number=NUMBERS,
    min_sequence_number=NUMBERS,
    added_snapshot_id=NUMBERS,
    added_files=COUNTS,
    existing_files=COUNTS,
    deleted_files=COUNTS,
    added_rows=NUMBERS,
    existing_rows=NUMBERS,
    deleted_rows=NUMBERS,
    partitions=st.none() | st.lists(SUMMARIES, max_size=3).map(tuple),
    key_metadata=st.none() | st.binary(),
    first_row_id=st.none() | NUMBERS,
)
OF_VERSION_1 = {"content": DATA, "sequence_number": 0, "min_sequence_number": 0, "first_row_id": None}


def _write(manifests: list[ManifestFile], version: int = 3) -> bytes:
    return write_manifest_list(
        manifests, format_version=version, snapshot_id=5, parent_snapshot_id=None, sequence_number=7, first_row_id=8
    )


@settings(max_examples=40)
@given(st.lists(MANIFESTS, max_size=3), st.sampled_from([1, 2, 3]))
def test_manifests_survive(manifests: list[ManifestFile], version: int) -> None:
    if version < 3:
        changed: dict[str, Any] = OF_VERSION_1 if version == 1 else {"first_row_id": None}
        manifests = [msgspec.structs.replace(manifest, **changed) for manifest in manifests]
    contents = _write(manifests, version)
    assert read_manifest_list(contents, "list") == manifests
    assert contents == _write(manifests, version)
    reading = fastavro.reader(BytesIO(contents))
    assert len(list(reading)) == len(manifests)
    assert reading.metadata["format-version"] == str(version)


def _their_manifest() -> TheirFile:
    return TheirFile.from_args(
        manifest_path="s3://bucket/m ä.avro",
        manifest_length=1 << 33,
        partition_spec_id=2,
        content=ManifestContent.DATA,
        sequence_number=3,
        min_sequence_number=1,
        added_snapshot_id=5,
        added_files_count=1,
        existing_files_count=2,
        deleted_files_count=0,
        added_rows_count=10,
        existing_rows_count=1 << 40,
        deleted_rows_count=0,
        partitions=[PartitionFieldSummary(True, False, b"\0", b"\1"), PartitionFieldSummary(False, None, None, None)],
        key_metadata=b"key",
    )


@pytest.mark.parametrize("version", [1, 2])
def test_lists_of_pyiceberg(version: TableVersion, tmp_path: Path) -> None:
    path = tmp_path / "list.avro"
    files = PyArrowFileIO()
    with write_theirs(version, files.new_output(str(path)), 5, 4, 3, "deflate") as theirs:
        theirs.add_manifests([_their_manifest()])
    manifests = read_manifest_list(path.read_bytes(), "list")
    sequence = {"sequence_number": 3, "min_sequence_number": 1} if version == 2 else {}
    assert manifests == [
        ManifestFile(
            "s3://bucket/m ä.avro",
            1 << 33,
            2,
            added_snapshot_id=5,
            added_files=1,
            existing_files=2,
            deleted_files=0,
            added_rows=10,
            existing_rows=1 << 40,
            deleted_rows=0,
            partitions=(PartitionSummary(True, False, b"\0", b"\1"), PartitionSummary(False)),
            key_metadata=b"key",
            **sequence,
        )
    ]
    expected = [repr(manifest) for manifest in read_theirs(files.new_input(str(path)))]
    path.write_bytes(_write(manifests, version))
    assert [repr(manifest) for manifest in read_theirs(files.new_input(str(path)))] == expected


def test_lists_of_other_orders_and_names() -> None:
    schema = {
        "type": "record",
        "name": "m",
        "fields": [
            {"name": "later", "type": "string", "field-id": 999},
            {"name": "spec", "type": "int", "field-id": 502},
            {"name": "added_data_files_count", "type": ["null", "int"]},
            {"name": "manifest_path", "type": "string"},
        ],
    }
    stream = BytesIO()
    fastavro.writer(stream, schema, [{"later": "x", "spec": 4, "added_data_files_count": 2, "manifest_path": "m"}])
    assert read_manifest_list(stream.getvalue(), "list") == [ManifestFile("m", 0, 4, added_files=2)]


def test_snapshots_that_have_their_manifests_in_themselves() -> None:
    reads: list[str] = []

    def read(location: str) -> bytes:
        reads.append(location)
        return _write([ManifestFile("m", 1, 0, **_COUNTS)])

    assert manifests_of({"manifests": ["a", "b"]}, read) == [ManifestFile("a", 0, None), ManifestFile("b", 0, None)]
    assert reads == []
    assert [manifest.path for manifest in manifests_of({"manifest-list": "l"}, read)] == ["m"]
    assert reads == ["l"]
    for snapshot in ({}, {"manifests": [1]}, {"manifests": "m"}, {"manifest-list": 7}):
        with pytest.raises(CorruptError, match="names neither"):
            manifests_of(snapshot, read)


_COUNTS: dict[str, Any] = {
    "added_snapshot_id": 1,
    "added_files": 1,
    "existing_files": 0,
    "deleted_files": 0,
    "added_rows": 1,
    "existing_rows": 0,
    "deleted_rows": 0,
}


def test_a_manifest_without_a_field() -> None:
    with pytest.raises(InvalidError, match="manifest m cannot be listed"):
        _write([ManifestFile("m", 1, 0)])


def test_each_truncation_and_each_bit() -> None:
    contents = _write([ManifestFile("m", 1, 0, **_COUNTS, partitions=(PartitionSummary(True),))])
    header = contents.index(contents[-16:]) + 16
    for length in {*range(len(contents))} - {header}:
        with pytest.raises(CorruptError):
            read_manifest_list(contents[:length], "list")
    for position in range(header, len(contents)):
        damaged = bytearray(contents)
        damaged[position] ^= 1 << position % 8
        try:
            read_manifest_list(bytes(damaged), "list")
        except CorruptError:
            continue


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([{"name": "manifest_path", "type": "string", "field-id": 500}], "missing"),
        ([{"name": "manifest_path", "type": "long", "field-id": 500}], "of type long"),
        ([{"name": "p", "type": "long", "field-id": 507}], "not a list of records"),
        ([{"name": "p", "type": "int", "field-id": 502}, {"name": "manifest_path", "type": "string"}] * 1, None),
        ([{"name": name, "type": "int", "field-id": 502} for name in "ab"], "missing|one ID"),
    ],
)
def test_schemas_that_are_no_manifest_lists(fields: list[dict[str, Any]], reason: str | None) -> None:
    stream = BytesIO()
    fastavro.writer(stream, {"type": "record", "name": "m", "fields": fields}, [])
    if reason is None:
        assert read_manifest_list(stream.getvalue(), "list") == []
    else:
        with pytest.raises(CorruptError, match=reason):
            read_manifest_list(stream.getvalue(), "list")
