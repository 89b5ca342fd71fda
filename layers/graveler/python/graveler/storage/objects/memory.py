"""The objects port in the memory of one process, for tests. Same semantics as a real store, and none of a folder's limits."""

import builtins
import sys
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from hashlib import md5
from itertools import count
from pathlib import Path
from threading import RLock

from graveler.errors import GravelerError, InvalidError
from graveler.storage.limits import (
    check_byte_range,
    check_foreign_key,
    check_object_key,
    check_part_number,
    check_parts,
)
from graveler.storage.objects.port import (
    Noted,
    ObjectConditionError,
    ObjectMissingError,
    Page,
    Sent,
    StoredObject,
    StoredPart,
    UnfinishedUpload,
    UploadMissingError,
    delete_each,
    page_of,
)
from graveler.storage.objects.presigned import Grant, UrlSigner

_PIECE = 1 << 20
_PAGE = 1000
_SIGNER = UrlSigner("http://memory.invalid", b"memory")


class MemoryObjects:
    """Objects in a dict. ``clock`` returns the time of a write in Unix seconds. ``foreign``: any key valid in S3 is accepted.
    Cannot be pickled: a copy in another process would be another store."""

    def __init__(
        self, namespace: str = "mem://objects", clock: Callable[[], float] = time.time, *, foreign: bool = False
    ) -> None:
        self._check = check_foreign_key if foreign else check_object_key
        self._namespace = namespace.rstrip("/")
        self._clock = clock
        self._lock = RLock()
        self.objects: dict[str, tuple[bytes, StoredObject]] = {}
        self.keys: list[str] = []
        """The keys of all objects, in order."""
        self._uploads: dict[tuple[str, str], dict[int, tuple[StoredPart, bytes]]] = {}
        self._begun: dict[str, float] = {}
        self.serial = count(1)
        """The numbers of which ETags and the IDs of uploads are made."""

    @property
    def namespace(self) -> str:
        """URL of the namespace, without a trailing slash."""
        return self._namespace

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        return self._find(key)[0]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``start``, which counts from the end if negative."""
        check_byte_range(start, length)
        data = self.get(key)
        begin = start if start >= 0 else max(0, len(data) + start)
        return data[begin : begin + min(length, len(data))]

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the object, or a part of it, in pieces of 1 MiB."""
        check_byte_range(start, length)
        data = self.get_range(key, start, sys.maxsize if length is None else length)
        for begin in range(0, len(data), _PIECE):
            yield data[begin : begin + _PIECE]

    def head(self, key: str) -> StoredObject:
        """Return size, ETag and time."""
        return self._find(key)[1]

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        """Write an object."""
        self._check(key)
        contents = data if isinstance(data, bytes) else data.read_bytes()
        with self._lock:
            if key not in self.objects:
                insort(self.keys, key)
            elif if_absent:
                raise ObjectConditionError(self._namespace, key, "it already exists")
            stored = StoredObject(key, len(contents), f"{next(self.serial):x}", self._clock())
            self.objects[key] = contents, stored
        if sent is not None:
            sent(len(contents))
        return stored

    def copy(self, source: str, destination: str) -> None:
        """Write an object with the bytes of another one."""
        self.put(destination, self.get(source))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Remove an object."""
        self._check(key)
        with self._lock:
            if if_match is not None:
                etag = self.head(key).etag
                if etag != if_match:
                    raise ObjectConditionError(self._namespace, key, f"its ETag is {etag}, not {if_match}")
            if self.objects.pop(key, None) is not None:
                self.keys.remove(key)

    def delete_many(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        """Remove objects, one after the other."""
        return delete_each(self, objects)

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        """Yield objects in the order of their keys, read in pages of 1,000 as a real store does."""
        while True:
            with self._lock:
                # Code points of texts have the order of their UTF-8 bytes.
                begin = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
                page = [self.objects[key][1] for key in self.keys[begin : begin + _PAGE] if key.startswith(prefix)]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].key

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        """Return the first names of a listing."""
        return page_of(self, prefix, after, folders=folders)

    def presign(self, key: str, method: str, expires_in: int, noted: Noted | None = None) -> str:
        """Return a URL that no server answers."""
        self._check(key)
        return _SIGNER.sign(Grant(self._namespace, key, noted=noted), method, expires_in, self._clock())

    def presign_part(self, key: str, upload_id: str, number: int, expires_in: int) -> str:
        """Return a URL that no server answers."""
        self._check(key)
        check_part_number(number)
        return _SIGNER.sign(Grant(self._namespace, key, upload_id, number), "PUT", expires_in, self._clock())

    def create_multipart(self, key: str) -> str:
        """Begin an upload."""
        self._check(key)
        with self._lock:
            upload_id = f"upload-{next(self.serial)}"
            self._uploads[key, upload_id] = {}
            self._begun[upload_id] = self._clock()
            return upload_id

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Write one part."""
        check_part_number(number)
        with self._lock:
            etag = md5(data, usedforsecurity=False).hexdigest()
            self._upload(key, upload_id)[number] = StoredPart(number, len(data), etag, self._clock()), data
            return etag

    def parts(self, key: str, upload_id: str, after: int = 0) -> Iterator[StoredPart]:
        """Yield the parts of an upload."""
        with self._lock:
            uploaded = self._upload(key, upload_id)
            parts = [uploaded[number][0] for number in sorted(uploaded) if number > after]
        yield from parts

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        """Join the parts."""
        check_parts(parts)
        with self._lock:
            uploaded = self._upload(key, upload_id)
            for number, etag in parts:
                if number not in uploaded or uploaded[number][0].etag != etag:
                    raise InvalidError(
                        f"part {number} of the upload of {key!r} with ETag {etag} does not exist; upload it again"
                    )
            stored = self.put(key, b"".join(uploaded[number][1] for number, _ in parts), if_absent=if_absent)
            del self._uploads[key, upload_id]
            return stored

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Remove an upload."""
        self._check(key)
        with self._lock:
            self._uploads.pop((key, upload_id), None)

    def uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield uploads that were neither completed nor aborted."""
        with self._lock:
            unfinished = [UnfinishedUpload(key, upload_id, self._begun[upload_id]) for key, upload_id in self._uploads]
        yield from unfinished

    def _find(self, key: str) -> tuple[bytes, StoredObject]:
        self._check(key)
        entry = self.objects.get(key)
        if entry is None:
            raise ObjectMissingError(self._namespace, key)
        return entry

    def _upload(self, key: str, upload_id: str) -> dict[int, tuple[StoredPart, bytes]]:
        self._check(key)
        upload = self._uploads.get((key, upload_id))
        if upload is None:
            raise UploadMissingError(self._namespace, key, upload_id)
        return upload
