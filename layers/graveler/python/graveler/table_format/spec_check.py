"""A check of one table against the specification: its metadata, manifest lists, manifests, and that they agree.

For tests of what graveler writes, and for tables that other programs wrote. Data files are not opened.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from struct import error, unpack
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from graveler.errors import GravelerError
from graveler.table_format.avro_types import AvroType
from graveler.table_format.live_files import EQUALITY_DELETES
from graveler.table_format.manifest_lists import DATA, ManifestFile, PartitionSummary, manifests_of
from graveler.table_format.manifest_schemas import partition_fields
from graveler.table_format.manifests import (
    ADDED,
    DELETED,
    EXISTING,
    Manifest,
    ManifestEntry,
    describe,
    read_manifest,
)
from graveler.table_format.partition_specs import field_ids, highest_partition_id
from graveler.table_format.plain_documents import Document, ReadFile
from graveler.table_format.schema_rules import highest_field_id
from graveler.table_format.table_metadata import MAIN, NO_SNAPSHOT, ROW_LINEAGE_VERSION

MAX_SKEW: Final = 60_000
"""Milliseconds by which the clocks of writers may differ."""


class Violation(NamedTuple):
    """A rule that a table does not follow: in which part of the table, and a sentence."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


def check_table(metadata: Document, read_file: ReadFile) -> list[Violation]:
    """Return the violations of the table specification by a table: none, if it follows it.

    ``metadata`` is a document as :func:`~graveler.table_format.table_metadata.read_table` returns it. Reads each manifest list
    once, each manifest once for each first row ID that lists give it, and holds all entries in memory. A file that is missing
    or damaged is a violation, if ``read_file`` raises one of graveler's errors.
    """
    check = _Check(metadata, read_file)
    check.metadata_document()
    for snapshot in metadata.get("snapshots", []):
        check.snapshot(snapshot)
    return check.violations


@dataclass(slots=True)
class _Check:
    metadata: Document
    read_file: ReadFile
    violations: list[Violation] = field(default_factory=list)
    manifests: dict[tuple[str, int | None], Manifest | None] = field(default_factory=dict)
    """The manifests that were read, by path and first row ID."""
    listings: dict[str, list[tuple[int, ManifestFile]]] = field(default_factory=dict)
    """The different descriptions of a manifest by path, each with the first snapshot whose list has it."""

    def report(self, place: str, problem: str) -> None:
        self.violations.append(Violation(place, problem))

    def expect(self, place: str, name: str, actual: object, expected: object) -> None:
        if actual != expected:
            self.report(place, f"{name} is {actual}, but the files have {expected}")

    @property
    def version(self) -> int:
        return int(self.metadata["format-version"])

    def metadata_document(self) -> None:
        """Check what the document says of itself."""
        metadata = self.metadata
        for current, name, key in (
            ("current-schema-id", "schemas", "schema-id"),
            ("default-spec-id", "partition-specs", "spec-id"),
            ("default-sort-order-id", "sort-orders", "order-id"),
            ("", "snapshots", "snapshot-id"),
        ):
            numbers = [part.get(key) for part in metadata.get(name, [])]
            if twice := [number for number, count in Counter(numbers).items() if count > 1]:
                self.report("metadata", f"{name} have {key} {twice[0]} twice")
            if current and metadata.get(current) not in numbers:
                self.report("metadata", f"{current} is {metadata.get(current)}, which {name} do not have")
        highest = max(map(highest_field_id, metadata.get("schemas", [])), default=0)
        if metadata["last-column-id"] < highest:
            self.report("metadata", f"last-column-id is {metadata['last-column-id']}, and a column has {highest}")
        highest = max(map(highest_partition_id, metadata.get("partition-specs", [])), default=0)
        if metadata.get("last-partition-id", highest) < highest:
            self.report("metadata", f"last-partition-id is {metadata['last-partition-id']}, and a field has {highest}")
        self._snapshots()
        self._refs()

    def _snapshots(self) -> None:
        last = self.metadata.get("last-sequence-number", 0)
        schemas = {schema.get("schema-id") for schema in self.metadata.get("schemas", [])}
        numbers = {
            snapshot["snapshot-id"]: snapshot.get("sequence-number", 0)
            for snapshot in self.metadata.get("snapshots", [])
        }
        for snapshot in self.metadata.get("snapshots", []):
            place, number = _name(snapshot), snapshot.get("sequence-number", 0)
            if number > last:
                self.report(place, f"sequence number {number} is above the table's last-sequence-number, {last}")
            parent = numbers.get(snapshot.get("parent-snapshot-id"))
            if parent is not None and self.version > 1 and 0 < number <= parent:
                self.report(place, f"sequence number {number} is not above its parent's, {parent}")
            if snapshot.get("schema-id") is not None and snapshot["schema-id"] not in schemas:
                self.report(place, f"schema-id is {snapshot['schema-id']}, which the table does not have")
            if snapshot["timestamp-ms"] > self.metadata["last-updated-ms"] + MAX_SKEW:
                self.report(place, "it is younger than the table's last-updated-ms")
        if self.version > 1:
            self._sequence_numbers(numbers)
        for name in ("statistics", "partition-statistics"):
            for statistics in self.metadata.get(name, []):
                if statistics.get("snapshot-id") not in numbers:
                    self.report(
                        "metadata", f"{name} are of snapshot {statistics.get('snapshot-id')}, which does not exist"
                    )

    def _sequence_numbers(self, numbers: Mapping[int, int]) -> None:
        """Check that no two snapshots of the main line have one number. A snapshot that a merge copied for a ref keeps its
        number, as its manifest list has it: readers compare numbers within a snapshot only."""
        line = {entry["snapshot-id"] for entry in self.metadata.get("snapshot-log", [])}
        counts = Counter(number for snapshot_id, number in numbers.items() if snapshot_id in line)
        for number, count in counts.items():
            if count > 1 and number > 0:
                self.report("metadata", f"two snapshots have sequence number {number}")

    def _refs(self) -> None:
        snapshots = {snapshot["snapshot-id"] for snapshot in self.metadata.get("snapshots", [])}
        current = self.metadata.get("current-snapshot-id")
        current = None if current == NO_SNAPSHOT else current
        if current is not None and current not in snapshots:
            self.report("metadata", f"current-snapshot-id is {current}, which does not exist")
        refs = self.metadata.get("refs", {})
        for name, ref in refs.items():
            if ref["snapshot-id"] not in snapshots:
                self.report(f"ref {name}", f"it names snapshot {ref['snapshot-id']}, which does not exist")
        if MAIN in refs and refs[MAIN]["snapshot-id"] != current:
            self.report(
                f"ref {MAIN}", f"it names snapshot {refs[MAIN]['snapshot-id']}, and current-snapshot-id is {current}"
            )
        log = self.metadata.get("snapshot-log", [])
        for entry in log:
            if entry["snapshot-id"] not in snapshots:
                self.report("snapshot-log", f"it has snapshot {entry['snapshot-id']}, which does not exist")
        if log and log[-1]["snapshot-id"] != current:
            self.report(
                "snapshot-log", f"it ends with snapshot {log[-1]['snapshot-id']}, and current-snapshot-id is {current}"
            )
        for name in ("snapshot-log", "metadata-log"):
            times = [entry["timestamp-ms"] for entry in self.metadata.get(name, [])]
            if any(later < earlier - MAX_SKEW for earlier, later in pairwise(times)):
                self.report(name, "it is not in the order of time")

    def snapshot(self, snapshot: Document) -> None:
        """Check a snapshot with its manifests."""
        place = _name(snapshot)
        if self.version > 1 and "manifest-list" not in snapshot and snapshot.get("sequence-number", 0) > 0:
            self.report(place, "it has no manifest list")
        try:
            manifests = manifests_of(snapshot, self.read_file)
        except GravelerError as failure:
            self.report(place, f"its manifest list cannot be read: {failure}")
            return
        if twice := [path for path, count in Counter(manifest.path for manifest in manifests).items() if count > 1]:
            self.report(place, f"its list has manifest {twice[0]} twice")
        live: list[ManifestEntry] = []
        whole = True
        for manifest in manifests:
            self._sequence(place, snapshot, manifest)
            opened = self._manifest(snapshot["snapshot-id"], manifest)
            whole = whole and opened is not None
            live += [entry for entry in opened.entries if entry.live] if opened else ()
        self._live(place, live)
        if whole:
            self._totals(place, snapshot.get("summary") or {}, live)
        if self.version >= ROW_LINEAGE_VERSION and snapshot.get("first-row-id") is not None:
            self._rows(place, snapshot, live)

    def _sequence(self, place: str, snapshot: Document, manifest: ManifestFile) -> None:
        number = snapshot.get("sequence-number", 0)
        if manifest.sequence_number > number:
            self.report(
                place,
                f"manifest {manifest.path} has sequence number {manifest.sequence_number}, above the snapshot's {number}",
            )
        if manifest.added_snapshot_id == snapshot["snapshot-id"] and manifest.sequence_number != number:
            self.report(
                place,
                f"its own manifest {manifest.path} has sequence number {manifest.sequence_number}, and the snapshot {number}",
            )

    def _manifest(self, snapshot_id: int, manifest: ManifestFile) -> Manifest | None:
        """Check a manifest of a snapshot's list, once, and return it if it can be read."""
        place, key = f"manifest {manifest.path}", (manifest.path, manifest.first_row_id)
        listings = self.listings.setdefault(manifest.path, [])
        if any(self._differ(listing, (snapshot_id, manifest)) for listing in listings):
            self.report(place, "two manifest lists describe it differently")
        if all(listed != manifest for _, listed in listings):
            listings.append((snapshot_id, manifest))
        if key in self.manifests:
            return self.manifests[key]
        self.manifests[key] = None
        try:
            contents = self.read_file(manifest.path)
            opened = self.manifests[key] = read_manifest(contents, manifest)
        except GravelerError as failure:
            self.report(place, f"it cannot be read: {failure}")
            return None
        if manifest.length:
            self.expect(place, "its length in the list", manifest.length, len(contents))
        specs = {spec.get("spec-id"): spec for spec in self.metadata.get("partition-specs", [])}
        if opened.spec_id not in specs:
            self.report(place, f"it has partition spec {opened.spec_id}, which the table does not have")
        elif len(specs[opened.spec_id]["fields"]) != len(opened.layout.partition_types):
            self.report(place, f"its partitions have other fields than spec {opened.spec_id}")
        else:
            self._partition_ids(place, opened, specs[opened.spec_id])
        self._counts(place, manifest, opened)
        for entry in opened.entries:
            self._entry(place, manifest, entry)
        return opened

    def _partition_ids(self, place: str, opened: Manifest, spec: Document) -> None:
        """Check that the fields of partitions have the IDs of their spec: readers find the values of partitions by them."""
        expected = field_ids({"fields": partition_fields(spec["fields"])})
        # `read_manifest` refuses a header whose partition spec has no fields with IDs.
        header = {"fields": partition_fields(json.loads(opened.metadata.get("partition-spec", "[]")))}
        pairs = zip(opened.partition_ids, expected, strict=True)
        inherited = tuple(number if number >= 0 else expected_id for number, expected_id in pairs)
        for part, ids in (("header", field_ids(header)), ("schema", inherited)):
            if ids != expected:
                self.report(
                    place,
                    f"the partition fields of its {part} have the IDs {ids}, and those of spec {opened.spec_id} have {expected}",
                )

    def _differ(self, former: tuple[int, ManifestFile], latter: tuple[int, ManifestFile]) -> bool:
        """Return whether the lists of two snapshots describe a manifest differently. A table that is upgraded to version 3 gives
        row IDs to the manifests that it has: lists from before lack them, and each line of snapshots gives its own."""
        (former_id, listed), (latter_id, manifest) = former, latter
        if manifest == listed:
            return False
        row_ids = listed.first_row_id, manifest.first_row_id
        if None in row_ids or (former_id not in self._line(latter_id) and latter_id not in self._line(former_id)):
            listed = replace(listed, first_row_id=manifest.first_row_id)
        return manifest != listed

    def _line(self, snapshot_id: int) -> set[int]:
        """Return a snapshot and its ancestors, as far as the table has them."""
        parents = {part["snapshot-id"]: part.get("parent-snapshot-id") for part in self.metadata["snapshots"]}
        line: set[int] = set()
        step: int | None = snapshot_id
        while step is not None and step not in line:
            line.add(step)
            step = parents.get(step)
        return line

    def _counts(self, place: str, manifest: ManifestFile, opened: Manifest) -> None:
        computed = describe(opened.entries, manifest, opened.layout.partition_types)
        for name in ("added_files", "existing_files", "deleted_files", "added_rows", "existing_rows", "deleted_rows"):
            if getattr(manifest, name) is not None:
                self.expect(place, f"{name} in the list", getattr(manifest, name), getattr(computed, name))
        if any(entry.live for entry in opened.entries):
            self.expect(
                place, "min_sequence_number in the list", manifest.min_sequence_number, computed.min_sequence_number
            )
        if manifest.partitions is None or computed.partitions is None:
            return
        if len(manifest.partitions) != len(computed.partitions):
            self.report(
                place,
                f"the list has {len(manifest.partitions)} summaries for {len(computed.partitions)} partition fields",
            )
            return
        parts = zip(manifest.partitions, computed.partitions, opened.layout.partition_types, strict=True)
        for index, (listed, exact, avro_type) in enumerate(parts):
            if not _covers(listed, exact, avro_type):
                self.report(
                    place, f"the list's summary of partition field {index} does not cover the values of its entries"
                )

    def _entry(self, place: str, manifest: ManifestFile, entry: ManifestEntry) -> None:
        place = f"{place}, file {entry.path}"
        number, file_number = entry.sequence_number, entry.file_sequence_number
        if number is None or file_number is None:
            self.report(place, "it has no sequence number, and inherits none")
        elif number > manifest.sequence_number or file_number > manifest.sequence_number:
            self.report(
                place,
                f"its sequence numbers {number} and {file_number} are above its manifest's, {manifest.sequence_number}",
            )
        elif entry.status == ADDED and file_number != manifest.sequence_number:
            self.report(
                place,
                f"it was added with file sequence number {file_number}, by a manifest of {manifest.sequence_number}",
            )
        elif entry.status == EXISTING and number > file_number:
            self.report(place, f"its data sequence number {number} is above its file sequence number, {file_number}")
        if entry.status in (ADDED, DELETED) and manifest.added_snapshot_id is not None:
            verb = "added" if entry.status == ADDED else "deleted"
            if entry.snapshot_id != manifest.added_snapshot_id:
                self.report(
                    place, f"snapshot {entry.snapshot_id} {verb} it, in a manifest of {manifest.added_snapshot_id}"
                )
        if entry.content == EQUALITY_DELETES and not entry.equality_ids:
            self.report(place, "it has equality deletes without equality_ids")
        if entry.is_deletion_vector and (self.version < ROW_LINEAGE_VERSION or entry.referenced_data_file is None):
            self.report(place, "it has a deletion vector of no data file, or in a table before version 3")

    def _live(self, place: str, live: list[ManifestEntry]) -> None:
        counts = Counter((entry.path, entry.content_offset) for entry in live)
        for (path, _), count in counts.items():
            if count > 1:
                self.report(place, f"file {path} is live {count} times")
        data = {entry.path for entry in live if entry.content == DATA}
        vectors = Counter(entry.referenced_data_file for entry in live if entry.is_deletion_vector)
        for referenced, count in vectors.items():
            if count > 1:
                self.report(place, f"data file {referenced} has {count} deletion vectors")
            if referenced not in data:
                self.report(place, f"a deletion vector is of data file {referenced}, which is not live")

    def _totals(self, place: str, summary: Document, live: list[ManifestEntry]) -> None:
        data = [entry for entry in live if entry.content == DATA]
        deletes = [entry for entry in live if entry.content != DATA]
        equality = [entry for entry in deletes if entry.content == EQUALITY_DELETES]
        totals = {
            "total-records": _row_count(data),
            "total-data-files": len(data),
            "total-delete-files": len(deletes),
            "total-position-deletes": _row_count(deletes) - _row_count(equality),
            "total-equality-deletes": _row_count(equality),
            "total-files-size": sum(entry.size if entry.content_size is None else entry.content_size for entry in live),
        }
        for name, total in totals.items():
            if name in summary:
                self.expect(place, f"{name} of its summary", summary[name], str(total))

    def _rows(self, place: str, snapshot: Document, live: list[ManifestEntry]) -> None:
        after = self.metadata.get("next-row-id", 0)
        begin, added = snapshot["first-row-id"], snapshot.get("added-rows")
        if added is None:
            self.report(place, "it has first-row-id without added-rows")
        elif begin + added > after:
            self.report(place, f"its rows end at {begin + added}, above the table's next-row-id, {after}")
        end, previous = 0, ""
        blocks = sorted(
            (-1 if entry.first_row_id is None else entry.first_row_id, entry.record_count, entry.path)
            for entry in live
            if entry.content == DATA
        )
        for start, count, path in blocks:
            if start < 0:
                self.report(place, f"data file {path} has no row IDs")
                continue
            if start + count > after:
                self.report(
                    place, f"data file {path} has row IDs to {start + count}, above the table's next-row-id, {after}"
                )
            if count and start < end:
                self.report(place, f"data files {previous} and {path} share row IDs from {start} on")
            if start + count > end:
                end, previous = start + count, path


def _name(snapshot: Document) -> str:
    return f"snapshot {snapshot.get('snapshot-id')}"


def _row_count(entries: Iterable[ManifestEntry]) -> int:
    return sum(entry.record_count for entry in entries)


_ORDERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "int": lambda bound: unpack("<i", bound),
    "long": lambda bound: unpack("<q", bound),
    "float": lambda bound: unpack("<f", bound),
    "double": lambda bound: unpack("<d", bound),
    "decimal": lambda bound: int.from_bytes(bound, "big", signed=True),
    "string": bytes,
    "boolean": bytes,
}
"""Orders of bounds, for types that all writers order alike."""


def _covers(listed: PartitionSummary, exact: PartitionSummary, avro_type: AvroType) -> bool:
    if exact.contains_null and not listed.contains_null:
        return False
    if exact.contains_nan and listed.contains_nan is False:
        return False
    order = _ORDERS.get(avro_type.kind)
    if order is None or exact.lower_bound is None or exact.upper_bound is None:
        return True
    if listed.lower_bound is None or listed.upper_bound is None:
        return False
    try:
        low, high = order(listed.lower_bound), order(listed.upper_bound)
    except error:
        return False
    return bool(low <= order(exact.lower_bound) and high >= order(exact.upper_bound))
