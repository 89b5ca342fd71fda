"""From a request of the server to an event of API Gateway (HTTP API, payload 2.0), and back.

Two things are ours, and Lambda never has them: ``graveler.body_file`` in an event names the file that holds a large body, and
``graveler.operation`` in an answer the operation, for logs and metrics.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_from_bytes

from graveler.server.answers import Answer
from graveler.server.bodies import Body

Environ = Mapping[str, Any]

_TEXT: Final = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-www-form-urlencoded",
)
_SAFE: Final = "/~!$&'()*+,;=:@"
"""What may stand in a path as it is (RFC 3986)."""


def raw_path(environ: Environ) -> str:
    """The path, percent-encoded. The server hands it over decoded: an encoded slash arrives as a slash."""
    return quote_from_bytes(environ["PATH_INFO"].encode("latin-1"), _SAFE)


def headers_of(environ: Environ) -> dict[str, str]:
    """Headers by their names in lower case; several of one name are joined by commas."""
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    for name, variable in (("content-type", "CONTENT_TYPE"), ("content-length", "CONTENT_LENGTH")):
        if environ.get(variable):
            headers[name] = environ[variable]
    return headers


def event_of(environ: Environ, path: str, body: Body, request_id: str) -> dict[str, Any]:
    """The event of a request. ``path`` is its :func:`raw_path`."""
    headers = headers_of(environ)
    cookies = [part.strip() for part in headers.pop("cookie", "").split(";") if part.strip()]
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": environ["QUERY_STRING"],
        "headers": headers,
        "requestContext": {
            "http": {
                "method": environ["REQUEST_METHOD"],
                "path": path,
                "protocol": environ["SERVER_PROTOCOL"],
                "sourceIp": environ["REMOTE_ADDR"],
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": request_id,
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }
    if cookies:
        event["cookies"] = cookies
    if body.file is not None:
        event["graveler.body_file"] = str(body.file)
    elif body.data:
        event["body"], event["isBase64Encoded"] = _as_text(body.data, headers.get("content-type", ""))
    return event


def answer_of(event: Mapping[str, Any], method: str) -> Answer:
    """What an answer of the application says, for the server."""
    headers = [
        (name, str(value))
        for name, value in event.get("headers", {}).items()
        if name != "content-length" or method == "HEAD"  # the server counts what it sends itself
    ]
    headers.extend(("set-cookie", cookie) for cookie in event.get("cookies", ()))
    body = event.get("body") or ""
    sent = b64decode(body) if event.get("isBase64Encoded") else body.encode("utf-8", "surrogateescape")
    status = event["statusCode"]
    if method == "HEAD" or status in (204, 304):
        if sent and not any(name == "content-length" for name, _ in headers):
            headers.append(("content-length", str(len(sent))))
        sent = b""
    return Answer(status, headers, sent, event.get("graveler.operation", ""))


def _as_text(data: bytes, content_type: str) -> tuple[str, bool]:
    if not content_type or content_type.lower().startswith(_TEXT):
        try:
            return data.decode(), False
        except UnicodeDecodeError:  # then it travels as what it is
            return b64encode(data).decode(), True
    return b64encode(data).decode(), True
