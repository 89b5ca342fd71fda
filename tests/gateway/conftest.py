"""A lake in a folder or on S3 and DynamoDB, a gateway for its branch ``main``, and a client: one for all tests of a module."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from graveler.gateway.control import Mount
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.opening.location import AwsLake, FolderLake, LakeLocation, open_at
from graveler.lake.repository import OpenRepository
from tests.gateway.support import GatewayProcess, running_gateway
from tests.support.lakes_on_aws import new_lake_on_aws

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@pytest.fixture(scope="module")
def folder_lake(tmp_path_factory: pytest.TempPathFactory) -> LakeLocation:
    folder = tmp_path_factory.mktemp("gateway") / "lake"
    with create_folder_lake(folder) as lake:
        lake.create_repository("sales", "local://sales")
        lake.create_repository("other", "local://other")
    return FolderLake(folder)


@pytest.fixture(scope="module")
def aws_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeLocation]:
    variables, place = new_lake_on_aws("gateway", tmp_path_factory.mktemp("cache"))
    location = AwsLake(
        objects=place["objects"],
        tables=place["location"],
        cache=tmp_path_factory.mktemp("cache"),
        region=place["region"],
        s3_endpoint_url=place["s3_endpoint_url"],
        dynamodb_endpoint_url=place["dynamodb_endpoint_url"],
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with open_at(location) as lake:
            lake.create_repository("sales", f"{place['objects']}/sales")
            lake.create_repository("other", f"{place['objects']}/other")
        yield location


@pytest.fixture(scope="module", params=["folder_lake", "aws_lake"])
def location(request: pytest.FixtureRequest) -> LakeLocation:
    place: LakeLocation = request.getfixturevalue(request.param)
    return place


@pytest.fixture(scope="module")
def gateway(location: LakeLocation) -> Iterator[GatewayProcess]:
    mounts = (
        Mount(bucket="sales", repository="sales", ref="main"),
        Mount(bucket="company-lake", repository="sales", ref="main", prefix="warehouse/"),
        Mount(bucket="archive", repository="sales", ref="main~0", read_only=True),
        Mount(bucket="other", repository="other", ref="main"),
        Mount(bucket="dev", repository="sales", ref="dev"),
    )
    with running_gateway(location, *mounts, environment=dict(os.environ)) as running:
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
