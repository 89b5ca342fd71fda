"""The application: events of API Gateway (HTTP API, payload 2.0) in, responses to them out.

It keeps no state between requests except the caches of the lake and the authenticator, and may be called by several threads at
once.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from secrets import token_hex
from typing import Any, Final, NamedTuple

from graveler.access.authentication import Access
from graveler.access.refusals import TooManyFailuresError
from graveler.api.call import ANONYMOUS, BodyNeededError, Call, cookies, source_ip
from graveler.api.compression import NO_STORE, compress, is_compressible
from graveler.api.errors import ApiError, status_and_error
from graveler.api.immutable_responses import ImmutableResponses, commits_in
from graveler.api.origins import expect_own_page
from graveler.api.pages import Pages
from graveler.api.queries import split_query
from graveler.api.resources import GROUPS
from graveler.api.response import Response, json_response
from graveler.api.routing import SAFE, BodyKind, Handling, Route, Router
from graveler.api.settings import Settings
from graveler.errors import GravelerError
from graveler.lake.lake import Lake
from graveler.operations.operator import Operator
from graveler.operations.runner import Runner
from graveler.retention.operation import ALL_KINDS
from graveler.wire.error_documents import UNEXPECTED_CODE, Error

BASE: Final = "/api/v1"
CATALOG: Final = "/iceberg"
_PLAIN: Final = Handling()
"""Of a request that no route answers."""

_log = logging.getLogger("graveler.api")


class Protocol(NamedTuple):
    """The routes below one base, the response to an exception (with the subject of its message and the request's ID), and the
    spelling of a path for the router."""

    router: Router
    refuse: Callable[[Exception, str, str], Response]
    spelled: Callable[[str], str] = str


def is_below(path: str, base: str) -> bool:
    """Return whether a path is ``base`` or below it."""
    return path.startswith(base) and path[len(base) : len(base) + 1] in ("", "/")


class Application:
    """The handler of API requests, on top of a lake.

    ``access`` authenticates callers. Call it with an event; every event gets a response: a client's mistake is a 4xx, an
    unimplemented operation a 501, and an unexpected failure a 500 with an id under which the log has the details. ``runner``
    works on what takes longer than a request; by default the application has its own, and :meth:`close` stops it.
    """

    def __init__(
        self, lake: Lake, access: Access, settings: Settings | None = None, runner: Operator | None = None
    ) -> None:
        self._lake = lake
        self._access = access
        self._runner: Operator = runner or Runner(lake.tables, ALL_KINDS)
        self._settings = settings or Settings()
        self._immutable = ImmutableResponses()
        self.pages: Final = Pages(lake, self._settings)
        self._api = Protocol(Router(GROUPS, BASE, joins=self._settings.decoded_paths), _refusal)

    def __call__(self, event: Mapping[str, Any], seconds_left: Callable[[], float] | None = None) -> dict[str, Any]:
        """Return the response to an event, compressed if the client accepts that, within ``seconds_left`` if the process is
        stopped then. Two keys are graveler's own: ``graveler.operation`` in the response names the operation, for logs and
        metrics; ``graveler.body_file`` in an event is the file that holds its body."""
        response, operation = self.respond(event, seconds_left)
        if is_compressible(response, event.get("headers") or {}):
            compress(response)
        answer = response.event()
        answer["graveler.operation"] = operation
        return answer

    def respond(
        self, event: Mapping[str, Any], seconds_left: Callable[[], float] | None = None
    ) -> tuple[Response, str]:
        """Return the response, before it is compressed and becomes an event, and the name of the operation. The body of an event
        may be bytes, which need no decoding."""
        response, operation = self._respond(event, has_body=True, seconds_left=seconds_left)
        assert response is not None
        return response, operation

    def reject_without_body(self, event: Mapping[str, Any]) -> tuple[Response, str] | None:
        """Return the response to an event without its body, if it is refused whatever the body, as :meth:`respond`: then the
        server need not wait for a large body that the client may not send. None if the body is wanted. Only for requests that may
        have a large body: their handlers change nothing before they read it."""
        response, operation = self._respond(event, has_body=False)
        return None if response is None else (response, operation)

    def handling(self, method: str, path: str) -> Handling:
        """Return what a server has to know of such a request before it reads the body. ``path`` is percent-encoded."""
        protocol = self._protocol(path)
        if protocol is not None:
            with suppress(ApiError):
                return protocol.router.find(method, path)[0].handling
        return _PLAIN

    @property
    def operator(self) -> Operator:
        """The operator that starts background operations for clients."""
        return self._runner

    def close(self) -> None:
        """Stop working on operations; other processes take them over."""
        self._runner.close()

    def _protocol(self, path: str) -> Protocol | None:
        """Return the protocol of a path; None for that of a page."""
        if is_below(path, BASE):
            return self._api
        return self._catalog if is_below(path, CATALOG) else None

    @cached_property
    def _catalog(self) -> Protocol:
        from graveler.api import iceberg  # few processes are catalogs of tables
        from graveler.api.iceberg.catalog_refusals import refusal

        router = Router(iceberg.GROUPS, CATALOG, joins=self._settings.decoded_paths)
        return Protocol(router, refusal, iceberg.spelled_path)

    def _respond(
        self, event: Mapping[str, Any], *, has_body: bool, seconds_left: Callable[[], float] | None = None
    ) -> tuple[Response | None, str]:
        began = time.monotonic()

        def left() -> float:
            remaining = began + self._settings.request_seconds - time.monotonic()
            return remaining if seconds_left is None else min(remaining, seconds_left())

        context = event.get("requestContext", {})
        request_id = str(context.get("requestId", "")) or token_hex(8)
        path = _path(event.get("rawPath", "/"), context.get("stage", ""))
        method = context.get("http", {}).get("method", "GET")
        operation = ""
        protocol: Protocol | None = None
        response: Response | None
        try:
            protocol = self._protocol(path)
            if protocol is None:
                response = self.pages.respond(method, path, event.get("headers") or {})
                operation = "page" if response.status < 400 else ""
            else:
                route, parameters = protocol.router.find(method, protocol.spelled(path))
                operation = route.operation
                bounded = seconds_left is not None
                response = self._answer(
                    event, protocol, route, parameters, request_id, left, has_body=has_body, bounded=bounded
                )
        except Exception as error:  # noqa: BLE001 - whatever it is, it gets an answer
            response = (protocol or self._api).refuse(error, operation or path, request_id)
        if response is not None:
            response.headers["x-request-id"] = request_id
            response.headers["x-content-type-options"] = "nosniff"  # browsers must not treat JSON or bytes as a page
            if response.status >= 400:
                response.headers["cache-control"] = NO_STORE
            if method == "HEAD":
                response.body = ""
        return response, operation

    def _answer(
        self,
        event: Mapping[str, Any],
        protocol: Protocol,
        route: Route,
        parameters: Mapping[str, str],
        request_id: str,
        seconds_left: Callable[[], float],
        *,
        has_body: bool,
        bounded: bool,
    ) -> Response | None:
        headers = event.get("headers") or {}
        identity = ANONYMOUS
        if route.permission is not None:
            authorization = headers.get("authorization")
            cookie = "" if authorization else cookies(event)
            identity = self._access.authenticate(authorization, cookie, source_ip(event))
            if not authorization and event.get("requestContext", {}).get("http", {}).get("method") not in SAFE:
                expect_own_page(headers, has_body=bool(event.get("body") or event.get("graveler.body_file")))
        call = Call(
            event,
            headers,
            self._lake,
            self._access,
            self._runner,
            self._settings,
            identity,
            route.operation,
            request_id,
            seconds_left,
            has_body=has_body,
            is_bounded=bounded,
        )
        pairs = split_query(event.get("rawQueryString", ""))
        if not has_body and route.body_kind is BodyKind.SMALL:  # its handler may do its work without a body
            return None
        try:
            if not route.changes:
                route.permit(call, parameters)
                return self._read(call, route, parameters, pairs)
        except BodyNeededError:
            return None
        try:
            route.permit(call, parameters)
            response = route.answer(call, parameters, pairs)
        except BodyNeededError:
            return None
        except Exception as error:  # noqa: BLE001 - the audit log has an outcome for each change, then it goes on its way
            response = protocol.refuse(error, route.operation, request_id)
        _forbid_storing(call, route, response)
        call.audit(
            str(response.status),
            repository=parameters.get("repository", ""),
            ref=parameters.get(route.branch_parameter or "", ""),
            path=dict(pairs).get(route.path_parameter or "", ""),  # of several the last one, which counts
        )
        return response

    def _read(self, call: Call, route: Route, parameters: Mapping[str, str], pairs: list[tuple[str, str]]) -> Response:
        """Return the response to a permitted request that changes nothing."""
        if route.lasting_refs and (commits := commits_in(route.lasting_refs, parameters)):
            compute = partial(route.answer, call, parameters, pairs)
            response = self._immutable.respond(call, parameters["repository"], commits, compute)
        else:
            response = route.answer(call, parameters, pairs)
        _forbid_storing(call, route, response)
        return response


def _forbid_storing(call: Call, route: Route, response: Response) -> None:
    """Keep caches from storing a response with a secret: a token, a key, a presigned URL."""
    if call.signed_urls or route.holds_secrets:
        response.headers["cache-control"] = NO_STORE


def _path(raw: str, stage: str) -> str:
    """Return the raw path below the stage, which API Gateway prepends unless it is the default one."""
    return raw.removeprefix(f"/{stage}") if stage and raw.startswith(f"/{stage}/") else raw


def _refusal(error: Exception, subject: str, request_id: str) -> Response:
    """Return the response to a failed request."""
    if isinstance(error, ApiError):
        return json_response(error.error, error.status, error.headers)
    if not isinstance(error, GravelerError):
        _log.error("request %s: %s failed unexpectedly", request_id, subject, exc_info=error)
        return json_response(
            Error(f"unexpected error; see request ID {request_id} in the log", code=UNEXPECTED_CODE), 500
        )
    status, body = status_and_error(error)
    if status >= 500:
        _log.error("request %s: %s: %s", request_id, subject, error)
    wait = str(error.retry_after) if isinstance(error, TooManyFailuresError) else "1"
    return json_response(body, status, {"retry-after": wait} if status == 429 else None)
