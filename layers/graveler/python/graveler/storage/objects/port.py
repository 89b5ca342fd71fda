"""The port *objects*: named immutable byte strings in one namespace (a folder, an S3 bucket and prefix).

Keys are ``/``-separated, relative to the namespace, without empty, ``.`` or ``..`` components. Every call is one request unless
its docstring says otherwise; tests count them per method. Errors: :class:`ObjectMissingError`, :class:`ObjectConditionError`,
:class:`UploadMissingError`, :class:`graveler.errors.InvalidError` for anything that no store accepts (a bad key, parts out of
order), :class:`graveler.errors.UnavailableError` for what the store itself cannot do now (disk full, no permission, network), and
:class:`graveler.errors.AnswerLostError` where a change may have happened.
"""

import builtins
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from graveler.errors import AnswerLostError, GravelerError, NotFoundError, PreconditionError, UnavailableError, sentence


@sentence("{namespace}/{key} does not exist in the object store")
class ObjectMissingError(NotFoundError):
    """No object has this key."""

    namespace: str
    key: str


@sentence("{namespace}/{key}: the condition failed: {condition}")
class ObjectConditionError(PreconditionError):
    """A conditional put found the key taken, or a conditional delete found another version there."""

    namespace: str
    key: str
    condition: str


@sentence("{namespace}/{key} has no upload {upload_id!r} in progress; it was completed or aborted; start a new one")
class UploadMissingError(NotFoundError):
    """No upload in parts has this ID for this key: it was never begun, or is completed or aborted."""

    namespace: str
    key: str
    upload_id: str


class NotSyncedError(AnswerLostError):
    """A write was done, but could not be made durable. Finding it afterwards proves nothing."""


class NotPermittedError(UnavailableError):
    """The store, or the file system, does not permit this to the process: retrying is useless."""


class StoredObject(Struct, frozen=True):
    """One object as the store lists it. ``size`` in bytes, ``etag`` opaque and different for each write of a key (on S3 for each
    content), ``modified`` in Unix seconds, in the response to a put accurate to a second or two. Only ``head`` sets
    ``encrypted``: the ETag depends on more than the bytes."""

    key: str
    size: int
    etag: str
    modified: float
    encrypted: bool = False


class Noted(Struct, frozen=True):
    """The expected bytes of an object: their number, and their MD5 (hex; empty if unknown)."""

    size: int
    md5: str = ""


class UnfinishedUpload(Struct, frozen=True):
    """An upload in parts that was neither completed nor aborted. ``began`` in Unix seconds."""

    key: str
    upload_id: str
    began: float


class StoredPart(Struct, frozen=True):
    """One part of an unfinished upload. ``size`` in bytes, ``etag`` its MD5 in hex where the store tells it (S3 without SSE-KMS,
    folders), ``modified`` in Unix seconds."""

    number: int
    size: int
    etag: str
    modified: float


class Page(Struct, frozen=True):
    """The first names of a listing, in the order of their UTF-8 bytes; ``more``: others follow."""

    names: list[str]
    more: bool


Sent: TypeAlias = Callable[[int], None]
"""Called with the number of bytes that were written since the last call."""


class Objects(Protocol):
    """Named immutable byte strings. Adapters are cheap to create, picklable, and safe to share between threads."""

    @property
    def namespace(self) -> str:
        """URL of the namespace, without a trailing slash; ``<namespace>/<key>`` is an object's physical address."""
        ...

    def get(self, key: str) -> bytes:
        """Return the whole object."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start`` (bytes); fewer at the end, none past it. A negative ``start``
        counts from the end, as in a suffix request: ``get_range(k, -100, 100)`` is the last 100 bytes, or all of a shorter
        object."""
        ...

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the object, or ``length`` bytes of it from ``start``, in pieces of at most 1 MiB. One request."""
        ...

    def head(self, key: str) -> StoredObject:
        """Return size, ETag and time without the bytes."""
        ...

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        """Write an object as a whole: afterwards it is durable, and no reader ever sees half of it. ``data`` is the bytes, or a
        file, which stays the caller's. With ``if_absent``, :class:`ObjectConditionError` when the key is taken: of several
        concurrent puts, one wins. ``sent`` is called as bytes are written, from any thread; all calls together name the size."""
        ...

    def copy(self, source: str, destination: str) -> None:
        """Write an object with the bytes of another one, replacing any object there; inside the store if it can do that.
        :class:`ObjectMissingError` without the other one."""
        ...

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Remove an object; a missing one is success. With ``if_match``, only if its ETag is this one, otherwise
        :class:`ObjectConditionError`; :class:`ObjectMissingError` if it is gone and the store can tell (S3 cannot)."""
        ...

    def delete_many(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        """Remove objects, each given by its key and its required ETag. Returns the error for each, as of :meth:`delete`; None: it
        is gone. One request for each 1,000 if the store takes several at a time."""
        ...

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        """Yield objects whose key begins with ``prefix`` and is greater than ``after``, in the order of their UTF-8 bytes. One
        request for each 1,000."""
        ...

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        """Return the first names of :meth:`list`, up to 1,000. With ``folders``, keys that have a slash behind the prefix are one
        name, which ends with that slash; a folder that contains ``after`` may be among them or not. One request."""
        ...

    def presign(self, key: str, method: str, expires_in: int, noted: Noted | None = None) -> str:
        """Return a URL with which anyone may ``GET`` or ``PUT`` this key for ``expires_in`` seconds. A server of our own that
        serves the URL compares the bytes with ``noted``; S3 does not. No request."""
        ...

    def presign_part(self, key: str, upload_id: str, number: int, expires_in: int) -> str:
        """Return a URL with which anyone may ``PUT`` part ``number`` of this upload for ``expires_in`` seconds; the response's
        header ``ETag`` is the part's, in quotes. Does not check that the upload exists. No request."""
        ...

    def create_multipart(self, key: str) -> str:
        """Begin an upload in parts; return its upload ID."""
        ...

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Upload part ``number`` (1 to 10,000, any order, repeated ones replace); return its ETag."""
        ...

    def parts(self, key: str, upload_id: str, after: int = 0) -> Iterator[StoredPart]:
        """Yield the parts of an upload that have a number above ``after``, by number: of each the last one. One request for each
        1,000."""
        ...

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        """Make the object of its parts ``(number, ETag)``, in order. The whole object appears at once."""
        ...

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Remove an upload and its parts; an unknown one is success."""
        ...

    def uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield uploads that were neither completed nor aborted, in any order; none for a store that removes them by itself. One
        request for each 1,000."""
        ...


@runtime_checkable
class UnsyncedObjects(Protocol):
    """Additional methods of a store in which it is cheap to write an object, but expensive to make it durable."""

    def put_unsynced(self, key: str, data: bytes) -> None:
        """Write an object, unless it exists. Readers see it as a whole or not at all, whichever process is killed; but a power
        cut may remove it, or leave other bytes in its place, until :meth:`sync` has made it durable."""
        ...

    def sync(self, keys: Sequence[str]) -> list[str]:
        """Make objects durable. Returns the keys of those that the disk failed to sync; a missing one is not among them."""
        ...


def delete_each(objects: Objects, keys: Sequence[tuple[str, str]]) -> list[GravelerError | None]:
    """Do the work of :meth:`Objects.delete_many` for a store that takes one at a time."""
    errors: list[GravelerError | None] = []
    for key, etag in keys:
        try:
            objects.delete(key, if_match=etag)
            errors.append(None)
        except GravelerError as error:
            errors.append(error)
    return errors


PAGE: Final = 1000
"""Maximum number of names in a :class:`Page`."""
_LAST: Final = "\U0010ffff"
"""Sorts behind anything that a key can have in its place."""


def page_of(objects: Objects, prefix: str, after: str, *, folders: bool) -> Page:
    """Do the work of :meth:`Objects.page` for a store whose listings cost nothing to begin."""
    names: list[str] = []
    listing = objects.list(prefix, after)
    while (stored := next(listing, None)) is not None:
        name, slash, _ = stored.key[len(prefix) :].partition("/")
        folder = prefix + name + slash if folders and slash else ""
        if folder and names and names[-1] == folder:  # a key behind what sorts last
            listing = objects.list(prefix, stored.key)
            continue
        if len(names) == PAGE:
            return Page(names, True)
        names.append(folder or stored.key)
        if folder:
            listing = objects.list(prefix, max(stored.key, folder + _LAST))
    return Page(names, False)
