"""A table with a history, by PyIceberg, once for all tests of a worker."""

from collections.abc import Iterator

import pytest

from tests.table_format.tables import History, write_history


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """The states of a table in a folder with unusual characters."""
    folder = tmp_path_factory.mktemp("tables") / "t%20ä b"
    with write_history(folder) as written:
        yield written
