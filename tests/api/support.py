"""A client of the API that speaks to the application in events, and a lake behind it."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from msgspec import Struct

from graveler.access.authentication import Access
from graveler.access.keys import KeyWithSecret
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.storage.memory_objects import MemoryObjects
from graveler.storage.memory_tables import MemoryTables

BASE = "/api/v1"

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
        """The text of an error."""
        said = self.json()["message"]
        assert isinstance(said, str)
        return said


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
    """Speaks to an application in this process."""

    def __init__(self, world: "World") -> None:
        self.world = world

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
        event = make_event(method, BASE + path if path.startswith("/") else path[1:], query, body, said)
        return as_answer(self.world.application(event))


def make_event(
    method: str, raw_path: str, query: QueryItems, body: object, headers: Mapping[str, str]
) -> dict[str, Any]:
    """An event as the local server makes it. ``body``: bytes and text as they are, anything else as JSON."""
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": raw_path,
        "rawQueryString": raw_query(query),
        "headers": dict(headers),
        "requestContext": {"http": {"method": method, "path": raw_path, "sourceIp": "127.0.0.1"}, "requestId": "r1"},
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


def make_world(settings: Settings | None = None) -> World:
    """A world that is gone with the test."""
    tables, stores = MemoryTables(), dict[str, MemoryObjects]()
    lake = Lake(tables, lambda namespace: stores.setdefault(namespace, MemoryObjects(namespace)))
    access = Access(tables)
    settings = settings or Settings(namespace_prefix="mem://")
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
