"""Tables in lakes of tests."""

from collections.abc import Callable
from secrets import randbits
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.iceberg.table_folders import root_of
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit
from graveler.requests.iceberg import Identifier, TableChange
from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Tables
from graveler.table_format.manifest_lists import manifests_of, write_manifest_list
from graveler.table_format.manifests import entry_from, write_manifest
from tests.lake.support import NAME, NAMESPACE, FakeClock, StoredWorld, World

SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}
ORDERS: Final = Identifier(("shop",), "orders")
VIEW_DEFINITION: Final[dict[str, Any]] = {
    "schema": {**SCHEMA, "schema-id": 0},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "SELECT id FROM orders", "dialect": "spark"}],
        "default-namespace": ["shop"],
    },
    "properties": {},
}


def creation_of(table: Identifier) -> TableChange:
    """Return the change by which a client creates a table."""
    updates = (
        {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 0}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    return TableChange(table, ({"type": "assert-create"},), updates)


def with_table(world: World | None = None) -> World:
    """Return a world with the table shop.orders on main."""
    world = world or World()
    add_table(world)
    return world


def add_table(world: StoredWorld) -> None:
    """Make the table shop.orders on main."""
    world.main.create_namespace("main", namespace=("shop",))
    world.main.create_table("main", table=ORDERS, definition={"schema": SCHEMA})


class Elsewhere(Struct):
    """A store as it was when it lay at another place, where its namespace was ``namespace``. Tables that are written by it are
    those of a lake that was moved since."""

    store: Objects
    namespace: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class WorldBefore(StoredWorld):
    """A world as it was before its storage was moved here from ``mem://before``."""

    def __init__(self, tables: Tables, objects: Callable[[str], Objects], clock: FakeClock) -> None:
        self.tables, self.clock = tables, clock
        self._objects = objects
        self.main = self.lake().repository(NAME)

    def objects(self, namespace: str = NAMESPACE) -> Objects:
        return cast("Objects", Elsewhere(self._objects(namespace), "mem://before"))


def metadata(world: StoredWorld, ref: str = "main", table: Identifier = ORDERS) -> dict[str, Any]:
    """Return the metadata of a table."""
    return CatalogReader(world.main.parts, ref).load(table).document


def set_property(
    world: StoredWorld,
    name: str,
    text: str,
    branch: str = "main",
    table: Identifier = ORDERS,
    requirements: tuple[dict[str, Any], ...] = (),
) -> Commit:
    """Set a property of a table."""
    update = {"action": "set-properties", "updates": {name: text}}
    return world.main.commit_tables(branch, tables=(TableChange(table, (), (update,)),))


def write_file(
    world: StoredWorld, path: str, data: bytes = b"rows", table: Identifier = ORDERS, branch: str = "main"
) -> str:
    """Write a file into a table's folder as a client does, and return its location."""
    location = f"{metadata(world, branch, table)['location']}/{path}"
    world.main.parts.objects.put(_key(world.main.parts, location), data)
    return location


def keys(world: StoredWorld, ref: str = "main") -> list[str]:
    """Return the paths of the catalog in a ref."""
    return [entry.path for entry in world.main.objects(ref, "_iceberg/")]


def appended(
    parts: RepositoryParts,
    document: dict[str, Any],
    *paths: str,
    size: int = 4,
    snapshot_id: int = 0,
    number_of_manifests: int = 1,
    partition: tuple[object, ...] = (),
) -> TableChange:
    """Write manifests and list of a snapshot that adds data files (``paths`` in the table's folder, already written), as a client
    does, and return the change that commits it."""
    location, parent = document["location"], document.get("current-snapshot-id")
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in document.get("snapshots", ())}
    number, snapshot_id = document["last-sequence-number"] + 1, snapshot_id or randbits(62)
    files = [
        {"path": f"{location}/{path}", "format": "PARQUET", "partition": partition, "record_count": 1, "size": size}
        for path in paths
    ]
    added: dict[str, Any] = {
        "status": 1,
        "snapshot_id": snapshot_id,
        "sequence_number": None,
        "file_sequence_number": None,
    }
    new_manifests = []
    for manifest_number in range(number_of_manifests):
        manifest_location = f"{location}/metadata/{snapshot_id}-m{manifest_number}.avro"
        contents, manifest = write_manifest(
            [entry_from(added | {"data_file": file}, 0) for file in files[manifest_number::number_of_manifests]],
            manifest_location,
            schema=document["schemas"][0],
            spec=document["partition-specs"][0],
            format_version=2,
            content=0,
            snapshot_id=snapshot_id,
            sequence_number=number,
        )
        parts.objects.put(_key(parts, manifest_location), contents)
        new_manifests.append(manifest)
    before = snapshots.get(parent)
    manifests = [] if before is None else manifests_of(before, lambda name: parts.objects.get(_key(parts, name)))
    list_location = f"{location}/metadata/snap-{snapshot_id}.avro"
    parts.objects.put(
        _key(parts, list_location),
        write_manifest_list(
            [*manifests, *new_manifests],
            format_version=2,
            snapshot_id=snapshot_id,
            parent_snapshot_id=None if before is None else parent,
            sequence_number=number,
        ),
    )
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": number,
        "timestamp-ms": document["last-updated-ms"] + 1,
        "manifest-list": list_location,
        "summary": {"operation": "append"},
        "schema-id": 0,
    } | ({} if before is None else {"parent-snapshot-id": parent})
    reference = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    head = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None if before is None else parent}
    return TableChange(ORDERS, (head,), ({"action": "add-snapshot", "snapshot": snapshot}, reference))


def append(world: StoredWorld, *paths: str, branch: str = "main", table: Identifier = ORDERS) -> Commit:
    """Write data files into a table's folder, and append them."""
    for path in paths:
        write_file(world, path, table=table, branch=branch)
    change = appended(world.main.parts, metadata(world, branch, table), *paths)
    return world.main.commit_tables(branch, tables=(replace(change, table=table),))


def _key(parts: RepositoryParts, location: str) -> str:
    return location.removeprefix(root_of(parts) + "/")
