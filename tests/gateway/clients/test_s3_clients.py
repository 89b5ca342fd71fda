"""S3's own clients, unmodified, on a branch: as a transaction (``graveler run``), and as users of a server."""

from collections.abc import Collection, Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet
from cryptography import x509

from tests.gateway.clients.support import (
    S3_CLIENTS,
    ClientLake,
    S3Client,
    ServedLake,
    check_objects,
    folder_lake,
    lake_on_aws,
    run_in_transaction,
    serving,
)
from tests.gateway.clients.tools import missing
from tests.support.certificates import new_certificates

RUN_ON: Final = {
    "folder": tuple(
        client.name for client in S3_CLIENTS if client.name not in ("awscli", "hadoop_aws", "rclone_mount")
    ),
    "aws": ("deltalake",),
}
SERVED_BY: Final = {
    "http-folder": ("deltalake", "duckdb", "s5cmd"),
    "tls-folder": ("obstore",),
    "http-aws": (),
    "tls-aws": (),
}
"""Clients that `make test` runs by ``graveler run`` and behind a server, on folders, and on S3 and DynamoDB; `make test-all` runs
all of them everywhere."""
HOSTS: Final = (x509.DNSName("localhost"), x509.DNSName("sales.localhost"), x509.IPAddress(IPv4Address("127.0.0.1")))


def clients(places: Mapping[str, Collection[str]]) -> list[ParameterSet]:
    """All clients for each place, those that are not named marked for `make test-all`, and skipped if this machine lacks what
    they need."""
    parameters = []
    for place, names in places.items():
        for client in S3_CLIENTS:
            marks = [] if client.name in names else [pytest.mark.ci]
            if lack := missing(*client.needs):
                marks.append(pytest.mark.skip(reason=f"{lack}, which {client} needs"))
            parameters.append(pytest.param(place, client, id=f"{client}-{place}", marks=marks))
    return parameters


def new_lake(place: str, folder: Path) -> ClientLake:
    """Create a lake for a place, in a folder or with its cache there."""
    return folder_lake(folder / "lake") if place.endswith("folder") else lake_on_aws(folder / "cache")


@pytest.fixture(scope="module")
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ClientLake:
    return new_lake(request.param, tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("served")
    lake = new_lake(request.param, folder)
    certificates = new_certificates(folder, HOSTS) if request.param.startswith("tls") else None
    with serving(lake, folder, certificates) as server:
        yield lake, server


@pytest.mark.parametrize(("lake", "client"), clients(RUN_ON), indirect=["lake"])
def test_a_client_is_a_transaction(lake: ClientLake, client: S3Client, tmp_path: Path) -> None:
    said = run_in_transaction(lake, client, tmp_path, "-m", client.name)
    assert "published to sales/main: " in said
    check_objects(lake, client)
    with lake.opened() as opened:
        branch = opened.repository("sales").branch("main")
        assert branch.get_commit().message == client.name
        assert not list(branch.uncommitted())


@pytest.mark.parametrize(("served", "client"), clients(SERVED_BY), indirect=["served"])
def test_a_client_is_served(served: tuple[ClientLake, ServedLake], client: S3Client, tmp_path: Path) -> None:
    lake, server = served
    server.run(client, tmp_path)
    check_objects(lake, client)
