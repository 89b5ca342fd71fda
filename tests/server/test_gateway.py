"""A request's log line and metrics, and their time; long requests delay only each other."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import pytest

from graveler.api.response import Response
from graveler.api.routing import BodyKind, Handling
from graveler.lake.opening.location import FolderLake
from graveler.server import gateway as gateway_module
from graveler.server.configuration import ServerSettings
from graveler.server.gateway import HEALTH, Gateway
from graveler.server.metrics import Metrics
from graveler.server.request_log import RequestLine
from graveler.server.requests import Message
from graveler.server.threads import Threads
from tests.server.support import arriving
from tests.support.patience import PATIENCE

COUNTED = 'graveler_requests_total{operation="healthCheck",status="204"} 1'


class Nobody:
    """An application that is not asked."""

    def respond(self, event: Mapping[str, Any], /) -> tuple[Response, str]:
        raise AssertionError(event)

    def handling(self, method: str, path: str, /) -> Handling:
        raise AssertionError((method, path))

    def reject_without_body(self, event: Mapping[str, Any], /) -> tuple[Response, str] | None:
        raise AssertionError(event)


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[Metrics]:
    with closing(Metrics(tmp_path)) as opened:
        yield opened


def sent(metrics: Metrics, folder: Path, observe: list[str], capfd: pytest.CaptureFixture[str]) -> list[Message]:
    """What a client that asks for its health gets; ``observe`` takes log and figures as they are at each message."""
    settings = ServerSettings(lake=FolderLake(folder), metrics=folder, log_requests=True)
    messages: list[Message] = []

    async def send(message: Message) -> None:
        observe.append(capfd.readouterr().err + metrics.text())
        messages.append(message)

    with closing(Threads("handler", 1)) as threads:
        gateway = Gateway(Nobody(), None, metrics, settings, 7, threads, threads, threads)
        scope = {
            "method": "GET",
            "raw_path": HEALTH[0].encode(),
            "query_string": b"",
            "headers": (),
            "client": ("127.0.0.1", "1"),
            "http_version": "1.1",
        }
        try:
            asyncio.run(gateway(scope, arriving(), send))
        except OSError as error:
            observe.append(str(error))
    return messages


def test_who_has_an_answer_finds_it_in_the_log_and_the_figures(
    metrics: Metrics, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []
    assert [message["type"] for message in sent(metrics, tmp_path, seen, capfd)] == [
        "http.response.start",
        "http.response.body",
    ]
    line, _, figures = seen[0].partition("\n")
    assert (json.loads(line)["path"], json.loads(line)["worker"]) == (HEALTH[0], 7)
    assert COUNTED in figures


def test_a_log_that_cannot_be_written_keeps_no_answer_back(
    metrics: Metrics, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(line: RequestLine) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(gateway_module, "write_line", full)
    seen: list[str] = []
    messages = sent(metrics, tmp_path, seen, capfd)
    assert [message.get("status") for message in messages] == [204, None]
    assert seen[-1] == "no space left"


class Scanning:
    """An application whose scans take until they are let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = Semaphore(0), Event()

    def respond(self, event: Mapping[str, Any], /) -> tuple[Response, str]:
        if event["rawPath"] == "/scan":
            self.begun.release()
            assert self.let_go.wait(PATIENCE)
        return Response(200, {}), "other"

    def handling(self, method: str, path: str, /) -> Handling:
        return Handling(scans=path == "/scan")

    def reject_without_body(self, event: Mapping[str, Any], /) -> tuple[Response, str] | None:
        raise AssertionError(event)


def test_scans_keep_nobody_else_from_being_answered(metrics: Metrics, tmp_path: Path) -> None:
    application = Scanning()
    settings = ServerSettings(lake=FolderLake(tmp_path), metrics=tmp_path)
    handlers, scanners = Threads("handler", 2), Threads("scanner", 2)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def asked(gateway: Gateway, path: str) -> int:
        statuses: list[int] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        head = {"method": "GET", "raw_path": path.encode(), "query_string": b"", "http_version": "1.1"}
        scope = {**head, "headers": (), "client": None}
        await gateway(scope, receive, send)
        return statuses[0]

    async def run() -> None:
        gateway = Gateway(application, None, metrics, settings, 0, handlers, scanners, handlers)
        scans = [asyncio.ensure_future(asked(gateway, "/scan")) for _ in range(10)]
        for _ in range(2):
            await asyncio.to_thread(application.begun.acquire)
        assert [await asked(gateway, "/other") for _ in range(10)] == [200] * 10
        assert not any(scan.done() for scan in scans)
        application.let_go.set()
        assert await asyncio.gather(*scans) == [200] * 10

    try:
        asyncio.run(run())
    finally:
        application.let_go.set()
        handlers.close()
        scanners.close()


class Refusing(Nobody):
    """An application that takes large bodies of those whom it knows, and knows nobody."""

    def __init__(self) -> None:
        self.asked = 0

    def handling(self, method: str, path: str, /) -> Handling:
        return Handling(BodyKind.JSON)

    def reject_without_body(self, event: Mapping[str, Any], /) -> tuple[Response, str] | None:
        self.asked += 1
        return Response(401, {}, "who are you?"), ""


@pytest.mark.parametrize("length", [16 << 10 | 1, 1 << 18, 1 << 24, None])
def test_nobody_keeps_much_of_a_strangers_body(metrics: Metrics, tmp_path: Path, length: int | None) -> None:
    """Of each connection, 256 KB were kept in memory before anybody asked whose they were."""
    application = Refusing()
    settings = ServerSettings(lake=FolderLake(tmp_path), metrics=tmp_path)
    statuses: list[int] = []
    came = arriving(*[bytes(1000)] * ((length or 20_000) // 1000), bytes((length or 20_000) % 1000))

    told: list[bytes] = []

    async def receive() -> Message:
        assert application.asked == 1, "it is known that they are strangers before the first byte is taken"
        assert told == [b"who are you"], (
            "and told to them, except the last byte: after that, granian breaks the connection"
        )
        return await came()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            assert (b"content-length", b"12") in message["headers"], "a client knows when it has all of it"
        elif message["body"]:
            told.append(message["body"])

    said = (b"transfer-encoding", b"chunked") if length is None else (b"content-length", str(length).encode())
    head = {"method": "POST", "raw_path": b"/x", "query_string": b"", "http_version": "1.1", "client": None}
    with closing(Threads("handler", 1)) as threads:
        gateway = Gateway(application, None, metrics, settings, 0, threads, threads, threads)
        asyncio.run(gateway({**head, "headers": (said,)}, receive, send))
    assert (statuses, b"".join(told)) == ([401], b"who are you?")


def test_a_refused_client_that_waits_before_it_sends_a_body_has_the_whole_response_at_once(
    metrics: Metrics, tmp_path: Path
) -> None:
    bodies: list[bytes] = []

    async def receive() -> Message:
        raise AssertionError("nothing follows")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            bodies.append(message["body"])

    head = {"method": "POST", "raw_path": b"/x", "query_string": b"", "http_version": "1.1", "client": None}
    headers = ((b"content-length", b"1000000"), (b"expect", b"100-continue"))
    with closing(Threads("handler", 1)) as threads:
        settings = ServerSettings(lake=FolderLake(tmp_path), metrics=tmp_path)
        gateway = Gateway(Refusing(), None, metrics, settings, 0, threads, threads, threads)
        asyncio.run(gateway({**head, "headers": headers}, receive, send))
    assert bodies == [b"who are you?"]


class Known(Nobody):
    """An application that takes bodies from everybody."""

    def handling(self, method: str, path: str, /) -> Handling:
        return Handling(BodyKind.JSON)

    def reject_without_body(self, event: Mapping[str, Any], /) -> None:
        return None


@pytest.mark.parametrize(
    ("path", "status", "wait"), [("/api/v1/repositories", 503, None), ("/iceberg/v1/rep/main/namespaces", 429, b"1")]
)
def test_a_body_without_room_for_it_is_refused_as_the_clients_of_its_path_repeat_it(
    metrics: Metrics, tmp_path: Path, path: str, status: int, wait: bytes | None
) -> None:
    """Iceberg's clients take a 503 for a commit whose outcome is unknown."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    settings = ServerSettings(lake=FolderLake(tmp_path), metrics=tmp_path, spool_bytes=100, spooled_bytes=1000)
    head = {"method": "POST", "raw_path": path.encode(), "query_string": b"", "http_version": "1.1", "client": None}
    chunked = ((b"transfer-encoding", b"chunked"),)
    with closing(Threads("handler", 1)) as threads:
        gateway = Gateway(Known(), None, metrics, settings, 0, threads, threads, threads)
        asyncio.run(gateway({**head, "headers": chunked}, arriving(bytes(500), bytes(501)), send))
    headers = dict(messages[0]["headers"])
    assert (messages[0]["status"], headers.get(b"retry-after")) == (status, wait)
    document = json.loads(b"".join(message["body"] for message in messages[1:]))
    assert document.get("error", {}).get("type") == (None if wait is None else "TooManyRequestsException")


class Endless:
    """A body of which there is always more."""

    closed = False

    def close(self) -> None:
        self.closed = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 18)


def test_who_takes_nothing_loses_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "SILENCE_SECONDS", 0.01)
    body, taken = Endless(), 0

    async def send(message: Message) -> None:
        nonlocal taken
        taken += 1
        if taken == 10:
            await asyncio.Event().wait()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    asyncio.run(gateway_module._send_pieces(body, receive, send))
    assert (taken, body.closed) == (10, True)
