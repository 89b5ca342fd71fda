"""A filesystem on each kind of lake: a folder, S3 with DynamoDB Local, behind a server."""

from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import pytest

from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.sdk.lake import create_lake, open_lake
from graveler.storage.s3_objects import S3Settings
from tests.sdk.conftest import endpoint
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.servers import REGION, dynamodb_local, s3proxy

__all__ = ["endpoint"]


@pytest.fixture(scope="session")
def folder_options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    create_lake(folder).close()
    return {"lake": str(folder)}


@pytest.fixture(scope="session")
def aws_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    name = f"fs-{token_hex(6)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for variable, value in CREDENTIALS.items():
            patch.setenv(variable, value)
        make_bucket(name, S3Settings(REGION, s3proxy()))
        options = {
            "objects": f"s3://{name}/lake",
            "region": REGION,
            "s3_endpoint_url": s3proxy(),
            "dynamodb_endpoint_url": dynamodb_local(),
        }
        create_lake(f"dynamodb://{name}", create_table=True, **options).close()
        yield {"lake": f"dynamodb://{name}", **options}


@pytest.fixture(scope="session")
def served_options(endpoint: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
    url, key_id, secret = endpoint
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAVELER_ACCESS_KEY_ID", key_id)
        patch.setenv("GRAVELER_SECRET_ACCESS_KEY", secret)
        yield {"lake": url}


@pytest.fixture(scope="session", params=["folder", "aws", "served"])
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
