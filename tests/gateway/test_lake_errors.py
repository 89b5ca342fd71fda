"""Errors of the lake as S3's."""

import pytest

from graveler.errors import BytesGoneError, ExpiredCommitError, GravelerError, ObjectNotFoundError
from graveler.gateway.lake_errors import CODES, s3_error
from graveler.gateway.protocol.s3_errors import STATUSES


def test_each_code_has_a_status() -> None:
    assert {code for _, code in CODES} <= STATUSES.keys()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ExpiredCommitError("c1"), "InvalidObjectState"),
        (BytesGoneError("a", "main", "local://sales/data/a"), "InvalidObjectState"),
        (ObjectNotFoundError("a", "main"), "NoSuchKey"),
    ],
)
def test_an_object_whose_bytes_are_gone_was_written_once(error: GravelerError, code: str) -> None:
    assert s3_error(error).code == code
    assert s3_error(error).message == str(error)
