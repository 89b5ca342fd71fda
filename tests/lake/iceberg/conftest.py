"""A world with a table, for tests that run again on other lakes."""

import pytest

from tests.lake.iceberg.support import with_table
from tests.lake.support import StoredWorld


@pytest.fixture
def world() -> StoredWorld:
    """A world in memory with the table shop.orders on main."""
    return with_table()
