"""Each kind of lake: a folder, S3 with DynamoDB Local, behind a server; with a second way in, by which others write."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from graveler.access.authentication import Access
from graveler.access.keys import KeyWithSecret
from graveler.access.permissions import Role
from graveler.lake.opening.folder import create_folder_lake
from graveler.sdk.lake import Lake, create_lake, open_lake
from graveler.sdk.repository import Repository
from tests.server.support import running
from tests.sql.arrow.histories import build
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.shell import Shell


@dataclass(frozen=True)
class Kind:
    """A lake that is read, and the same one as another process has it: an own lake."""

    lake: Lake
    writer: Lake

    def build(self, history: list[tuple[str, object]]) -> Repository:
        """Create a repository after these steps, as the writer has it; its name is new."""
        name = f"r-{token_hex(6)}"
        return build(self.writer, name, f"{self.writer.verbs.home}{name}", history)


@dataclass(frozen=True)
class Server:
    """A server, and its lake's folder."""

    url: str
    folder: Path
    admin: KeyWithSecret

    def key(self, role: Role, *repositories: str) -> KeyWithSecret:
        """Create a key, limited to repositories if some are given."""
        with open_lake(self.folder) as lake:
            return Access(lake.own.tables).create_key("eve", role, repositories, ())


def open_with(url: str, key: KeyWithSecret, shell: Shell) -> Lake:
    """Open a lake behind a server with a key."""
    shell.export("GRAVELER_ACCESS_KEY_ID", key.key.key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", key.secret)
    return open_lake(url)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served-kind")
    with create_folder_lake(folder / "lake") as lake:
        admin = Access(lake.tables).create_key("ada", Role.ADMIN, (), ())
    with running(folder, workers=1, key=False) as started:
        yield Server(started.url, folder / "lake", admin)


@pytest.fixture(scope="session")
def place_on_aws(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, Any]]:
    """The variables for a lake on AWS, and where it is."""
    return new_lake_on_aws("kind", tmp_path_factory.mktemp("cache"))


@pytest.fixture
def folder_kind(tmp_path: Path) -> Iterator[Kind]:
    with create_lake(tmp_path / "lake", user="ada") as writer, open_lake(tmp_path / "lake", user="ada") as lake:
        yield Kind(lake, writer)


@pytest.fixture
def aws_kind(place_on_aws: tuple[dict[str, str], dict[str, Any]], shell: Shell) -> Iterator[Kind]:
    variables, place = place_on_aws
    shell.export_all(variables)
    with open_lake(user="ada", **place) as writer, open_lake(user="ada", **place) as lake:
        yield Kind(lake, writer)


@pytest.fixture
def served_kind(server: Server, shell: Shell) -> Iterator[Kind]:
    with (
        open_lake(server.folder, user="ada") as writer,
        open_with(server.url, server.admin, shell) as lake,
    ):
        yield Kind(lake, writer)


@pytest.fixture(params=["folder", pytest.param("aws", marks=pytest.mark.ci), "served"])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.getfixturevalue(f"{request.param}_kind")
    return found


__all__ = ["aws_kind", "folder_kind", "kind", "place_on_aws", "served_kind", "server"]
