"""The namespaces that a server serves, and the cost of knowing them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from graveler.errors import NotFoundError
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import ServedFolders, create_folder_lake
from graveler.server.namespaces import BELIEVED, ServedNamespaces
from tests.support.instruments import CountingTables


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with create_folder_lake(tmp_path / "lake") as lake:
        lake.create_repository("repo", "local://repo")
        yield lake


def test_a_repository_is_asked_for_once_in_five_seconds_and_a_source_never(lake: Lake, tmp_path: Path) -> None:
    tables, now = CountingTables(lake.tables), 100.0
    folders = ServedFolders(tmp_path / "lake", [f"file://{tmp_path}/given"], None)
    namespaces = ServedNamespaces(folders, tables, lambda: now)
    assert namespaces.at_hand("local://repo") is None
    store = namespaces.look_up("local://repo")
    for moment in (100.0, 100.0 + BELIEVED - 0.1):
        now = moment
        assert namespaces.at_hand("local://repo") is store
    given = namespaces.at_hand(f"file://{tmp_path}/given")
    assert given is not None
    assert given.namespace == f"file://{tmp_path}/given"
    assert tables.requests == 1
    now += 0.1
    assert namespaces.at_hand("local://repo") is None
    assert namespaces.look_up("local://repo") is store
    assert tables.requests == 2


def test_a_deleted_repositorys_is_gone_when_it_is_looked_up(lake: Lake, tmp_path: Path) -> None:
    now = 0.0
    namespaces = ServedNamespaces(ServedFolders(tmp_path / "lake", [], None), lake.tables, lambda: now)
    namespaces.look_up("local://repo")
    lake.delete_repository("repo")
    assert namespaces.at_hand("local://repo") is not None
    now = BELIEVED
    for _ in range(2):
        assert namespaces.at_hand("local://repo") is None
        with pytest.raises(NotFoundError, match="is neither the storage namespace"):
            namespaces.look_up("local://repo")


@pytest.mark.parametrize("namespace", ["local://other", "file:///", "file://", "s3://bucket", "", "local://repo/data"])
def test_what_nobody_named_is_not_served(lake: Lake, tmp_path: Path, namespace: str) -> None:
    namespaces = ServedNamespaces(ServedFolders(tmp_path / "lake", [], None), lake.tables)
    assert namespaces.at_hand(namespace) is None
    with pytest.raises(NotFoundError):
        namespaces.look_up(namespace)
