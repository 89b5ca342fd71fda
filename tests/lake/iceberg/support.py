"""Tables in a lake in memory."""

from secrets import randbits
from typing import Any, Final

from msgspec.structs import replace

from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit
from graveler.requests.iceberg import Identifier, TableChange
from graveler.table_format.manifest_lists import manifests_of, write_manifest_list
from graveler.table_format.manifests import entry_from, write_manifest
from tests.lake.support import World

SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}
ORDERS: Final = Identifier(("shop",), "orders")


def with_table(world: World | None = None) -> World:
    """Return a world with the table shop.orders on main."""
    world = world or World()
    world.main.create_namespace("main", namespace=("shop",))
    world.main.create_table("main", table=ORDERS, definition={"schema": SCHEMA})
    return world


def metadata(world: World, ref: str = "main", table: Identifier = ORDERS) -> dict[str, Any]:
    """Return the metadata of a table."""
    return CatalogReader(world.main.parts, ref).load(table).document


def set_property(
    world: World,
    name: str,
    text: str,
    branch: str = "main",
    table: Identifier = ORDERS,
    requirements: tuple[dict[str, Any], ...] = (),
) -> Commit:
    """Set a property of a table."""
    update = {"action": "set-properties", "updates": {name: text}}
    return world.main.commit_tables(branch, tables=(TableChange(table, (), (update,)),))


def write_file(world: World, path: str, data: bytes = b"rows", table: Identifier = ORDERS) -> str:
    """Write a file into a table's folder as a client does, and return its location."""
    location = f"{metadata(world, table=table)['location']}/{path}"
    world.main.parts.objects.put(location.removeprefix(world.main.parts.namespace + "/"), data)
    return location


def keys(world: World, ref: str = "main") -> list[str]:
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


def append(world: World, *paths: str, branch: str = "main", table: Identifier = ORDERS) -> Commit:
    """Write data files into a table's folder, and append them."""
    for path in paths:
        write_file(world, path, table=table)
    change = appended(world.main.parts, metadata(world, branch, table), *paths)
    return world.main.commit_tables(branch, tables=(replace(change, table=table),))


def _key(parts: RepositoryParts, location: str) -> str:
    return location.removeprefix(parts.namespace + "/")
