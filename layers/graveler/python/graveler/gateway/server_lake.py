"""A lake behind a server, as a gateway uses it: every change is a request of the HTTP API, with the rights of one of its keys.

The server decides all conditions, so they hold against other writers as for a lake on this machine. It signs a URL for each
object that is read or written, by which the bytes pass between this process and the object store.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import UnavailableError
from graveler.gateway.store.port import UrlObjects
from graveler.lake.clock import SystemClock
from graveler.lake.objects.upload_records import UploadRecord
from graveler.location.environment import ServedLake
from graveler.model import CommonPrefix, ObjectEntry, Page
from graveler.remote.connection import Connection, Query, ServerRetries, branch_path
from graveler.remote.lake import RemoteLake
from graveler.remote.opening import connect
from graveler.remote.repository import RemoteRepository
from graveler.remote.transfers import Transfers, condition_headers
from graveler.requests.staging import Condition, Copy
from graveler.storage.objects.port import StoredPart
from graveler.tree.record import MakeBrief
from graveler.wire import object_documents as documents
from graveler.wire.config_documents import RECORDED_UPLOADS, Config
from graveler.wire.documents import Repository

T = TypeVar("T")
R = TypeVar("R")

_RETRIES: Final = ServerRetries(attempts=5, shortest=0.1, longest=1.0, patience=5.0)
"""Clients of S3 repeat by themselves, and give up on a silent server before the command line would."""
_KEPT_URLS: Final = 4096
_SPARE_SECONDS: Final = 60
"""Remaining lifetime below which a URL is replaced."""


class _ReadUrl(Struct, frozen=True):
    """A URL of a version of an object, and when it ends (Unix seconds)."""

    checksum: str
    size: int
    mtime: int
    url: str
    end: float


class ServerRepository(RemoteRepository):
    """A repository behind a server: what handlers of S3's requests use of :class:`graveler.lake.repository.OpenRepository`.
    One object serves one request, and has the URLs that were signed for that. All those of one repository share ``transfers``."""

    clock = SystemClock()

    def __init__(self, connection: Connection, name: str, transfers: Transfers) -> None:
        super().__init__(connection, name)
        self._transfers = transfers  # which know what the server can do
        self._urls: dict[str, str] = {}

    @property
    def created(self) -> int:
        """The time of the repository's creation, in Unix seconds. One request; :class:`RepositoryNotFoundError`."""
        return self._connection.get(self._base, Repository).creation_date

    @property
    def namespace(self) -> UrlObjects:
        """The parts of the repository's uploads. No request."""
        return self._objects(f"{self._connection.shown_url}/{self._name}")

    def store_at(self, address: str) -> tuple[UrlObjects, str]:
        """Return the store with an address that :meth:`new_address` or :meth:`stat_to_read` returned, and its key. No request."""
        namespace, _, key = address.rpartition("/")
        return self._objects(namespace), key

    def _objects(self, namespace: str) -> UrlObjects:
        return UrlObjects(namespace, lambda _, key: self._urls[f"{namespace}/{key}"], self._part_url)

    def new_address(self, branch: str, path: str) -> str:
        """Return an address for a new object, of which the URL is at hand then. One request."""
        query: Query = {"path": path, "presign": True}
        location = self._connection.get(
            branch_path(self._base, branch, "staging", "backing"), documents.StagingLocation, query
        )
        if location.presigned_url is None or location.physical_address is None:
            raise UnavailableError(f"the server signs no URL to write {path!r} to; check the settings of its store")
        self._urls[location.physical_address] = location.presigned_url
        return location.physical_address

    def stat_to_read(self, ref: str, path: str, urls: "ReadUrls") -> ObjectEntry:
        """Return an object, with an address at which it can be read. One request; one more for an object that was replaced since
        its URL was signed."""
        read_url = urls.get(self._name, ref, path)
        if read_url is not None:
            entry = self.stat(ref, path)
            if (entry.checksum, entry.size, entry.mtime) == (read_url.checksum, read_url.size, read_url.mtime):
                return self._readable(entry, read_url.url)
        stats = self._connection.get(
            (*self._base, "refs", ref, "objects", "stat"), documents.ObjectStats, {"path": path, "presign": True}
        )
        entry, url = stats.entry(), stats.physical_address
        if not url.startswith(("http://", "https://")):
            raise UnavailableError(f"the server signs no URL to read {path!r} from; check the settings of its store")
        urls.put(
            self._name,
            ref,
            path,
            _ReadUrl(entry.checksum, entry.size, entry.mtime, url, float(stats.physical_address_expiry or 0)),
        )
        return self._readable(entry, url)

    def _readable(self, entry: ObjectEntry, url: str) -> ObjectEntry:
        address = url.partition("?")[0]
        self._urls[address] = url
        return replace(entry, address=address)

    def list_brief(
        self, make: MakeBrief[T], ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[T | CommonPrefix]:
        """List as :meth:`list_objects`, with the result of ``make`` for a part of each object's fields."""
        page = self.list_objects(ref, prefix=prefix, after=after, delimiter=delimiter, amount=amount)
        results = tuple(
            item if isinstance(item, CommonPrefix) else make(item.path, item.size, item.checksum, item.mtime)
            for item in page.results
        )
        return Page(results, page.next_after, page.commits)

    def copy_under_condition(
        self,
        request: Copy,
        condition: Condition,
        *,
        source_etag: str = "",
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectEntry:
        """See :func:`graveler.lake.objects.copying.copy_under_condition`. One request."""
        document = documents.ObjectCopyCreation(
            request.source_path,
            request.source_ref or None,
            src_checksum=source_etag or None,
            content_type=content_type,
            user_metadata=metadata,
        )
        path = branch_path(self._base, request.branch, "objects", "copy")
        query: Query = {"dest_path": request.destination_path}
        response = self._connection.call("POST", path, query, document, headers=condition_headers(condition))
        return response.read(documents.ObjectStats).entry()

    # Uploads in parts: see graveler.lake.objects.recorded_uploads

    def create_upload(
        self, branch: str, path: str, *, content_type: str = "", metadata: Mapping[str, str] | None = None
    ) -> UploadRecord:
        """Begin an upload in parts. One request."""
        document = documents.UploadCreation(content_type or None, metadata)
        response = self._connection.call("POST", self._uploads(branch), {"path": path}, document)
        return _record(branch, response.read(documents.RecordedUpload))

    def find_upload(self, branch: str, path: str, upload_id: str) -> UploadRecord:
        """Return an upload as far as it is needed to write its parts, whether there is one or not. No request."""
        return UploadRecord(branch, path, upload_id, f"{branch}/{path}", upload_id, "", {}, "", 0.0)

    def list_uploads(
        self, branch: str, prefix: str = "", after: tuple[str, str] | None = None
    ) -> tuple[list[UploadRecord], bool]:
        """Return the uploads to a branch, a thousand at most, and whether more follow. One request."""
        path, upload_id = after or ("", "")
        query: Query = {"prefix": prefix, "after": path, "after_id": upload_id, "amount": 1000}
        page = self._connection.get(self._uploads(branch), documents.RecordedUploadList, query)
        return [_record(branch, upload) for upload in page.results], page.pagination.has_more

    def list_parts(
        self, branch: str, path: str, upload_id: str, after: int, amount: int
    ) -> tuple[list[StoredPart], bool]:
        """Return up to a thousand parts of an upload with numbers above ``after``, and whether more follow. One request."""
        query: Query = {"path": path, "after": after, "amount": max(amount, 1)}
        page = self._connection.get(self._uploads(branch, upload_id, "parts"), documents.StoredPartList, query)
        parts = [StoredPart(part.part_number, part.size_bytes, part.etag, part.mtime) for part in page.results]
        return parts[:amount], page.pagination.has_more or len(parts) > amount

    def complete_upload(
        self, branch: str, path: str, upload_id: str, parts: Sequence[tuple[int, str]], condition: Condition
    ) -> ObjectEntry:
        """Make the object of its parts and stage it, if the condition holds. One request."""
        document = documents.PartList([documents.UploadPart(number, etag) for number, etag in parts])
        headers = condition_headers(condition)
        response = self._connection.call(
            "PUT", self._uploads(branch, upload_id), {"path": path}, document, headers=headers
        )
        return response.read(documents.ObjectStats).entry()

    def abort_upload(self, branch: str, path: str, upload_id: str) -> None:
        """Abort an upload. One request."""
        self._connection.call("DELETE", self._uploads(branch, upload_id), {"path": path})

    def _part_url(self, key: str, upload_id: str, number: int) -> str:
        branch, _, path = key.partition("/")
        upload = self._uploads(branch, upload_id, "parts", str(number))
        return self._connection.call("PUT", upload, {"path": path}).read(documents.UploadTo).presigned_url

    def _uploads(self, branch: str, *rest: str) -> tuple[str, ...]:
        return branch_path(self._base, branch, "uploads", *rest)


class ReadUrls:
    """The URLs that a server has signed for reading, the newest ones. Shared by threads."""

    def __init__(self) -> None:
        self._urls: OrderedDict[tuple[str, str, str], _ReadUrl] = OrderedDict()
        self._lock = Lock()

    def get(self, repository: str, ref: str, path: str) -> _ReadUrl | None:
        """Return the URL of an object, if there is one that stays valid for a while."""
        with self._lock:
            url = self._urls.get((repository, ref, path))
        return None if url is None or url.end - _SPARE_SECONDS <= time.time() else url

    def put(self, repository: str, ref: str, path: str, url: _ReadUrl) -> None:
        """Keep a URL."""
        with self._lock:
            self._urls[repository, ref, path] = url
            self._urls.move_to_end((repository, ref, path))
            while len(self._urls) > _KEPT_URLS:
                self._urls.popitem(last=False)


class ServerLake(RemoteLake):
    """A lake behind a server: what handlers of S3's requests use of :class:`graveler.lake.lake.Lake`."""

    def __init__(self, location: ServedLake) -> None:
        super().__init__(connect(location, _RETRIES))
        self._read_urls = ReadUrls()
        self._transfers: dict[str, Transfers] = {}

    def repository(self, name: str) -> ServerRepository:
        """Return the repository of this name. No request."""
        transfers = self._transfers.setdefault(name, Transfers(self._connection, name))
        return ServerRepository(self._connection, name, transfers)

    def with_recent_repository(self, name: str, work: Callable[[ServerRepository], R]) -> R:
        """Call ``work`` with the repository of this name and return its result. No request but those of the work."""
        return work(self.repository(name))

    def stat(self, name: str, ref: str, path: str) -> tuple[ServerRepository, ObjectEntry]:
        """Return the repository of this name, and one of its objects. One request."""
        repository = self.repository(name)
        return repository, repository.stat(ref, path)

    def stat_to_read(self, name: str, ref: str, path: str) -> tuple[ServerRepository, ObjectEntry]:
        """Return the repository of this name, and one of its objects, whose bytes can be read from its address. One request, as
        :meth:`ServerRepository.stat_to_read`."""
        repository = self.repository(name)
        return repository, repository.stat_to_read(ref, path, self._read_urls)

    def expect_gateway(self) -> None:
        """Check that the server has all that a gateway needs. One request; :class:`UnavailableError`."""
        config = self._connection.get(("config",), Config)
        if RECORDED_UPLOADS not in config.features:
            raise UnavailableError(
                "the server is older than gateways for its lake; upgrade it, or run the program where the lake itself can be "
                "reached"
            )
        if not config.storage_config.pre_sign_support:
            raise UnavailableError(
                "the server signs no URLs for its objects, so a gateway cannot reach their bytes; run the program where the lake "
                "itself can be reached"
            )


def _record(branch: str, upload: documents.RecordedUpload) -> UploadRecord:
    """Return the record of an upload, whose ``key`` is its branch and path: the server alone knows where its object will be."""
    return UploadRecord(
        branch,
        upload.path,
        upload.upload_id,
        f"{branch}/{upload.path}",
        upload.upload_id,
        upload.content_type,
        upload.user_metadata,
        upload.creator,
        upload.creation_date,
    )
