"""Metadata files of tables and views: JSON documents in their folders, which never change.

A file is named by the request that made it and by the state that it was built on, and is written only if it is not there: so a
request that is repeated on the same state, such as one whose commit waits for checks, finds its file and builds the same tree.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import md5, sha256
from typing import Final, TypeAlias

import msgspec

from graveler.errors import UNREADABLE, BytesGoneError, CorruptError, InvalidError, NotFoundError
from graveler.lake.iceberg.table_folders import TableFolder, root_of
from graveler.lake.parts import RepositoryParts
from graveler.model import Commit, ObjectEntry
from graveler.requests.base import Gated
from graveler.requests.iceberg import Relation
from graveler.storage.objects.port import ObjectConditionError, ObjectMissingError
from graveler.storage.objects.tree_files import make_young
from graveler.system.forks import new_lock
from graveler.system.random_bytes import random_bytes
from graveler.table_format.file_locations import normal_location
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import encode_metadata, read_table
from graveler.table_format.view_metadata import read_view

MakeDocument: TypeAlias = Callable[[int], Document]
"""Returns the document of a state that is made at a time (milliseconds since 1970)."""
Fields: TypeAlias = Callable[[Document], Mapping[str, str]]

_READERS: Final[Mapping[Relation, Callable[..., Document]]] = {"table": read_table, "view": read_view}
_JSON: Final = "application/json"
_KEPT_BYTES: Final = 32 << 20
"""The size of the files whose documents a process keeps. A document takes a few times as much memory as its file."""
_TIME: Final = "last-updated-ms"

_pack: Final = msgspec.msgpack.Encoder().encode


class ForeignFileError(InvalidError):
    """Another file has the name that graveler gives to one of a table: somebody who may write to the table's folder wrote it. It
    is never replaced, since an entry may name it."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key!r} is not written: somebody who may write to this table's folder has put another file there; commit to "
            "the table, after which the name is another one, or remove that file if no commit has it"
        )


class _RecentDocuments:
    """The documents that were read or written last, by their addresses. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._documents: OrderedDict[tuple[str, str], tuple[Document, int]] = OrderedDict()
        self._bytes = 0

    def get(self, name: tuple[str, str]) -> Document | None:
        with self._lock:
            if name not in self._documents:
                return None
            self._documents.move_to_end(name)
            return self._documents[name][0]

    def put(self, name: tuple[str, str], document: Document, size: int) -> None:
        with self._lock:
            if name in self._documents:
                return
            self._documents[name] = document, size
            self._bytes += size
            while self._bytes > _KEPT_BYTES:
                _, (_, dropped) = self._documents.popitem(last=False)
                self._bytes -= dropped


_recent: Final = _RecentDocuments()


def read_document(repository: RepositoryParts, entry: ObjectEntry, ref: str, kind: Relation = "table") -> Document:
    """Return the document of a table or a view. It is shared, so nobody may change it. One object read, unless this process has
    it. :class:`BytesGoneError`, :class:`CorruptError`."""
    name = (repository.uid, entry.address)
    document = _recent.get(name)
    if document is not None:
        return document
    try:
        text = repository.objects.get(entry.address.removeprefix(repository.namespace + "/"))
    except ObjectMissingError:
        raise BytesGoneError(entry.path, ref, entry.address) from None
    if len(text) != entry.size or _md5(text) != entry.checksum:
        raise CorruptError(
            f"{entry.address!r}, the metadata of {entry.path!r}, is not what was committed: it has {len(text):,} bytes with MD5 "
            f"{_md5(text)}, and the commit has {entry.size:,} with {entry.checksum}. `graveler fsck` shows what else is damaged"
        )
    document = _READERS[kind](text, entry.address, stored=True)
    _recent.put(name, document, len(text))
    return document


def read_stored(repository: RepositoryParts, location: str, kind: Relation = "table") -> Document:
    """Return the document of a table or a view at a location. One object read. :class:`InvalidError` for one that is not in the
    repository's storage or not valid, :class:`NotFoundError`."""
    root = root_of(repository) + "/"
    spelled = normal_location(location)
    if not spelled.startswith(root):
        raise InvalidError(
            f"metadata {location!r} is not in this repository's storage, {root!r}; copy the table's rows, or the view's queries, "
            "into a new one of this repository"
        )
    try:
        return _READERS[kind](repository.objects.get(spelled.removeprefix(root)), location)
    except ObjectMissingError:
        raise NotFoundError(f"metadata {location!r} does not exist") from None


def request_name(request: Gated[Commit], basis: bytes) -> bytes:
    """Return 32 bytes that name what a request makes on a state."""
    packed = _pack(request)
    return sha256(len(packed).to_bytes(8, "big") + packed + basis).digest()


def write_document(
    repository: RepositoryParts, folder: TableFolder, name: bytes, path: str, make: MakeDocument, fields: Fields
) -> ObjectEntry:
    """Write the document that ``make`` returns into a table's folder under a name, and return the entry of it at ``path``, with
    ``fields`` as its metadata. If the file already exists and holds the same document as of an earlier time, the entry is that
    of the existing file. One object written; two requests more if the file existed, and a second write if it was older than half
    of its grace period, or held something else, whose name is then not reused."""
    document = make(int(repository.clock.now() * 1000))
    text = encode_metadata(document)
    key = folder.metadata_key(name)
    try:
        repository.objects.put(key, text, if_absent=True)
    except ObjectConditionError:
        stored = repository.objects.get(key)
        earlier = _document_of(stored, make)
        if earlier is None:  # somebody who may write to the folder has taken the name
            key = folder.metadata_key(random_bytes(len(name)))
            repository.objects.put(key, text, if_absent=True)
        else:
            document, text = earlier, stored
            _make_young(repository, key, text)
    return _remembered_entry(repository, key, path, document, text, fields(document))


def document_entry(
    repository: RepositoryParts, key: str, path: str, document: Document, fields: Mapping[str, str], *, writes: bool
) -> ObjectEntry:
    """Return the entry at ``path`` of a document under ``key``; with ``writes``, write the document first. No request without it,
    else the cost and the errors of :func:`put_once`."""
    text = encode_metadata(document)
    if writes:
        put_once(repository, key, text)
        return _remembered_entry(repository, key, path, document, text, fields)
    return _entry_at(f"{repository.namespace}/{key}", path, document, text, fields)


def put_once(repository: RepositoryParts, key: str, data: bytes) -> None:
    """Write an object under a name that a function of its bytes gave, unless it is there. One object written; two requests more
    if it is there, and a second write if it is older than half of its grace period. :class:`ForeignFileError`."""
    objects = repository.objects
    try:
        objects.put(key, data, if_absent=True)
    except ObjectConditionError:
        if objects.get(key) != data:
            raise ForeignFileError(key) from None
        _make_young(repository, key, data)


def _make_young(repository: RepositoryParts, key: str, data: bytes) -> None:
    make_young(repository.objects, key, data, repository.clock.now() - repository.table_grace / 2)


def _remembered_entry(
    repository: RepositoryParts, key: str, path: str, document: Document, text: bytes, fields: Mapping[str, str]
) -> ObjectEntry:
    address = f"{repository.namespace}/{key}"
    _recent.put((repository.uid, address), document, len(text))
    return _entry_at(address, path, document, text, fields)


def _entry_at(address: str, path: str, document: Document, text: bytes, fields: Mapping[str, str]) -> ObjectEntry:
    return ObjectEntry(path, address, len(text), _md5(text), _time_of(document) // 1000, _JSON, fields)


def _document_of(text: bytes, make: MakeDocument) -> Document | None:
    """Return the document that ``make`` returns for the time that a file states, if the file has exactly that."""
    try:
        document = make(_time_of(msgspec.json.decode(text)))
        return document if encode_metadata(document) == text else None
    except (*UNREADABLE, LookupError, TypeError):
        return None


def _time_of(document: Document) -> int:
    """Return when the state of a table or a view was made, in milliseconds since 1970."""
    time_ms: int = document[_TIME] if _TIME in document else document["version-log"][-1]["timestamp-ms"]
    return time_ms


def _md5(text: bytes) -> str:
    return md5(text, usedforsecurity=False).hexdigest()
