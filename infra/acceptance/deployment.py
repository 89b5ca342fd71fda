"""A deployment as the checks see it."""

import json
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import boto3
import lakefs
import urllib3
from lakefs.client import Client

_ASK_SECONDS: Final = 60
_LOOK_SECONDS: Final = 0.5
_LOOK_LATER_SECONDS: Final = 5.0


class CheckError(Exception):
    """The deployment does not do what it promises; says what it did instead."""


class Answer(NamedTuple):
    """What the API said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


class Deployment:
    """Addresses, an admin's key, and clients. ``source`` is the bucket from which objects may be imported. ``emulated``: it runs
    on an emulator, which leaves out what AWS does. ``rows``: of the Spark leg. ``folder`` is there for what checks write. Use as
    a context manager, which closes its connections."""

    def __init__(
        self,
        region: str,
        name: str,
        outputs: Mapping[str, str],
        source: str,
        folder: Path,
        *,
        emulated: bool = False,
        rows: int = 1_000_000,
    ) -> None:
        self.region = region
        self.name = name
        self.outputs = outputs
        self.source = source
        self.folder = folder
        self.emulated = emulated
        self.rows = rows
        self._clients: dict[str, Any] = {}
        self._http = urllib3.PoolManager(timeout=_ASK_SECONDS, retries=False, maxsize=64)
        self._token = token_hex(3)

    def __enter__(self) -> "Deployment":
        return self

    def __exit__(self, *raised: object) -> None:
        self._http.clear()
        for client in self._clients.values():
            client.close()

    @property
    def endpoint(self) -> str:
        """URL of the API, without ``/api/v1``."""
        return self.outputs["Endpoint"]

    @property
    def bucket(self) -> str:
        """In which objects and trees lie."""
        return self.outputs["ObjectsBucket"]

    @property
    def table(self) -> str:
        """In which refs and uncommitted changes lie."""
        return self.outputs["LakeTable"]

    @cached_property
    def key(self) -> tuple[str, str]:
        """ID and secret of the first access key, an admin's, from where the deployment keeps it."""
        told = self.aws("secretsmanager").get_secret_value(SecretId=self.outputs["FirstKeySecret"])["SecretString"]
        kept = json.loads(told)
        return kept["access_key_id"], kept["secret_access_key"]

    def aws(self, service: str) -> Any:
        """A client of one of AWS's services, in the deployment's region, with the credentials of the one who runs this."""
        if service not in self._clients:
            self._clients[service] = boto3.client(service, region_name=self.region)  # type: ignore[call-overload]
        return self._clients[service]

    def name_of(self, purpose: str) -> str:
        """A name for a repository that no earlier run has."""
        return f"{purpose}-{self._token}"

    @cached_property
    def client(self) -> Client:
        """The published Python client of lakeFS, unmodified."""
        key_id, secret = self.key
        return Client(host=self.endpoint, username=key_id, password=secret)

    def repository(self, purpose: str) -> lakefs.Repository:
        """A new repository, through the published client."""
        name = self.name_of(purpose)
        return lakefs.Repository(name, client=self.client).create(storage_namespace=f"s3://{self.bucket}/{name}")

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        key: bool = True,
    ) -> Answer:
        """One request to the API, not repeated: ``body`` goes as JSON, ``data`` as it is. Without ``key`` nobody asks."""
        sent = dict(headers or {})
        if key:
            sent |= urllib3.make_headers(basic_auth=":".join(self.key))
        if body is not None:
            data = json.dumps(body).encode()
            sent["content-type"] = "application/json"
        asked = f"{self.endpoint}{path}{'?' + urlencode(query) if query else ''}"
        answer = self._http.request(method, asked, body=data, headers=sent)
        return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.data)

    def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """A GET of a presigned URL."""
        answer = self._http.request("GET", url, headers=dict(headers or {}))
        return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.data)

    def expect(self, status: int, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """:meth:`ask`, where any other status is a :class:`CheckError`."""
        answer = self.ask(method, path, body, **more)
        if answer.status != status:
            raise CheckError(f"{method} {path} was answered {answer.status}, not {status}: {answer.body[:300]!r}")
        return answer

    def until(self, true: Callable[[], object], what: str, seconds: float) -> float:
        """Wait for ``what`` to come about by itself; how many seconds it took. :class:`CheckError` after ``seconds``."""
        began = time.monotonic()
        while not true():
            waited = time.monotonic() - began
            if waited > seconds:
                raise CheckError(f"{what}: not within {seconds:,.0f} s")
            time.sleep(_LOOK_SECONDS if waited < 10 * _LOOK_LATER_SECONDS else _LOOK_LATER_SECONDS)
        return time.monotonic() - began


def expect(true: object, what: str) -> None:
    """:class:`CheckError` that says ``what``, unless it is true."""
    if not true:
        raise CheckError(what)
