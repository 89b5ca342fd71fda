"""Entry points: they turn an event of API Gateway into its response, by the application that every interface runs.

Lambda carries 6 MB each way. Larger requests are refused here with an explanation, before the gateway refuses them without one; a
page that would be too large is shortened.
"""

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from graveler.access.authentication import Access
from graveler.api.application import CATALOG, Application, is_below
from graveler.api.compression import NO_STORE, event_text
from graveler.api.errors import ApiError
from graveler.api.response import JSON_TYPE
from graveler.api.routing import SAFE
from graveler.api.settings import DEFAULT_MAX_BODY
from graveler.functions.deployed_lake import connect, open_deployed_lake
from graveler.functions.deployment_settings import Configuration, read_configuration
from graveler.functions.front_door import REFUSAL, FrontDoor
from graveler.functions.snapshot import SNAPSHOT, renew_process
from graveler.functions.telemetry import Telemetry
from graveler.functions.traffic import Traffic
from graveler.functions.workers import dispatcher
from graveler.lake.lake import Lake
from graveler.storage.aws_requests import observers

if TYPE_CHECKING:
    from graveler.access.aws_login import AwsLogin

Event = dict[str, Any]
"""The JSON that Lambda passes."""

MAX_BODY: Final = DEFAULT_MAX_BODY
"""Maximum size in bytes of a request's body, and of an object returned in the response; base64 makes it a third larger."""
MAX_ANSWER: Final = 6 * 1024 * 1024
"""Maximum size in bytes of a response as JSON, including the escapes in its body: Lambda's limit."""
_SMALL: Final = MAX_ANSWER // 6
"""Characters of a body that fits whatever its contents: the longest escape of a character has six."""

_OF_BODY: Final = ("content-encoding", "etag", "vary")
"""Headers of a response that are about its body."""

_RESERVE: Final = 3.0
"""Seconds before the end of the function's time at which a request must have its response."""

_SAFE: Final = "!$&'()*+,;=:@/"
"""The characters of a path that stand for themselves, besides letters, digits and ``-._~``."""
_REPOSITORY: Final = re.compile(r"^/(?:api/v1/repositories|iceberg/v1(?!/config$|/oauth/))/([^/]+)")
_UPLOAD: Final = re.compile(r"^/api/v1/repositories/[^/]+/branches/[^/]+/objects$")
_TOKENS: Final = f"{CATALOG}/v1/oauth/tokens"
PAUSED: Final = "this deployment is paused: nothing can be changed at the moment, only read; try again later"
"""Response to requests that may write, while the table is replaced (docs/deploy.md)."""
_PAUSE_SECONDS: Final = 60
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
"""The replacement for bytes that were not UTF-8."""


class Context(Protocol):
    """The part of Lambda's context that is used here."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the process is stopped."""
        ...


INITIALIZATION: Final = "AWS_LAMBDA_INITIALIZATION_TYPE"
"""Lambda sets it in the environment of a function's process:
https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html"""


class Function:
    """The state of one function between events. Making it makes no request."""

    def __init__(self, verb: str) -> None:
        self.configuration: Configuration = read_configuration(os.environ)
        self.traffic = Traffic()
        self.telemetry = Telemetry(verb, shares=self.configuration.shared_cache is not None)
        observers.append(self.traffic.note_request)
        self.lake: Lake = open_deployed_lake(self.configuration, self.traffic)

    def close(self) -> None:
        """Stop counting requests."""
        observers.remove(self.traffic.note_request)


class Opened(Protocol):
    """A function that opens a Lambda function on the first call, and caches it: one without arguments under
    ``functools.cache``."""

    def __call__(self) -> tuple[Any, ...]:
        """Return the :class:`Function` first, and then its collaborators."""
        ...

    def cache_clear(self) -> None:
        """Drop the cached result."""
        ...


def initialise(opened: Opened) -> None:
    """Open a function while Lambda initialises its process, and make its clients, so that the first event finds them: a process
    that is kept ready has done it before any request waits. Elsewhere, as where a handler is only imported, the first event does.

    If Lambda takes a snapshot of the process, each copy renews whatever must not be the same in two of them.
    """
    initialization = os.environ.get(INITIALIZATION)
    if initialization is None:
        return
    connect(opened()[0].configuration)
    if initialization == SNAPSHOT:
        # Lambda's own, in its runtime alone: https://docs.aws.amazon.com/lambda/latest/dg/snapstart-runtime-hooks-python.html
        from snapshot_restore_py import register_after_restore

        register_after_restore(reopen, opened)


def reopen(opened: Opened) -> None:
    """Open a function again in the copy of a process: drop everything that it has read, such as keys, tokens and secrets, and its
    connections, credentials and the state of random generators. Some 20 ms."""
    opened()[0].close()
    opened.cache_clear()
    renew_process()
    opened()


def api_handler(verb: str) -> Callable[[Event, Context | None], Event]:
    """Return the handler of a function for clients. The deployment chooses which of the API's operations reach it
    (``infra/routes.py``), and the function's role limits what it may do. Without a context nothing stops the process."""

    @cache
    def opened() -> tuple[Function, FrontDoor, Application]:
        function = Function(verb)
        configuration, tables = function.configuration, function.lake.tables
        operator = dispatcher(tables, configuration)
        access = Access(tables, function.lake.keyring, aws=_aws_login(configuration))
        application = Application(function.lake, access, configuration.api_settings(), operator)
        return function, FrontDoor(configuration.front_door), application

    initialise(opened)

    def handler(event: Event, context: Context | None) -> Event:
        began = time.perf_counter()
        function, door, application = opened()
        function.telemetry.begin(_request_id(event))
        path = raw_path(event.get("rawPath", "/"))
        bounded = application if context is None else partial(application, seconds_left=partial(seconds_left, context))
        event = {**event, "rawPath": path}
        entered = door.let_in(event)
        if entered is None:
            response = _refused(event, 403, REFUSAL, _request_headers(event))
        elif function.configuration.paused and (_changes_tables(event) or not is_below(path, CATALOG)):
            response = _refused(event, 503, PAUSED, {**_request_headers(event), "retry-after": str(_PAUSE_SECONDS)})
        else:
            response = answered(bounded, entered)
        operation = response.pop("graveler.operation", "")
        named = _REPOSITORY.match(path)
        function.telemetry.tell(
            function.traffic.take(),
            (time.perf_counter() - began) * 1000,
            {
                "operation": operation,
                "repository": named[1] if named else "",
                "status": response["statusCode"],
                "request_id": response["headers"].get("x-request-id", ""),
            },
        )
        return response

    return handler


def _aws_login(configuration: Configuration) -> "AwsLogin | None":
    if not configuration.aws_login:
        return None
    from graveler.access.aws_login import AwsLogin  # with what TLS needs: for the one function that logs in

    return AwsLogin(configuration.aws_login)


def seconds_left(context: Context) -> float:
    """Return the seconds that a request may still take: those of its function, less the time for the response."""
    return context.get_remaining_time_in_millis() / 1000 - _RESERVE


def answered(application: Callable[[Event], Event], event: Event) -> Event:
    """Return the application's response, of a size that Lambda lets through: a page that is too long is requested again with
    fewer results, so that a client may get fewer than it asked for. A response that cannot be shortened becomes a 400 with an
    explanation, instead of Lambda's own 502; a request that is too large, a 413. A text body that may differ from what was sent
    is a 400. To a change of Iceberg tables that was made, it becomes a 500: after a 4xx clients delete the files of a commit."""
    if (received := _body_bytes(event)) > MAX_BODY:
        return _refused(
            event,
            413,
            f"the body has {received:,} bytes, but a function accepts at most {MAX_BODY:,}; upload larger objects with a "
            "presigned URL, and split large requests",
            _request_headers(event),
        )
    if not _is_as_sent(event, received):
        return _refused(
            event,
            400,
            "the body may not have arrived as it was sent: a function receives bodies of text and JSON types as UTF-8 text, "
            "and other bytes are lost; upload with a presigned URL, or with the content type application/octet-stream",
            _request_headers(event),
        )
    response = application(event)
    if len(response["body"]) <= _SMALL or (size := len(json.dumps(response))) <= MAX_ANSWER:
        return response
    shorter = _shorter(event, response, size)
    if shorter is not None:
        return answered(application, shorter)
    message = f"the response has {size:,} bytes, but a function can return at most {MAX_ANSWER:,}; {_advice(event)}"
    headers = {name: value for name, value in response["headers"].items() if name not in _OF_BODY}
    return {**response, **_refused(event, 500 if _changes_tables(event) else 400, message, headers)}


def _changes_tables(event: Event) -> bool:
    """Return whether a request may change tables. A login does not."""
    path, method = event["rawPath"], event["requestContext"]["http"]["method"]
    return is_below(path, CATALOG) and method not in SAFE and path != _TOKENS


def _advice(event: Event) -> str:
    if not is_below(event["rawPath"], CATALOG):
        return "request less at once"
    if _changes_tables(event):
        return "the change was made. Load the table anew, and expire snapshots that nobody needs"
    return (
        "accept gzip, load the table with snapshots=refs (in clients: snapshot-loading-mode=refs), and expire snapshots that "
        "nobody needs; list names with a pageSize"
    )


def _request_id(event: Event) -> str:
    return str(event.get("requestContext", {}).get("requestId", ""))


def _request_headers(event: Event) -> dict[str, str]:
    """Return the headers of a response that is not the application's."""
    return {"x-request-id": _request_id(event)}


def _refused(event: Event, status: int, message: str, headers: Mapping[str, str]) -> Event:
    """Return a refusal as clients of the path's protocol understand it."""
    if is_below(event["rawPath"], CATALOG):
        from graveler.api.iceberg.catalog_refusals import refusal  # which few functions load

        refused = refusal(ApiError(status, message), "", "").event()
        return {**refused, "headers": {**headers, **refused["headers"], "cache-control": NO_STORE}}
    return {
        "statusCode": status,
        "headers": {**headers, "content-type": JSON_TYPE, "cache-control": NO_STORE},
        "body": json.dumps({"message": message}),
        "isBase64Encoded": False,
    }


def _body_bytes(event: Event) -> int:
    body = event.get("body") or ""
    if event.get("isBase64Encoded"):
        return len(body) * 3 // 4 - body[-2:].count("=")
    return len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))


def _is_as_sent(event: Event, received: int) -> bool:
    """Return whether a body of ``received`` bytes is what the client sent, as far as can be told. API Gateway decides by the
    content type what is text, and decodes that: text/*, JSON, XML and JavaScript
    (https://aws.amazon.com/blogs/compute/handling-binary-data-using-amazon-api-gateway-http-apis/).

    A different length reveals most replaced bytes, but not all: the replacement character has three bytes, as the bytes that it
    replaces may have. So an object's bytes must not contain it, nor must a body of unknown length; JSON may, since a client that
    sends it writes UTF-8.
    """
    body = event.get("body") or ""
    if event.get("isBase64Encoded") or not body:
        return True
    length = str(event.get("headers", {}).get("content-length", ""))
    if length and length != str(received):
        return False
    if _REPLACED not in body:
        return True
    uploads = event["requestContext"]["http"]["method"] == "POST" and _UPLOAD.match(str(event.get("rawPath", "")))
    return bool(length) and not uploads


def _shorter(event: Event, response: Event, size: int) -> Event | None:
    """Return the request for a page of fewer results, if this is one for a page of several."""
    if event["requestContext"]["http"]["method"] != "GET" or response["headers"].get("content-type") != JSON_TYPE:
        return None
    text = event_text(response)
    if text is None:
        return None
    document = json.loads(text)
    results = len(document["results"]) if "pagination" in document else 0
    if results < 2:
        return None
    amount = max(1, results * MAX_ANSWER // (size + size // 8))
    rest = [pair for pair in event["rawQueryString"].split("&") if pair and not pair.startswith("amount=")]
    return {**event, "rawQueryString": "&".join([*rest, f"amount={amount}"])}


def raw_path(path: str) -> str:
    """Return the path, percent-encoded. An HTTP API passes it decoded, despite its name, and any percent sign in it is part of a
    name (https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-routes.html,
    https://github.com/fastify/aws-lambda-fastify/issues/169). Only the slashes of names are lost: the router joins them. The
    byte 0x1F between the levels of an Iceberg namespace (``%1F``) is there, as other control characters
    (https://github.com/middleapi/standard-server/pull/93)."""
    return quote(path, safe=_SAFE, errors="surrogatepass")
