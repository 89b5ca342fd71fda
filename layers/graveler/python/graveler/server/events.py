"""From a request of the server to an event of API Gateway (HTTP API, payload 2.0), and back.

Two things are ours, and Lambda never has them: ``graveler.body_file`` in an event names the file that holds a large body, and
``graveler.operation`` in an answer the operation, for logs and metrics.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from graveler.server.answers import Answer
from graveler.server.bodies import Body
from graveler.server.requests import Request

_TEXT: Final = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-www-form-urlencoded",
)


def event_of(request: Request, body: Body, request_id: str) -> dict[str, Any]:
    """The event of a request."""
    headers = dict(request.headers)
    cookies = [part.strip() for part in headers.pop("cookie", "").split(";") if part.strip()]
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": {
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": request.protocol,
                "sourceIp": request.source,
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
