"""The entry points: an event of API Gateway in, its answer out, by the application that every face runs."""

import json
import os
import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from graveler.access.authentication import Access
from graveler.api.application import Application
from graveler.api.response import JSON_TYPE
from graveler.functions.configuration import Configuration, read_configuration
from graveler.functions.dispatching import dispatcher
from graveler.functions.opening import open_deployed_lake
from graveler.functions.telemetry import Telemetry
from graveler.functions.traffic import Traffic
from graveler.lake.lake import Lake
from graveler.storage.aws_requests import observe

Event = dict[str, Any]
"""As Lambda hands it over: JSON."""

MAX_ANSWER: Final = 6 * 1024 * 1024
"""Bytes of an answer as JSON, the body's own escapes included: Lambda's limit."""
_SMALL: Final = MAX_ANSWER // 6
"""Characters of a body that fits whatever is in it: the longest escape of one has six."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,;=:@/%]|%(?![0-9A-Fa-f]{2})")
_REPOSITORY: Final = re.compile(r"^/api/v1/repositories/([^/]+)")


class Function:
    """What one function needs between events. Opened by the first one: importing it asks nobody for anything."""

    def __init__(self, verb: str) -> None:
        self.configuration: Configuration = read_configuration(os.environ)
        self.traffic = Traffic()
        self.telemetry = Telemetry(verb, shares=self.configuration.shared_cache is not None)
        observe(self.traffic.note_request)
        self.lake: Lake = open_deployed_lake(self.configuration, self.traffic)


def api_handler(verb: str) -> Callable[[Event, object], Event]:
    """The handler of a function that clients ask. Which of the API's operations reach it is the deployment's choice
    (``infra/routes.py``), and what it may do there its role's."""

    @cache
    def opened() -> tuple[Function, Application]:
        function = Function(verb)
        configuration, tables = function.configuration, function.lake.tables
        operator = dispatcher(tables, configuration)
        return function, Application(function.lake, Access(tables), configuration.api_settings(), operator)

    def handler(event: Event, _context: object) -> Event:
        began = time.perf_counter()
        function, application = opened()
        function.telemetry.begin(str(event.get("requestContext", {}).get("requestId", "")))
        path = raw_path(event.get("rawPath", "/"))
        answer = fitting(application({**event, "rawPath": path}))
        operation = answer.pop("graveler.operation", "")
        named = _REPOSITORY.match(path)
        function.telemetry.tell(
            function.traffic.take(),
            (time.perf_counter() - began) * 1000,
            {
                "operation": operation,
                "repository": named[1] if named else "",
                "status": answer["statusCode"],
                "request_id": answer["headers"].get("x-request-id", ""),
            },
        )
        return answer

    return handler


def fitting(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer; if it is more than Lambda lets through, a 400 that says so instead of Lambda's own 502."""
    if len(answer["body"]) <= _SMALL or (size := len(json.dumps(answer))) <= MAX_ANSWER:
        return answer
    said = (
        f"the answer has {size:,} bytes, and at most {MAX_ANSWER:,} come through a function; ask for a smaller amount"
    )
    headers = {**answer["headers"], "content-type": JSON_TYPE}
    document = json.dumps({"message": said})
    return {**answer, "statusCode": 400, "headers": headers, "body": document, "isBase64Encoded": False}


def raw_path(path: str) -> str:
    """The path, percent-encoded. An HTTP API hands it over decoded, whatever its name; other gateways do not. What cannot stand
    in a path is encoded again, and the rest stays: no name of ours but a user's has a percent sign."""
    return _UNSAFE.sub(lambda found: quote(found[0], safe=""), path)
