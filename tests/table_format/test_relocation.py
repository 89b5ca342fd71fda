"""Files of a table that was moved: what names a location names the new one, and anything else stays."""

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from graveler.errors import CorruptError, InvalidError
from graveler.lake.iceberg.position_deletes import rewrite_positions
from graveler.table_format.deletion_vectors import read_vector, with_data_files, write_vector
from graveler.table_format.manifest_lists import DATA, DELETES, read_manifest_list, write_manifest_list
from graveler.table_format.manifests import ADDED, entry_from, read_manifest, record_of, write_manifest
from graveler.table_format.relocation import Relocation

BEFORE, AFTER = "file:///old/tables/a/b", "file:///new/tables/a/b"
OUTSIDE = "s3://imported/data"
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}
SPEC: dict[str, Any] = {"spec-id": 0, "fields": []}
POSITIONS = [(f"{BEFORE}/data/a", 1), (f"{BEFORE}/data/a", 4), (f"{OUTSIDE}/b", 2)]
MOVED = [(f"{AFTER}/data/a", 1), (f"{AFTER}/data/a", 4), (f"{OUTSIDE}/b", 2)]


def move(location: str) -> str:
    return location.replace(BEFORE, AFTER)


def positions_in_parquet(**metadata: str) -> bytes:
    paths, numbers = map(list, zip(*POSITIONS, strict=True))
    columns = [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
    stream = io.BytesIO()
    pq.write_table(pa.table([paths, numbers], pa.schema(columns, metadata)), stream)
    return stream.getvalue()


def positions_in_avro() -> bytes:
    fields = [
        {"name": "file_path", "type": "string", "field-id": 2147483546},
        {"name": "pos", "type": "long", "field-id": 2147483545},
    ]
    stream = io.BytesIO()
    records = [{"file_path": path, "pos": position} for path, position in POSITIONS]
    fastavro.writer(stream, {"type": "record", "name": "deletes", "fields": fields}, records)
    return stream.getvalue()


def test_positions_name_the_data_files_where_they_lie_now() -> None:
    rewritten = rewrite_positions(positions_in_parquet(delete="position"), "PARQUET", "d", move)
    table = pq.read_table(io.BytesIO(rewritten))
    assert sorted(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True)) == sorted(MOVED)
    assert [field.metadata[b"PARQUET:field_id"] for field in table.schema] == [b"2147483546", b"2147483545"]
    assert (table.schema.metadata[b"delete"], table.schema.field("pos").nullable) == (b"position", False)
    records: list[Any] = list(fastavro.reader(io.BytesIO(rewrite_positions(positions_in_avro(), "AVRO", "d", move))))
    assert [(record["file_path"], record["pos"]) for record in records] == sorted(MOVED)


def test_positions_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(InvalidError, match="ORC, which cannot be written anew"):
        rewrite_positions(b"", "ORC", "d", move)
    for file_format in ("PARQUET", "AVRO"):
        with pytest.raises(CorruptError):
            rewrite_positions(b"PAR1", file_format, "d", move)


def test_a_vector_is_that_of_its_data_file_where_it_lies_now() -> None:
    vector = write_vector({1, 70_000}, f"{BEFORE}/data/a")
    rewritten = with_data_files(vector.contents, "v", move)
    assert read_vector(rewritten, vector.offset, vector.size, "v") == {1, 70_000}
    assert rewritten == write_vector({1, 70_000}, f"{AFTER}/data/a").contents


def test_damaged_and_compressed_footers_of_vectors_are_refused() -> None:
    contents = write_vector({1}, f"{BEFORE}/data/a").contents
    for damaged in (b"", contents[:-1], b"PFA1" * 5, contents.replace(b'"blobs"', b'"globs"')):
        with pytest.raises(CorruptError):
            with_data_files(damaged, "v", move)
    with pytest.raises(InvalidError, match="compressed"):
        with_data_files(contents[:-8] + b"\1\0\0\0PFA1", "v", move)


class Store:
    """Files by location: those of the folder before, and what is written."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, location: str) -> bytes:
        return self.files[location]

    def write(self, location: str, contents: bytes) -> None:
        self.files[location] = contents

    def relocation(self) -> Relocation:
        return Relocation(f"{BEFORE}/", AFTER, self.read, self.write, rewrite_positions)


def deletes(**fields: Any) -> dict[str, Any]:
    """Return an entry of a manifest with position deletes."""
    file = {
        "content": 1,
        "path": f"{BEFORE}/data/d",
        "format": "PARQUET",
        "partition": (),
        "record_count": 3,
        "size": 7,
        "sort_order_id": 5,
        **fields,
    }
    numbers = {"snapshot_id": 8, "sequence_number": 3, "file_sequence_number": None}
    return {"status": ADDED, **numbers, "data_file": file}


def moved_table(store: Store, entries: list[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Move a table with a snapshot of a manifest of deletes. Return its metadata, and the entries of the manifest."""
    contents, manifest = write_manifest(
        [entry_from(entry, 0) for entry in entries],
        f"{BEFORE}/metadata/m.avro",
        schema=SCHEMA,
        spec=SPEC,
        format_version=3,
        content=DELETES,
        snapshot_id=8,
        sequence_number=4,
    )
    store.files[f"{AFTER}/metadata/m.avro"] = contents
    store.files[f"{AFTER}/metadata/l.avro"] = write_manifest_list(
        [manifest], format_version=3, snapshot_id=8, parent_snapshot_id=7, sequence_number=4, first_row_id=0
    )
    before = {
        "location": BEFORE,
        "last-updated-ms": 50,
        "unknown": BEFORE,
        "properties": {"write.data.path": f"{BEFORE}/elsewhere", "comment": "a:/b", "owner": "ada"},
        "snapshots": [{"snapshot-id": 8, "manifest-list": f"{BEFORE}/metadata/l.avro", "sequence-number": 4}],
        "metadata-log": [{"timestamp-ms": 1, "metadata-file": f"{BEFORE}/metadata/old.json"}],
        "statistics": [{"statistics-path": f"file:{BEFORE[7:]}/metadata/s.puffin", "snapshot-id": 8}],
    }
    after = store.relocation().table(before, 60, f"{AFTER}/metadata/now.json")
    (snapshot,) = after["snapshots"]
    (rewritten,) = read_manifest_list(store.read(snapshot["manifest-list"]), "list")
    assert rewritten.length == len(store.read(rewritten.path))
    assert (rewritten.sequence_number, rewritten.added_files) == (manifest.sequence_number, manifest.added_files)
    read = read_manifest(store.read(rewritten.path), rewritten)
    return after, [record_of(entry) for entry in read.entries]


def test_metadata_names_the_files_where_they_lie_now() -> None:
    store = Store()
    store.files[f"{AFTER}/data/d"] = positions_in_parquet()
    after, (entry,) = moved_table(store, [deletes()])
    assert (after["location"], after["last-updated-ms"]) == (AFTER, 60)
    assert after["properties"] == {"write.data.path": f"{AFTER}/elsewhere", "comment": "a:/b", "owner": "ada"}
    assert [log["metadata-file"] for log in after["metadata-log"]] == [
        f"{AFTER}/metadata/old.json",
        f"{AFTER}/metadata/now.json",
    ]
    assert after["statistics"] == [{"statistics-path": f"{AFTER}/metadata/s.puffin", "snapshot-id": 8}]
    file = entry["data_file"]
    assert (file["size"], file["sort_order_id"]) == (len(store.read(file["path"])), 5)
    assert (entry["sequence_number"], entry["snapshot_id"]) == (3, 8)


def test_bounds_of_paths_move_with_them_if_all_lie_in_the_folder() -> None:
    def bounds(low: str, high: str) -> dict[str, Any]:
        return {
            name: [{"key": 2147483546, "value": path.encode()}, {"key": 2147483545, "value": b"\1"}]
            for name, path in (("lower_bounds", low), ("upper_bounds", high))
        }

    store = Store()
    store.files |= {f"{AFTER}/data/{name}": positions_in_parquet() for name in "de"}
    inside, mixed = bounds(f"{BEFORE}/data/a", f"{BEFORE}/data/b"), bounds(f"{BEFORE}/data/a", f"{OUTSIDE}/b")
    _, entries = moved_table(store, [deletes(**inside), deletes(path=f"{BEFORE}/data/e", **mixed)])
    assert entries[0]["data_file"]["upper_bounds"][0]["value"] == f"{AFTER}/data/b".encode()
    assert [[bound["key"] for bound in entries[1]["data_file"]["lower_bounds"]]] == [[2147483545]]


def test_vectors_of_one_file_stay_in_one_file() -> None:
    store = Store()
    vector = write_vector({1}, f"{BEFORE}/data/a")
    store.files[f"{AFTER}/data/v"] = vector.contents
    fields: dict[str, Any] = {
        "path": f"{BEFORE}/data/v",
        "format": "PUFFIN",
        "content_offset": vector.offset,
        "content_size": vector.size,
        "referenced_data_file": f"{BEFORE}/data/a",
    }
    _, entries = moved_table(store, [deletes(**fields), deletes(**fields)])
    assert len({entry["data_file"]["path"] for entry in entries}) == 1
    assert {entry["data_file"]["referenced_data_file"] for entry in entries} == {f"{AFTER}/data/a"}
    footer = store.read(entries[0]["data_file"]["path"])
    assert json.dumps(f"{AFTER}/data/a").encode() in footer


def test_deletes_that_lie_outside_stay_if_their_data_file_does_too() -> None:
    _, (entry,) = moved_table(Store(), [deletes(path=f"{OUTSIDE}/d", referenced_data_file=f"{OUTSIDE}/b")])
    assert (entry["data_file"]["path"], entry["data_file"]["size"]) == (f"{OUTSIDE}/d", 7)
    with pytest.raises(InvalidError, match="outside of the table's folder"):
        moved_table(Store(), [deletes(path=f"{OUTSIDE}/d")])


def test_data_and_deletes_by_value_are_not_read() -> None:
    _, entries = moved_table(Store(), [deletes(content=2, equality_ids=[1])])
    assert entries[0]["data_file"]["path"] == f"{AFTER}/data/d"


def test_manifests_that_a_snapshot_of_version_1_names_itself_are_moved() -> None:
    store = Store()
    entry = entry_from(
        {
            "status": ADDED,
            "snapshot_id": 8,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": {
                "path": f"{BEFORE}/data/a",
                "format": "PARQUET",
                "partition": (),
                "record_count": 1,
                "size": 7,
            },
        },
        0,
    )
    contents, manifest = write_manifest(
        [entry],
        f"{BEFORE}/metadata/m.avro",
        schema=SCHEMA,
        spec=SPEC,
        format_version=1,
        content=DATA,
        snapshot_id=8,
        sequence_number=0,
    )
    store.files[f"{AFTER}/metadata/m.avro"] = contents
    before = {
        "format-version": 1,
        "location": BEFORE,
        "last-updated-ms": 50,
        "snapshots": [{"snapshot-id": 8, "manifests": [f"{BEFORE}/metadata/m.avro"]}],
    }
    after = store.relocation().table(before, 60, f"{AFTER}/metadata/now.json")
    [[moved]] = [snapshot["manifests"] for snapshot in after["snapshots"]]
    assert moved.startswith(f"{AFTER}/metadata/")
    [record] = [record_of(read) for read in read_manifest(store.read(moved), replace(manifest, path=moved)).entries]
    assert record["data_file"]["path"] == f"{AFTER}/data/a"
