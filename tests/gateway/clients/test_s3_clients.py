"""S3's own clients, unmodified, on a branch: as a transaction (``graveler run``), and as users of a server."""

from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

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
from tests.support.certificates import new_certificates

ON_AWS = ("deltalake", "pyarrow")
SERVED = ("deltalake", "duckdb", "pyarrow", "rclone", "s5cmd")
BY_TLS = ("obstore",)
"""Clients that `make test` also runs on S3 and DynamoDB, behind a server, and by TLS; `make test-all` runs all."""


def clients(*names: str) -> list[ParameterSet]:
    """All clients, those that are not named marked for `make test-all`."""
    return [
        pytest.param(client, id=client.name, marks=() if client.name in names else pytest.mark.ci)
        for client in S3_CLIENTS
    ]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ClientLake:
    return folder_lake(tmp_path_factory.mktemp("clients") / "lake")


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> ClientLake:
    return lake_on_aws(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClientLake, ServedLake]]:
    folder = tmp_path_factory.mktemp("served")
    lake = folder_lake(folder / "lake")
    with serving(lake, folder) as server:
        yield lake, server


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClientLake, ServedLake]]:
    folder = tmp_path_factory.mktemp("secured")
    lake = folder_lake(folder / "lake")
    hosts = [x509.DNSName("localhost"), x509.DNSName("sales.localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    with serving(lake, folder, new_certificates(folder, hosts)) as server:
        yield lake, server


@pytest.fixture(scope="module")
def served_on_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClientLake, ServedLake]]:
    lake = lake_on_aws(tmp_path_factory.mktemp("cache"))
    with serving(lake, tmp_path_factory.mktemp("served")) as server:
        yield lake, server


@pytest.mark.parametrize("client", S3_CLIENTS, ids=str)
def test_a_client_is_a_transaction(lake: ClientLake, client: S3Client, tmp_path: Path) -> None:
    said = run_in_transaction(lake, client, tmp_path, "-m", client.name)
    assert "published to sales/main: " in said
    check_objects(lake, client)
    with lake.opened() as opened:
        branch = opened.repository("sales").branch("main")
        assert branch.get_commit().message == client.name
        assert not list(branch.uncommitted())


@pytest.mark.parametrize("client", clients(*ON_AWS))
def test_a_client_is_a_transaction_on_aws(aws: ClientLake, client: S3Client, tmp_path: Path) -> None:
    assert "published to sales/main: " in run_in_transaction(aws, client, tmp_path)
    check_objects(aws, client)


@pytest.mark.parametrize("client", clients(*SERVED))
def test_a_client_is_served(served: tuple[ClientLake, ServedLake], client: S3Client, tmp_path: Path) -> None:
    lake, server = served
    server.run(client, tmp_path)
    check_objects(lake, client)


# None of the variables that name an authority is for DuckDB.
@pytest.mark.parametrize("client", [param for param in clients(*BY_TLS) if param.id != "duckdb"])
def test_a_client_is_served_by_tls(secured: tuple[ClientLake, ServedLake], client: S3Client, tmp_path: Path) -> None:
    lake, server = secured
    server.run(client, tmp_path)
    check_objects(lake, client)


@pytest.mark.parametrize("client", clients())
def test_a_client_is_served_on_aws(
    served_on_aws: tuple[ClientLake, ServedLake], client: S3Client, tmp_path: Path
) -> None:
    lake, server = served_on_aws
    server.run(client, tmp_path)
    check_objects(lake, client)
