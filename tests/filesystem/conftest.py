"""A filesystem on each kind of lake: a folder, S3 with DynamoDB Local, behind a server."""

from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import pytest

from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.sdk.lake import create_lake, open_lake
from tests.sdk.conftest import endpoint
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.shell import Shell

__all__ = ["endpoint"]


@pytest.fixture(scope="session")
def folder_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    create_lake(folder).close()
    return {"lake": str(folder)}


@pytest.fixture(scope="session")
def lake_on_aws(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, Any]]:
    """The variables for a lake on AWS, and its storage options."""
    variables, place = new_lake_on_aws("fs", tmp_path_factory.mktemp("cache"))
    return variables, {"lake": place.pop("location"), **place}


@pytest.fixture
def aws_options(lake_on_aws: tuple[dict[str, str], dict[str, Any]], shell: Shell) -> dict[str, Any]:
    variables, options = lake_on_aws
    shell.export_all(variables)
    return options


@pytest.fixture
def served_options(endpoint: tuple[str, str, str], shell: Shell) -> dict[str, Any]:
    url, key_id, secret = endpoint
    shell.export("GRAVELER_ACCESS_KEY_ID", key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", secret)
    return {"lake": url}


@pytest.fixture(params=["folder", *(pytest.param(kind, marks=pytest.mark.share(3)) for kind in ("aws", "served"))])
def storage_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The storage options of a lake of each kind."""
    found: dict[str, Any] = request.getfixturevalue(f"{request.param}_options")
    return {**found, "user": "ada"}


def new_repository(storage_options: dict[str, Any]) -> str:
    """Create a repository, and return its name."""
    given = dict(storage_options)
    name = f"fs-{token_hex(6)}"
    with open_lake(given.pop("lake"), **given) as lake:
        lake.repository(name).create()
    return name


_shared: dict[str, str] = {}


def shared_repository(storage_options: dict[str, Any]) -> str:
    """Return the name of one repository in a lake, created the first time."""
    lake = storage_options["lake"]
    if lake not in _shared:
        _shared[lake] = new_repository(storage_options)
    return _shared[lake]


@pytest.fixture
def fs(storage_options: dict[str, Any]) -> Iterator[GravelerFileSystem]:
    made = GravelerFileSystem(**storage_options, skip_instance_cache=True)
    yield made
    made.opened.close()


@pytest.fixture
def branch(storage_options: dict[str, Any]) -> str:
    """The path of branch ``main`` of a new repository, with nothing on it."""
    return f"{new_repository(storage_options)}/main"
