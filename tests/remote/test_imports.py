"""Imports through a server: what is asked of one that is older than this client."""

import pytest

from graveler.errors import PreconditionError, RefNotFoundError
from graveler.lake.importing.prefix_listing import AddressType, ImportAddress
from graveler.remote.connection import Connection
from graveler.remote.repository import RemoteRepository
from tests.remote.scripted import Reply, Scripted

ADDRESSES = [ImportAddress(AddressType.COMMON_PREFIX, "s3://given/", "in/")]


@pytest.fixture
def repository(connection: Connection) -> RemoteRepository:
    return RemoteRepository(connection, "r")


def test_a_server_that_knows_no_dry_run_imports_nothing(script: Scripted, repository: RemoteRepository) -> None:
    script.will(Reply(404, b'{"message": "invalid API endpoint"}'))
    with pytest.raises(PreconditionError, match=r"knows no dry run of an import.*nothing was changed"):
        repository.import_addresses("main", ADDRESSES, dry_run=True)
    (asked,) = script.asked
    assert (asked.method, asked.target) == ("POST", "/api/v1/repositories/r/branches/main/import/dry-run")


def test_what_is_not_there_is_told_of_a_dry_run_too(script: Scripted, repository: RemoteRepository) -> None:
    script.will(Reply(404, b'{"message": "branch not found", "detail": "ref \'main\' not found: no branch"}'))
    with pytest.raises(RefNotFoundError):
        repository.import_addresses("main", ADDRESSES, dry_run=True)
