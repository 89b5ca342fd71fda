"""Conditional writes: ``If-None-Match: *`` and ``If-Match``; any other condition is refused rather than ignored."""

from collections.abc import Mapping
from typing import Final

from graveler.api.errors import ApiError
from graveler.requests.staging import ANY_OBJECT, Condition

_IMPLEMENTED: Final = "If-None-Match: * is, and If-Match with one ETag or *"


def write_condition(headers: Mapping[str, str]) -> Condition:
    """Return the condition under which a write is to succeed. 501 for unsupported ones."""
    match, none_match = headers.get("if-match", "").strip(), headers.get("if-none-match", "").strip()
    if none_match not in ("", "*"):
        raise ApiError(501, f"If-None-Match: {none_match[:100]} is not implemented for writes; {_IMPLEMENTED}")
    etag = match if match == ANY_OBJECT or not match.startswith('"') else match[1:-1]
    if match and (not etag or '"' in etag or (match != ANY_OBJECT and match != f'"{etag}"')):
        raise ApiError(501, f"If-Match: {match[:100]} is not implemented for writes; {_IMPLEMENTED}")
    if match and none_match:
        raise ApiError(501, f"If-Match and If-None-Match together are not implemented for writes; {_IMPLEMENTED}")
    return Condition(bool(none_match), etag)


def expect_no_condition(headers: Mapping[str, str]) -> None:
    """Refuse conditions, with 501, where none is supported."""
    for name in ("if-match", "if-none-match"):
        if headers.get(name):
            raise ApiError(501, f"{name} is not implemented here; write each object separately under its own condition")
