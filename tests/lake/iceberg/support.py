"""Tables in a lake in memory."""

from typing import Any, Final

from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.model import Commit
from graveler.requests.iceberg import Identifier, TableChange
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
