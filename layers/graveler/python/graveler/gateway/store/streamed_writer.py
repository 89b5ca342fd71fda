"""A writer whose bytes are sent as the body of one request while they come."""

from abc import abstractmethod
from collections.abc import Mapping

from graveler.gateway.store.connection_pool import REPEATABLE
from graveler.gateway.store.http_connection import HttpConnection
from graveler.gateway.store.port import PIECE, Writer
from graveler.storage.objects.port import StoredObject


class StreamedWriter(Writer):
    """A body of ``length`` bytes. Its last ones are sent by :meth:`finish`, so no store takes an unfinished body for complete.
    The beginning stays in memory as long as it is little enough to be sent again."""

    def __init__(self, length: int) -> None:
        self._length = self._missing = length
        self._connection: HttpConnection | None = None
        self._pieces: list[bytes] = []
        self._collected = 0
        self._repeatable: list[bytes] = []
        self._sent = 0

    @abstractmethod
    async def _send(self, data: bytes, *, is_last: bool) -> Mapping[str, str]:
        """Send bytes of the body; after the last ones return the response's headers. Begins anew if that fails, with all that was
        sent before, unless it was too much to be kept."""

    @abstractmethod
    def _stored(self, headers: Mapping[str, str]) -> StoredObject:
        """Return what was stored, by the headers of the response."""

    async def write(self, piece: bytes) -> None:
        self._missing -= len(piece)
        if self._missing < 0:
            raise ValueError(f"more than the declared {self._length:,} bytes")
        self._pieces.append(piece)
        self._collected += len(piece)
        if self._collected >= PIECE and self._missing:
            await self._send(self._take(), is_last=False)

    async def finish(self) -> StoredObject:
        if self._missing:
            raise ValueError(f"{self._missing:,} of the declared {self._length:,} bytes are missing")
        return self._stored(await self._send(self._take(), is_last=True))

    async def abort(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _is_repeatable(self) -> bool:
        """True as long as all that was sent is in memory."""
        return self._sent <= REPEATABLE

    def _note(self, data: bytes) -> None:
        """Note that bytes were sent, of which others follow."""
        self._sent += len(data)
        if self._is_repeatable:
            self._repeatable.append(data)
        else:
            self._repeatable.clear()

    def _take(self) -> bytes:
        pieces, self._pieces, self._collected = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
