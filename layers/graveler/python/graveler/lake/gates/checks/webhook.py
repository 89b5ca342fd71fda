"""Checks by webhooks: a document about the candidate is posted to a URL, and the response decides.

A server that connects to any URL of a rule could be made to talk to its own network. So a name is resolved once, all of its
addresses must be public, and the connection goes to the very address that was looked at; hosts that the lake's settings permit
are exempt. Redirects are not followed, proxies of the environment not used; time and answer are bounded.
"""

import hmac
import json
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPS_PORT, HTTPConnection, HTTPException, HTTPResponse
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

import graveler
from graveler.errors import UNREADABLE, InvalidError
from graveler.lake.gates.checks.definitions import WebhookCheck
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.verdicts import Verdict, bounded
from graveler.lake.gates.checks.waiting import in_time
from graveler.lake.gates.statuses import check_status
from graveler.model import Status, StatusState
from graveler.system.secret_variables import masked

_MOST_ANSWER: Final = 16 << 10
_NAT64: Final = 0x0064FF9B << 64
_LOCAL_NAT64: Final = 0x0064FF9B0001
_ACCEPTED: Final = 202

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host, for a port. ``OSError`` if it has none."""


def addresses_of(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the machine resolves it."""
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def check_webhook(definition: WebhookCheck, source: CheckInput, check: str, resolve: Resolve = addresses_of) -> Verdict:
    """Post the document about the candidate. 2xx passes, 202 means that a status follows, anything else fails; a response that
    does not come in time is an error. Not a request of the lake."""
    body = json.dumps(source.document(check)).encode()
    exchange = _Exchange(definition, source, body, resolve)
    try:
        verdict = in_time(exchange.verdict, definition.seconds, source.stop)
    finally:
        exchange.abort()
    return exchange.late if verdict is None else exchange.without_secret(verdict)


class _Exchange:
    """One request and its response, which another thread may abort."""

    def __init__(self, definition: WebhookCheck, source: CheckInput, body: bytes, resolve: Resolve) -> None:
        parts = urlsplit(definition.url)
        self._secure = parts.scheme == "https"
        self.host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._seconds = definition.seconds
        self._resolve = resolve
        self._permitted = source.settings.permits(self.host, self._port)
        self._body = body
        self._headers = {
            "Content-Type": "application/json",
            "User-Agent": f"graveler/{graveler.__version__}",
            "Connection": "close",
        }
        self._secret = ""
        if definition.secret:
            self._secret = source.settings.secret(definition.secret)
            signature = hmac.new(self._secret.encode(), body, sha256).hexdigest()
            self._headers["X-Graveler-Signature"] = f"sha256={signature}"
        self._connection: HTTPConnection | None = None
        self._aborted = False

    @property
    def late(self) -> Verdict:
        """The verdict of a host that takes too long."""
        return Verdict(StatusState.ERROR, f"{self.host} did not answer within {self._seconds} seconds")

    def verdict(self) -> Verdict:
        """Make the exchange. An error of the network is a verdict, too."""
        try:
            return self._exchange()
        except TimeoutError:
            return self.late
        except (OSError, HTTPException, ValueError) as error:
            return Verdict(StatusState.ERROR, f"{self.host} cannot be asked: {str(error) or type(error).__name__}")

    def without_secret(self, verdict: Verdict) -> Verdict:
        """Return a verdict without the secret that signed the request: one that was read from Secrets Manager is not among those
        that are masked everywhere."""
        secrets = (self._secret,)
        return Verdict(verdict.state, masked(verdict.words, secrets), masked(verdict.url, secrets))

    def abort(self) -> None:
        """End the connection, whatever it waits for."""
        self._aborted = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _exchange(self) -> Verdict:
        addresses = self._resolve(self.host, self._port)
        if not addresses:
            return Verdict(StatusState.ERROR, f"{self.host} has no address")
        if not self._permitted and (private := next((a for a in addresses if not is_public(a)), None)):
            return Verdict(
                StatusState.ERROR,
                f"{self.host} resolves to {private}, which is not a public address; permit the host by 'private_hosts' in the "
                "settings of checks if it is yours",
            )
        context = ssl.create_default_context() if self._secure else None
        connection = _Connection(self.host, (addresses[0], self._port), self._seconds, context)
        self._connection = connection
        try:
            connection.connect()
            if self._aborted:
                return Verdict(StatusState.ERROR, "nobody waits for the answer any more")
            connection.request("POST", self._target, self._body, self._headers)
            response = connection.getresponse()
            return self._answer(response, response.read(_MOST_ANSWER))
        finally:
            connection.close()

    def _answer(self, response: HTTPResponse, data: bytes) -> Verdict:
        status = response.status
        words, url = _words(data)
        if status == _ACCEPTED:
            return Verdict(StatusState.PENDING, words or f"{self.host} accepted the candidate; its status follows", url)
        if 200 <= status < 300:
            return Verdict(StatusState.SUCCESS, words, url)
        if 300 <= status < 400:
            return Verdict(StatusState.FAILURE, f"{self.host} answered {status}, and redirects are not followed")
        return Verdict(StatusState.FAILURE, f"{self.host} answered {status}{f': {words}' if words else ''}", url)


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the public internet: neither private, loopback, link-local, multicast nor reserved,
    also within an address of IPv6 that stands for one of IPv4."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv4Address):
        return _is_public(ip)
    if ip.ipv4_mapped is not None:
        return _is_public(ip.ipv4_mapped)
    if int(ip) >> 32 == _NAT64:
        return _is_public(IPv4Address(int(ip) & 0xFFFFFFFF))
    if not _is_public(ip) or ip.is_site_local or int(ip) >> 80 == _LOCAL_NAT64:
        return False
    return all(_is_public(inner) for inner in (ip.sixtofour, *(ip.teredo or ())) if inner is not None)


def _is_public(ip: IPv4Address | IPv6Address) -> bool:
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip.is_link_local)


class _Connection(HTTPConnection):
    """A connection to a host at this very address; with a context of TLS, in which the certificate must be the host's."""

    def __init__(self, host: str, address: tuple[str, int], seconds: float, context: ssl.SSLContext | None) -> None:
        if context is not None:
            self.default_port = HTTPS_PORT
        super().__init__(host, address[1], timeout=seconds)
        self._address = address
        self._seconds = seconds
        self._context = context

    def connect(self) -> None:
        self.sock = socket.create_connection(self._address, self._seconds)
        if self._context is not None:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)


def _words(data: bytes) -> tuple[str, str]:
    """Return description and URL of an answer: fields of a JSON object, or its text."""
    try:
        document = json.loads(data)
    except UNREADABLE:
        return bounded(data.decode(errors="replace")), ""
    if not isinstance(document, dict):
        return bounded(data.decode(errors="replace")), ""
    description, url = document.get("description", ""), document.get("url", "")
    return bounded(description) if isinstance(description, str) else "", url if _is_valid(url) else ""


def _is_valid(url: object) -> bool:
    """Return whether a status can have this URL."""
    if not isinstance(url, str):
        return False
    try:
        check_status(Status("check", StatusState.SUCCESS, url=url))
    except InvalidError:
        return False
    return True
