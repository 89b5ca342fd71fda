"""Verification of objects' bytes as they are read, against what the lake recorded.

The number of bytes is always compared. When a whole object is read and its checksum can be the MD5 of its bytes (32 lower-case
hex digits), the MD5 is compared too. Graveler records the MD5 of everything that it uploads or imports from a folder. For an
import from S3, and mostly for a link, the checksum is the ETag, which is the MD5 unless the object was uploaded in parts or is
encrypted with a key of KMS or of a client; an ETag of the latter kind looks like an MD5 but is none. So if the two differ, one
request asks the store. If its ETag is the checksum, it vouches for the object; if the object is encrypted like that, nothing is
known. Everything else is damage. Checksums of another form (``<MD5>-<number>`` of an upload in parts, or one that a client chose
for a link) cannot be compared.

Files that an import recorded by size and time (:mod:`graveler.lake.objects.noted_times`) have no checksum. A reader of the whole
file compares its time instead, where available, with the recorded one.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import md5
from typing import TYPE_CHECKING, Final, NamedTuple

from graveler.errors import DamagedObjectError
from graveler.lake.objects.noted_times import noted_time
from graveler.model import ObjectEntry
from graveler.storage.objects.port import Objects, StoredObject

if TYPE_CHECKING:
    from concurrent.futures import Future

_MD5_DIGITS: Final = 32
_HEX: Final = frozenset("0123456789abcdef")
_BESIDE: Final = 4 << 20
"""A larger object is hashed in a separate thread, while the next piece is read and the last one is used."""

_SAME_TIME: Final = 1e-6
"""Seconds."""

Vouch = Callable[[], bool]
"""Returns whether the store vouches for an object whose MD5 is not the recorded checksum, or whether a file still has the
recorded time. One request."""


def md5_of(entry: ObjectEntry) -> str:
    """Return the MD5 that an object's bytes should have; empty if its checksum does not have the form of one."""
    checksum = entry.checksum
    return checksum if len(checksum) == _MD5_DIGITS and _HEX.issuperset(checksum) else ""


def vouches(objects: Objects, key: str, checksum: str) -> bool:
    """Return whether ``checksum`` is the store's own ETag of what it has under ``key``, or may be one that cannot be compared.
    Cost: one request. :class:`graveler.storage.objects.port.ObjectMissingError`."""
    stored = objects.head(key)
    if noted_time(checksum) is not None:
        return has_noted_time(objects, stored, checksum)
    return stored.encrypted or stored.etag == checksum


def has_noted_time(objects: Objects, stored: StoredObject, checksum: str) -> bool:
    """Return whether a file has the time that ``checksum`` is, as far as floating point can tell, which is a microsecond. True
    for a checksum that is not a time, or an object that is not a file."""
    noted = noted_time(checksum)
    if noted is None or not objects.namespace.startswith("file://"):
        return True
    return abs(stored.modified - noted / 1e9) < _SAME_TIME


class OpenedObject(NamedTuple):
    """An object as it was when it was opened. ``read`` returns ``(start, length)`` of its bytes, of which only the number is
    compared; ``vouch`` is for callers that compare the rest."""

    ref: str
    entry: ObjectEntry
    read: Callable[[int, int | None], Iterator[bytes]]
    vouch: Vouch


class Comparison:
    """A comparison that takes an object's bytes from first to last, and then decides whether they are the recorded ones."""

    def __init__(self, entry: ObjectEntry, *, verify: bool = True) -> None:
        self._entry = entry
        self._noted = md5_of(entry) if verify and entry.size else ""
        self._digest = md5(usedforsecurity=False) if self._noted else None
        self._timed = verify and bool(entry.size) and noted_time(entry.checksum) is not None
        self.size = 0
        """The number of bytes so far."""

    @property
    def hashes(self) -> bool:
        """True if the MD5 is compared."""
        return self._digest is not None

    @property
    def asks(self) -> bool:
        """True if more than the number of bytes is compared: the MD5, or the time."""
        return self.hashes or self._timed

    @property
    def matches(self) -> bool:
        """True if the bytes so far have the recorded MD5, or there should be none."""
        return not self._entry.size or (self._digest is not None and self._digest.hexdigest() == self._noted)

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        self.size += len(piece)
        if self._digest is not None:
            self._digest.update(piece)

    def added(self, pieces: Iterator[bytes], expected: int) -> Iterator[bytes]:
        """Yield the next pieces, about ``expected`` bytes, adding each. For many bytes the digest lags one piece behind, until
        the end."""
        if self._digest is None or expected <= _BESIDE:
            for piece in pieces:
                self.add(piece)
                yield piece
            return
        from concurrent.futures import ThreadPoolExecutor  # most objects are small

        with ThreadPoolExecutor(1, "graveler-md5") as thread:
            hashing: Future[None] | None = None
            for piece in pieces:
                if hashing is not None:
                    hashing.result()
                self.size += len(piece)
                hashing = thread.submit(self._digest.update, piece)
                yield piece
            if hashing is not None:
                hashing.result()

    def found(self, vouch: Vouch) -> str | None:
        """Describe the bytes if they are not the recorded ones; else None. Calls ``vouch`` if only the MD5 differs, or for a
        time."""
        if self._digest is None:
            if self.size != self._entry.size:
                return f"{self.size:,} bytes"
            return f"{self.size:,} bytes modified since" if self._timed and not vouch() else None
        digest = self._digest.hexdigest()
        if self.size == self._entry.size and (digest == self._noted or vouch()):
            return None
        return f"{self.size:,} bytes with MD5 {digest}"


def damaged(entry: ObjectEntry, ref: str, digest: str) -> DamagedObjectError:
    """Return the error for an object whose bytes are ``digest`` instead of the recorded ones."""
    time = noted_time(entry.checksum)
    kind = "MD5" if md5_of(entry) else "checksum"
    noted = f"{kind} {entry.checksum}" if time is None else f"the time {_moment(time)}"
    recorded = f"{entry.size:,} bytes with {noted}"
    return DamagedObjectError(entry.path, ref, entry.address, recorded, digest)


def checked(
    entry: ObjectEntry,
    ref: str,
    pieces: Iterator[bytes],
    start: int,
    length: int | None,
    vouch: Vouch,
    *,
    verify: bool = True,
) -> Iterator[bytes]:
    """Yield ``pieces``, which are ``length`` bytes of an object of ``ref`` from ``start``, or with None all from there.

    :class:`DamagedObjectError` instead of the end if the number of bytes is wrong, and with ``verify``, of a whole object, if its
    MD5 is. No byte beyond the recorded size is yielded. Memory: two pieces.
    """
    remaining = max(0, entry.size - start)
    expected = remaining if length is None else min(length, remaining)
    comparison = Comparison(entry, verify=verify and start == 0 and expected == entry.size)
    for piece in comparison.added(pieces, expected):
        if comparison.size > expected:
            raise damaged(entry, ref, f"more than {entry.size:,} bytes")
        yield piece
    if comparison.size < expected and not comparison.hashes:
        raise damaged(entry, ref, _shorter(start, comparison.size))
    if comparison.asks and (digest := comparison.found(vouch)) is not None:
        raise damaged(entry, ref, digest)


def _moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _shorter(start: int, size: int) -> str:
    """Describe an object of which only ``size`` bytes came from ``start``."""
    return f"{start + size:,} bytes" if size else f"only {start:,} bytes" if start else "no bytes"
