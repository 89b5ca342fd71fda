"""Asking AWS's STS for the signer of a request.

The connection is TLS, to the host that the request is signed for, whose certificate is checked. It follows no redirect, uses no
proxy, reads no response of more than 64 KB, and waits some seconds at most, however slowly the response comes.
"""

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from threading import BoundedSemaphore, Timer
from typing import Final

import msgspec

from graveler.access.identity_tokens import SERVER_HEADER, SignedRequest
from graveler.access.refusals import IdentityRefusedError
from graveler.errors import UNREADABLE, BusyError, UnavailableError

SECONDS: Final = 5.0
"""Seconds that a response may take in all, from the first packet on."""
MAX_ANSWER: Final = 64 << 10
AT_ONCE: Final = 8
"""Concurrent requests of one process: anyone may cause one."""
WAITING: Final = 16
"""Requests waiting for one of these to end, a second at most: threads that do nothing else."""

_CODE: Final = re.compile(r"[A-Za-z]{1,60}")
_OTHER_NAME: Final = "SignatureDoesNotMatch"
_THROTTLED: Final = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException")


class _Identity(msgspec.Struct, frozen=True, rename="pascal"):
    arn: str


class _Result(msgspec.Struct, frozen=True):
    identity: _Identity = msgspec.field(name="GetCallerIdentityResult")


class _Confirmed(msgspec.Struct, frozen=True):
    response: _Result = msgspec.field(name="GetCallerIdentityResponse")


class _Code(msgspec.Struct, frozen=True, rename="pascal"):
    code: str = ""


class _Refused(msgspec.Struct, frozen=True, rename="pascal"):
    error: _Code = _Code()


def _itself(host: str) -> tuple[str, int]:
    return host, 443


class Sts:
    """AWS's STS. ``context`` determines which certificates are trusted (None: the system's), ``locate`` where a host is reached,
    and ``seconds`` how long a response may take. Shared by threads."""

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        locate: Callable[[str], tuple[str, int]] = _itself,
        seconds: float = SECONDS,
    ) -> None:
        self._context = context or ssl.create_default_context()
        self._locate = locate
        self._seconds = seconds
        self._room = BoundedSemaphore(AT_ONCE + WAITING)
        self._free = BoundedSemaphore(AT_ONCE)

    def caller(self, request: SignedRequest, names: tuple[str, ...]) -> str:
        """Return the ARN of the signer of a request for a server of one of these ``names``. One request to AWS for each name
        until one fits.

        :class:`IdentityRefusedError` if AWS finds the signature wrong, for all of the names, or does not know the key, or its
        credentials have expired; :class:`BusyError` if AWS, or this process, is overloaded; :class:`UnavailableError` without a
        readable response.
        """
        code = ""
        for name in names:
            status, body = self._ask(request, name)
            if status == 200:
                return _arn(body)
            code = _code(status, body)
            if code != _OTHER_NAME:
                break
        raise IdentityRefusedError(
            f"AWS does not confirm who signed this ({code}); the credentials must be valid, and {SERVER_HEADER} signed with the "
            "name that this server is configured with",
            request.access_key_id,
        )

    def _ask(self, request: SignedRequest, name: str) -> tuple[int, bytes]:
        with _taken(self._room, 0), _taken(self._free, 1):
            try:
                return self._answer(request, name)
            except (
                OSError,
                HTTPException,
                ValueError,
            ) as error:  # ValueError: from a socket that the deadline has closed
                raise UnavailableError(f"no response from {request.host} ({error}); try again") from None

    def _answer(self, request: SignedRequest, name: str) -> tuple[int, bytes]:
        connection = _Connection(request.host, self._locate(request.host), self._context, self._seconds)
        with closing(connection):
            connection.connect()
            with _deadline(connection.sock, self._seconds):
                connection.sock.do_handshake()
                connection.putrequest("POST", request.target, skip_host=True)
                connection.putheader("Host", request.host)
                connection.putheader(SERVER_HEADER, name)
                connection.putheader("Accept", "application/json")
                connection.putheader("Content-Length", "0")
                connection.putheader("User-Agent", "graveler")
                connection.endheaders()
                response: HTTPResponse = connection.getresponse()
                body = response.read(MAX_ANSWER + 1)
        if len(body) > MAX_ANSWER:
            raise UnavailableError(f"{request.host} responded with more than the expected {MAX_ANSWER:,} bytes")
        return response.status, body


class _Connection(HTTPSConnection):
    """A connection to ``address``, where the certificate must be ``host``'s. The caller does the handshake, which checks that."""

    sock: ssl.SSLSocket

    def __init__(self, host: str, address: tuple[str, int], context: ssl.SSLContext, seconds: float) -> None:
        super().__init__(host, timeout=seconds, context=context)
        self._address, self._tls, self._seconds = address, context, seconds

    def connect(self) -> None:
        plain = socket.create_connection(self._address, self._seconds)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host, do_handshake_on_connect=False)


@contextmanager
def _taken(slots: BoundedSemaphore, seconds: float) -> Iterator[None]:
    """Take one of the slots; :class:`BusyError` if none gets free in time."""
    if not slots.acquire(timeout=seconds):
        raise BusyError("too many AWS logins at the same time; try again")
    try:
        yield
    finally:
        slots.release()


@contextmanager
def _deadline(connected: socket.socket, seconds: float) -> Iterator[None]:
    """Shut the socket down when the time is over: its own timeout begins anew with each byte."""

    def end() -> None:
        try:
            socket.socket.shutdown(connected, socket.SHUT_RDWR)
        except OSError:  # it has ended
            return

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _arn(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Confirmed).response.identity.arn
    except UNREADABLE as error:
        raise UnavailableError(f"the response of AWS STS cannot be read ({error}); try again") from None


def _code(status: int, body: bytes) -> str:
    """Return AWS's code for a refusal. :class:`BusyError`, :class:`UnavailableError` for a response that says nothing about the
    signer."""
    if not 400 <= status < 500:
        raise UnavailableError(f"AWS STS responded with the unexpected status {status}; try again")
    try:
        code = msgspec.json.decode(body, type=_Refused).error.code
    except UNREADABLE:
        code = ""
    if status == 429 or code in _THROTTLED:
        raise BusyError("AWS STS is too busy; try again")
    return code if _CODE.fullmatch(code) else f"status {status}"
