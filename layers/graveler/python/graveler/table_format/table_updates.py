"""Updates of a table's metadata, as a commit of the REST catalog protocol names them: all of a commit, or none."""

from collections.abc import Callable, Sequence
from typing import Final

from graveler.errors import InvalidError
from graveler.table_format import common_updates, snapshot_updates, update_shapes
from graveler.table_format.common_updates import (
    add_equal_schema_once,
    next_id,
    read_updates,
    update_items,
)
from graveler.table_format.document_shapes import MAX_NAMES, MAX_SCHEMAS, MAX_SNAPSHOTS, MAX_SPECS
from graveler.table_format.drafts import TableDraft
from graveler.table_format.metadata_log import extend_metadata_log
from graveler.table_format.partition_specs import (
    INITIAL_ORDER_ID,
    INITIAL_SPEC_ID,
    UNSORTED_ORDER_ID,
    check_sort_order,
    check_sources,
    check_spec,
    highest_partition_id,
    same_sort_order,
    same_spec,
    with_field_ids,
)
from graveler.table_format.plain_documents import Document
from graveler.table_format.schema_rules import Column, columns_by_id, highest_field_id
from graveler.table_format.table_metadata import (
    DEFAULT_VERSION,
    LATEST_VERSION,
    RESERVED_PROPERTIES,
    current_schema,
    current_snapshot_id,
    default_sort_order,
    default_spec,
    empty_table,
    no_snapshot,
    with_current_parts,
)

_BOUNDS: Final = {
    "schemas": MAX_SCHEMAS,
    "partition-specs": MAX_SPECS,
    "sort-orders": MAX_SPECS,
    "snapshots": MAX_SNAPSHOTS,
    "snapshot-log": MAX_SNAPSHOTS,
    "properties": MAX_NAMES,
    "refs": MAX_NAMES,
    "statistics": MAX_NAMES,
    "partition-statistics": MAX_NAMES,
    "encryption-keys": MAX_NAMES,
}

_Apply = Callable[[TableDraft, Document], None]


def apply_table_updates(
    base: Document | None,
    updates: Sequence[Document],
    *,
    time_ms: int,
    previous_location: str | None = None,
    uuid: str | None = None,
) -> Document:
    """Return a table's metadata with all updates of a commit, in their order; ``base`` itself if they change nothing.

    ``base`` is a document as :mod:`graveler.table_format.table_metadata` reads it, and is not changed; the result shares what did
    not change. Without one, the updates create a table. ``uuid`` is the UUID of a new table whose updates assign none, and of a
    table of version 1 without a UUID that is upgraded. ``previous_location`` is the address of the base's file, for
    ``metadata-log``; ``time_ms`` the time in milliseconds since 1970. Raises :class:`~graveler.errors.InvalidError` for an update
    that is unknown, not valid or impossible, and :class:`~graveler.table_format.table_requirements.RequirementError` for a
    snapshot that was built on an older state.
    Costs about 20 µs, and for each snapshot of the table 0.1 µs.
    """
    steps = read_updates(updates, _UPDATES)
    start = empty_table(_first_version(steps), uuid) if base is None else base
    draft = TableDraft(start, time_ms, is_new=base is None)
    for apply, update in steps:
        apply(draft, update)
    if base is not None and not draft.changed:
        return base
    return _finish(draft, base, previous_location, uuid)


def _first_version(steps: Sequence[tuple[_Apply, Document]]) -> int:
    versions = [update["format-version"] for apply, update in steps if apply is upgrade_format_version]
    if versions and not 1 <= versions[0] <= LATEST_VERSION:
        raise InvalidError(f"Unsupported format version: v{versions[0]} (supported: v{LATEST_VERSION}); use 1, 2 or 3")
    return versions[0] if versions else DEFAULT_VERSION


def assign_uuid(draft: TableDraft, update: Document) -> None:
    """Give a table its UUID. Another one than it has is refused: clients would take it for another table."""
    current = draft.fields.get("table-uuid")
    if not draft.is_new and current is not None and current.lower() != update["uuid"].lower():
        raise InvalidError(f"Cannot reassign uuid: the table has {current}, and not {update['uuid']}; leave it out")
    if draft.is_new or current is None:
        draft.put("table-uuid", update["uuid"])


def upgrade_format_version(draft: TableDraft, update: Document) -> None:
    """Upgrade a table to a later format version."""
    version = update["format-version"]
    if version > LATEST_VERSION:
        raise InvalidError(
            f"Cannot upgrade table to unsupported format version: v{version} (supported: v{LATEST_VERSION}); use an earlier one"
        )
    if version < draft.version:
        raise InvalidError(f"Cannot downgrade v{draft.version} table to v{version}; leave it out")
    if version > draft.version:
        draft.put("format-version", version)
        draft.fields = with_current_parts(draft.fields)
        if current_snapshot_id(draft.fields) is None:
            draft.put("current-snapshot-id", no_snapshot(version))


def add_schema(draft: TableDraft, update: Document) -> None:
    """Add a schema, under the ID of an equal one or the next."""
    schema: Document = update["schema"]
    highest = max(highest_field_id(schema), update.get("last-column-id") or 0)
    add_equal_schema_once(draft, schema, draft.version)
    draft.put("last-column-id", max(draft.fields["last-column-id"], highest))


def set_current_schema(draft: TableDraft, update: Document) -> None:
    """Make a schema the current one; -1 is the last that was added."""
    _set_current(draft, update["schema-id"], "schemas", "schema-id", "current-schema-id", "schema")


def add_spec(draft: TableDraft, update: Document) -> None:
    """Add a partition spec for the current schema, under the ID of an equal one or the next."""
    spec: Document = update["spec"]
    specs = draft.fields["partition-specs"]
    for other in specs:
        if same_spec(other, spec):
            draft.last_added["partition-specs"] = other["spec-id"]
            return
    check_spec(spec, _current_columns(draft))
    last = draft.fields["last-partition-id"]
    spec_id = next_id(specs, "spec-id", INITIAL_SPEC_ID)
    numbered = with_field_ids(spec, specs, last, sequential=draft.version == 1)
    draft.change_list("partition-specs").append({**numbered, "spec-id": spec_id})
    draft.put("last-partition-id", max(last, highest_partition_id(numbered)))
    draft.last_added["partition-specs"] = spec_id


def set_default_spec(draft: TableDraft, update: Document) -> None:
    """Make a partition spec the default; -1 is the last that was added."""
    _set_current(draft, update["spec-id"], "partition-specs", "spec-id", "default-spec-id", "spec")


def add_sort_order(draft: TableDraft, update: Document) -> None:
    """Add a sort order for the current schema, under the ID of an equal one or the next. An order without fields is order 0."""
    order: Document = update["sort-order"]
    orders = draft.fields["sort-orders"]
    for other in orders:
        if same_sort_order(other, order):
            draft.last_added["sort-orders"] = other["order-id"]
            return
    check_sort_order(order, _current_columns(draft))
    order_id = UNSORTED_ORDER_ID
    if order["fields"]:
        order_id = next_id(orders, "order-id", INITIAL_ORDER_ID)
    draft.change_list("sort-orders").append({**order, "order-id": order_id})
    draft.last_added["sort-orders"] = order_id


def set_default_sort_order(draft: TableDraft, update: Document) -> None:
    """Make a sort order the default; -1 is the last that was added."""
    _set_current(draft, update["sort-order-id"], "sort-orders", "order-id", "default-sort-order-id", "sort order")


def _set_current(draft: TableDraft, part_id: int, parts: str, id_name: str, field: str, words: str) -> None:
    part_id = draft.resolve_id(parts, part_id, words)
    if draft.fields[field] == part_id:
        return
    if all(part[id_name] != part_id for part in draft.fields[parts]):
        raise InvalidError(f"Cannot set {field.removesuffix('-id')} to unknown {words}: {part_id}; add it first")
    draft.put(field, part_id)
    draft.defaults_changed = True


def _current_columns(draft: TableDraft) -> dict[int, Column]:
    if not any(schema["schema-id"] == draft.fields["current-schema-id"] for schema in draft.fields["schemas"]):
        raise InvalidError("Cannot find the current schema; add a schema, and set it, before specs and sort orders")
    return columns_by_id(current_schema(draft.fields))


def remove_schemas(draft: TableDraft, update: Document) -> None:
    """Remove schemas but the current one. Unknown IDs are ignored."""
    _remove_parts(draft, update["schema-ids"], "schemas", "schema-id", "current-schema-id", "the current schema")


def remove_specs(draft: TableDraft, update: Document) -> None:
    """Remove partition specs but the default. Unknown IDs are ignored."""
    _remove_parts(
        draft, update["spec-ids"], "partition-specs", "spec-id", "default-spec-id", "the default partition spec"
    )


def _remove_parts(draft: TableDraft, ids: Sequence[int], parts: str, id_name: str, current: str, words: str) -> None:
    removed = set(ids)
    if draft.fields[current] in removed:
        raise InvalidError(f"Cannot remove {words}: {draft.fields[current]}; set another one first")
    remaining = [part for part in draft.fields[parts] if part[id_name] not in removed]
    if len(remaining) < len(draft.fields[parts]):
        draft.replace_list(parts, remaining)


def set_properties(draft: TableDraft, update: Document) -> None:
    """Set properties; reserved names are refused."""
    reserved = sorted(RESERVED_PROPERTIES & update_items(update, "updates", "updated").keys())
    if reserved:
        raise InvalidError(
            f"Table properties should not contain reserved properties, but got {', '.join(reserved)}; leave them out (a format "
            f"version is upgraded by upgrade-format-version)"
        )
    common_updates.set_properties(draft, update)


def add_encryption_key(draft: TableDraft, update: Document) -> None:
    """Add an encrypted key. One whose ID the table has is ignored."""
    key: Document = update["encryption-key"]
    if all(other["key-id"] != key["key-id"] for other in draft.fields.get("encryption-keys") or ()):
        draft.change_list("encryption-keys").append(key)


def remove_encryption_key(draft: TableDraft, update: Document) -> None:
    """Remove an encrypted key, if the table has it."""
    keys = draft.fields.get("encryption-keys") or []
    remaining = [key for key in keys if key["key-id"] != update["key-id"]]
    if len(remaining) < len(keys):
        draft.replace_list("encryption-keys", remaining)


_UPDATES: Final[dict[str, tuple[type, _Apply]]] = {
    "assign-uuid": (update_shapes.AssignUuid, assign_uuid),
    "upgrade-format-version": (update_shapes.UpgradeFormatVersion, upgrade_format_version),
    "add-schema": (update_shapes.AddSchema, add_schema),
    "set-current-schema": (update_shapes.SetCurrentSchema, set_current_schema),
    "add-spec": (update_shapes.AddSpec, add_spec),
    "set-default-spec": (update_shapes.SetDefaultSpec, set_default_spec),
    "add-sort-order": (update_shapes.AddSortOrder, add_sort_order),
    "set-default-sort-order": (update_shapes.SetDefaultSortOrder, set_default_sort_order),
    "add-snapshot": (update_shapes.AddSnapshot, snapshot_updates.add_snapshot),
    "set-snapshot-ref": (update_shapes.SetSnapshotRef, snapshot_updates.set_snapshot_ref),
    "remove-snapshots": (update_shapes.RemoveSnapshots, snapshot_updates.remove_snapshots),
    "remove-snapshot-ref": (update_shapes.RemoveSnapshotRef, snapshot_updates.remove_snapshot_ref),
    "set-location": (update_shapes.SetLocation, common_updates.set_location),
    "set-properties": (update_shapes.SetProperties, set_properties),
    "remove-properties": (update_shapes.RemoveProperties, common_updates.remove_properties),
    "set-statistics": (update_shapes.SetStatistics, snapshot_updates.set_statistics),
    "remove-statistics": (update_shapes.RemoveStatistics, snapshot_updates.remove_statistics),
    "set-partition-statistics": (update_shapes.SetPartitionStatistics, snapshot_updates.set_partition_statistics),
    "remove-partition-statistics": (update_shapes.RemoveStatistics, snapshot_updates.remove_partition_statistics),
    "remove-partition-specs": (update_shapes.RemoveSpecs, remove_specs),
    "remove-schemas": (update_shapes.RemoveSchemas, remove_schemas),
    "add-encryption-key": (update_shapes.AddEncryptionKey, add_encryption_key),
    "remove-encryption-key": (update_shapes.RemoveEncryptionKey, remove_encryption_key),
}


def _finish(draft: TableDraft, base: Document | None, previous_location: str | None, uuid: str | None) -> Document:
    snapshot_updates.finish_snapshots(draft)
    fields = draft.fields
    if fields.get("table-uuid") is None and (draft.version > 1 or base is None):
        if uuid is None:
            raise InvalidError(f"UUID is required in format v{draft.version}; assign one (assign-uuid)")
        fields["table-uuid"] = uuid
    if base is None:
        _check_complete(fields)
    for name, bound in _BOUNDS.items():
        if len(fields.get(name) or ()) > bound:
            raise InvalidError(f"a table has at most {bound:,} {name}; remove some")
    if base is None or draft.defaults_changed:
        check_sources(default_spec(fields), default_sort_order(fields), _current_columns(draft))
    if base is not None and previous_location is not None:
        _add_previous_file(draft, base["last-updated-ms"], previous_location)
    fields["last-updated-ms"] = draft.commit_time_ms()
    return with_current_parts(fields) if base is None or draft.version == 1 else fields


def _check_complete(fields: Document) -> None:
    for name, words in (
        ("location", "location"),
        ("schemas", "schema"),
        ("partition-specs", "partition spec"),
        ("sort-orders", "sort order"),
    ):
        if not fields[name]:
            raise InvalidError(f"the updates of a new table have no {words}; add it")
    for name, parts, part_id in (
        ("current-schema-id", "schemas", "schema-id"),
        ("default-spec-id", "partition-specs", "spec-id"),
        ("default-sort-order-id", "sort-orders", "order-id"),
    ):
        if all(part[part_id] != fields[name] for part in fields[parts]):
            raise InvalidError(f"the updates of a new table have not set {name}; set it")


def _add_previous_file(draft: TableDraft, time_ms: int, location: str) -> None:
    entry = {"timestamp-ms": time_ms, "metadata-file": location}
    log = extend_metadata_log(draft.fields["metadata-log"], entry, draft.fields["properties"])
    draft.replace_list("metadata-log", log)
