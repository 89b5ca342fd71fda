"""Functions open the secret that signs tokens with KMS: one request for each process, and none without a token."""

import json
from collections import Counter
from typing import Any

import boto3
import botocore.client
import pytest

from graveler.functions.entry import api_handler
from graveler.functions.first_key import SECRET, first_key_handler
from graveler.storage.secrets.keyring import RECORD, TOKEN_SECRET, Keyring, SealingKeyLostError
from graveler.storage.secrets.kms import KmsKey
from graveler.storage.tables.dynamodb import DynamoDBTables, settings_of
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.functions.test_first_key import Answers, answers, asked
from tests.support.shell import Shell

__all__ = ["answers"]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What KMS is asked, counted."""
    counted: Counter[str] = Counter()
    call = botocore.client.BaseClient._make_api_call  # type: ignore[attr-defined]

    def count(client: Any, operation: str, request: Any) -> Any:
        if client.meta.service_model.service_name == "kms":
            counted[operation] += 1
        return call(client, operation, request)

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", count)
    return counted


@pytest.fixture
def set_up(deployment: None, answers: Answers, shell: Shell) -> dict[str, str]:
    """A deployment that CloudFormation has finished; its first key."""
    secrets = boto3.client("secretsmanager")
    shell.export(SECRET, secrets.create_secret(Name="first-key")["ARN"])
    first_key_handler()(asked("Create", answers), None)
    assert answers.taken[0]["Status"] == "SUCCESS", answers.taken
    kept: dict[str, str] = json.loads(secrets.get_secret_value(SecretId="first-key")["SecretString"])
    return kept


def login(write: Handler, key: dict[str, str]) -> str:
    body = {name: key[name] for name in ("access_key_id", "secret_access_key")}
    token: str = json.loads(write(event("POST", "/api/v1/auth/login", body=body), None)["body"])["token"]
    return token


def test_kms_is_asked_once_in_a_process_and_only_for_tokens(
    set_up: dict[str, str], requests: Counter[str], authorization: str
) -> None:
    read = api_handler("read")
    for _ in range(3):
        answer = read(event("GET", "/api/v1/repositories", authorization=authorization), None)
        assert answer["statusCode"] == 200
    assert not requests
    token = login(api_handler("write"), set_up)
    assert requests == {"Decrypt": 1}
    requests.clear()
    for _ in range(3):
        answer = read(event("GET", "/api/v1/repositories", authorization=f"Bearer {token}"), None)
        assert answer["statusCode"] == 200
        wrong = read(event("GET", "/api/v1/repositories", authorization=f"Bearer {token}x"), None)
        assert wrong["statusCode"] == 401
    assert requests == {"Decrypt": 1}


def test_an_update_of_the_stack_seals_nothing_anew(set_up: dict[str, str], answers: Answers) -> None:
    tables = DynamoDBTables(settings_of("dynamodb://lake"))
    before = tables.get_many([RECORD, TOKEN_SECRET])
    first_key_handler()(asked("Update", answers), None)
    assert tables.get_many([RECORD, TOKEN_SECRET]) == before
    assert before[0] is not None
    assert before[0].keys() == {"by", "key", "wrapped", "fingerprint"}


def test_a_wrapped_key_is_of_use_in_its_own_table_only(set_up: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    tables = DynamoDBTables(settings_of("dynamodb://lake"))
    record = tables.get(RECORD)
    assert record is not None
    arn = str(record["key"])
    assert len(KmsKey(arn, "lake").find(record)) == 32
    with pytest.raises(SealingKeyLostError, match="InvalidCiphertext"):
        KmsKey(arn, "another").find(record)
    other = boto3.client("kms").create_key()["KeyMetadata"]["Arn"]
    with pytest.raises(SealingKeyLostError):
        Keyring(tables, KmsKey(other, "lake")).shared(TOKEN_SECRET)
    rotation = Keyring(tables, KmsKey(other, "lake")).rotate()
    assert (rotation.secrets, rotation.lost) == (1, True)
    assert Keyring(tables, KmsKey(other, "lake")).shared(TOKEN_SECRET).secret


def test_two_processes_that_make_the_key_at_once_have_the_same(deployment: None) -> None:
    tables = DynamoDBTables(settings_of("dynamodb://lake"))
    arn = boto3.client("kms").create_key()["KeyMetadata"]["Arn"]

    class Outrun(KmsKey):
        """Another process makes its key first."""

        def make(self) -> tuple[bytes, Any]:
            made = super().make()
            Keyring(tables, KmsKey(arn, "lake")).ready()
            return made

    sealed = Keyring(tables, Outrun(arn, "lake")).seal(TOKEN_SECRET, b"secret")
    assert Keyring(tables, KmsKey(arn, "lake")).open(TOKEN_SECRET, sealed) == b"secret"
