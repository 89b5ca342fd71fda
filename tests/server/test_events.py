"""The event contains the client's request as API Gateway would state it; the application's answer reaches the client."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.api.call import event_body
from graveler.api.response import Response
from graveler.lake.opening.location import FolderLake
from graveler.server import bodies
from graveler.server.bodies import Body, CutShortError, SpoolRoom, read_body, read_small_body
from graveler.server.configuration import ServerSettings
from graveler.server.events import event_of, response_of
from graveler.server.requests import Message, Receive, Request, request_of
from graveler.server.responses import RequestError
from graveler.server.threads import Threads
from tests.server.support import arriving, request

SETTINGS = ServerSettings(
    lake=FolderLake(Path("/nowhere")),
    metrics=Path("/nowhere"),
    spool_bytes=100,
)


DISK = Threads("disk", 1)
ROOM = SpoolRoom(1_000_000)


def event(head: Request, body: bytes = b"") -> dict[str, Any]:
    return event_of(head, Body(body), "an-id")


def read(head: Request, receive: Receive, seen: Callable[[Body], None] | None = None, limit: int = 1000) -> Body:
    """The body that is read; ``seen`` is called while its file is there."""

    async def reading() -> Body:
        body = await read_small_body(head, receive, limit, SETTINGS.spool_bytes)
        if body is not None:
            assert body.file is None
            if seen is not None:
                seen(body)
            return body
        async with read_body(head, receive, limit, SETTINGS.spool_bytes, ROOM, DISK) as body:
            if seen is not None:
                seen(body)
            return body

    return asyncio.run(reading())


def scope(path: bytes, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    """A request as the server hands it over."""
    return {
        "method": "GET",
        "raw_path": path,
        "query_string": b"a=%20",
        "headers": headers,
        "client": ("127.0.0.1", "1"),
        "http_version": "1.1",
    }


@given(segments=st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="/?#")), min_size=1))
def test_a_path_means_what_it_meant(segments: list[str]) -> None:
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    for sent in (path.encode(), unquote(path).encode()):
        found = request_of(scope(sent)).path
        assert found.isascii()
    found = request_of(scope(path.encode())).path
    assert [unquote(part) for part in found[1:].split("/")] == segments


def test_empty_segments_dots_and_encoded_slashes_stay() -> None:
    for path in ("/api//v1/../x/./", "/a%2Fb", "/%2e%2E/%00"):
        assert request_of(scope(path.encode())).path == path


def test_headers_of_one_name_are_one() -> None:
    head = request_of(scope(b"/", (b"a", b"1"), (b"cookie", b"x=1"), (b"a", b"2"), (b"cookie", b"y=2")))
    assert head.headers == {"a": "1,2", "cookie": "x=1; y=2"}


@given(query=st.text(alphabet="abc=&%+/?20", max_size=30))
def test_the_query_is_left_as_it_is(query: str) -> None:
    assert event(request(target=f"/x?{query}"))["rawQueryString"] == query


def test_headers_have_lower_case_names_and_cookies_are_apart() -> None:
    head = request(
        "POST", "/x", b"{}", {"X-Lakefs-Meta-A": "1", "Cookie": "a=1; b=2;c=3", "Content-Type": "application/json"}
    )
    made = event(head)
    assert made["headers"] == {"x-lakefs-meta-a": "1", "content-type": "application/json", "content-length": "2"}
    assert made["cookies"] == ["a=1", "b=2", "c=3"]
    assert made["requestContext"]["requestId"] == "an-id"
    assert made["requestContext"]["http"] == {
        "method": "POST",
        "path": "/x",
        "protocol": "HTTP/1.1",
        "sourceIp": "127.0.0.1",
        "userAgent": "",
    }


@given(data=st.binary(max_size=60), kind=st.sampled_from(["", "application/json", "text/plain", "image/png"]))
def test_a_body_arrives_byte_for_byte(data: bytes, kind: str) -> None:
    made = event(request("POST", "/x", data, {"Content-Type": kind} if kind else {}), data)
    assert event_body(made) == data


@pytest.mark.parametrize("size", [99, 100, 101, 1000])
def test_large_bodies_lie_in_a_file_meanwhile(size: int) -> None:
    data = bytes(n % 256 for n in range(size))

    def seen(body: Body) -> None:
        if size <= SETTINGS.spool_bytes:
            assert body == Body(data)
            return
        assert body.file is not None
        assert body.file.read_bytes() == data
        assert event_of(request("POST", "/x"), body, "")["graveler.body_file"] == str(body.file)

    body = read(request("POST", "/x", data), arriving(data[:50], data[50:]), seen)
    assert body.file is None or not body.file.exists()


def test_a_small_body_of_known_length_stays_in_memory_and_no_other() -> None:
    for size, headers, small in (
        (100, {}, True),
        (101, {}, False),
        (50, {"content-type": "application/json"}, True),
        (0, {}, True),
        (10, {"transfer-encoding": "chunked"}, False),
    ):
        head = request("POST", "/x", bytes(size), headers)
        found = asyncio.run(read_small_body(head, arriving(bytes(size)), 1000, SETTINGS.spool_bytes))
        assert (found is not None) is small


@pytest.mark.parametrize("pieces", [[bytes(60)], [bytes(20), bytes(40)]])
def test_no_message_is_awaited_behind_the_last_byte_of_a_small_body(pieces: list[bytes]) -> None:
    """The one that says that nothing follows costs a round of the loop."""
    received: list[bytes] = []

    async def receive() -> Message:
        received.append(pieces[len(received)])
        return {"type": "http.request", "body": received[-1], "more_body": True}

    assert read(request("POST", "/x", bytes(60)), receive) == Body(bytes(60))
    assert received == pieces


@pytest.mark.parametrize(
    ("body", "headers", "limit", "status"),
    [
        (b"x" * 1001, {}, 1000, 413),
        (b"x" * 51, {"content-type": "application/json"}, 50, 413),
        (b"x", {"content-length": "7"}, 1000, 400),
        (b"x", {"content-length": "-1"}, 1000, 400),
        (b"x", {"content-length": "1e3"}, 1000, 400),
        (b"x" * 51, {"transfer-encoding": "chunked", "content-type": "application/json"}, 50, 413),
    ],
)
def test_bodies_are_refused(body: bytes, headers: dict[str, str], limit: int, status: int) -> None:
    with pytest.raises(RequestError) as refused:
        read(request("POST", "/x", body, headers), arriving(body), limit=limit)
    assert refused.value.status == status


def test_bodies_may_come_in_chunks() -> None:
    for kind in ("application/json", "multipart/form-data; boundary=x", "application/octet-stream"):
        headers = {"transfer-encoding": "chunked", "content-type": kind}
        assert read(request("POST", "/x", b"{}", headers), arriving(b"{", b"}")).data == b"{}"


@pytest.mark.parametrize("size", [0, 50, 500])
def test_a_body_whose_client_goes_away_is_none(size: int) -> None:
    for headers in ({"transfer-encoding": "chunked"}, {"content-length": "1000"}):
        with pytest.raises(CutShortError):
            read(request("POST", "/x", b"", headers), arriving(bytes(size), cut=True))


@pytest.mark.parametrize(
    ("size", "seconds", "given_up"), [(1, 20, False), (600, 0.5, False), (600, 1.0, True), (10, 29, True)]
)
@pytest.mark.parametrize("length", [True, False])
def test_a_body_that_trickles_is_given_up(
    monkeypatch: pytest.MonkeyPatch, size: int, seconds: float, given_up: bool, length: bool
) -> None:
    """A client sends ``size`` bytes every so many seconds, 100 times, or once."""
    now = 0.0
    monkeypatch.setattr(bodies, "monotonic", lambda: now)
    count = 1 if seconds == 20 else 100
    came = arriving(*[bytes(size)] * count)

    async def slowly() -> Message:
        nonlocal now
        now += seconds
        return await came()

    said = {"content-length": str(size * count)} if length else {"transfer-encoding": "chunked"}
    head = request("POST", "/x", b"", said)
    if given_up:
        with pytest.raises(RequestError) as refused:
            read(head, slowly, limit=1 << 20)
        assert refused.value.status == 408
    else:
        body = read(head, slowly, limit=1 << 20)
        assert body.file is not None or len(body.data) == size * count


def test_all_bodies_in_files_have_so_much_room_together() -> None:
    room = SpoolRoom(1000)
    sizes = []

    async def one(size: int) -> None:
        body = bytes(size)
        head = request("POST", "/x", b"", {"transfer-encoding": "chunked"})
        async with read_body(head, arriving(body[: size // 2], body[size // 2 :]), 5000, 100, room, DISK) as found:
            assert found.file is not None
            sizes.append(found.file.stat().st_size)
            if len(sizes) == 1:
                with pytest.raises(RequestError) as refused:
                    await one(500)
                assert refused.value.status == 503
                await one(400)

    asyncio.run(one(600))
    asyncio.run(one(1000))
    assert sizes == [600, 400, 1000]
    with pytest.raises(RequestError):
        asyncio.run(one(1001))


def test_answers() -> None:
    said = Response(200, {"content-type": "x", "content-length": "9"}, b"\0\1\2", ("a=1", "b=2"))
    answer = response_of(said, "getObject", "GET")
    assert (answer.status, answer.body, answer.operation) == (200, b"\0\1\2", "getObject")
    assert answer.headers == [("content-type", "x"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]
    head = response_of(said, "getObject", "HEAD")
    assert (head.body, ("content-length", "9") in head.headers) == (b"", True)
    assert response_of(Response(204, {}), "", "DELETE").headers == []
