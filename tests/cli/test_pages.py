"""The pages at which ``graveler ui`` begins."""

from pathlib import Path

import pytest

from graveler.cli.pages import page_of
from graveler.errors import InvalidError, RefNotFoundError, RepositoryNotFoundError
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "lake"
    with create_folder_lake(folder) as lake:
        repository = lake.create_repository("sales", "local://sales")
        repository.upload("main", "a b/#1?.csv", b"x")
        repository.commit("main", "m")
        repository.create_tag("v1/rc", "main")
    return folder


@pytest.mark.parametrize(
    ("uri", "page"),
    [
        ("lakefs://sales", "/repositories/sales/objects"),
        ("lakefs://sales/", "/repositories/sales/objects"),
        ("lakefs://sales/main", "/repositories/sales/objects?ref=main"),
        ("graveler://sales/main/a b/", "/repositories/sales/objects?ref=main&path=a%20b%2F"),
        ("lakefs://sales/main@/a b/#1?.csv", "/repositories/sales/object?ref=main%40&path=a%20b%2F%231%3F.csv"),
        ("lakefs://sales/v1%2Frc/a b/#1?.csv", "/repositories/sales/object?ref=v1%2Frc&path=a%20b%2F%231%3F.csv"),
        ("lakefs://sales/main/nothing", "/repositories/sales/objects?ref=main&path=nothing"),
    ],
)
def test_a_uri_has_a_page(folder: Path, uri: str, page: str) -> None:
    with open_folder_lake(folder) as lake:
        assert page_of(lake, uri) == page


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("lakefs://", InvalidError),
        ("lakefs://nothing", RepositoryNotFoundError),
        ("lakefs://nothing/main/a", RepositoryNotFoundError),
        ("lakefs://sales/nothing/a", RefNotFoundError),
    ],
)
def test_what_does_not_exist_has_none(folder: Path, uri: str, error: type[Exception]) -> None:
    with open_folder_lake(folder) as lake, pytest.raises(error):
        page_of(lake, uri)
