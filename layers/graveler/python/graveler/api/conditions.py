"""Conditional writes: ``If-None-Match: *`` only; any other condition is refused rather than ignored."""

from collections.abc import Mapping

from graveler.api.errors import ApiError


def if_absent(headers: Mapping[str, str]) -> bool:
    """Return whether a write must succeed only if no object exists. 501 for unsupported conditions."""
    if headers.get("if-match"):
        raise ApiError(501, "If-Match is not implemented for writes; If-None-Match: * is")
    condition = headers.get("if-none-match", "")
    if condition and condition != "*":
        raise ApiError(501, f"If-None-Match: {condition[:100]} is not implemented for writes; If-None-Match: * is")
    return bool(condition)


def expect_no_condition(headers: Mapping[str, str]) -> None:
    """Refuse conditions, with 501, where none is supported."""
    for name in ("if-match", "if-none-match"):
        if headers.get(name):
            raise ApiError(501, f"{name} is not implemented here; write each object separately with If-None-Match: *")
