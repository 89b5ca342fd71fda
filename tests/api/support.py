"""A client of the API that speaks to the application in events, and a lake behind it."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, InvalidURL
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

import msgspec
import pytest
from msgspec import Struct

from graveler.access.authentication import Access
from graveler.access.aws_login import AwsLogin
from graveler.access.keys import KeyWithSecret
from graveler.access.permissions import Role
from graveler.access.sources import ImportSources
from graveler.api.application import Application
from graveler.api.errors import ApiError
from graveler.api.openapi import implied_answers
from graveler.api.resources import GROUPS
from graveler.api.routing import Router
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from tests.support.gateways import through_gateway
from tests.support.keyrings import keyring
from tests.support.patience import PATIENCE

BASE = "/api/v1"

OF_HTTP = frozenset(("content-length", "date", "server"))
"""Headers that every answer over HTTP has."""

QueryItems = Mapping[str, object] | Sequence[tuple[str, object]] | str


class Answer(Struct, frozen=True):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: Sequence[str] = ()

    def json(self) -> Any:
        """The body, which must be JSON and say so."""
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def message(self) -> str:
        """The text of an error: the words that clients compare, and the rest."""
        said = self.json()
        return ": ".join(str(said[part]) for part in ("message", "detail") if part in said)


class Client(Protocol):
    """Sends a request. The same tests run in process and over HTTP: only this differs. ``authorization``: empty for the admin's,
    None for none at all. A path that begins with ``!`` is not below the API's base path."""

    world: "World"

    def __call__(
        self,
        method: str,
        path: str,
        query: QueryItems = (),
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        authorization: str | None = "",
    ) -> Answer: ...


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def raw_query(query: QueryItems) -> str:
    return query if isinstance(query, str) else urlencode(query, quote_via=quote)


class EventClient:
    """Speaks to an application in this process, which is stopped when ``seconds_left`` are over, if that is given."""

    def __init__(self, world: "World", seconds_left: Callable[[], float] | None = None) -> None:
        self.world = world
        self.seconds_left = seconds_left

    def __call__(
        self,
        method: str,
        path: str,
        query: QueryItems = (),
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        authorization: str | None = "",
    ) -> Answer:
        said = {name.lower(): value for name, value in (headers or {}).items()}
        if authorization is not None:
            said["authorization"] = authorization or self.world.admin
        sent = BASE + path if path.startswith("/") else path[1:]
        answer = as_answer(self.world.application(self.event(method, sent, query, body, said), self.seconds_left))
        check_documented(method, sent, answer)
        return answer

    def event(
        self, method: str, path: str, query: QueryItems, body: object, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """The event of a request with this percent-encoded path."""
        return make_event(method, path, query, body, headers)


class FunctionClient(EventClient):
    """Speaks to an application as functions behind an HTTP API do. The gateway decodes paths. ``world`` must know that
    (``decoded_paths``)."""

    def event(
        self, method: str, path: str, query: QueryItems, body: object, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        return make_event(method, through_gateway(path), query, body, headers)


class HttpClient:
    """Speaks HTTP to a server, sending paths and queries exactly as they are given. ``world`` shares the server's lake."""

    def __init__(self, world: "World", host: str, port: int) -> None:
        self.world = world
        self._connection = HTTPConnection(host, port, timeout=PATIENCE)

    def __call__(
        self,
        method: str,
        path: str,
        query: QueryItems = (),
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        authorization: str | None = "",
    ) -> Answer:
        said = dict(headers or {})
        if authorization is not None:
            said["Authorization"] = authorization or self.world.admin
        sent = BASE + path if path.startswith("/") else path[1:]
        asked = raw_query(query)
        data = body.encode() if isinstance(body, str) else body
        if data is not None and not isinstance(data, bytes):
            data = json.dumps(data).encode()
        try:
            self._connection.request(method, f"{sent}?{asked}" if asked else sent, data, said)
        except (InvalidURL, ValueError) as error:
            pytest.skip(f"no request over HTTP can say this: {error}")
        response = self._connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        answer = Answer(response.status, names, response.read(), response.headers.get_all("set-cookie") or ())
        check_documented(method, sent, answer)
        return answer

    def close(self) -> None:
        self._connection.close()


ROUTER = Router(GROUPS)


def check_documented(method: str, path: str, answer: Answer) -> None:
    """Each answer must be one that its route documents, with a body that reads strictly as the document named there."""
    if not path.startswith(BASE + "/") or answer.status == 500:
        return
    try:
        route, _ = ROUTER.find(method, path.removeprefix(BASE))
    except ApiError:
        assert answer.status in (400, 404, 405), answer
        return
    documented = {**implied_answers(route), **route.responses}
    assert answer.status in documented, f"{route.operation} answered {answer.status}, which it does not document"
    kind = documented[answer.status]
    if kind is None or method == "HEAD":
        assert answer.body == b"", answer
    elif kind is str:
        assert answer.headers["content-type"].startswith("text/plain")
    elif kind is not bytes:
        assert answer.headers["content-type"] == "application/json"
        read = msgspec.json.decode(answer.body, type=kind)
        again = json.loads(msgspec.json.encode(read))  # with lists where there are tuples
        assert again == json.loads(answer.body), f"{route.operation} answers fields that it hides"


def make_event(method: str, path: str, query: QueryItems, body: object, headers: Mapping[str, str]) -> dict[str, Any]:
    """An event as the local server makes it. ``body``: bytes and text as they are, anything else as JSON."""
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": raw_query(query),
        "headers": dict(headers),
        "requestContext": {"http": {"method": method, "path": path, "sourceIp": "127.0.0.1"}, "requestId": "r1"},
        "isBase64Encoded": False,
    }
    if isinstance(body, bytes):
        event["body"], event["isBase64Encoded"] = b64encode(body).decode(), True
    elif isinstance(body, str):
        event["body"] = body
    elif body is not None:
        event["body"] = json.dumps(body)
    return event


def as_answer(event: Mapping[str, Any]) -> Answer:
    """The answer that an event is."""
    body = b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()
    return Answer(event["statusCode"], event["headers"], body, event.get("cookies", ()))


class World(Struct, frozen=True):
    """A lake in memory with its keys, and an application over them. ``tokens`` are Authorization headers."""

    lake: Lake
    access: Access
    application: Application
    admin: str
    reader: str


ANYWHERE: Final = ImportSources(["file:///", "mem://", "s3://"])
"""For tests that are not about sources."""


def make_world(settings: Settings | None = None, aws: AwsLogin | None = None) -> World:
    """A world that is gone with the test; clients may import from anywhere, unless ``settings`` say otherwise."""
    tables, stores = MemoryTables(), dict[str, MemoryObjects]()
    lake = Lake(tables, lambda namespace: stores.setdefault(namespace, MemoryObjects(namespace)))
    access = Access(tables, keyring(tables), aws=aws)
    settings = settings or Settings(import_sources=ANYWHERE)
    return World(
        lake,
        access,
        Application(lake, access, settings),
        basic(access.create_key("somebody", Role.ADMIN)),
        basic(access.create_key("reader", Role.READER)),
    )


def basic(key: KeyWithSecret) -> str:
    """The Authorization header of a key."""
    return "Basic " + b64encode(f"{key.key.key_id}:{key.secret}".encode()).decode()
