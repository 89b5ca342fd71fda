"""Over HTTP, long JSON is compressed for those who accept it, in the event loop or in a thread; transfers of bytes never are."""

import gzip
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.server.support import Answered, Running, running

AMOUNT = 200
LISTING = "/api/v1/repositories/sales/refs/main/objects/ls"
ACCEPTS = {"accept-encoding": "gzip, deflate, br"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("compression"), workers=1) as server:
        created = {"name": "sales", "storage_namespace": "local://sales"}
        assert server.ask_json("POST", "/api/v1/repositories", created).status == 201
        branch = "/api/v1/repositories/sales/branches/main"
        for number in range(AMOUNT):
            body = json.dumps(["x" * 50] * 50).encode()
            headers = {"content-type": "application/json"}
            assert server.ask("POST", f"{branch}/objects?path=a/{number:05}", body, headers).status == 201
        assert server.ask_json("POST", f"{branch}/commits", {"message": "Many"}).status == 201
        yield server


def unpacked(answer: Answered) -> bytes:
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    assert answer.headers["content-length"] == str(len(answer.body))
    return gzip.decompress(answer.body)


@pytest.mark.parametrize("amount", [5, AMOUNT], ids=["in-the-loop", "in-a-thread"])
@pytest.mark.parametrize("delimiter", ["", "/"], ids=["rendered", "by-a-handler"])
def test_pages_of_any_length_are_the_same_bytes(server: Running, amount: int, delimiter: str) -> None:
    target = f"{LISTING}?amount={amount}&prefix=a/&delimiter={delimiter}"
    for _ in range(3):  # rendered pages are remembered
        plain = server.ask("GET", target)
        assert "content-encoding" not in plain.headers
        smaller = server.ask("GET", target, headers=ACCEPTS)
        assert unpacked(smaller) == plain.body
        assert len(smaller.body) < len(plain.body)


def test_bytes_of_objects_are_never_compressed(server: Running) -> None:
    whole = server.ask("GET", "/api/v1/repositories/sales/refs/main/objects?path=a/00000", headers=ACCEPTS)
    assert (whole.status, whole.headers["content-type"]) == (200, "application/json")
    assert json.loads(whole.body)
    signed = server.ask(
        "GET", "/api/v1/repositories/sales/refs/main/objects/stat?path=a/00000&presign=true", headers=ACCEPTS
    )
    assert signed.headers["cache-control"] == "no-store"
    url = urlsplit(signed.json()["physical_address"])
    assert server.ask("GET", f"{url.path}?{url.query}", headers=ACCEPTS, authorised=False).body == whole.body


def test_answers_with_presigned_urls_are_neither_compressed_nor_stored(server: Running) -> None:
    page = server.ask("GET", f"{LISTING}?presign=true", headers=ACCEPTS)
    assert (page.status, page.headers["cache-control"]) == (200, "no-store")
    assert len(page.json()["results"]) == 100
    uploads = "/api/v1/repositories/sales/branches/main/staging"
    for target in (f"{uploads}/backing?path=x&presign=true", f"{uploads}/pmpu?path=x&parts=3"):
        method = "POST" if "pmpu" in target else "GET"
        assert server.ask(method, target, headers=ACCEPTS).headers["cache-control"] == "no-store"


def test_errors_are_not_stored(server: Running) -> None:
    for target in ("/api/v1/repositories/nothing", "/api/v1/nothing", "/objects/x", "/nothing", "/assets/x.js"):
        answer = server.ask("GET", target)
        assert answer.status >= 400
        assert answer.headers.get("cache-control") == "no-store", target
