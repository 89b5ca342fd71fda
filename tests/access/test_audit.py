"""The audit log's lines: what they contain, and what they never contain."""

import json
import logging

import pytest

from graveler.access.audit import AuditLine, record


def test_a_line_is_one_json_document_without_what_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    line = AuditLine(time=1.5, action="uploadObject", outcome="201", key_id="AKIA", path='a\n"b"', repository="lake")
    with caplog.at_level(logging.INFO, "graveler.audit"):
        record(line)
    (said,) = caplog.messages
    assert "\n" not in said
    assert json.loads(said) == {
        "time": 1.5,
        "action": "uploadObject",
        "outcome": "201",
        "key_id": "AKIA",
        "path": 'a\n"b"',
        "repository": "lake",
    }


def test_no_signature_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "graveler.audit"):
        record(
            AuditLine(
                time=1.0, action="statObject", outcome="presigned", address="http://h/k?X-Signature=secret", path="a?b"
            )
        )
    assert json.loads(caplog.messages[0])["address"] == "http://h/k"
    assert json.loads(caplog.messages[0])["path"] == "a?b"
    assert "secret" not in caplog.text


def test_a_path_that_is_no_unicode_is_written_escaped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "graveler.audit"):
        record(AuditLine(time=1.0, action="uploadObject", outcome="400", path="a\udc80"))
    assert json.loads(caplog.messages[0])["path"] == "a\\udc80"


def test_nothing_is_written_where_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "graveler.audit"):
        record(AuditLine(time=1.0, action="x", outcome="200"))
    assert not caplog.messages
