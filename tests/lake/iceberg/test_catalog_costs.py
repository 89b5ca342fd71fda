"""Requests of the catalog's verbs, for a process that has the branch's head in memory."""

from collections.abc import Callable
from typing import Final

import pytest
from msgspec.structs import replace

from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.lake import Lake
from graveler.lake.opening.lake_parts import TreeSettings
from graveler.lake.repository import OpenRepository
from graveler.model import SplitParameters
from graveler.requests.iceberg import Identifier, TableChange
from graveler.table_format.table_metadata import encode_metadata
from tests.lake.iceberg.support import (
    ORDERS,
    SCHEMA,
    VIEW_DEFINITION,
    append,
    appended,
    metadata,
    with_table,
    write_file,
)
from tests.lake.support import NAME, Counted, World
from tests.support.critical_path import CriticalPath, TimedObjects, TimedTables

OTHERS: Final = tuple(Identifier(("shop",), f"other {number}") for number in range(2))
VIEW: Final = Identifier(("shop",), "recent")
SET: Final = {"action": "set-properties", "updates": {"a": "b"}}


def in_one_range() -> World:
    """Return a world with a table, whose trees have one range."""
    return with_table(World(SplitParameters()))


def warmed(world: World) -> Counted:
    """Return a client that has made a commit, and whose next requests are counted."""
    client = world.counted()
    client.repository.set_namespace_properties("main", namespace=("shop",), updates={"warm": "yes"})
    CatalogReader(client.repository.parts, "main").load(ORDERS)
    client.reset()
    return client


def load(repository: OpenRepository) -> None:
    CatalogReader(repository.parts, "main").load(ORDERS)


def set_properties(repository: OpenRepository) -> None:
    repository.commit_tables("main", tables=(TableChange(ORDERS, (), (SET,)),))


def change_three_tables(repository: OpenRepository) -> None:
    repository.commit_tables("main", tables=tuple(TableChange(table, (), (SET,)) for table in (ORDERS, *OTHERS)))


def create(repository: OpenRepository) -> None:
    repository.create_table("main", table=Identifier(("shop",), "new"), definition={"schema": SCHEMA})


def rename(repository: OpenRepository) -> None:
    repository.rename_relation("main", relation=ORDERS, destination=Identifier(("shop",), "new"))


def drop(repository: OpenRepository) -> None:
    repository.drop_relation("main", relation=ORDERS)


def create_view(repository: OpenRepository) -> None:
    repository.create_view("main", view=Identifier(("shop",), "new"), definition=VIEW_DEFINITION)


def replace_view(repository: OpenRepository) -> None:
    repository.replace_view("main", view=VIEW, updates=(SET,))


def drop_view(repository: OpenRepository) -> None:
    repository.drop_relation("main", relation=VIEW, kind="view")


def create_namespace(repository: OpenRepository) -> None:
    repository.create_namespace("main", namespace=("another",))


def set_namespace_properties(repository: OpenRepository) -> None:
    repository.set_namespace_properties("main", namespace=("empty",), updates={"a": "b"})


def drop_namespace(repository: OpenRepository) -> None:
    repository.drop_namespace("main", namespace=("empty",))


@pytest.mark.parametrize(
    ("verb", "tables", "objects"),
    [
        (load, {"get_many": 1}, {}),
        (set_properties, {"get_many": 2, "query": 1, "transact": 1}, {"put": 4}),
        (change_three_tables, {"get_many": 2, "query": 1, "transact": 1}, {"put": 6}),
        (create, {"get_many": 1, "query": 1, "transact": 1}, {"put": 4}),
        (rename, {"get_many": 1, "query": 1, "transact": 1}, {"put": 3}),
        (drop, {"get_many": 1, "query": 1, "transact": 1}, {"put": 3}),
        (create_view, {"get_many": 1, "query": 1, "transact": 1}, {"put": 4}),
        (replace_view, {"get_many": 1, "query": 1, "transact": 1}, {"put": 4}),
        (drop_view, {"get_many": 1, "query": 1, "transact": 1}, {"put": 3}),
        (create_namespace, {"get_many": 1, "query": 1, "transact": 1}, {"head": 1, "put": 3}),
        (set_namespace_properties, {"get_many": 1, "query": 1, "transact": 1}, {"put": 3}),
        (drop_namespace, {"get_many": 1, "query": 1, "transact": 1}, {"put": 3}),
    ],
)
def test_requests_of_a_verb(
    verb: Callable[[OpenRepository], None], tables: dict[str, int], objects: dict[str, int]
) -> None:
    world = in_one_range()
    for table in OTHERS:
        world.main.create_table("main", table=table, definition={"schema": SCHEMA})
    world.main.create_view("main", view=VIEW, definition=VIEW_DEFINITION)
    world.main.create_namespace("main", namespace=("empty",))
    client = warmed(world)
    verb(client.repository)
    assert (dict(client.tables.calls), dict(client.objects.calls)) == (tables, objects)


def waits_of_a_transaction(number: int) -> float:
    """Return how many requests of a transaction wait for one another that appends a file to each of so many tables."""
    world = in_one_range()
    changes = []
    for index in range(number):
        table = Identifier(("shop",), f"table {index}")
        world.main.create_table("main", table=table, definition={"schema": SCHEMA})
        document = CatalogReader(world.main.parts, "main").load(table).document
        world.objects().put(f"{document['location'].removeprefix('mem://repo/')}/data/a", b"rows")
        changes.append(replace(appended(world.main.parts, document, "data/a"), table=table))
    path = CriticalPath()
    tables, objects = TimedTables(world.tables, path), TimedObjects(world.objects(), path)
    lake = Lake(tables, lambda _: objects, clock=world.clock, trees=TreeSettings(writes_at_once=8))
    repository = lake.repository(NAME)
    repository.set_namespace_properties("main", namespace=("shop",), updates={"warm": "yes"})
    objects.reset()
    with path:
        repository.commit_tables("main", tables=tuple(changes))
    # The metadata, the range, the metarange and the commit; the list, the manifest and the file are looked at.
    assert (objects.calls["put"], objects.calls["head"]) == (number + 3, 3 * number)
    return path.now


def test_a_transaction_of_several_tables_waits_as_a_commit_of_one() -> None:
    assert waits_of_a_transaction(8) == waits_of_a_transaction(1)


def test_a_registration_looks_at_each_file_of_the_table_once() -> None:
    world = in_one_range()
    for number in range(3):
        append(world, f"data/{number}")
    document = metadata(world)
    location = f"{document['location']}/metadata/moved.metadata.json"
    world.objects().put(location.removeprefix("mem://repo/"), encode_metadata(document))
    world.main.drop_relation("main", relation=ORDERS)
    world.main.create_table("main", table=ORDERS, definition={"schema": SCHEMA})
    client = warmed(world)
    client.repository.register_table("main", table=OTHERS[0], location=location)
    assert dict(client.tables.calls) == {"get_many": 1, "query": 1, "transact": 1}
    # Three lists, three manifests, three data files, and the metadata files of the log; the first six and the metadata are read.
    heads = 9 + len(document["metadata-log"])
    assert dict(client.objects.calls) == {"get": 7, "head": heads, "put": 4}


@pytest.mark.parametrize("number", [1, 100])
def test_a_commit_of_files_looks_at_each_of_them_once(number: int) -> None:
    world = in_one_range()
    paths = [f"data/{file}" for file in range(number)]
    for path in paths:
        write_file(world, path)
    change = appended(world.main.parts, metadata(world), *paths)
    client = warmed(world)
    client.repository.commit_tables("main", tables=(change,))
    assert dict(client.tables.calls) == {"get_many": 2, "query": 1, "transact": 1}
    # The list and the manifest are looked at, too, and read; the metadata before is described by its entry.
    assert client.objects.calls["head"] == number + 2
    assert client.objects.calls["put"] == 4


@pytest.mark.parametrize("number", [5, 1000])
def test_a_merge_of_two_appends_opens_the_manifests_that_differ(number: int) -> None:
    world = in_one_range()
    paths = [f"data/{file}" for file in range(number)]
    for path in paths:
        write_file(world, path)
    change = appended(world.main.parts, metadata(world), *paths, number_of_manifests=number)
    world.main.commit_tables("main", tables=(change,))
    world.main.create_branch("dev", "main")
    append(world, "data/source", branch="dev")
    append(world, "data/destination")
    client = warmed(world)
    client.repository.merge("dev", "main")
    opened = [key for method, key in client.objects.keys if method == "get" and "-m" in key]
    assert len(opened) == 2
    assert client.objects.calls["get"] < 20
    assert client.tables.calls["transact"] == 1


def expire(numbers: list[int]) -> TableChange:
    return TableChange(ORDERS, (), ({"action": "remove-snapshots", "snapshot-ids": numbers},))


@pytest.mark.parametrize("number", [2, 20])
def test_an_expiry_reads_the_lists_and_no_manifest_that_a_remaining_snapshot_has(number: int) -> None:
    world = in_one_range()
    for file in range(number):
        append(world, f"data/{file}")
    numbers = [snapshot["snapshot-id"] for snapshot in metadata(world)["snapshots"]]
    client = warmed(world)
    client.repository.commit_tables("main", tables=(expire(numbers[:-1]),))
    assert client.objects.calls["get"] == number
    assert client.objects.calls["put"] == 4
