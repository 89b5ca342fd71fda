"""Conditional requests and ranges: ``If-Match`` and its like, ``Range``, and part numbers.

Sources: RFC 9110, 13.2.2 for the order of conditions; "Conditional requests" in the Amazon S3 user guide.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from graveler.api.ranges import Span, requested
from graveler.gateway.protocol.s3_errors import S3Error, invalid_argument
from graveler.requests.staging import Condition

_COPY_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})")
_PARTS: Final = re.compile(r".*-([0-9]{1,5})")


def read_condition(headers: Mapping[str, str], etag: str, mtime: int) -> int | None:
    """Return the status that the conditions of a read give it: 304 or 412; None if they hold. The ETag has no quotes; ``mtime``
    is in Unix seconds."""
    return _status(headers, "", etag, mtime)


def copy_condition(headers: Mapping[str, str], etag: str, mtime: int) -> None:
    """Check the conditions of a copy for its source, as :func:`read_condition`. ``PreconditionFailed``."""
    if _status(headers, "x-amz-copy-source-", etag, mtime) is not None:
        raise precondition_failed("x-amz-copy-source")


def _status(headers: Mapping[str, str], prefix: str, etag: str, mtime: int) -> int | None:
    match, none_match = headers.get(f"{prefix}if-match"), headers.get(f"{prefix}if-none-match")
    if match is not None:
        if not _names(match, etag):
            return 412
    elif _is_before(headers.get(f"{prefix}if-unmodified-since"), mtime):
        return 412
    if none_match is not None:
        return 304 if _names(none_match, etag) else None
    since = _seconds(headers.get(f"{prefix}if-modified-since"))
    return 304 if since is not None and mtime <= since else None


def _names(condition: str, etag: str) -> bool:
    """Return whether a list of ETags has this one. S3 takes them with and without quotes."""
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in condition.split(",")]
    return etag in tags or tags == ["*"]


def _is_before(date: str | None, mtime: int) -> bool:
    seconds = _seconds(date)
    return seconds is not None and seconds < mtime


def _seconds(date: str | None) -> int | None:
    """Return a date of HTTP in Unix seconds; None for one that is none, which a server ignores (RFC 9110, 13.1.3)."""
    if not date:
        return None
    try:
        moment: datetime = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def write_condition(headers: Mapping[str, str]) -> Condition:
    """Return the condition of a write. ``NotImplemented`` for those that S3 has not: ``If-None-Match`` with an ETag, lists of
    ETags, both headers, and dates."""
    match, none_match = headers.get("if-match", "").strip(), headers.get("if-none-match", "").strip()
    unknown = [name for name in ("if-modified-since", "if-unmodified-since") if headers.get(name)]
    if unknown:
        raise _not_implemented(unknown[0], "for writes")
    if none_match and (match or none_match != "*"):
        raise _not_implemented("If-None-Match", "with If-Match" if match else "except with *")
    if "," in match:
        raise _not_implemented("If-Match", "with several ETags")
    return Condition(bool(none_match), match.removeprefix("W/").strip('"'))


def requested_bytes(headers: Mapping[str, str], parameters: Mapping[str, str], etag: str, size: int) -> Span | None:
    """Return the bytes that a read asks for, by ``Range`` or by ``partNumber``; None for the whole.

    A range that is malformed, and several, are ignored, as S3 does. ``InvalidRange`` (416) for one behind the end, and for a part
    that the object has not; ``InvalidRequest`` for both parameters; ``NotImplemented`` for a part of an object that was uploaded
    in several, whose sizes nobody kept.
    """
    if "partNumber" in parameters:
        if "range" in headers:
            raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
        return _part(parameters["partNumber"], etag, size)
    span = requested(headers, etag, size)
    if span is not None and not span.length:
        raise S3Error(
            "InvalidRange",
            "The requested range is not satisfiable",
            {"RangeRequested": headers["range"], "ActualObjectSize": str(size)},
            {"content-range": span.content_range},
        )
    return span


def _part(text: str, etag: str, size: int) -> Span | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not 1 <= int(text) <= 10_000:
        raise invalid_argument("Part number must be an integer between 1 and 10000, inclusive", "partNumber", text)
    parts = _PARTS.fullmatch(etag)
    count = int(parts[1]) if parts else 1
    if int(text) > count:
        raise S3Error(
            "InvalidPartNumber",
            "The requested partnumber is not satisfiable",
            {"PartNumberRequested": text, "ActualPartCount": str(count)},
        )
    if count > 1:
        raise S3Error(
            "NotImplemented",
            f"the sizes of the object's {count} parts are not known; read it by the header Range instead of partNumber",
        )
    return Span(0, size, size) if size else None


def copied_range(headers: Mapping[str, str], size: int) -> tuple[int, int] | None:
    """Return start and length of the bytes that an UploadPartCopy copies of an object of ``size`` bytes; None for the whole.
    ``InvalidArgument`` for a range that is malformed or goes beyond the end."""
    name = "x-amz-copy-source-range"
    text = headers.get(name)
    if text is None:
        return None
    numbers = _COPY_RANGE.fullmatch(text.strip())
    if numbers is None or int(numbers[2]) < int(numbers[1]):
        raise invalid_argument(
            f"The {name} value must be of the form bytes=first-last where first and last are the zero-based offsets of the first "
            "and last bytes to copy",
            name,
            text,
        )
    start, end = int(numbers[1]), int(numbers[2]) + 1
    if end > size:
        raise invalid_argument(f"Range specified is not valid for source object of size: {size}", name, text)
    return start, end - start


def precondition_failed(condition: str) -> S3Error:
    """Return the error for a condition, named by its header, that does not hold."""
    return S3Error(
        "PreconditionFailed", "At least one of the pre-conditions you specified did not hold", {"Condition": condition}
    )


def _not_implemented(header: str, case: str) -> S3Error:
    return S3Error(
        "NotImplemented",
        f"A header you provided implies functionality that is not implemented: {header} {case}",
        {"Header": header},
    )
