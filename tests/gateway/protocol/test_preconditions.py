"""Conditions of reads, copies and writes; ranges and part numbers."""

from collections.abc import Callable, Mapping

import pytest

from graveler.api.ranges import Span
from graveler.gateway.protocol.preconditions import (
    copied_range,
    copy_condition,
    read_condition,
    requested_bytes,
    write_condition,
)
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.requests.staging import Condition

_ETAG = "5d41402abc4b2a76b9719d911017c592"
_MTIME = 1369353600
_THEN = "Fri, 24 May 2013 00:00:00 GMT"
_BEFORE = "Thu, 23 May 2013 23:59:59 GMT"
_AFTER = "Fri, 24 May 2013 00:00:01 GMT"


def _refused(work: Callable[[], object], code: str) -> S3Error:
    with pytest.raises(S3Error) as refusal:
        work()
    assert refusal.value.code == code
    return refusal.value


_READS: list[tuple[dict[str, str], int | None]] = [
    ({}, None),
    ({"if-match": f'"{_ETAG}"'}, None),
    ({"if-match": _ETAG}, None),
    ({"if-match": "*"}, None),
    ({"if-match": f'"abc", "{_ETAG}"'}, None),
    ({"if-match": '"abc"'}, 412),
    ({"if-match": ""}, 412),
    ({"if-none-match": '"abc"'}, None),
    ({"if-none-match": f'"{_ETAG}"'}, 304),
    ({"if-none-match": f'W/"{_ETAG}"'}, 304),
    ({"if-none-match": f'"abc",{_ETAG}'}, 304),
    ({"if-none-match": "*"}, 304),
    ({"if-modified-since": _BEFORE}, None),
    ({"if-modified-since": _THEN}, 304),
    ({"if-modified-since": _AFTER}, 304),
    ({"if-unmodified-since": _BEFORE}, 412),
    ({"if-unmodified-since": _THEN}, None),
    ({"if-unmodified-since": _AFTER}, None),
    # one condition decides instead of another
    ({"if-match": _ETAG, "if-unmodified-since": _BEFORE}, None),
    ({"if-match": "abc", "if-unmodified-since": _AFTER}, 412),
    ({"if-none-match": "abc", "if-modified-since": _AFTER}, None),
    ({"if-none-match": _ETAG, "if-modified-since": _BEFORE}, 304),
    ({"if-match": "abc", "if-none-match": _ETAG}, 412),
    ({"if-match": _ETAG, "if-none-match": _ETAG}, 304),
    ({"if-match": _ETAG, "if-modified-since": _THEN}, 304),
    ({"if-none-match": "abc", "if-unmodified-since": _BEFORE}, 412),
    # no dates
    ({"if-modified-since": "yesterday", "if-unmodified-since": "Fri, 99 May 2013 00:00:00 GMT"}, None),
    ({"if-modified-since": "Fri, 24 May 2013 00:00:00 -0000"}, 304),
]


@pytest.mark.parametrize(("headers", "status"), _READS)
def test_conditions_of_reads(headers: Mapping[str, str], status: int | None) -> None:
    assert read_condition(headers, _ETAG, _MTIME) == status


@pytest.mark.parametrize(("headers", "status"), _READS)
def test_conditions_of_copies(headers: Mapping[str, str], status: int | None) -> None:
    """They say the same of the source, and fail with 412 only."""
    copied = {f"x-amz-copy-source-{name}": value for name, value in headers.items()}
    if status is None:
        copy_condition(copied, _ETAG, _MTIME)
    else:
        assert _refused(lambda: copy_condition(copied, _ETAG, _MTIME), "PreconditionFailed").status == 412
    copy_condition(headers, _ETAG, _MTIME)
    assert read_condition(copied, _ETAG, _MTIME) is None


@pytest.mark.parametrize(
    ("headers", "condition"),
    [
        ({}, Condition()),
        ({"if-none-match": ""}, Condition()),
        ({"if-none-match": "*"}, Condition(if_absent=True)),
        ({"if-match": f'"{_ETAG}"'}, Condition(if_match=_ETAG)),
        ({"if-match": _ETAG}, Condition(if_match=_ETAG)),
        ({"if-match": "*"}, Condition(if_match="*")),
    ],
)
def test_conditions_of_writes(headers: Mapping[str, str], condition: Condition) -> None:
    assert write_condition(headers) == condition


@pytest.mark.parametrize(
    "headers",
    [
        {"if-none-match": f'"{_ETAG}"'},
        {"if-none-match": "*", "if-match": f'"{_ETAG}"'},
        {"if-match": f'"{_ETAG}", "abc"'},
        {"if-modified-since": _THEN},
        {"if-unmodified-since": _THEN},
    ],
)
def test_conditions_that_writes_have_not(headers: Mapping[str, str]) -> None:
    assert _refused(lambda: write_condition(headers), "NotImplemented").status == 501


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, None),
        ("bytes=0-3", Span(0, 4, 10)),
        ("bytes=4-", Span(4, 6, 10)),
        ("bytes=-3", Span(7, 3, 10)),
        ("bytes=-30", Span(0, 10, 10)),
        ("bytes=8-99", Span(8, 2, 10)),
        ("bytes=5-4", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-3", None),
        ("bytes=a-b", None),
    ],
)
def test_ranges(header: str | None, span: Span | None) -> None:
    headers = {} if header is None else {"range": header}
    assert requested_bytes(headers, {}, _ETAG, 10) == span
    assert requested_bytes(headers | {"if-range": f'"{_ETAG}"'}, {}, _ETAG, 10) == span
    assert requested_bytes(headers | {"if-range": '"abc"'}, {}, _ETAG, 10) is None


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=10-20", 10), ("bytes=-0", 10), ("bytes=0-", 0)]
)
def test_a_range_behind_the_end(header: str, size: int) -> None:
    error = _refused(lambda: requested_bytes({"range": header}, {}, _ETAG, size), "InvalidRange")
    assert error.status == 416
    assert error.fields == {"RangeRequested": header, "ActualObjectSize": str(size)}
    assert error.headers == {"content-range": f"bytes */{size}"}


def test_parts_of_an_object() -> None:
    assert requested_bytes({}, {"partNumber": "1"}, _ETAG, 10) == Span(0, 10, 10)
    assert requested_bytes({}, {"partNumber": "1"}, f"{_ETAG}-1", 10) == Span(0, 10, 10)
    assert requested_bytes({}, {"partNumber": "1"}, _ETAG, 0) is None
    error = _refused(lambda: requested_bytes({}, {"partNumber": "2"}, _ETAG, 10), "InvalidPartNumber")
    assert (error.status, error.fields) == (416, {"PartNumberRequested": "2", "ActualPartCount": "1"})
    error = _refused(lambda: requested_bytes({}, {"partNumber": "3"}, f"{_ETAG}-2", 10), "InvalidPartNumber")
    assert error.fields["ActualPartCount"] == "2"
    _refused(lambda: requested_bytes({}, {"partNumber": "2"}, f"{_ETAG}-2", 10), "NotImplemented")
    _refused(lambda: requested_bytes({"range": "bytes=0-1"}, {"partNumber": "1"}, _ETAG, 10), "InvalidRequest")


@pytest.mark.parametrize("number", ["0", "10001", "", "a", "-1", "\u0661", "9" * 5000])
def test_numbers_that_no_part_has(number: str) -> None:
    _refused(lambda: requested_bytes({}, {"partNumber": number}, _ETAG, 10), "InvalidArgument")


def test_ranges_of_copies() -> None:
    name = "x-amz-copy-source-range"
    assert copied_range({}, 10) is None
    assert copied_range({name: "bytes=2-9"}, 10) == (2, 8)
    assert copied_range({name: "bytes=0-0"}, 10) == (0, 1)
    for text in ("bytes=0-10", "bytes=10-10"):
        error = _refused(lambda text=text: copied_range({name: text}, 10), "InvalidArgument")  # type: ignore[misc]
        assert error.message == "Range specified is not valid for source object of size: 10"


@pytest.mark.parametrize(
    "text", ["", "0-2", "bytes=0", "bytes=-5", "bytes=5-", "bytes=5-4", "bytes=0-1,3-4", "bytes=a-b"]
)
def test_ranges_of_copies_that_are_malformed(text: str) -> None:
    error = _refused(lambda: copied_range({"x-amz-copy-source-range": text}, 10), "InvalidArgument")
    assert "must be of the form bytes=first-last" in error.message
