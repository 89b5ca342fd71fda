"""Conversion of a server request to an event of API Gateway (HTTP API, payload 2.0), and of the application's response back.

Two things are graveler's own and never occur on Lambda: ``graveler.body_file`` in an event names the file with a large body, and
a small body is bytes, as they were sent.
"""

from typing import Any

from graveler.api.response import Response
from graveler.server.bodies import Body
from graveler.server.requests import Request
from graveler.server.responses import ServerResponse


def event_of(request: Request, body: Body, request_id: str) -> dict[str, Any]:
    """Return the event of a request."""
    headers = request.headers
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
    if "cookie" in headers:
        event["headers"] = {name: value for name, value in headers.items() if name != "cookie"}
        if cookies := [part.strip() for part in headers["cookie"].split(";") if part.strip()]:
            event["cookies"] = cookies
    if body.file is not None:
        event["graveler.body_file"] = str(body.file)
    elif body.data:
        event["body"] = body.data
    return event


def response_of(response: Response, operation: str, method: str) -> ServerResponse:
    """Return the application's response in the server's form."""
    response_headers = response.headers
    if "content-length" in response_headers and method != "HEAD":  # the server sets it to the length it sends
        response_headers = {name: value for name, value in response_headers.items() if name != "content-length"}
    headers = [*response_headers.items()]
    if response.cookies:
        headers += [("set-cookie", cookie) for cookie in response.cookies]
    body = response.body
    sent = body if isinstance(body, bytes) else body.encode("utf-8", "surrogateescape")
    status = response.status
    if method == "HEAD" or status in (204, 304):
        if sent and "content-length" not in response_headers:
            headers.append(("content-length", str(len(sent))))
        sent = b""
    return ServerResponse(status, headers, sent, operation)
