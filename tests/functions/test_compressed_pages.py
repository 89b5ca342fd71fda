"""Functions compress long pages for clients that accept it. What does not fit into a response even then is shortened."""

import gzip
import json
from base64 import b64decode
from random import Random
from typing import Any

import pytest

from graveler.functions.entry import MAX_ANSWER, answered
from tests.api.support import EventClient, make_world

ACCEPTS = {"accept-encoding": "gzip"}
OBJECTS = 40


@pytest.fixture(scope="module")
def call() -> EventClient:
    """A lake with a few objects, each with 0.3 MB of metadata: half of them compress well, half by a half."""
    client = EventClient(make_world())
    client("POST", "/repositories", body={"name": "sales", "storage_namespace": "mem://sales"})
    opened = client.world.lake.repository("sales")
    for name, text in (("same", "a" * 300_000), ("other", Random(1).randbytes(150_000).hex())):
        for number in range(OBJECTS):
            opened.upload("main", f"{name}/{number}", b"", metadata={"text": text})
    return client


def page(call: EventClient, query: str, headers: dict[str, str]) -> dict[str, Any]:
    event = call.event("GET", "/api/v1/repositories/sales/refs/main/objects/ls", query, None, headers)
    event["headers"]["authorization"] = call.world.admin
    return answered(call.world.application, event)


def listed(response: dict[str, Any]) -> list[str]:
    assert (response["statusCode"], response["isBase64Encoded"]) == (200, True)
    assert response["headers"]["content-encoding"] == "gzip"
    assert len(json.dumps(response)) <= MAX_ANSWER
    return [entry["path"] for entry in json.loads(gzip.decompress(b64decode(response["body"])))["results"]]


def test_the_limit_counts_after_compression(call: EventClient) -> None:
    plain = page(call, "prefix=same/", {})
    assert not plain["isBase64Encoded"]
    assert 0 < len(json.loads(plain["body"])["results"]) < OBJECTS
    assert len(listed(page(call, "prefix=same/", ACCEPTS))) == OBJECTS


def test_a_compressed_page_that_is_too_long_is_shortened(call: EventClient) -> None:
    first = listed(page(call, "prefix=other/", ACCEPTS))
    assert 0 < len(first) < OBJECTS
    rest = listed(page(call, f"prefix=other/&after={first[-1]}", ACCEPTS))
    assert first + rest == sorted(f"other/{number}" for number in range(OBJECTS))[: len(first) + len(rest)]


def test_what_cannot_be_shortened_is_refused_without_the_headers_of_its_body(call: EventClient) -> None:
    paths = {"paths": [f"other/{number}" for number in range(OBJECTS)]}
    event = call.event("POST", "/api/v1/repositories/sales/refs/main/objects/stats", "", paths, ACCEPTS)
    event["headers"]["authorization"] = call.world.admin
    response = answered(call.world.application, event)
    assert response["statusCode"] == 400
    assert "can return at most" in json.loads(response["body"])["message"]
    assert response["headers"]["cache-control"] == "no-store"
    assert not {"content-encoding", "etag", "vary"} & response["headers"].keys()
