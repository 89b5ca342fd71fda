"""Objects as JSON, and their presigned URLs."""

import re
import time
from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct

from graveler.api.call import Call
from graveler.api.header_values import http_date, is_header_value
from graveler.api.response import encode_json
from graveler.lake.reading.object_reader import RenderedObjects
from graveler.lake.repository import OpenRepository
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.tree.rendered_pages import Rendering
from graveler.wire.documents import Pagination
from graveler.wire.object_documents import (
    ListedObject,
    ObjectStats,
)

OBJECT_POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox"
"""The content security policy of an object's bytes: HTML or SVG that a browser opens runs no script, has an origin of its own,
and loads nothing."""

_LIFETIME: Final = re.compile(r"[?&]X-Amz-Expires=(\d+)", re.ASCII)


class _PageOf(Struct, frozen=True):
    """An :class:`ObjectStatsList` without its results."""

    pagination: Pagination


LISTED: Final = Rendering(ListedObject, encode_json)
"""The rendering of a listing's objects as JSON."""


def rendered_page(page: RenderedObjects) -> bytes:
    """Return an :class:`ObjectStatsList`, as JSON, of objects that are JSON already."""
    head = _PageOf(Pagination(page.next_after is not None, page.next_after or "", page.count))
    texts: list[bytes | memoryview] = [encode_json(head)[:-1], b',"results":[']
    for piece in page.pieces:
        texts += (piece, b",")
    texts[-1] = b"]}" if page.pieces else b',"results":[]}'
    return b"".join(texts)


class Presigner:
    """A builder of documents with URLs instead of addresses; each URL is recorded in the audit log."""

    def __init__(self, call: Call, repository: OpenRepository, ref: str) -> None:
        self._call, self._repository, self._ref = call, repository, ref
        self._seconds = call.settings.presign_seconds
        self._began = int(time.time())

    def url(self, entry: ObjectEntry) -> str:
        """Return a URL for reading an object."""
        url = self._call.url(self._repository.url(entry, self._seconds))
        self._call.audit_url(entry.address, repository=self._repository.repository.name, ref=self._ref, path=entry.path)
        return url

    def upload_url(self, path: str, address: str) -> str:
        """Return a URL for writing an object; ``ref`` is the branch."""
        from graveler.lake.objects.uploads import upload_url  # most requests upload nothing

        url = self._call.url(upload_url(self._repository.parts, self._ref, path, address, self._seconds))
        self._call.audit_url(address, repository=self._repository.repository.name, ref=self._ref, path=path)
        return url

    def expiry(self, url: str) -> int:
        """Return when a URL expires, in Unix seconds: earlier if the credentials that signed it do."""
        lifetime = _LIFETIME.search(url)
        return self._began + (self._seconds if lifetime is None else min(self._seconds, int(lifetime[1])))

    def document(self, entry: ObjectEntry, *, metadata: bool = True) -> ObjectStats:
        """Return an object's document with a URL."""
        url = self.url(entry)
        return ObjectStats(
            path=entry.path,
            physical_address=url,
            physical_address_expiry=self.expiry(url),
            checksum=entry.checksum,
            mtime=entry.mtime,
            size_bytes=entry.size,
            metadata=entry.metadata if metadata else UNSET,
            content_type=entry.content_type,
        )


def object_headers(entry: ObjectEntry) -> dict[str, str]:
    """Return the headers for a GET or HEAD of an object. A content type or checksum that is no valid header value is omitted. The
    policy keeps browsers from running HTML of one user with the login cookie of another, and from telling other servers who reads
    it; pages of another origin, such as another port of this host, cannot show the object by that cookie."""
    headers = {
        "content-type": entry.content_type if is_header_value(entry.content_type) else DEFAULT_CONTENT_TYPE,
        "last-modified": http_date(entry.mtime),
        "accept-ranges": "bytes",
        "content-security-policy": OBJECT_POLICY,
        "cross-origin-resource-policy": "same-origin",
    }
    if is_header_value(entry.checksum) and '"' not in entry.checksum:
        headers["etag"] = f'"{entry.checksum}"'
    return headers


def metadata_of_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the user metadata in an upload's headers: ``x-lakefs-meta-<k>`` is ``<k>``, ``x-lakefs-internal-<k>`` is
    ``::lakefs::<k>``."""
    metadata = {}
    for name, value in headers.items():
        if name.startswith("x-lakefs-meta-"):
            metadata[name.removeprefix("x-lakefs-meta-")] = value
        elif name.startswith("x-lakefs-internal-"):
            metadata["::lakefs::" + name.removeprefix("x-lakefs-internal-")] = value
    return metadata
