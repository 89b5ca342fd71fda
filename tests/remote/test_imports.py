"""Imports through a server that is older than this client."""

from collections.abc import Callable

import msgspec
import pytest

from graveler.errors import (
    AnswerLostError,
    EmptySourceError,
    GravelerError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.operations.work import CancelledError
from graveler.remote.connection import Connection
from graveler.remote.repository import RemoteRepository
from graveler.requests.importing import AddressType, ImportAddress
from tests.remote.scripted import Reply, Scripted

ADDRESSES = [ImportAddress(AddressType.COMMON_PREFIX, "s3://given/", "in/")]


@pytest.fixture
def repository(connection: Connection) -> RemoteRepository:
    return RemoteRepository(connection, "r")


def test_a_server_that_knows_no_dry_run_imports_nothing(script: Scripted, repository: RemoteRepository) -> None:
    script.will(Reply(404, b'{"message": "invalid API endpoint", "code": "unknown_route"}'))
    with pytest.raises(PreconditionError, match=r"cannot dry-run an import; nothing was changed"):
        repository.import_addresses("main", ADDRESSES, dry_run=True)
    (asked,) = script.asked
    assert (asked.method, asked.target) == ("POST", "/api/v1/repositories/r/branches/main/import/dry-run")


def test_what_is_not_there_is_told_of_a_dry_run_too(script: Scripted, repository: RemoteRepository) -> None:
    script.will(Reply(404, b'{"message": "branch not found", "code": "ref_not_found", "fields": {"ref": "main"}}'))
    with pytest.raises(RefNotFoundError):
        repository.import_addresses("main", ADDRESSES, dry_run=True)


def test_a_time_that_the_server_would_not_be_told_is_refused(script: Scripted, repository: RemoteRepository) -> None:
    asking: list[Callable[[], object]] = [
        lambda: repository.import_addresses("main", ADDRESSES, created=1),
        lambda: repository.merge("dev", "main", created=1),
        lambda: repository.revert("main", "main", created=1),
        lambda: repository.cherry_pick("main", "dev", created=1),
    ]
    for ask in asking:
        with pytest.raises(InvalidError, match="leave it out"):
            ask()
    assert script.asked == []


@pytest.mark.parametrize(
    ("code", "message", "error", "said"),
    [
        ("import_source_empty", "nothing to import", EmptySourceError, "nothing to import"),
        ("not_found", "object 's3://given/a' does not exist", NotFoundError, "does not exist"),
        ("outcome_unknown", "it may be there", AnswerLostError, "it may be there"),
        ("operation_cancelled", "operation 'i' was cancelled", CancelledError, "operation 'i' was cancelled"),
        (
            "unexpected",
            "internal error; see operation",
            UnavailableError,
            "the import failed on the server: internal error",
        ),
        ("of_a_later_version", "who knows", UnavailableError, "the import failed on the server: who knows"),
    ],
)
def test_an_import_that_failed_is_told_as_what_it_was(
    script: Scripted, repository: RemoteRepository, code: str, message: str, error: type[GravelerError], said: str
) -> None:
    status = {"completed": False, "update_time": "", "ingested_objects": 0}
    failure = {"message": message, "code": code}
    script.will(Reply(202, b'{"id": "i"}'), Reply(200, msgspec.json.encode({**status, "error": failure})))
    with pytest.raises(error) as failed:
        repository.import_addresses("main", ADDRESSES)
    assert type(failed.value) is error
    assert said in str(failed.value)
