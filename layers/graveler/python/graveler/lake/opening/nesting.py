"""The rule that storage namespaces never nest: everything below a namespace belongs to its repository.

A creator reads all repositories, and those deleted ones whose data still exists. Its transaction detects concurrent
creations: it checks that no namespace above its own is taken, and leaves a note above itself that something was created below.
A note names the last such repository, and stays; a creator of the namespace that it is about checks that it is unchanged since
the repositories were read. So if two concurrent creators nest, the one whose transaction comes second fails. Lakes
of earlier versions have no notes, and need none.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError, InvalidError
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.opening.repositories import DELETED_PARTITION, PARTITION, namespace_key, repository_key, uid_of
from graveler.lake.text import utf8
from graveler.model import Repository
from graveler.storage.limits import text_key
from graveler.storage.tables.port import Absent, Check, Condition, Item, Key, Matches, Put, Tables, Write
from graveler.system.forks import new_lock

BELIEVED: Final = 5.0
"""Seconds for which :meth:`Neighbours.owners` trusts what it has read."""
MAX_FOLDERS: Final = 32
"""The maximum number of folders of a new namespace: each takes two writes of the transaction."""
INGEST_RULES: Final = "ingest/rules"
"""The partition with each repository's ingest rules; the ``sources`` of an item are folders, whose objects become its own."""
_NOTES: Final = "namespaces-above"
_BY: Final = "by"
_LOCAL: Final = "local://"
_FILE: Final = "file://"


class Owner(Struct, frozen=True):
    """A repository and its namespace. ``location`` is the place that the namespace means, by whatever name. ``deleted``: only its
    data still exists."""

    name: str
    uid: str
    namespace: str
    location: str
    deleted: bool


class Neighbours:
    """The namespaces of one lake. ``folder`` is the lake's own folder, if it has one: file addresses are then compared by real
    path. ``monotonic`` is a clock, in seconds."""

    def __init__(
        self, tables: Tables, folder: Path | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tables = tables
        self._folder = folder
        self._objects = None if folder is None else f"{folder.absolute()}/objects"
        self._monotonic = monotonic
        self._lock = new_lock()
        self._known: tuple[float, tuple[Owner, ...], dict[str, Owner]] | None = None

    def all(self) -> Iterator[Owner]:
        """Yield repositories, then deleted ones. One table read for each thousand of each. :class:`CorruptError`."""
        real = _RealPaths()
        for partition in (PARTITION, DELETED_PARTITION):
            for sort, item in scan(self._tables, partition):
                if isinstance(item, DamagedItem):
                    if item.rest:
                        raise CorruptError(f"the index of storage namespaces cannot be read: {item.reason}")
                    continue  # the item of its namespace still reserves that
                owner = self._owner(partition, text_key(partition, sort), item, real)
                if owner is not None:
                    yield owner

    def nested(self, repository: Repository) -> list[Owner]:
        """Return the other repositories whose namespace lies in the repository's, or contains it. Cost as :meth:`all`."""
        location = self.location(repository.namespace)
        return [
            owner
            for owner in self.all()
            if owner.uid != repository.uid
            and owner.namespace != repository.namespace
            and _overlap(location, owner.location)
        ]

    def creating(self, repository: Repository) -> list[Write]:
        """Return the writes for the creating transaction that make it fail if the repository's namespace and another one have
        come to nest since. One table read, and as :meth:`all`. :class:`InvalidError` if they nest now."""
        above = _above(repository.namespace)
        if len(above) > MAX_FOLDERS:
            raise InvalidError(
                f"storage namespace {repository.namespace} has {len(above)} folders; choose one with at most {MAX_FOLDERS}"
            )
        key = _note_key(repository.namespace)
        note = self._tables.get(key)
        self._refuse_own_folder(repository.namespace)
        for other in self.nested(repository):
            how = "is inside" if _holds(other.location, self.location(repository.namespace)) else "contains"
            whose = f"repository {other.name!r}" + (
                ", which was deleted but still has data there" if other.deleted else ""
            )
            raise InvalidError(
                f"storage namespace {repository.namespace} {how} {other.namespace} of {whose}; everything below a namespace "
                "belongs to its repository, so choose one next to it"
            )
        self._refuse_ingested(repository)
        unchanged: Condition = Absent() if note is None else Matches({_BY: note.get(_BY)})
        writes: list[Write] = [Check(key, unchanged)]
        for namespace in above:
            writes.append(Check(namespace_key(namespace), Absent()))
            writes.append(Put(_note_key(namespace), {_BY: repository.uid, "namespace": namespace}))
        return writes

    def owners(self, address: str, *, prefix: bool = False) -> list[Owner]:
        """Return the owners of the namespaces that contain an object's address, and with ``prefix`` also of those below it, or
        that hold some of it. Repositories created by others within the last :data:`BELIEVED` seconds may be missing. As
        :meth:`all`, once in so many seconds."""
        owners, by_location = self._believed()
        above, _, name = address.rpartition("/")
        location = f"{self.location(above)}/{name}"
        neighbours = [by_location[namespace] for namespace in _above(location) if namespace in by_location]
        if prefix:
            neighbours += [owner for owner in owners if f"{owner.location}/".startswith(location)]
        return neighbours

    def common(self, folder: str, owner: Owner) -> str:
        """Return the part of a folder, whose address ends with a slash, that is the owner's, as such an address."""
        location = self.location(folder.rstrip("/") if not folder.endswith("://") else folder)
        return (
            folder
            if _holds(owner.location, location)
            else f"{folder}{owner.location.removeprefix(location).lstrip('/')}/"
        )

    def forget(self) -> None:
        """Forget what was read, so that the next call reads again."""
        with self._lock:
            self._known = None

    def location(self, address: str, real: Callable[[str], str] = os.path.realpath) -> str:
        """Return the place of an address: for files the path without symbolic links, which ``real`` finds."""
        if self._folder is None:
            return address
        if address.startswith(_LOCAL):
            return _FILE + real(f"{self._objects}/{address.removeprefix(_LOCAL)}")
        if address.startswith(_FILE):
            return _FILE + real(address.removeprefix(_FILE) or "/").rstrip("/")
        return address

    def _believed(self) -> tuple[Sequence[Owner], dict[str, Owner]]:
        now = self._monotonic()
        with self._lock:
            if self._known is None or now >= self._known[0]:
                owners = tuple(self.all())
                self._known = now + BELIEVED, owners, {owner.location: owner for owner in owners}
            return self._known[1:]

    def _owner(self, partition: str, name: str, item: Item, real: Callable[[str], str]) -> Owner | None:
        namespace = item.get("namespace")
        if not isinstance(namespace, str) or not namespace:
            return None  # repositories that an early version deleted have none
        if partition == PARTITION:
            return Owner(name, str(uid_of(item)), namespace, self.location(namespace, real), False)
        return Owner(str(item.get("name")), name, namespace, self.location(namespace, real), True)

    def _refuse_ingested(self, repository: Repository) -> None:
        location = self.location(repository.namespace)
        for uid, item in scan(self._tables, INGEST_RULES):
            if isinstance(item, DamagedItem):
                continue
            name, sources = str(item.get("repository")), item.get("sources")
            for source in sources if isinstance(sources, list) else ():
                if _overlap(location, self.location(source).rstrip("/")) and self._is_live(name, uid):
                    raise InvalidError(
                        f"storage namespace {repository.namespace} and {source}, from which repository {name!r} ingests, "
                        "overlap: it would ingest what is written here; choose another one"
                    )

    def _is_live(self, name: str, uid: bytes) -> bool:
        item = self._tables.get(repository_key(name))
        return item is not None and str(uid_of(item)).encode() == uid

    def _refuse_own_folder(self, namespace: str) -> None:
        if self._folder is None or not namespace.startswith(_FILE):
            return
        if _overlap(self.location(namespace), _FILE + os.path.realpath(self._folder)):
            raise InvalidError(
                f"storage namespace {namespace} is in the lake's own folder, or contains it; choose local://NAME, or one next "
                "to it"
            )


class _RealPaths:
    """A fast ``os.path.realpath`` for many paths, most of which lie in the same folders: each folder is checked once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        real = self._known.get(path)
        if real is None:
            above, _, name = path.rpartition("/")
            if path[:1] != "/" or name in ("", ".", ".."):
                return os.path.realpath(path)
            real = f"{self(above).rstrip('/') if above else ''}/{name}"
            if os.path.islink(real):  # noqa: PTH114 - of ten thousand, a Path each would take as long again
                real = os.path.realpath(real)
            self._known[path] = real
        return real


def _above(address: str) -> list[str]:
    """Return the folders in which an address lies, the outermost first."""
    scheme, _, path = address.partition("://")
    parts = path.split("/")
    return [f"{scheme}://{'/'.join(parts[:end])}" for end in range(1, len(parts)) if parts[end - 1]]


def _holds(outer: str, inner: str) -> bool:
    return f"{inner}/".startswith(f"{outer}/")


def _overlap(location: str, other_location: str) -> bool:
    return _holds(location, other_location) or _holds(other_location, location)


def _note_key(namespace: str) -> Key:
    return Key(_NOTES, sha256(utf8("storage namespace", namespace)).digest())
