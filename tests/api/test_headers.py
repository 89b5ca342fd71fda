"""What one client says about an object cannot inject anything into others' responses."""

import logging
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.api.header_values import http_date, is_header_value
from graveler.api.object_documents import OBJECT_POLICY
from graveler.model import ObjectEntry
from tests.api.support import Client

REPO = "/repositories/repo"
OBJECT = f"{REPO}/refs/main/objects"
HOSTILE = ["a\r\nX-Evil: 1", "a\n", "é", "\0", "\x7f", "x" * 5000]


def put(call: Client, entry: ObjectEntry) -> None:
    """An object as another program may have left it."""
    opened = call.world.lake.repository("repo")
    opened.link("main", entry)


def staged(call: Client, **said: object) -> int:
    body = {"physical_address": "file:///a", "checksum": "00" * 16, "size_bytes": 0, **said}
    return call("PUT", f"{REPO}/branches/main/objects", {"path": "a"}, body).status


@pytest.mark.parametrize("hostile", HOSTILE)
def test_what_cannot_stand_in_a_header_is_refused_and_never_sent(call: Client, hostile: str) -> None:
    assert staged(call, content_type=hostile) == 400
    assert staged(call, checksum=hostile) == 400
    put(call, ObjectEntry("a", "file:///a", 0, hostile[:100] + "\n", 0, hostile))
    answer = call("HEAD", OBJECT, {"path": "a"})
    assert (answer.status, answer.headers["content-type"], "etag" in answer.headers) == (
        200,
        "application/octet-stream",
        False,
    )
    assert all(is_header_value(value) for value in answer.headers.values())


@pytest.mark.parametrize("mtime", [-(2**63), -1, 0, 2**40, 2**62, 2**63 - 1])
def test_any_time_has_an_answer(call: Client, mtime: int, caplog: pytest.LogCaptureFixture) -> None:
    assert staged(call, mtime=mtime) == 201
    with caplog.at_level(logging.ERROR):
        for method, path in (("HEAD", OBJECT), ("GET", f"{OBJECT}/stat"), ("GET", f"{OBJECT}/ls")):
            assert call(method, path, {"path": "a"}).status == 200
    assert not caplog.records


@given(st.integers(-(10**9), 10**11))
def test_dates_are_as_http_spells_them(seconds: int) -> None:
    assert http_date(seconds) == formatdate(seconds, usegmt=True)


def test_no_browser_takes_an_answer_for_a_page_of_ours(call: Client) -> None:
    call.world.lake.repository("repo").upload("main", "a", b"<script>", content_type="text/html")
    answer = call("GET", OBJECT, {"path": "a"})
    assert answer.headers["content-security-policy"] == OBJECT_POLICY
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    for path in (OBJECT, f"{OBJECT}/stat", "!/nothing", "!/"):
        found = call("GET", path, {"path": "a"})
        assert found.headers["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control-") for name in found.headers)


@pytest.mark.parametrize("use", ["script", "style", "worker", "serviceworker"])
def test_no_page_runs_an_object(call: Client, use: str) -> None:
    call.world.lake.repository("repo").upload("main", "a.js", b"alert(1)", content_type="text/javascript")
    refused = call("GET", OBJECT, {"path": "a.js"}, headers={"sec-fetch-dest": use})
    assert refused.status == 403
    assert "alert" not in refused.text
    for plain in ("empty", "document", "image", ""):
        assert call("GET", OBJECT, {"path": "a.js"}, headers={"sec-fetch-dest": plain}).status == 200
