"""Bodies that API Gateway passes as text: altered ones are refused, and nothing of them is stored."""

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.entry import answered
from graveler.functions.traffic import Traffic
from tests.functions.conftest import Handler
from tests.functions.events import event

REPOSITORIES = "/api/v1/repositories"
OBJECTS = f"{REPOSITORIES}/texts/branches/main/objects"


def as_text(method: str, path: str, data: bytes, *, length: bool = True, **more: Any) -> dict[str, Any]:
    """A request with these bytes and a text type, as the gateway hands it over."""
    made = event(method, path, **more)
    made["headers"] = {**made["headers"], "content-type": "text/csv"} | (
        {"content-length": str(len(data))} if length else {}
    )
    return {**made, "body": data.decode("utf-8", "replace")}


def is_refused(asked: dict[str, Any]) -> bool:
    """Whether the application never sees it."""
    seen: list[dict[str, Any]] = []

    def application(event: dict[str, Any]) -> dict[str, Any]:
        seen.append(event)
        return {"statusCode": 201, "headers": {}, "body": "", "isBase64Encoded": False}

    answer = answered(application, asked)
    assert (answer["statusCode"] == 400) is not seen
    return not seen


@pytest.mark.parametrize("length", [True, False])
def test_text_is_stored_and_other_bytes_are_refused(
    deployment: None, write: Handler, authorization: str, length: bool
) -> None:
    created = {"name": "texts", "storage_namespace": "s3://lake/texts"}
    assert write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)["statusCode"] == 201
    branch = open_deployed_lake(read_configuration(os.environ), Traffic()).repository("texts")
    text = "id,név\r\n1,Zoë €\n".encode()
    sent = as_text("POST", OBJECTS, text, length=length, query="path=a.csv", authorization=authorization)
    assert write(sent, None)["statusCode"] == 201
    assert branch.read("main", "a.csv") == text

    for data in ("Zoë".encode("latin-1"), b"\xf0\x9f\x92", "\ufffd".encode(), b"\xff\xfeA\x00"):
        sent = as_text("POST", OBJECTS, data, length=length, query="path=b.csv", authorization=authorization)
        answer = write(sent, None)
        assert answer["statusCode"] == 400, data
        said = json.loads(answer["body"])["message"]
        assert "upload with a presigned URL" in said
        assert answer["headers"]["x-request-id"] == "request"
    assert branch.stat_many("main", ["b.csv"]) == [None]


@given(st.binary(min_size=1, max_size=12), st.booleans())
def test_no_upload_is_changed_on_the_way(data: bytes, length: bool) -> None:
    sent = as_text("POST", OBJECTS, data, length=length)
    assert is_refused(sent) or sent["body"].encode() == data


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), st.booleans())
def test_text_is_refused_only_for_the_one_character(text: str, length: bool) -> None:
    assert is_refused(as_text("POST", OBJECTS, text.encode(), length=length)) is ("\ufffd" in text)


def test_a_document_may_have_the_character_if_its_length_is_right() -> None:
    document = json.dumps({"message": "a \ufffd"}, ensure_ascii=False).encode()
    commits = f"{REPOSITORIES}/texts/branches/main/commits"
    assert not is_refused(as_text("POST", commits, document))
    assert is_refused(as_text("POST", commits, document, length=False))
    assert is_refused({**as_text("POST", commits, document), "body": "other"})


def test_base64_has_a_length_of_its_own() -> None:
    sent = {**as_text("POST", OBJECTS, b"abc"), "body": "YWJj", "isBase64Encoded": True}
    assert not is_refused(sent)
