"""The document of an error, as S3's clients read it."""

from typing import Any

import pytest
from botocore.parsers import RestXMLParser
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st

from graveler.gateway.protocol.s3_errors import STATUSES, S3Error, error_document, invalid_argument
from graveler.gateway.protocol.xml_text import escape

_SHAPE = get_session().get_service_model("s3").operation_model("GetObject").output_shape


def _parsed(document: bytes, status: int) -> dict[str, Any]:
    """Return an error as botocore reads it."""
    response = {"body": document, "headers": {}, "status_code": status}
    assert _SHAPE is not None
    parsed: dict[str, Any] = RestXMLParser().parse(response, _SHAPE)
    return parsed


def test_an_error_document() -> None:
    error = S3Error("NoSuchKey", "The specified key does not exist.", {"Key": "a<b"})
    assert error_document(error, "/sales/a<b", "4442587FB7D0A2F9") == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code>'
        b"<Message>The specified key does not exist.</Message><Key>a&lt;b</Key><Resource>/sales/a&lt;b</Resource>"
        b"<RequestId>4442587FB7D0A2F9</RequestId></Error>"
    )


@pytest.mark.parametrize("code", STATUSES)
def test_botocore_reads_every_error(code: str) -> None:
    error = S3Error(code, "A sentence.", {"Key": "a/b"})
    parsed = _parsed(error_document(error, "/sales/a", "ID"), error.status)["Error"]
    assert parsed["Code"] == code
    assert parsed["Message"] == "A sentence."
    assert parsed["Key"] == "a/b"


def test_a_wrong_argument_is_named() -> None:
    error = invalid_argument("max-keys cannot be negative", "maxKeys", "-" * 5000)
    assert (error.code, error.status) == ("InvalidArgument", 400)
    assert error.fields["ArgumentName"] == "maxKeys"
    assert len(error.fields["ArgumentValue"]) == 1024


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")))
def test_text_is_escaped(text: str) -> None:
    error = S3Error("NoSuchKey", text or "-")
    assert _parsed(error_document(error, "/", "ID"), 404)["Error"]["Message"] == (text or "-")


def test_control_characters_become_references() -> None:
    assert escape("a\rb\x01c\x00d\ne\tf") == "a&#xd;b&#x1;c&#x0;d\ne\tf"
