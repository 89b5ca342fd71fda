"""Conditional writes: ``If-None-Match: *``, and no other condition: none is believed to be kept that is not."""

from collections.abc import Mapping

from graveler.api.errors import ApiError


def if_absent(headers: Mapping[str, str]) -> bool:
    """Whether a write is to succeed only where nothing is. 501 for conditions that are not kept."""
    if headers.get("if-match"):
        raise ApiError(501, "If-Match is not implemented for writes; If-None-Match: * is")
    condition = headers.get("if-none-match", "")
    if condition and condition != "*":
        raise ApiError(501, f"If-None-Match: {condition[:100]} is not implemented for writes; If-None-Match: * is")
    return bool(condition)


def expect_no_condition(headers: Mapping[str, str]) -> None:
    """501 for a condition, where none is kept."""
    for name in ("if-match", "if-none-match"):
        if headers.get(name):
            raise ApiError(501, f"{name} is not implemented here; write each object by itself with If-None-Match: *")
