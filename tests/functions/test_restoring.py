"""Copies of a process that Lambda starts from one snapshot differ in everything that must be unique."""

import json
import os
import random
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from graveler.errors import UnavailableError
from graveler.functions.entry import INITIALIZATION, api_handler
from graveler.functions.snapshot import SNAPSHOT, renew_process
from graveler.storage import aws_requests
from graveler.storage.aws_requests import Clients
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.objects.s3_clients import CLIENTS
from graveler.storage.secrets.keyring import Keyring
from graveler.storage.secrets.kms import KmsKey
from graveler.storage.tables import dynamodb as dynamodb_tables
from graveler.storage.tables.dynamodb import DynamoDBSettings, DynamoDBTables, settings_of
from graveler.storage.tables.port import Key
from graveler.system.random_bytes import _stock, random_bytes
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.functions.served import serving
from tests.functions.test_first_key import answers
from tests.functions.test_sealing import login, requests, set_up
from tests.storage.adapters import CREDENTIALS, make_bucket
from tests.support.proxy import Trouble
from tests.support.servers import REGION, dynamodb_local, s3proxy
from tests.support.shell import Shell

__all__ = ["answers", "requests", "set_up"]

Hook = Callable[[], None]


@pytest.fixture(autouse=True)
def clients_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process keep theirs as they are."""
    pools: list[Clients[Any, Any]] = [CLIENTS, dynamodb_tables._CONNECTIONS]
    monkeypatch.setattr(aws_requests, "_all_clients", pools)
    for clients in pools:
        monkeypatch.setattr(clients, "_made", {})


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> list[Hook]:
    """What functions of SnapStart have called after a restore. The module is in Lambda's runtime alone."""
    registered: list[Hook] = []

    def register_after_restore(function: Callable[..., None], *arguments: Any) -> None:
        registered.append(lambda: function(*arguments))

    module = ModuleType("snapshot_restore_py")
    module.register_after_restore = register_after_restore  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", module)
    shell.export(INITIALIZATION, SNAPSHOT)
    return registered


def test_random_generators_are_seeded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[tuple[bytes, float]] = []
    monkeypatch.setattr(ssl, "RAND_add", lambda data, entropy: added.append((data, entropy)))
    snapshot, drawn = random.getstate(), []
    try:
        for _ in range(2):
            random.setstate(snapshot)
            renew_process()
            drawn.append(random.random())
    finally:
        random.setstate(snapshot)
    assert drawn[0] != drawn[1]
    (first, entropy), (second, _) = added  # OpenSSL's own state cannot be told
    assert first != second
    assert len(first) == entropy == 64


def test_random_bytes_that_were_read_ahead_are_used_by_no_copy() -> None:
    random_bytes(1)
    ahead = _stock.data[_stock.position :]
    renew_process()
    assert random_bytes(8) not in ahead


@pytest.fixture
def connected() -> Iterator[tuple[DynamoDBTables, S3Objects, list[Any]]]:
    """A table and a bucket of real servers, to which there are connections, and the SDK's clients of both."""
    name = f"restored-{token_hex(6)}"
    with patch.dict("os.environ", CREDENTIALS):
        table = DynamoDBSettings(name, region=REGION, endpoint_url=dynamodb_local())
        tables = DynamoDBTables(table)
        settings = S3Settings(REGION, s3proxy())
        make_bucket(name, settings)
        objects = S3Objects(name, settings=settings)
        tables.create_table()
        objects.put("a", b"1")
        yield tables, objects, [CLIENTS.get(settings), dynamodb_tables._CONNECTIONS.get(table).client]


def pools(client: Any) -> int:
    return len(client._endpoint.http_session._manager.pools)


def test_connections_are_closed_and_requests_signed_with_credentials_of_now(
    connected: tuple[DynamoDBTables, S3Objects, list[Any]], shell: Shell
) -> None:
    tables, objects, clients = connected
    assert [pools(client) for client in clients] == [1, 1]
    before = [client._request_signer._credentials for client in clients]
    shell.export("AWS_SESSION_TOKEN", "of now")
    renew_process()
    assert [pools(client) for client in clients] == [0, 0]
    for client, old in zip(clients, before, strict=True):
        credentials = client._request_signer._credentials
        assert credentials is not old
        assert credentials.get_frozen_credentials().token == "of now"
    shell.unset("AWS_SESSION_TOKEN")
    renew_process()
    # The clients themselves stay, since they took long to make, and connect again.
    assert objects.get("a") == b"1"
    assert tables.get(Key("p", b"s")) is None
    assert [pools(client) for client in clients] == [1, 1]
    assert CLIENTS.get(S3Settings(REGION, s3proxy())) is clients[0]


def test_without_credentials_clients_are_made_when_they_are_used(
    connected: tuple[DynamoDBTables, S3Objects, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, objects, clients = connected
    with monkeypatch.context() as patched:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patched.delenv(name)
        renew_process()
        with pytest.raises(UnavailableError, match="no AWS credentials were found"):
            objects.get("a")
    assert [pools(client) for client in clients] == [0, 0]
    assert objects.get("a") == b"1"


def test_no_secret_key_or_token_is_known_from_before(
    set_up: dict[str, str], requests: Counter[str], hooks: list[Hook], write: Handler
) -> None:
    read = api_handler("read")
    restore = hooks[-1]
    token = login(write, set_up)
    asked = event("GET", "/api/v1/repositories", authorization=f"Bearer {token}")
    assert read(asked, None)["statusCode"] == 200
    unwrapped = requests["Decrypt"]
    restore()
    assert read(asked, None)["statusCode"] == 200
    assert requests["Decrypt"] == unwrapped + 1, "the sealing key was known"
    configuration = {name: os.environ[f"GRAVELER_{name}"] for name in ("TABLES", "KMS_KEY")}
    tables = DynamoDBTables(settings_of(configuration["TABLES"]))
    Keyring(tables, KmsKey(configuration["KMS_KEY"], "lake")).rotate()
    restore()
    assert read(asked, None)["statusCode"] == 401, "what signs tokens was known, or the token itself"


def test_each_copy_counts_its_requests_once(
    set_up: dict[str, str], hooks: list[Hook], capsys: pytest.CaptureFixture[str], authorization: str
) -> None:
    read = api_handler("read")
    asked = event("GET", "/api/v1/repositories", authorization=authorization)

    def counted() -> int:
        capsys.readouterr()
        assert read(asked, None)["statusCode"] == 200
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
        (figures,) = (line for line in lines if "TableRequests" in line)
        return int(figures["TableRequests"][0])

    first, observers = counted(), len(aws_requests.observers)
    hooks[0]()
    assert counted() == first
    assert len(aws_requests.observers) == observers


@pytest.mark.parametrize("kind", ["on-demand", "provisioned-concurrency", None])
def test_only_a_snapshot_has_hooks(deployment: None, hooks: list[Hook], shell: Shell, kind: str | None) -> None:
    shell.unset(INITIALIZATION) if kind is None else shell.export(INITIALIZATION, kind)
    api_handler("read")
    assert not hooks


@pytest.mark.ci
def test_a_function_asks_nobody_before_its_snapshot_and_answers_after_it(tmp_path: Path) -> None:
    """As Lambda runs it: from the built layer, by the runtime's own client, which calls the hooks."""
    seen: list[str] = []

    def note(operation: str, _: int) -> Trouble:
        seen.append(operation)
        return None

    with serving(tmp_path) as served:
        served.begin(note)
        snapshot = {**served.environment, INITIALIZATION: SNAPSHOT}
        with msgspec.structs.replace(served, environment=snapshot).function("read") as function:
            function.ready_for_snapshot()
            assert not seen
            function.restore()
            assert function.invoke(served.asked("GET", "/branches/main"))["statusCode"] == 200
            assert seen
