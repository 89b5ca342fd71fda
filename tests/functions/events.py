"""Minimal events of API Gateway."""

import json
from typing import Any
from urllib.parse import unquote


def event(method: str, path: str, *, query: str = "", body: Any = None, authorization: str = "") -> dict[str, Any]:
    """An HTTP API's event (payload 2.0) of a request with this percent-encoded path. The gateway decodes the path once, and
    leaves the query as it was sent."""
    path = unquote(path)
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {"authorization": authorization} if authorization else {},
        "requestContext": {
            "requestId": "request",
            "stage": "$default",
            "http": {"method": method, "path": path, "sourceIp": "192.0.2.1"},
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }
