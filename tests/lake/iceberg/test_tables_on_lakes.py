"""Commits, names and expiry of tables on SQLite and a folder, and on DynamoDB and S3: the tests of lakes in memory again."""

from collections.abc import Callable, Iterator
from secrets import token_hex
from typing import Final

import pytest

from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Objects
from graveler.storage.objects.s3 import S3Objects
from graveler.storage.tables.port import Tables
from tests.lake.iceberg import test_expiry, test_table_commits, test_table_names
from tests.lake.iceberg.support import add_table
from tests.lake.support import NAME, PlacedWorld
from tests.storage.adapters import OBJECTS, TABLES, s3_settings
from tests.support.retold import tell_again

KINDS: Final = {"folder": ("sqlite", "folder"), "s3": ("dynamodb-local", "s3proxy")}


@pytest.fixture(scope="module", params=KINDS)
def storage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tables, Callable[[str], Objects]]]:
    """A table for a lake, and what opens a store by a name."""
    tables, objects = KINDS[request.param]
    folder = tmp_path_factory.mktemp("lakes")
    with TABLES[tables](folder) as table, OBJECTS[objects](folder) as store:
        bucket = store.namespace.removeprefix("s3://").partition("/")[0]
        is_folder = isinstance(store, FolderObjects)
        yield (
            table,
            lambda name: FolderObjects(folder / name) if is_folder else S3Objects(bucket, name, s3_settings()),
        )


@pytest.fixture
def world(storage: tuple[Tables, Callable[[str], Objects]]) -> Iterator[PlacedWorld]:
    """An empty lake with the table shop.orders on main."""
    tables, open_store = storage
    placed = PlacedWorld(tables, open_store(token_hex(8)))
    add_table(placed)
    yield placed
    placed.lake().delete_repository(NAME)


tell_again(
    globals(),
    test_table_commits,
    {
        "test_staged_changes_are_compared_with_a_tree_whose_files_are_written_at_the_same_time": "its lake has other trees"
    },
    "world",
)
tell_again(
    globals(),
    test_table_names,
    {"test_a_strategy_leaves_the_names_of_one_side": "it decides before anything is written, as conflicts do"},
    "world",
)
tell_again(
    globals(),
    test_expiry,
    {"test_links_are_complete_after_expiry_on_either_side": "each of its many examples has a lake of its own"},
    "world",
)
