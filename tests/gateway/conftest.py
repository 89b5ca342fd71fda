"""A lake in a folder, on S3 and DynamoDB, or behind a server, a gateway for its branch ``main``, and a client: one for all tests
of a module."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from graveler.gateway.control import Location, Mount
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.location import AwsLake, FolderLake, LakeLocation, open_at
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake
from tests.gateway.support import GatewayProcess, running_gateway
from tests.server.support import running, started
from tests.support.lakes_on_aws import new_lake_on_aws

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@pytest.fixture(
    scope="module", params=["folder", "aws", "served_folder", pytest.param("served_aws", marks=pytest.mark.ci)]
)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of the lake; ``served_`` before it: the gateway finds that lake behind a server."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def location(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeLocation]:
    """The place of the lake itself."""
    if kind.endswith("folder"):
        folder = tmp_path_factory.mktemp("gateway") / "lake"
        with create_folder_lake(folder) as lake:
            lake.create_repository("sales", "local://sales")
            lake.create_repository("other", "local://other")
        yield FolderLake(folder)
        return
    variables, place = new_lake_on_aws("gateway", tmp_path_factory.mktemp("cache"))
    location = AwsLake(
        objects=place["objects"],
        tables=place["location"],
        cache=tmp_path_factory.mktemp("cache"),
        region=place["region"],
        s3_endpoint_url=place["s3_endpoint_url"],
        dynamodb_endpoint_url=place["dynamodb_endpoint_url"],
    )
    with patch.dict(os.environ, variables):
        with open_at(location) as lake:
            lake.create_repository("sales", f"{place['objects']}/sales")
            lake.create_repository("other", f"{place['objects']}/other")
        yield location


@pytest.fixture(scope="module")
def gateway_location(kind: str, location: LakeLocation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    """The place where the gateway finds the lake."""
    if not kind.startswith("served_"):
        yield location
        return
    if isinstance(location, FolderLake):
        serving = running(location.folder.parent, workers=1)
        variables = {}
    else:
        places = "--tables", location.tables, "--objects", location.objects
        serving = started(tmp_path_factory.mktemp("served"), *places, workers=1)
        variables = {
            "AWS_REGION": location.region or "",
            "AWS_ENDPOINT_URL_S3": location.s3_endpoint_url or "",
            "AWS_ENDPOINT_URL_DYNAMODB": location.dynamodb_endpoint_url or "",
        }
    with patch.dict(os.environ, variables), serving as server:
        yield ServedLake(url=server.url, key_id=server.key_id, secret=server.secret)


@pytest.fixture(scope="module")
def gateway(gateway_location: Location) -> Iterator[GatewayProcess]:
    mounts = (
        Mount(bucket="sales", repository="sales", ref="main"),
        Mount(bucket="company-lake", repository="sales", ref="main", prefix="warehouse/"),
        Mount(bucket="archive", repository="sales", ref="main~0", read_only=True),
        Mount(bucket="other", repository="other", ref="main"),
        Mount(bucket="dev", repository="sales", ref="dev"),
    )
    with running_gateway(gateway_location, *mounts, environment=dict(os.environ)) as running:
        yield running


@pytest.fixture(scope="module")
def s3(gateway: GatewayProcess) -> "S3Client":
    return gateway.client()


@pytest.fixture
def lake(location: LakeLocation) -> Iterator[Lake]:
    with open_at(location) as opened:
        yield opened


@pytest.fixture
def repository(lake: Lake) -> OpenRepository:
    return lake.repository("sales")
