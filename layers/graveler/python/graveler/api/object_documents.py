"""Objects as JSON, and the URLs that go with them."""

import re
import time
from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct

from graveler.api.call import Call
from graveler.api.header_values import http_date, is_header_value
from graveler.api.response import encode_json
from graveler.lake.reading.reader import RenderedObjects
from graveler.lake.repository import OpenRepository
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.tree.rendered import Rendering
from graveler.wire.documents import Pagination
from graveler.wire.objects import (
    ListedObject,
    ObjectStats,
)

_LIFETIME: Final = re.compile(r"[?&]X-Amz-Expires=(\d+)", re.ASCII)


class _PageOf(Struct, frozen=True):
    """An :class:`ObjectStatsList` without its results."""

    pagination: Pagination


LISTED: Final = Rendering(ListedObject, encode_json)
"""Objects of a listing as JSON."""


def rendered_page(page: RenderedObjects) -> bytes:
    """An :class:`ObjectStatsList`, as JSON, of objects that are JSON already."""
    head = _PageOf(Pagination(page.next_after is not None, page.next_after or "", page.count))
    texts: list[bytes | memoryview] = [encode_json(head)[:-1], b',"results":[']
    for piece in page.pieces:
        texts += (piece, b",")
    texts[-1] = b"]}" if page.pieces else b',"results":[]}'
    return b"".join(texts)


class Presigner:
    """Makes documents with URLs instead of addresses; each URL leaves a line in the audit log."""

    def __init__(self, call: Call, repository: OpenRepository, ref: str) -> None:
        self._call, self._repository, self._ref = call, repository, ref
        self._seconds = call.settings.presign_seconds
        self._began = int(time.time())

    def url(self, entry: ObjectEntry) -> str:
        """A URL to read an object with."""
        url = self._repository.url(entry, self._seconds)
        self._note(entry.path, entry.address)
        return url

    def upload_url(self, path: str, address: str) -> str:
        """A URL to write an object with; ``ref`` is the branch."""
        url = self._repository.upload_url(self._ref, path, address, self._seconds)
        self._note(path, address)
        return url

    def expiry(self, url: str) -> int:
        """When a URL ends, in Unix seconds: with the credentials that signed it, if these end before its time is over."""
        lifetime = _LIFETIME.search(url)
        return self._began + (self._seconds if lifetime is None else min(self._seconds, int(lifetime[1])))

    def document(self, entry: ObjectEntry, *, metadata: bool = True) -> ObjectStats:
        """An object with a URL."""
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

    def _note(self, path: str, address: str) -> None:
        self._call.audit_url(address, repository=self._repository.repository.name, ref=self._ref, path=path)


def object_headers(entry: ObjectEntry) -> dict[str, str]:
    """What a GET or HEAD of an object says of it. A content type or checksum that cannot stand in a header is left out.
    Somebody's HTML must not act for whoever looks at it with the cookie of a login: browsers run nothing of it."""
    headers = {
        "content-type": entry.content_type if is_header_value(entry.content_type) else DEFAULT_CONTENT_TYPE,
        "last-modified": http_date(entry.mtime),
        "accept-ranges": "bytes",
        "content-security-policy": "sandbox",
    }
    if is_header_value(entry.checksum) and '"' not in entry.checksum:
        headers["etag"] = f'"{entry.checksum}"'
    return headers


def metadata_of_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The user metadata that an upload's headers hold: ``x-lakefs-meta-<k>`` is ``<k>``, ``x-lakefs-internal-<k>`` is
    ``::lakefs::<k>``."""
    found = {}
    for name, value in headers.items():
        if name.startswith("x-lakefs-meta-"):
            found[name.removeprefix("x-lakefs-meta-")] = value
        elif name.startswith("x-lakefs-internal-"):
            found["::lakefs::" + name.removeprefix("x-lakefs-internal-")] = value
    return found
