"""The requests of ``graveler ui``: its sign-in, and the refusal of those that other pages and other names send.

The sign-in is a route of this server only. It is not in the API's description, which tells what every server of a lake has.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from graveler.access.audit import AuditLine, record
from graveler.access.local_session import LocalSession
from graveler.api.application import Application
from graveler.api.call import event_body, source_ip
from graveler.api.errors import ApiError, bad_request, status_and_error
from graveler.api.origins import expect_no_other_page
from graveler.api.response import Response, cookie, json_response, no_content
from graveler.errors import UNREADABLE, GravelerError
from graveler.server.requests import Receive, Scope, Send
from graveler.server.responses import json_error

SIGN_IN: Final = "/api/v1/auth/ui"
_OPERATION: Final = "uiSignIn"
_FOR_THE_USER: Final = ("/metrics", "/api/v1/setup_lakefs", "/api/v1/setup_comm_prefs")
"""Paths that need no credentials on other servers."""
_DEFAULT_PORT: Final = 80
"""Browsers leave it out of the header ``Host``."""


class _SignIn(msgspec.Struct, frozen=True):
    """The body of a sign-in."""

    code: str


_read: Final = msgspec.json.Decoder(_SignIn).decode


class LocalApplication:
    """The application of a server with one session: the API, and the exchange of the session's code for its cookie."""

    def __init__(self, application: Application, session: LocalSession) -> None:
        self._application = application
        self._session = session
        self.handling = application.handling
        self.reject_without_body = application.reject_without_body

    def respond(self, event: Mapping[str, Any]) -> tuple[Response, str]:
        """Return the response to an event, and the name of the operation."""
        if event["rawPath"] != SIGN_IN:
            return self._application.respond(event)
        try:
            response = self._sign_in(event)
        except ApiError as error:
            response = json_response(error.error, error.status, error.headers)
        except GravelerError as error:
            status, document = status_and_error(error)
            response = json_response(document, status)
        response.headers |= {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        http = event["requestContext"]
        record(
            AuditLine(
                time=time.time(),
                action=_OPERATION,
                outcome=str(response.status),
                source=source_ip(event),
                request_id=http["requestId"],
            )
        )
        return response, _OPERATION

    def _sign_in(self, event: Mapping[str, Any]) -> Response:
        method = event["requestContext"]["http"]["method"]
        if method != "POST":
            raise ApiError(405, f"{method} is not allowed here; use POST", {"allow": "POST"})
        expect_no_other_page(event["headers"])
        try:
            code = _read(event_body(event)).code
        except UNREADABLE:
            raise bad_request(
                'the body must be {"code": …}, with the code of the address that `graveler ui` shows'
            ) from None
        token = self._session.sign_in(code)
        response = no_content()
        response.cookies = (cookie(self._session.cookie, token, max_age=None, secure=False, same_site="Strict"),)
        return response


class LoopbackGuard:
    """The ASGI application of ``graveler ui``, on a port of 127.0.0.1: it hands on the requests to this very name.

    Another name is that of a page elsewhere, which has its own name lead here (DNS rebinding). Requests that the browser marks as
    another page's are refused, too, except for following a link: pages of other ports of this machine count as the same site, so
    the browser would send the cookie with them. What other servers tell without credentials, such as the metrics, is for the
    session's user, too.
    """

    def __init__(self, application: Any, session: LocalSession, port: int) -> None:
        self._application = application
        self._session = session
        self._host = local_host(port)
        self._sent = self._host.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        pairs: list[tuple[bytes, bytes]] = scope["headers"]
        headers = dict(pairs)
        if [value for name, value in pairs if name == b"host"] != [self._sent]:
            await _refuse(421, f"this is http://{self._host}, and has no other name or port: open that address", send)
            return
        if not _is_own_page(scope["method"], headers):
            await _refuse(403, f"pages elsewhere may not use http://{self._host}: open that address itself", send)
            return
        if scope["path"].rstrip("/") in _FOR_THE_USER and not self._session.admits(
            headers.get(b"cookie", b"").decode("latin-1")
        ):
            await _refuse(
                401, "only the user of this `graveler ui` may see this; sign in with the address that it shows", send
            )
            return
        await self._application(scope, receive, send)


def local_host(port: int) -> str:
    """Return the name and port of the server, as browsers send it."""
    return "127.0.0.1" if port == _DEFAULT_PORT else f"127.0.0.1:{port}"


def _is_own_page(method: str, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request is one of the server's own pages, of no page, or follows a link from elsewhere
    (https://w3c.github.io/webappsec-fetch-metadata/). Browsers without these headers send the origin with changes at least."""
    if headers.get(b"sec-fetch-site", b"none") in (b"same-origin", b"none"):
        return True
    follows_link = (headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")) == (b"navigate", b"document")
    return follows_link and method == "GET"


async def _refuse(status: int, sentence: str, send: Send) -> None:
    error = json_error(status, sentence)
    assert isinstance(error.body, bytes)
    headers = [(name.encode(), value.encode()) for name, value in error.headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": error.body})
