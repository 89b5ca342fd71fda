"""JSON is compressed for clients that accept it, if it is long and holds no secret; bytes of objects never are."""

import gzip
import json
from base64 import b64decode
from collections.abc import Mapping

import pytest

from graveler.api.compression import MIN_BYTES, is_compressible
from graveler.api.response import Response, json_response, rendered_response, text_response
from tests.api.support import Answer, EventClient, make_world

GZIP = {"accept-encoding": "gzip, deflate"}


@pytest.fixture
def call() -> EventClient:
    """A lake with a repository of 40 objects, of which the first is a JSON document."""
    client = EventClient(make_world())
    client("POST", "/repositories", body={"name": "sales", "storage_namespace": "mem://sales"})
    for number in range(40):
        body, headers = json.dumps(["x" * 100] * 40).encode(), {"content-type": "application/json"}
        query = {"path": f"events/part-{number:05}"}
        assert client("POST", "/repositories/sales/branches/main/objects", query, body, headers).status == 201
    return client


def sent(
    call: EventClient, path: str, query: str = "", headers: Mapping[str, str] = GZIP, method: str = "GET"
) -> Answer:
    event = call.event(method, f"/api/v1{path}", query, None, {**headers, "authorization": call.world.admin})
    response = call.world.application(event)
    body = b64decode(response["body"]) if response["isBase64Encoded"] else response["body"].encode()
    return Answer(response["statusCode"], response["headers"], body)


LISTING = "/repositories/sales/refs/main/objects/ls"


def test_a_long_answer_is_compressed_for_who_accepts_it(call: EventClient) -> None:
    plain = sent(call, LISTING, headers={})
    assert "content-encoding" not in plain.headers
    smaller = sent(call, LISTING)
    assert (smaller.headers["content-encoding"], smaller.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert smaller.headers["content-type"] == "application/json"
    assert gzip.decompress(smaller.body) == plain.body
    assert len(smaller.body) * 3 < len(plain.body)


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0"])
def test_other_clients_get_it_as_it_is(call: EventClient, accepted: str) -> None:
    answer = sent(call, LISTING, headers={"accept-encoding": accepted})
    assert json.loads(answer.body)["results"]
    assert "content-encoding" not in answer.headers


def test_short_answers_errors_and_object_bytes_are_not_compressed(call: EventClient) -> None:
    short = sent(call, "/repositories/sales")
    assert len(short.body) < MIN_BYTES
    missing = sent(call, f"/repositories/sales/refs/{'x' * 2000}/objects/ls")
    assert (missing.status, missing.headers["cache-control"]) == (400, "no-store")
    of_object = sent(call, "/repositories/sales/refs/main/objects", "path=events/part-00000")
    assert (of_object.status, of_object.headers["content-type"]) == (200, "application/json")
    for answer in (short, missing, of_object):
        assert "content-encoding" not in answer.headers


def test_a_header_is_read_for_long_json_only() -> None:
    class Unread(dict[str, str]):
        def get(self, *_: object) -> str:
            raise AssertionError("a header was read")

    text = "x" * MIN_BYTES
    for response in (json_response(["short"]), Response(200, {}, text.encode()), text_response(text)):
        assert not is_compressible(response, Unread())
    assert is_compressible(rendered_response(text.encode()), GZIP)


@pytest.mark.parametrize("path", ["/auth/users", "/auth/keys", "/auth/users/somebody/credentials"])
def test_answers_about_keys_are_neither_compressed_nor_stored(call: EventClient, path: str) -> None:
    for number in range(40):
        call("POST", "/auth/keys", body={"name": f"user-{number}", "role": "reader"})
    answer = sent(call, path)
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert "content-encoding" not in answer.headers


def test_a_login_is_not_stored(call: EventClient) -> None:
    key = b64decode(call.world.admin.removeprefix("Basic ")).decode().partition(":")
    login = call("POST", "/auth/login", body={"access_key_id": key[0], "secret_access_key": key[2]}, authorization=None)
    assert (login.status, login.headers["cache-control"]) == (200, "no-store")
    refused = call("POST", "/auth/login", body={"access_key_id": key[0], "secret_access_key": "x"}, authorization=None)
    assert (refused.status, refused.headers["cache-control"]) == (401, "no-store")
