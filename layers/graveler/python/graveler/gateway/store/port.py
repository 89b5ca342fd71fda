"""The port *bytes*: the objects of one namespace, streamed in the event loop.

It is what a gateway needs of :mod:`graveler.storage.objects.port`, without a thread per transfer and without an object that is
ever whole in memory. Keys, errors and :class:`StoredObject` are that port's. Uploads are begun, completed and aborted there, too.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from graveler.errors import CorruptError
from graveler.storage.objects.port import StoredObject

PIECE: Final = 256 << 10
"""Largest piece of a read in bytes, and the bytes that a writer collects before it writes them."""
SMALL: Final = 64 << 10
"""Largest read in bytes that is returned as a whole."""
NO_CHECKSUMS: Final[Mapping[str, str]] = {}


class Pieces(Protocol):
    """The bytes of a read, in pieces of 1 to :data:`PIECE` bytes. They are exactly as many as were requested, or iterating
    raises: :class:`graveler.errors.UnavailableError` if the store fails midway. The next piece is read once it is asked for, so a
    slow receiver slows down the store. Close it on every path."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces; once."""
        ...

    async def aclose(self) -> None:
        """Release file or connection. Closing twice does nothing."""
        ...


class UrlObjects(Struct, frozen=True, eq=False):
    """The objects of a repository behind a server. ``url`` returns the one that is at hand for a method (GET, PUT) and a key;
    ``part_url`` requests one to PUT a part, by key, upload ID and number, and raises the errors of the lake."""

    namespace: str
    url: Callable[[str, str], str]
    part_url: Callable[[str, str, int], str]


Body: TypeAlias = bytes | Pieces
"""The bytes of a read: up to :data:`SMALL` of them as they are, more of them in pieces."""


class Writer(ABC):
    """An object or part being written, whose length was declared. Nobody sees any of it before :meth:`finish`, and nothing stays
    of it unless that returns. Calls come one after the other. As an asynchronous context manager it aborts at the end of the
    block, unless it is finished."""

    @abstractmethod
    async def write(self, piece: bytes) -> None:
        """Append bytes. Waits while the store is slower than they come: at most some :data:`PIECE` are in memory."""

    @abstractmethod
    async def finish(self) -> StoredObject:
        """Publish the object, durably. ValueError if its bytes are not as many as were declared."""

    @abstractmethod
    async def abort(self) -> None:
        """Discard the bytes, unless it is finished. Raises nothing; aborting twice does nothing."""

    async def __aenter__(self) -> "Writer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.abort()


class Bytes(ABC):
    """The objects of one namespace. Made in an event loop, and used in it alone."""

    @property
    @abstractmethod
    def namespace(self) -> str:
        """URL of the namespace, without a trailing slash."""

    @property
    def etags_are_md5(self) -> bool:
        """True if the ETag of the last object for which that was compared is the MD5 of its bytes. Then the MD5 need not be
        computed for others: they have an ETag of the same kind, or are ``encrypted``."""
        return False

    def compare_etag(self, stored: StoredObject, md5: str) -> None:
        """Note whether the ETag of an object that was written is the MD5 of its bytes."""
        del stored, md5

    @abstractmethod
    async def read(self, key: str, start: int, length: int) -> Body:
        """Return ``length`` bytes of an object from offset ``start``. The store has answered by then:
        :class:`ObjectMissingError`, :class:`CorruptError` for an object that ends before."""

    @abstractmethod
    def writer(self, key: str, length: int, checksums: Mapping[str, str] = NO_CHECKSUMS) -> Writer:
        """Return a writer for an object of ``length`` bytes, which replaces any object there. ``checksums`` are headers of S3
        with a checksum of all bytes (``content-md5``, ``x-amz-checksum-crc32``, …), for a store that compares them. No request:
        errors come with the first bytes, or at the end."""

    @abstractmethod
    def part_writer(
        self, key: str, upload_id: str, number: int, length: int, checksums: Mapping[str, str] = NO_CHECKSUMS
    ) -> Writer:
        """Return a writer for one part of an upload, as :meth:`writer`. Its result has the part's ETag, and for a key the
        object's. :class:`UploadMissingError`."""

    async def copy(self, source: "Bytes", source_key: str, length: int, key: str) -> StoredObject:
        """Write an object with all ``length`` bytes of an object of ``source``, inside the store if it can do that."""
        return await copy_by_reading(source, source_key, 0, length, self.writer(key, length))

    async def copy_part(
        self, source: "Bytes", source_key: str, start: int, length: int, key: str, upload_id: str, number: int
    ) -> StoredObject:
        """Write a part with ``length`` bytes from offset ``start`` of an object of ``source``, as :meth:`copy`."""
        return await copy_by_reading(
            source, source_key, start, length, self.part_writer(key, upload_id, number, length)
        )


async def copy_by_reading(source: Bytes, key: str, start: int, length: int, writer: Writer) -> StoredObject:
    """Write ``length`` bytes of an object from offset ``start``. They pass through this process, piece by piece."""
    async with writer:
        body = await source.read(key, start, length)
        if isinstance(body, bytes):
            await writer.write(body)
        else:
            try:
                async for piece in body:
                    await writer.write(piece)
            finally:
                await body.aclose()
        return await writer.finish()


def too_short(namespace: str, key: str, size: int, end: int) -> CorruptError:
    """Return the error for an object of ``size`` bytes that should have ``end`` or more."""
    return CorruptError(
        f"{namespace}/{key} has {size:,} bytes, and should have {end:,} or more: it was changed outside the lake; restore it "
        "from a copy"
    )
