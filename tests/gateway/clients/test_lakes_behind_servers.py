"""S3's own clients, unmodified, as transactions of a lake that only a server reaches."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.gateway.clients.support import (
    S3_CLIENTS,
    ClientLake,
    S3Client,
    check_objects,
    folder_lake,
    run_in_transaction,
)
from tests.gateway.clients.tools import missing
from tests.server.support import running

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClientLake, ClientLake]]:
    """A lake in a folder, and the same behind a server."""
    folder = tmp_path_factory.mktemp("clients")
    lake = folder_lake(folder / "lake")
    with running(folder, workers=1) as server:
        variables = {
            "GRAVELER_LAKE": server.url,
            "GRAVELER_ACCESS_KEY_ID": server.key_id,
            "GRAVELER_SECRET_ACCESS_KEY": server.secret,
        }
        yield lake, replace(lake, variables=variables)


@pytest.mark.parametrize("client", S3_CLIENTS, ids=str)
def test_a_client_is_a_transaction(lakes: tuple[ClientLake, ClientLake], client: S3Client, tmp_path: Path) -> None:
    if lack := missing(*client.needs):
        pytest.skip(f"{lack}, which {client} needs")
    lake, served = lakes
    said = run_in_transaction(served, client, tmp_path, "-m", client.name)
    assert "published to sales/main: " in said
    check_objects(lake, client)
