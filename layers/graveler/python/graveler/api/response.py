"""Responses, before they become events."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

encode_json: Final = msgspec.json.Encoder().encode
JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
HTML_TYPE: Final = "text/html; charset=utf-8"


class Response(msgspec.Struct):
    """A status, headers (names in lower case) and a body: text, or bytes, which are sent as base64 unless they ``are_text`` in
    UTF-8."""

    status: int
    headers: dict[str, str]
    body: str | bytes = ""
    cookies: tuple[str, ...] = ()
    are_text: bool = False

    def event(self) -> dict[str, Any]:
        """Return it in API Gateway's form (payload 2.0)."""
        body, encoded = self.body, False
        if isinstance(body, bytes) and self.are_text:
            body = body.decode()
        elif isinstance(body, bytes):
            from base64 import b64encode  # most answers are text

            body, encoded = b64encode(body).decode(), True
        answer: dict[str, Any] = {
            "statusCode": self.status,
            "headers": self.headers,
            "body": body,
            "isBase64Encoded": encoded,
        }
        if self.cookies:
            answer["cookies"] = list(self.cookies)
        return answer


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a document as JSON."""
    return rendered_response(encode_json(document), status, headers)


def rendered_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a body that is JSON already."""
    all_headers = {"content-type": JSON_TYPE}
    if headers:
        all_headers.update(headers)
    return Response(status, all_headers, body, are_text=True)


def text_response(text: str, status: int = 200, content_type: str = TEXT_TYPE) -> Response:
    """Return a response with plain text."""
    return Response(status, {"content-type": content_type}, text)


def no_content(headers: Mapping[str, str] | None = None, status: int = 204) -> Response:
    """Return a response without a body."""
    return Response(status, dict(headers or {}))


def cookie(name: str, value: str, *, max_age: int | None, secure: bool, path: str = "/", same_site: str = "Lax") -> str:
    """Return a ``Set-Cookie`` value that scripts cannot read and other sites do not send; ``Strict``: not even with a link.

    Browsers send it below ``path`` only, and replace or remove it by one with the same path. ``value`` is plain ASCII without
    ``;``, ``max_age`` is in seconds; None: until the browser's window closes.
    """
    age = "" if max_age is None else f" Max-Age={max_age};"
    return f"{name}={value}; Path={path};{age} HttpOnly; SameSite={same_site}" + ("; Secure" if secure else "")
