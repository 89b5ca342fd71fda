"""A lake, a gateway for its branch ``main``, and a client; one gateway for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graveler.gateway.control import Mount
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from tests.gateway.support import GatewayProcess, running_gateway

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client


@pytest.fixture(scope="module")
def lake_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gateway") / "lake"
    with create_folder_lake(folder) as lake:
        lake.create_repository("sales", "local://sales")
    return folder


@pytest.fixture(scope="module")
def gateway(lake_folder: Path) -> Iterator[GatewayProcess]:
    mounts = (
        Mount(bucket="sales", repository="sales", ref="main"),
        Mount(bucket="company-lake", repository="sales", ref="main", prefix="warehouse/"),
        Mount(bucket="archive", repository="sales", ref="main~0", read_only=True),
    )
    with running_gateway(lake_folder, *mounts) as running:
        yield running


@pytest.fixture(scope="module")
def s3(gateway: GatewayProcess) -> "S3Client":
    return gateway.client()


@pytest.fixture
def lake(lake_folder: Path) -> Iterator[Lake]:
    with open_folder_lake(lake_folder) as opened:
        yield opened


@pytest.fixture
def repository(lake: Lake) -> OpenRepository:
    return lake.repository("sales")
