"""Requests too large for Lambda and API Gateway, and refusals of DynamoDB and S3: the answer says what to do, or redirects to
S3.

With functions as Lambda starts them, on DynamoDB's own engine and a real S3 server.
"""

import base64
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import urllib3

from graveler.functions.entry import MAX_ANSWER, MAX_BODY
from tests.functions.runtime import Started
from tests.functions.served import NAME, Served, serving
from tests.support.proxy import Trouble, dynamodb_reply, s3_reply

EVENT_BYTES = 6_291_456
"""Of an event: Lambda's limit, above which the gateway answers 413 by itself."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("limits")) as made:
        yield made


@pytest.fixture(scope="module")
def write(served: Served) -> Iterator[Started]:
    with served.function("write") as function:
        yield function


@pytest.fixture(scope="module")
def read(served: Served) -> Iterator[Started]:
    with served.function("read") as function:
        yield function


@pytest.fixture(scope="module")
def data() -> bytes:
    """One byte more than a function hands out."""
    return Random(1).randbytes(MAX_BODY + 1)


def upload(served: Served, path: str, data: bytes) -> dict[str, Any]:
    asked = served.asked("POST", "/branches/main/objects", query=f"path={path}")
    asked["headers"]["content-type"] = "application/octet-stream"
    return {**asked, "body": base64.b64encode(data).decode(), "isBase64Encoded": True}


def test_as_much_is_taken_as_is_given_back(served: Served, write: Started, read: Started, data: bytes) -> None:
    asked = upload(served, "most", data[:-1])
    assert len(json.dumps(asked)) < EVENT_BYTES
    assert write.invoke(asked)["statusCode"] == 201
    answer = read.invoke(served.asked("GET", "/refs/main/objects", query="path=most"))
    assert answer["statusCode"] == 200
    assert len(json.dumps(answer)) <= MAX_ANSWER
    assert base64.b64decode(answer["body"]) == data[:-1]


def test_a_body_over_the_limit_is_refused_in_words_and_nothing_is_changed(
    served: Served, write: Started, data: bytes
) -> None:
    text = served.asked("POST", "/branches/main/objects/delete", body={"paths": ["most", "é" * (MAX_BODY // 2)]})
    text["body"] = json.dumps(json.loads(text["body"]), ensure_ascii=False)
    for asked in (upload(served, "more", data), text):
        assert len(json.dumps(asked, ensure_ascii=False).encode()) < EVENT_BYTES, "it does reach the function"
        answer = write.invoke(asked)
        assert answer["statusCode"] == 413
        said = json.loads(answer["body"])["message"]
        assert said.startswith(("the body has 4,194,305 bytes", "the body has 4,194,3"))
        assert "with a presigned URL" in said
    assert not served.lake.repository(NAME).stat_many("main", ["more"])[0]
    assert write.invoke(upload(served, "less", data[:10]))["statusCode"] == 201


def test_a_larger_object_is_led_to_s3(served: Served, read: Started, data: bytes) -> None:
    served.lake.repository(NAME).upload("main", "large", data)
    for wanted, led in (("", True), (f"bytes=0-{MAX_BODY}", True), ("bytes=1-", False), ("bytes=5-9", False)):
        headers = {"range": wanted} if wanted else {}
        answer = read.invoke(served.asked("GET", "/refs/main/objects", query="path=large", headers=headers))
        if led:
            assert answer["statusCode"] == 302
            with urllib3.PoolManager() as http:
                followed = http.request("GET", answer["headers"]["location"], headers=headers)
            assert followed.status == (206 if wanted else 200)
            assert followed.data == data
        else:
            assert answer["statusCode"] == 206
            start, end = (int(part or MAX_BODY) for part in wanted.removeprefix("bytes=").split("-"))
            assert base64.b64decode(answer["body"]) == data[start : end + 1]


@pytest.mark.parametrize(
    ("server", "operation", "trouble", "said"),
    [
        (0, "BatchGetItem", dynamodb_reply("ExpiredTokenException"), "the credentials have expired"),
        (0, "BatchGetItem", dynamodb_reply("ResourceNotFoundException"), "check its name and the region"),
        (0, "PutItem", dynamodb_reply("AccessDeniedException"), "grant their user or role the right"),
        (1, "PUT", s3_reply("NoSuchBucket", 404), "there is no such bucket"),
        (1, "PUT", s3_reply("PermanentRedirect", 301), "is in another region"),
        (1, "PUT", s3_reply("RequestTimeTooSkewed", 403), "this machine's clock is wrong"),
    ],
)
def test_what_aws_refuses_is_told_to_the_client_and_the_next_request_goes_on(
    server: int, operation: str, trouble: Trouble, said: str, served: Served, write: Started
) -> None:
    asked = upload(served, "refused", b"x")
    served.proxies[server].begin(lambda made, _: trouble if made == operation else None)
    try:
        answer = write.invoke(asked)
    finally:
        served.proxies[server].begin(lambda *_: None)
    told = json.loads(answer["body"])
    assert answer["statusCode"] == (500 if "grant" in said else 503), answer  # a missing right stays missing
    assert said in f"{told['message']}: {told.get('detail', '')}", answer
    assert write.invoke(asked)["statusCode"] == 201
