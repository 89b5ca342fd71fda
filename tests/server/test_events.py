"""What a client asked is in the event, as API Gateway would have said it; what the application answers reaches the client."""

from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.server.answers import RequestError
from graveler.server.bodies import Body, read_body
from graveler.server.events import answer_of, event_of, raw_path
from graveler.server.settings import ServerSettings
from tests.server.support import environ

SETTINGS = ServerSettings(
    lake=Path("/nowhere"), metrics=Path("/nowhere"), spool_bytes=100, max_json_bytes=50, max_upload_bytes=1000
)


def event(request: dict[str, Any], body: bytes = b"") -> dict[str, Any]:
    return event_of(request, raw_path(request), Body(body), "an-id")


@given(segments=st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="/?#")), min_size=1))
def test_a_path_means_what_it_meant(segments: list[str]) -> None:
    path = "/" + "/".join(quote(segment, safe="") for segment in segments)
    found = raw_path(environ(target=path))
    assert found.isascii()
    assert [unquote(part) for part in found[1:].split("/")] == segments


def test_empty_segments_and_dots_stay() -> None:
    assert raw_path(environ(target="/api//v1/../x/./")) == "/api//v1/../x/./"


@given(query=st.text(alphabet="abc=&%+/?20", max_size=30))
def test_the_query_is_left_as_it_is(query: str) -> None:
    assert event(environ(target=f"/x?{query}"))["rawQueryString"] == query


def test_headers_have_lower_case_names_and_cookies_are_apart() -> None:
    request = environ(
        "POST", "/x", b"{}", {"X-Lakefs-Meta-A": "1", "Cookie": "a=1; b=2;c=3", "Content-Type": "application/json"}
    )
    made = event(request)
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
    made = event(environ("POST", "/x", data, {"Content-Type": kind} if kind else {}), data)
    body = made.get("body", "")
    assert (b64decode(body) if made["isBase64Encoded"] else body.encode()) == data
    if kind == "image/png" and data:
        assert made["isBase64Encoded"]


@pytest.mark.parametrize("size", [99, 100, 101, 1000])
def test_large_bodies_lie_in_a_file_meanwhile(size: int) -> None:
    data = bytes(n % 256 for n in range(size))
    with read_body(environ("POST", "/x", data), SETTINGS) as body:
        if size <= SETTINGS.spool_bytes:
            assert body == Body(data)
            return
        assert body.file is not None
        assert body.file.read_bytes() == data
        request = environ("POST", "/x")
        assert event_of(request, "/x", body, "")["graveler.body_file"] == str(body.file)
    assert not body.file.exists()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"x" * 1001, {}, 413),
        (b"x" * 51, {"content-type": "application/json"}, 413),
        (b"x", {"content-length": "7"}, 400),
        (b"x", {"content-length": "-1"}, 400),
        (b"x", {"content-length": "1e3"}, 400),
        (b"x" * 51, {"content-length": "", "transfer-encoding": "chunked", "content-type": "application/json"}, 413),
    ],
)
def test_bodies_are_refused(body: bytes, headers: dict[str, str], status: int) -> None:
    with pytest.raises(RequestError) as refused, read_body(environ("POST", "/x", body, headers), SETTINGS):
        pass
    assert refused.value.status == status


def test_bodies_may_come_in_chunks() -> None:
    for kind in ("application/json", "multipart/form-data; boundary=x", "application/octet-stream"):
        headers = {"content-length": "", "transfer-encoding": "chunked", "content-type": kind}
        with read_body(environ("POST", "/x", b"{}", headers), SETTINGS) as body:
            assert body.data == b"{}"


def test_answers() -> None:
    said = {
        "statusCode": 200,
        "headers": {"content-type": "x", "content-length": "9"},
        "cookies": ["a=1", "b=2"],
        "body": "AAEC",
        "isBase64Encoded": True,
        "graveler.operation": "getObject",
    }
    answer = answer_of(said, "GET")
    assert (answer.status, answer.body, answer.operation) == (200, b"\0\1\2", "getObject")
    assert answer.headers == [("content-type", "x"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]
    head = answer_of(said, "HEAD")
    assert (head.body, ("content-length", "9") in head.headers) == (b"", True)
    assert answer_of({"statusCode": 204, "headers": {}, "body": ""}, "DELETE").headers == []
