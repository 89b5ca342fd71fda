"""One request to the gateway, and the ways to respond to it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from graveler.access.permissions import Identity
from graveler.gateway.control import Mount
from graveler.gateway.mounts import Location
from graveler.gateway.protocol.head import Head
from graveler.gateway.protocol.s3_errors import S3Error
from graveler.gateway.protocol.signature import Payload
from graveler.gateway.silence import SilenceLimit
from graveler.requests.base import Permission

if TYPE_CHECKING:
    from graveler.gateway.store.port import Pieces

SILENCE_SECONDS: Final = 60.0
"""Longest silence within a body, and longest time for which a client reads nothing of a response."""


SERVER: Final = "graveler"
"""The header ``server`` of each response."""


class ClientGoneError(Exception):
    """The client has disconnected before it had the response."""


class Transport(Protocol):
    """The sender of a response in pieces."""

    async def send_bytes(self, data: bytes) -> None:
        """Send a piece; wait while the client is slower. :class:`ClientGoneError`."""


class Channel(Protocol):
    """The server's side of a request: its body in pieces, and the ways to respond."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    def response_empty(self, status: int, headers: list[tuple[str, str]]) -> None: ...
    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...
    def response_stream(self, status: int, headers: list[tuple[str, str]]) -> Transport: ...


class Traffic(Struct):
    """The traffic of a gateway so far."""

    objects_read: int = 0
    bytes_read: int = 0
    objects_written: int = 0
    bytes_written: int = 0
    objects_deleted: int = 0
    failures: int = 0
    """Responses with a status of 500 or more."""

    def read(self, size: int) -> None:
        """Count a read of so many bytes."""
        self.objects_read += 1
        self.bytes_read += size

    def wrote(self, size: int) -> None:
        """Count an object that was written."""
        self.objects_written += 1
        self.bytes_written += size


class Exchange:
    """A request that is authenticated, and its response. ``operation`` is S3's name of what is asked for."""

    def __init__(
        self,
        channel: Channel,
        head: Head,
        operation: str,
        bucket: str,
        key: str,
        identity: Identity,
        payload: Payload,
        request_id: str,
        scheme: str = "http",
    ) -> None:
        self.channel = channel
        self.head = head
        self.operation = operation
        self.bucket = bucket
        self.key = key
        self.identity = identity
        self.payload = payload
        self.request_id = request_id
        self.scheme = scheme
        self.status = 0
        """The status of the response, once there is one."""
        self.answered = False
        self.body_has_arrived = False
        self.keys: Sequence[str] = ()
        """The keys that a DeleteObjects names."""

    @property
    def body(self) -> AsyncIterator[bytes]:
        """The pieces of the body that have not been read."""
        return aiter(self.channel)

    @property
    def headers(self) -> Mapping[str, str]:
        """The request's headers, with names in lower case."""
        return self.head.headers

    @property
    def origin(self) -> str:
        """The address of the gateway, as the client wrote it."""
        return f"{self.scheme}://{self.head.host}"

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the request's query."""
        return self.head.parameters

    def require(self, permission: Permission, mount: Mount, location: Location) -> None:
        """Refuse a caller without a permission, and any change where the mount permits none. :class:`S3Error`."""
        branch = location.ref if permission is Permission.WRITE else ""
        if permission is Permission.WRITE and mount.read_only:
            raise S3Error(
                "AccessDenied", f"bucket {mount.bucket!r} is only read here: it shows {mount.repository}/{mount.ref}"
            )
        self.identity.require(permission, location.repository, branch)

    def respond(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Send a response with its whole body, or to a HEAD without it."""
        pairs = self._pairs(status, headers)
        if self.head.method == "HEAD" or status in (204, 304):
            self.channel.response_empty(status, pairs)
        else:
            self.channel.response_bytes(status, pairs, body)

    def respond_document(self, document: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> None:
        """Send a document of XML."""
        self.respond(status, {"content-type": "application/xml", **(headers or {})}, document)

    async def respond_pieces(self, status: int, headers: Mapping[str, str], pieces: "Pieces") -> int:
        """Send a body in pieces, at the client's pace; return the number of bytes sent. The pieces are closed, whatever happens;
        a client that reads nothing for :data:`SILENCE_SECONDS` loses its connection."""
        sent = 0
        try:
            transport = self.channel.response_stream(status, self._pairs(status, headers))
            async with SilenceLimit(SILENCE_SECONDS) as client:
                client.pause()
                async for piece in pieces:
                    client.hear()
                    await transport.send_bytes(piece)
                    client.pause()
                    sent += len(piece)
            return sent
        finally:
            await pieces.aclose()

    def _pairs(self, status: int, headers: Mapping[str, str] | None) -> list[tuple[str, str]]:
        self.status, self.answered = status, True
        return [("x-amz-request-id", self.request_id), ("server", SERVER), *(headers or {}).items()]
