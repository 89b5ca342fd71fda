"""Conditional writes: ``If-None-Match: *``, and no other condition."""

from collections.abc import Mapping

from graveler.api.errors import ApiError


def if_absent(headers: Mapping[str, str]) -> bool:
    """Whether a write is to succeed only where nothing is. 501 for conditions that are not kept: a client that relies on one must
    not believe that it was."""
    if headers.get("if-match"):
        raise ApiError(501, "If-Match is not implemented for writes; If-None-Match: * is")
    condition = headers.get("if-none-match", "")
    if condition and condition != "*":
        raise ApiError(501, f"If-None-Match: {condition[:100]} is not implemented for writes; If-None-Match: * is")
    return bool(condition)
