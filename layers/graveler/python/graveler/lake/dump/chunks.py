"""The layout of a dump in the object store.

::

    _graveler/dumps/<time>-<8 hex digits>/
        staged-00000.msgpack …      lists of [token, key, packed record or nil for a tombstone]
        branches-00000.msgpack …    lists of [name, item of the table]
        tags-00000.msgpack …        lists of [name, item of the table]
        applications-00000.msgpack … lists of [branch and application, item of the table]
        pulls-00000.msgpack …       lists of [sort key, item of the table] of pull requests
        pull-comments-00000.msgpack … the same of comments on them
        settings-00000.msgpack      a list of one: the repository's item
        manifest.json               written last: a dump without it is not complete, and garbage after a while

A chunk is one MessagePack value of at most a megabyte or so, named with its SHA-256 in the manifest. The manifest also lists the
commits that the refs point at: with it, a complete dump is a root for the collector, as a tag is, and so are the objects
of its staged changes. The settings hold the repository's secret; anyone who may read the namespace's ``_graveler/`` may know it.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from graveler.errors import UNREADABLE, CorruptError, InvalidError, LaterVersionError, NotFoundError
from graveler.storage.objects.port import ObjectMissingError, Objects
from graveler.storage.tables.port import Item

FOLDER: Final = "_graveler/dumps"
MANIFEST: Final = "manifest.json"
VERSION: Final = 1
STAGED: Final = "staged"
BRANCHES: Final = "branches"
TAGS: Final = "tags"
APPLICATIONS: Final = "applications"
PULLS: Final = "pulls"
COMMENTS: Final = "pull-comments"
SETTINGS: Final = "settings"

_CHUNK_BYTES: Final = 1 << 20
_MAX_NAME: Final = 100


class StagedLine(Struct, frozen=True, array_like=True):
    """A staged change; ``record`` is None for a tombstone."""

    token: str
    key: bytes
    record: bytes | None


class RefLine(Struct, frozen=True, array_like=True):
    """A branch, a tag, the last write of an application, a pull request or a comment, with its item as the table had it."""

    name: str
    item: dict[str, Any]


class Chunk(Struct, frozen=True):
    """One file of a dump. ``sha256`` in hex, ``size`` in bytes."""

    name: str
    kind: str
    entries: int
    size: int
    sha256: str


class Manifest(Struct, frozen=True):
    """The contents of a complete dump. ``created`` in Unix seconds; ``commits`` are those that its refs point at."""

    version: int
    id: str
    created: int
    repository: str
    uid: str
    namespace: str
    branches: int
    tags: int
    staged: int
    commits: tuple[str, ...]
    chunks: tuple[Chunk, ...]


class _Version(Struct, frozen=True):
    version: int


Line = TypeVar("Line")


class ChunkWriter:
    """A writer of entries of one kind into chunks of bounded size. One object write for each."""

    def __init__(self, objects: Objects, dump_id: str, kind: str) -> None:
        self._objects = objects
        self._prefix = f"{FOLDER}/{dump_id}"
        self._kind = kind
        self._entries: list[bytes] = []
        self._size = 0
        self.chunks: list[Chunk] = []

    def add(self, entry: StagedLine | RefLine | Item) -> None:
        """Append an entry."""
        encoded = msgspec.msgpack.encode(entry)
        self._entries.append(encoded)
        self._size += len(encoded)
        if self._size >= _CHUNK_BYTES:
            self._write()

    def finish(self) -> list[Chunk]:
        """Write what is left; return all chunks."""
        if self._entries:
            self._write()
        return self.chunks

    def _write(self) -> None:
        name = f"{self._kind}-{len(self.chunks):05}.msgpack"
        data = msgspec.msgpack.encode([msgspec.Raw(entry) for entry in self._entries])
        self._objects.put(f"{self._prefix}/{name}", data)
        self.chunks.append(Chunk(name, self._kind, len(self._entries), len(data), sha256(data).hexdigest()))
        self._entries, self._size = [], 0


def put_manifest(objects: Objects, manifest: Manifest) -> None:
    """Make the dump complete. One object write."""
    objects.put(f"{FOLDER}/{manifest.id}/{MANIFEST}", msgspec.json.encode(manifest))


def get_manifest(objects: Objects, dump_id: str) -> Manifest:
    """Return the manifest of a complete dump. One object read.

    :class:`NotFoundError` if there is none, :class:`LaterVersionError`, :class:`CorruptError`.
    """
    where = f"dump {dump_id!r} in {objects.namespace}"
    if not 0 < len(dump_id) <= _MAX_NAME or "/" in dump_id or dump_id in (".", ".."):
        raise InvalidError(f"{dump_id!r} is not the ID of a dump; list the existing ones")
    try:
        data = objects.get(f"{FOLDER}/{dump_id}/{MANIFEST}")
    except ObjectMissingError:
        raise NotFoundError(f"{where} does not exist, or was never finished; list the existing ones") from None
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version > VERSION:
            raise LaterVersionError(where, version, VERSION)
        return msgspec.json.decode(data, type=Manifest)
    except UNREADABLE as error:
        raise CorruptError(
            f"{where}: {MANIFEST} is damaged ({error}); use another dump, or a copy of this file"
        ) from None


def dumps(objects: Objects) -> list[str]:
    """Return the IDs of the complete dumps in a namespace, oldest first. One listing request for each thousand files of dumps."""
    suffix = f"/{MANIFEST}"
    keys = (stored.key for stored in objects.list(f"{FOLDER}/"))
    return [key.removeprefix(f"{FOLDER}/").removesuffix(suffix) for key in keys if key.endswith(suffix)]


def read_chunks(objects: Objects, manifest: Manifest, kind: str, line: type[Line]) -> Iterator[Sequence[Line]]:
    """Yield the entries of one kind, a chunk at a time. One object read for each. :class:`CorruptError` names a damaged chunk."""
    for chunk in manifest.chunks:
        if chunk.kind != kind:
            continue
        key = f"{FOLDER}/{manifest.id}/{chunk.name}"
        try:
            data = objects.get(key)
        except ObjectMissingError:
            raise _damaged(objects, key, "it is missing") from None
        if sha256(data).hexdigest() != chunk.sha256:
            raise _damaged(objects, key, f"its {len(data):,} bytes do not match its SHA-256")
        try:
            yield msgspec.msgpack.decode(data, type=list[line])  # type: ignore[valid-type]
        except UNREADABLE as error:
            raise _damaged(objects, key, str(error)) from None


def _damaged(objects: Objects, key: str, reason: str) -> CorruptError:
    return CorruptError(
        f"chunk {objects.namespace}/{key} of the dump is damaged: {reason}; nothing was restored. Use another dump, or a "
        "copy of this file"
    )
