"""Transfers of objects' bytes between this machine and the object store, by presigned URLs that bypass the server; through the
server only where it offers no such URLs."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from hashlib import md5
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final

from graveler.errors import (
    BusyError,
    BytesGoneError,
    CorruptError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from graveler.lake.objects.noted_times import noted_time
from graveler.lake.objects.verification import checked, damaged
from graveler.model import ObjectEntry
from graveler.remote.connection import Connection, OpenFile, Query, branch_path
from graveler.requests.staging import ANY_OBJECT, Condition, Upload
from graveler.storage.objects.presigned import has_opaque_etag
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.wire.config_documents import Config
from graveler.wire.object_documents import ObjectStats, PresignMultipartUpload, StagingLocation, UploadTo

MAX_WHOLE: Final = 4 << 30
"""Largest file (bytes) uploaded as a whole: S3 accepts 5 GiB."""
PART: Final = 256 << 20
"""Bytes per part of a larger one: 10,000 parts make 2.4 TiB."""
_MAX_PARTS: Final = 10_000
_PIECE: Final = 1 << 20
_MD5_DIGITS: Final = 32
_KEPT_URLS: Final = 256
_SPARE_SECONDS: Final = 60
"""Remaining lifetime below which a URL is replaced."""


class Transfers:
    """The uploads and downloads of one repository. Shared by threads."""

    def __init__(self, connection: Connection, repository: str) -> None:
        self._connection = connection
        self._base = ("repositories", repository)
        self._urls: OrderedDict[tuple[object, ...], tuple[str, int]] = OrderedDict()
        self._lock = Lock()
        self._config: Config | None = None

    def read(
        self, ref: str, entry: ObjectEntry, start: int, length: int | None, *, verify: bool = True
    ) -> Iterator[bytes]:
        """Yield the bytes of an object that was looked up in ``ref``, in pieces, verified like those of
        :meth:`graveler.lake.reading.object_reader.ByteReader.bytes_in`. Cost: one request for a URL, unless a cached one is
        valid, and one object read; one more if only the MD5 is wrong. :class:`BusyError` if the object was replaced meanwhile and
        cannot be found any more; :class:`BytesGoneError` if the store has no bytes of it; :class:`DamagedObjectError`."""
        if entry.size == 0 or length == 0:
            return iter(())
        if not self._presigned():
            pieces = self._read_through(ref, entry, start, length)
        else:
            if length is not None and start == 0 and length >= entry.size:
                length = None  # to the end, to detect an object that is longer than recorded
            pieces = self._read_at(self._url(ref, entry), ref, entry, start, length)
        return checked(entry, ref, pieces, start, length, lambda: self.vouches(ref, entry), verify=verify)

    def vouches(self, ref: str, entry: ObjectEntry) -> bool:
        """Return whether the store vouches for an object whose MD5 is not its checksum, or whether a file still has its recorded
        time, within the second that HTTP can express. Cost: one object read, of one byte; none where the store offers no URLs and
        thus cannot be asked."""
        noted = noted_time(entry.checksum)
        if not self._presigned():
            return noted is not None
        headers = self._connection.headers_at(self._url(ref, entry))
        if noted is not None:
            return _was_modified_at(headers, noted)
        return _has_opaque_etag(headers) or headers.get("etag", "").strip('"') == entry.checksum

    def prepare(self, ref: str, entry: ObjectEntry) -> None:
        """Ensure that this version of the object stays readable for a while, even if ``ref`` gets another one. Cost: one
        request."""
        if entry.size and self._presigned():
            self._url(ref, entry)

    def url(self, ref: str, entry: ObjectEntry) -> str:
        """Return a URL for reading this version of the object. Cost: one request, unless a cached one is valid.
        :class:`UnavailableError` if the server offers none."""
        if not self._presigned():
            raise UnavailableError("the server offers no presigned URLs, since its object store has none")
        return self._url(ref, entry)

    @property
    def features(self) -> list[str]:
        """The names of what the server can do beyond lakeFS. One request, the first time."""
        return self._server().features

    def _presigned(self) -> bool:
        return self._server().storage_config.pre_sign_support

    def _server(self) -> Config:
        if self._config is None:
            self._config = self._connection.get(("config",), Config)
        return self._config

    def _url(self, ref: str, entry: ObjectEntry) -> str:
        """Return a URL for reading this version of the object."""
        key = (ref, entry.path, entry.checksum, entry.size, entry.mtime)
        with self._lock:
            url, expires = self._urls.get(key, ("", 0))
        if expires - _SPARE_SECONDS > time.time():
            return url
        stats = self._connection.get(
            (*self._base, "refs", ref, "objects", "stat"), ObjectStats, {"path": entry.path, "presign": True}
        )
        _expect_same(ref, entry, stats)
        with self._lock:
            self._urls[key] = stats.physical_address, stats.physical_address_expiry or 0
            self._urls.move_to_end(key)
            while len(self._urls) > _KEPT_URLS:
                self._urls.popitem(last=False)
        return stats.physical_address

    def _read_at(self, url: str, ref: str, entry: ObjectEntry, start: int, length: int | None) -> Iterator[bytes]:
        began = start
        while True:
            try:
                for piece in self._connection.bytes_at(url, start, length):
                    start += len(piece)
                    length = None if length is None else length - len(piece)
                    yield piece
                return
            except NotFoundError:
                raise BytesGoneError(entry.path, ref, entry.address) from None
            except CorruptError as error:
                raise damaged(entry, ref, str(error)) from None
            except ForbiddenError:
                if start == began:
                    raise
            began, url = start, self._url(ref, entry)  # the URL expired during the read

    def _read_through(self, ref: str, entry: ObjectEntry, start: int, length: int | None) -> Iterator[bytes]:
        end = entry.size if length is None else min(entry.size, start + length)
        path = (*self._base, "refs", ref, "objects")
        for position in range(start, end, _PIECE):
            last = min(end, position + _PIECE) - 1
            part = {"range": f"bytes={position}-{last}"}
            response = self._connection.call("GET", path, {"path": entry.path}, headers=part, passing=(416,))
            if response.status == 416 or response.headers.get("etag", f'"{entry.checksum}"') != f'"{entry.checksum}"':
                raise _replaced(ref, entry)
            yield response.body

    def upload(self, request: Upload, data: bytes | Path, progress: ObjectProgress = no_object_progress) -> ObjectEntry:
        """Write an object's bytes and stage it. ``data`` is the bytes, or a file. Cost: two requests and the object write (two
        more requests per part of a very large file). ``progress`` is called with bytes as they are sent, and once with the
        object."""
        is_creation = request.condition.if_absent
        entry = self._upload(
            request, data, lambda size: progress(0, size), in_parts=not is_creation and not request.force
        )
        progress(1, len(data) if isinstance(data, bytes) else 0)
        return entry

    def _upload(
        self, request: Upload, data: bytes | Path, sent: Callable[[int], None], *, in_parts: bool
    ) -> ObjectEntry:
        if isinstance(data, bytes):
            return self._put(request, data, len(data), md5(data, usedforsecurity=False).hexdigest())
        try:
            with data.open("rb") as file:
                size, checksum = _digest(file)
                if size > MAX_WHOLE and in_parts:
                    return self._put_parts(request, file, size, sent)
                return self._put(request, OpenFile(file, size, sent=sent), size, checksum)
        except FileNotFoundError:
            raise NotFoundError(f"file {str(data)!r} does not exist; check its name") from None
        except OSError as error:
            raise UnavailableError(
                f"cannot read {str(data)!r}: {error.strerror or error}; nothing was staged"
            ) from None

    def _put(self, request: Upload, data: bytes | OpenFile, size: int, checksum: str) -> ObjectEntry:
        branch, path = request.branch, request.path
        address = self._send(branch, path, data, checksum, force=request.force)
        response = self._connection.call(
            "PUT",
            self._backing(branch),
            {"path": path},
            {
                "staging": {"physical_address": address},
                "checksum": checksum,
                "size_bytes": size,
                "user_metadata": dict(request.metadata),
                "content_type": request.content_type,
                "force": request.force,
            },
            headers=condition_headers(request.condition),
        )
        return response.read(ObjectStats).entry()

    def expect(self, branch: str, path: str) -> None:
        """Check that the server would take an object of this path. Cost: one request."""
        self._connection.get(self._backing(branch), StagingLocation, {"path": path})

    def send(self, branch: str, path: str, file: Path, *, force: bool = False) -> str:
        """Write a file's bytes to a location for an object of this path, stage nothing, and return the physical address. The
        bytes are kept only for a grace period. Cost: one request and one object write. :class:`InvalidError` for a file over 4
        GiB."""
        with file.open("rb") as opened:
            size, checksum = _digest(opened)
            if size > MAX_WHOLE:
                raise InvalidError(
                    f"{size:,} bytes are more than can be sent at once ({MAX_WHOLE:,}); upload it in several parts"
                )
            return self._send(branch, path, OpenFile(opened, size), checksum, force=force)

    def _send(self, branch: str, path: str, data: bytes | OpenFile, checksum: str, *, force: bool) -> str:
        query: Query = {"path": path, "presign": True, "force": force}
        location = self._connection.get(self._backing(branch), StagingLocation, query)
        if location.presigned_url is None or location.physical_address is None:
            raise UnavailableError(
                f"the server does not issue upload URLs, so {path!r} cannot be uploaded; check the settings of its store"
            )
        _check_etag(self._connection.put_bytes(location.presigned_url, data), checksum, path)
        return location.physical_address

    def _backing(self, branch: str) -> tuple[str, ...]:
        return branch_path(self._base, branch, "staging", "backing")

    def _put_parts(self, request: Upload, file: BinaryIO, size: int, sent: Callable[[int], None]) -> ObjectEntry:
        branch, path = request.branch, request.path
        uploads = branch_path(self._base, branch, "staging", "pmpu")
        part_bytes = max(PART, -(-size // _MAX_PARTS))
        begun = self._connection.call("POST", uploads, {"path": path}).read(PresignMultipartUpload)
        upload = (*uploads, begun.upload_id)
        where = {"physical_address": begun.physical_address}
        parts: list[dict[str, object]] = []
        try:
            for number, start in enumerate(range(0, size, part_bytes), 1):
                to = self._connection.call("PUT", (*upload, "parts", str(number)), {"path": path}, where)
                part = OpenFile(file, min(part_bytes, size - start), start, sent)
                headers = self._connection.put_bytes(to.read(UploadTo).presigned_url, part)
                _check_etag(headers, _digest(file, start, part.size)[1], path)
                parts.append({"part_number": number, "etag": headers.get("etag", "").strip('"')})
        except BaseException:
            self._connection.call("DELETE", upload, {"path": path}, where)
            raise
        document = {
            **where,
            "parts": parts,
            "content_type": request.content_type,
            "user_metadata": dict(request.metadata),
        }
        response = self._connection.call(
            "PUT", upload, {"path": path}, document, headers=condition_headers(request.condition)
        )
        return response.read(ObjectStats).entry()


def condition_headers(condition: Condition) -> Mapping[str, str]:
    """Return the headers of a condition."""
    if condition.if_match:
        return {"if-match": ANY_OBJECT if condition.if_match == ANY_OBJECT else f'"{condition.if_match}"'}
    return {"if-none-match": "*"} if condition.if_absent else {}


def _digest(file: BinaryIO, start: int = 0, size: int | None = None) -> tuple[int, str]:
    """Return size and MD5 of a file, or of ``size`` bytes of it."""
    digest, done = md5(usedforsecurity=False), 0
    file.seek(start)
    while size is None or done < size:
        piece = file.read(_PIECE if size is None else min(_PIECE, size - done))
        if not piece:
            break
        digest.update(piece)
        done += len(piece)
    return done, digest.hexdigest()


def _check_etag(headers: Mapping[str, str], checksum: str, path: str) -> None:
    """Check that the store has the bytes that were sent: an ETag that is an MD5 must be theirs."""
    etag = headers.get("etag", "").strip('"')
    if len(etag) == _MD5_DIGITS and not _has_opaque_etag(headers) and etag != checksum:
        raise CorruptError(
            f"{path!r}: the store has other bytes (MD5 {etag}) than were sent ({checksum}); nothing was staged. If the file "
            "changed while it was uploaded, upload it again"
        )


def _has_opaque_etag(headers: Mapping[str, str]) -> bool:
    return has_opaque_etag(
        headers.get("x-amz-server-side-encryption", ""),
        headers.get("x-amz-server-side-encryption-customer-algorithm", ""),
    )


def _was_modified_at(headers: Mapping[str, str], noted: int) -> bool:
    """Return whether a file has this time (nanoseconds), as far as ``Last-Modified`` tells. True without the header."""
    try:
        modified = parsedate_to_datetime(headers.get("last-modified", ""))
    except ValueError:
        return True
    return abs(modified.timestamp() - noted / 1e9) <= 1


def _expect_same(ref: str, entry: ObjectEntry, stats: ObjectStats) -> None:
    if (stats.checksum, stats.size_bytes, stats.mtime) != (entry.checksum, entry.size, entry.mtime):
        raise _replaced(ref, entry)
    if "://" not in stats.physical_address or not stats.physical_address.startswith("http"):
        raise InvalidError(f"the server returned {stats.physical_address!r} for {entry.path!r}, which is not a URL")


def _replaced(ref: str, entry: ObjectEntry) -> BusyError:
    return BusyError(f"{entry.path!r} was replaced in {ref!r} while it was being read; try again")
