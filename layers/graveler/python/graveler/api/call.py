"""The context of a request, as handlers see it."""

import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from graveler.access.audit import AuditLine, record
from graveler.access.authentication import Access
from graveler.access.permissions import Identity, Role
from graveler.api.errors import bad_request
from graveler.api.origins import on_own_origin
from graveler.api.settings import Settings
from graveler.lake.context import Context
from graveler.lake.lake import Lake
from graveler.operations.operator import Operator
from graveler.requests.base import Request
from graveler.storage.tables.port import Check

T = TypeVar("T")

IDEMPOTENCY_HEADER: Final = "idempotency-key"
MAX_KEY: Final = 200
"""Longest idempotency key, in characters."""

ANONYMOUS: Final = Identity("", "", Role.READER, repositories=("",))
"""The identity where no credentials are needed; it sees no repository."""


class BodyNeededError(Exception):
    """A handler needs the body of a request of which only the head has arrived."""


class Call:
    """The context of a request, besides its parameters. Header names are in lower case. ``seconds_left`` is the time it may still
    take; ``is_bounded``: the process is stopped then. ``has_body`` is False while only the head has arrived: then what reads the
    body raises :class:`BodyNeededError`."""

    __slots__ = (
        "_body",
        "_event",
        "access",
        "has_body",
        "headers",
        "identity",
        "is_bounded",
        "lake",
        "only_while",
        "operation",
        "request_id",
        "runner",
        "seconds_left",
        "settings",
        "signed_urls",
    )

    def __init__(
        self,
        event: Mapping[str, Any],
        headers: Mapping[str, str],
        lake: Lake,
        access: Access,
        runner: Operator,
        settings: Settings,
        identity: Identity,
        operation: str,
        request_id: str,
        seconds_left: Callable[[], float],
        *,
        has_body: bool = True,
        is_bounded: bool = False,
    ) -> None:
        self._event = event
        self._body: bytes | None = None
        self.has_body = has_body
        self.headers = headers
        self.lake = lake
        self.access = access
        self.runner = runner
        self.settings = settings
        self.identity = identity
        self.only_while: Check | None = None
        """The condition under which this attempt of a request with a key may take effect (:mod:`graveler.api.idempotency`)."""
        self.operation = operation
        self.request_id = request_id
        self.seconds_left = seconds_left
        self.is_bounded = is_bounded
        self.signed_urls = False
        """Whether the response has presigned URLs in it, so that no cache may store it."""

    @property
    def committer(self) -> str:
        """The name for commits and reference logs."""
        return self.identity.name

    def force(self, wish: bool | None) -> bool:
        """Return whether the repository may be changed although it is read-only: only at the client's ``wish``, and by an admin.
        For anyone else the flag is ignored, and the error is that the repository is read-only."""
        return bool(wish) and self.identity.role is Role.ADMIN

    def context(self) -> Context:
        """Return the context in which a request of the lake runs for the caller."""
        return Context(by=self.committer, actor=self.identity.actor, only_while=self.only_while)

    def run(self, repository: str, request: Request[T]) -> T:
        """Run a request in a repository. One table read, and the request."""
        return self.lake.repository(repository).run(request, self.context())

    @property
    def request_key(self) -> str:
        """The ID that identifies retries of this request, for verbs that take a ``request_id``: the client's header
        ``Idempotency-Key``, scoped to the access key and the operation. Empty without one."""
        key = self.headers.get(IDEMPOTENCY_HEADER, "")
        if not key:
            return ""
        if len(key) > MAX_KEY or not key.isprintable():
            raise bad_request(f"header Idempotency-Key must be at most {MAX_KEY} printable characters")
        return f"{self.identity.key_id}/{self.operation}/{key}"

    def fingerprint(self) -> str:
        """Return a digest of path, query and body, to tell different requests apart."""
        digest = sha256()
        for part in (self._event.get("rawPath", ""), self._event.get("rawQueryString", "")):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
        digest.update(self.body_bytes())
        return digest.hexdigest()

    def body_bytes(self) -> bytes:
        """Return the body as it was sent. :class:`BodyNeededError`."""
        if self._body is None:
            path = self.body_file
            if path is not None:
                return path.read_bytes()
            self._body = event_body(self._event)
        return self._body

    @property
    def body_file(self) -> Path | None:
        """The file into which a local server spooled a large body (event key ``graveler.body_file``), if it did.
        :class:`BodyNeededError`."""
        if not self.has_body:
            raise BodyNeededError
        path = self._event.get("graveler.body_file")
        return None if path is None else Path(path)

    @property
    def address(self) -> str:
        """The path and the query, as they were sent."""
        return f"{self._event.get('rawPath', '')}?{self._event.get('rawQueryString', '')}"

    @property
    def cookies(self) -> str:
        """The cookies, in the form of a ``cookie`` header."""
        return cookies(self._event)

    @property
    def source_ip(self) -> str:
        """The request's source address."""
        return source_ip(self._event)

    def audit(self, outcome: str, *, repository: str = "", ref: str = "", path: str = "", address: str = "") -> None:
        """Write a line to the audit log."""
        record(
            AuditLine(
                time=time.time(),
                action=self.operation,
                outcome=outcome,
                key_id=self.identity.key_id,
                name=self.identity.name,
                source=self.source_ip,
                request_id=self.request_id,
                repository=repository,
                ref=ref,
                path=path,
                address=address,
            )
        )

    def url(self, signed: str) -> str:
        """Return a presigned URL for the caller: a browser's session reads it on the page's own origin."""
        return signed if self.headers.get("authorization") else on_own_origin(signed, self.headers)

    def audit_url(self, address: str, *, repository: str, ref: str, path: str) -> None:
        """Write a line to the audit log for a presigned URL that is handed out, without its signature."""
        self.signed_urls = True
        self.audit("presigned", repository=repository, ref=ref, path=path, address=address)


def event_body(event: Mapping[str, Any]) -> bytes:
    """Return the body of an event. 400 if it is declared as base64 and is not."""
    body = event.get("body")
    if not body:
        return b""
    if event.get("isBase64Encoded"):
        from base64 import b64decode  # most bodies are text

        try:
            return b64decode(body, validate=True)
        except ValueError:
            raise bad_request("the body is not valid base64") from None
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)


def cookies(event: Mapping[str, Any]) -> str:
    """Return the cookies of an event, in the form of a ``cookie`` header."""
    return "; ".join(event.get("cookies") or ())


def source_ip(event: Mapping[str, Any]) -> str:
    """Return the source address that an event gives."""
    http = event.get("requestContext", {}).get("http", {})
    return str(http.get("sourceIp", ""))
