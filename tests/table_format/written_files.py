"""Manifests and lists of small tables, in memory."""

from typing import Any

from graveler.table_format.manifest_lists import ManifestFile, write_manifest_list
from graveler.table_format.manifests import entry_from, write_manifest
from graveler.table_format.plain_documents import Document

SCHEMA = {"type": "struct", "schema-id": 0, "fields": []}
SPEC: Document = {"spec-id": 0, "fields": []}


class Files(dict[str, bytes]):
    """Files by location, and the reads of them."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, location: str) -> bytes:
        self.reads.append(location)
        return self[location]

    def manifest(
        self, name: str, snapshot_id: int, sequence_number: int, version: int = 2, content: int = 0, **files: Any
    ) -> ManifestFile:
        """Write a manifest of files: for each a status and a sequence number, and by option more fields of the file."""
        entries = []
        for file, (status, number, *fields) in files.items():
            data_file = {"path": f"s3://b/{file}", "format": "PARQUET", "partition": (), "record_count": 1, "size": 9}
            record = {
                "status": status,
                "snapshot_id": snapshot_id,
                "sequence_number": number,
                "file_sequence_number": number,
            }
            entries.append(entry_from(record | {"data_file": data_file | (fields[0] if fields else {})}, 0))
        self[f"s3://b/{name}"], manifest = write_manifest(
            entries,
            f"s3://b/{name}",
            schema=SCHEMA,
            spec=SPEC,
            format_version=version,
            content=content,
            snapshot_id=snapshot_id,
            sequence_number=sequence_number,
        )
        return manifest

    def snapshot(
        self, number: int, manifests: list[ManifestFile], parent: int | None = None, version: int = 2, **fields: Any
    ) -> Document:
        """Write a manifest list, and return its snapshot."""
        location = f"s3://b/list-{number}"
        self[location] = write_manifest_list(
            manifests, format_version=version, snapshot_id=number, parent_snapshot_id=parent
        )
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        parents = {"parent-snapshot-id": parent} if parent else {}
        return (
            {"snapshot-id": number, "manifest-list": location, "sequence-number": number, "timestamp-ms": number}
            | parents
            | named
        )
