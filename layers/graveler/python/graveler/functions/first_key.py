"""The first access key of a deployment, created once and stored in AWS Secrets Manager; and the key that seals the secrets in the
table, which no other function may create.

A custom resource of the stack (``infra/api.py``) triggers this when the stack is created, and again when it is updated. A lake
that ever had a key gets none: no update changes a key or restores one that was revoked. Nothing is deleted with the resource,
since the lake stays, too.

The key is recorded before it is made. A process killed between the two leaves a secret that opens nothing yet, and the next run
makes the key that it holds.
"""

import json
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Protocol

import msgspec

from graveler.access.keys import Keys, new_pair
from graveler.access.permissions import Role
from graveler.errors import GravelerError
from graveler.functions.clients import client
from graveler.functions.entry import Event, Function
from graveler.lake.opening.repositories import Repositories
from graveler.storage.aws_requests import FAILURES, error_code, explained, send
from graveler.storage.secrets.keyring import TOKEN_SECRET, SealingKeyLostError
from graveler.storage.tables.port import Tables
from graveler.system.retries import Retries

SECRET: Final = "GRAVELER_FIRST_KEY_SECRET"
"""Names the variable with the ARN of the secret that holds the key."""

_NAME: Final = "admin"
_VERSION: Final = "graveler-first-access-key-of-the-lake"
"""The secret's version: it is written once, however often the function runs."""
_ADOPTION: Final = "A deployment that adopts a table names the KMS key of that table as its setting sealing_key"
_TAKEN: Final = "ResourceExistsException"
_ANSWER_TRIES: Final = 3


class _Kept(msgspec.Struct):
    access_key_id: str
    secret_access_key: str


class Secrets(Protocol):
    """The methods used of botocore's client."""

    def put_secret_value(self, *, SecretId: str, ClientRequestToken: str, SecretString: str) -> object:  # noqa: N803
        """Write a version of a secret; an existing one must have the same contents."""

    def get_secret_value(self, *, SecretId: str, VersionId: str) -> dict[str, Any]:  # noqa: N803
        """Return a version of a secret."""


def first_key_handler() -> Callable[[Event, object], None]:
    """Return the handler of ``setup``: events are those of a custom resource of CloudFormation, and each gets a response."""

    @cache
    def opened() -> tuple[Function, Secrets]:
        return Function("setup"), client("secretsmanager")

    def handler(event: Event, _context: object) -> None:
        began = time.perf_counter()
        function, secrets = opened()
        function.telemetry.begin(str(event["RequestId"]))
        reason = ""
        try:
            if event["RequestType"] != "Delete":
                function.lake.keyring.ready()
                # Other functions may not write these, or make a key.
                function.lake.keyring.shared(TOKEN_SECRET)
                Repositories(function.lake.tables).lake_id()
                ensure_first_key(function.lake.tables, secrets, os.environ[SECRET], now=time.time())
        except SealingKeyLostError as error:
            reason = f"{error}. {_ADOPTION}"
        except GravelerError as error:
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__}; see the function's log"
            raise
        finally:
            _answer(event, reason)
            function.telemetry.tell(function.traffic.take(), (time.perf_counter() - began) * 1000, {"failed": reason})

    return handler


def ensure_first_key(tables: Tables, secrets: Secrets, secret: str, *, now: float) -> bool:
    """Make an admin's key for a lake that never had one, and keep it in ``secret``: JSON, as of ``graveler keys create --json``.
    Returns whether one was made. One table read; for a new lake another one, a write, and two requests to Secrets Manager.
    :class:`graveler.errors.UnavailableError` for a service that cannot be reached."""
    keys = Keys(tables)
    if keys.any():
        return False
    purpose = f"keeping the first access key in secret {secret!r}"
    key_id, key_secret = new_pair()
    document = {"access_key_id": key_id, "secret_access_key": key_secret, "name": _NAME, "role": Role.ADMIN.value}
    try:
        try:
            send(
                lambda: secrets.put_secret_value(
                    SecretId=secret, ClientRequestToken=_VERSION, SecretString=json.dumps(document)
                ),
                purpose,
                Retries(),
            )
        except FAILURES as error:
            if error_code(error) != _TAKEN:  # if it is, an earlier run began: then its key counts
                raise
        answer = send(lambda: secrets.get_secret_value(SecretId=secret, VersionId=_VERSION), purpose, Retries())
    except FAILURES as error:
        raise explained(error, purpose) from error
    stored_key = msgspec.json.decode(answer["SecretString"], type=_Kept)
    return keys.create_first(_NAME, (stored_key.access_key_id, stored_key.secret_access_key), now=now) is not None


def _answer(event: Event, reason: str) -> None:
    """Report the outcome to CloudFormation: without a response it waits for an hour."""
    import urllib3  # botocore's own

    answer: dict[str, Any] = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason[:1000],
        "PhysicalResourceId": "first-key",  # always the same: a new one would have the old one deleted
    }
    with urllib3.PoolManager(retries=urllib3.Retry(_ANSWER_TRIES, backoff_factor=1)) as http:
        http.request("PUT", event["ResponseURL"], body=json.dumps(answer).encode(), headers={"content-type": ""})
