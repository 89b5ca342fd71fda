"""The embedded lake: a folder with a SQLite table and the objects beside it. No account, no server, no set-up.

::

    <folder>/graveler.json        format version
    <folder>/tables.sqlite        refs, commits, uncommitted changes
    <folder>/sealing.key          seals the secrets in the table; made when it is first needed
    <folder>/turns                the queues for changing a branch, on this machine; may be removed at any time
    <folder>/cache/               makes commits and pages cheaper; may be removed at any time
    <folder>/objects/<name>/      one namespace, ``local://<name>``, for each repository
"""

import math
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from graveler.errors import (
    UNREADABLE,
    AlreadyExistsError,
    CorruptError,
    ForbiddenError,
    InvalidError,
    LaterVersionError,
    NotFoundError,
    UnavailableError,
)
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.opening.closed_folders import closed_to_user
from graveler.lake.opening.folder_permissions import QUEUE_FILE, FolderPermissions
from graveler.lake.opening.lake_parts import Surroundings, TreeSettings
from graveler.lake.opening.repositories import LAKE
from graveler.runtime.local import processors
from graveler.storage.durable_files import make_folder, unavailable
from graveler.storage.file_locks import AVAILABLE
from graveler.storage.file_modes import GROUP, PRIVATE, Modes
from graveler.storage.limits import check_object_key
from graveler.storage.machine_queue import MachineQueue
from graveler.storage.objects.cache import FileCache
from graveler.storage.objects.confined_folder import Confinement, trusted_path
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.namespaces import locate, open_namespace
from graveler.storage.objects.port import ObjectConditionError, Objects
from graveler.storage.objects.presigned import UrlSigner
from graveler.storage.secrets.key_file import LakeKeyFile
from graveler.storage.secrets.keyring import URL_SECRET, Keyring, SharedSecret
from graveler.storage.tables.sqlite import SqliteTables

FORMAT_VERSION: Final = 1
MARKER: Final = "graveler.json"
SCHEME: Final = "local://"
_FILE: Final = "file://"
_ROOT: Final = "file:///"
_WRITES_AT_ONCE: Final = 4
"""Files of a tree that are written concurrently: while a disk syncs some, the next ones are made."""
_NOTES_BYTES: Final = 1 << 30
"""Space for the notes on some thirty million records."""
_LONGEST_PART: Final = 255
"""The maximum length of a name in bytes, in most file systems."""
_SYSTEM: Final = (Path("/proc"), Path("/sys"), Path("/dev"))
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - not to write there
ANY_SOURCE: Final = (f"{_FILE}{_MEMORY}/", _ROOT, "s3://")
"""All sources, for a server of the lake's own user alone."""


_BELIEVED: Final = 5.0
"""Seconds for which the way to a folder is trusted to have no links, once it had none."""
_FOLDERS: Final = 1024
"""The number of such folders to remember."""
_ONLY_READ: Final = (
    "the lake in {!r} can only be read: its disk is read-only, or this user may not write there. What is read of its table is a "
    "private copy in the temporary folder"
)
_NEVER: Final = ((0, 0), -math.inf)


class Shared(str, Enum):
    """The users of a lake in a folder: its owner alone, or the owner's group, too."""

    NO = "no"
    GROUP = "group"

    @property
    def modes(self) -> Modes:
        """The permissions of the lake's files and folders."""
        return GROUP if self is Shared.GROUP else PRIVATE


class _Marker(msgspec.Struct, frozen=True, omit_defaults=True):
    format_version: int
    shared: Shared = Shared.NO


def create_folder_lake(folder: Path, *, clock: Clock | None = None, shared: Shared = Shared.NO) -> Lake:
    """Create an empty lake in a folder, which is created if need be; all of it is durable afterwards. An existing empty folder
    of this user gets the lake's permissions. :class:`AlreadyExistsError` if it already holds a lake."""
    exists = AlreadyExistsError("lake", str(folder), "open it, or choose another folder")
    try:
        if (folder / MARKER).exists():
            raise exists
        make_folder(folder, shared.modes)
        if not any(folder.iterdir()):
            with suppress(PermissionError):  # another user's, who lets this one write there
                folder.chmod(shared.modes.folder)
    except OSError as error:
        if isinstance(error, PermissionError) and folder.exists():
            raise closed_to_user(folder, is_lake=False) from None
        raise unavailable(error, f"making a lake in {str(folder)!r}") from None
    # The marker is written last: a folder with it is a lake that can be opened.
    tables = SqliteTables(folder / "tables.sqlite", modes=shared.modes)
    tables.get(LAKE)  # makes the file
    try:
        FolderObjects(folder, modes=shared.modes).put(
            MARKER, msgspec.json.encode(_Marker(FORMAT_VERSION, shared)), if_absent=True
        )
    except ObjectConditionError:
        raise exists from None
    keyring = Keyring(tables, LakeKeyFile(folder, shared.modes))
    return _lake(folder, tables, clock, shared.modes, keyring)


def open_folder_lake(
    folder: Path,
    *,
    clock: Clock | None = None,
    base_url: str | None = None,
    memory: int | None = None,
    sources: Sequence[str] | None = None,
    url_secret: bytes | None = None,
) -> Lake:
    """Open the lake in a folder. :class:`NotFoundError` if there is none, :class:`LaterVersionError`,
    :class:`UnavailableError` if this user may not open it.

    ``base_url`` and ``url_secret`` are for a server that answers presigned URLs, by :func:`url_signer`; without ``base_url``
    there are no such URLs. ``memory`` is as for :class:`Lake`. With ``sources``, even an empty sequence, it is a server's lake,
    limited by :class:`ServedFolders`.
    """
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except FileNotFoundError:
        raise NotFoundError(f"there is no lake in {str(folder)!r}; create one with `graveler init {folder}`") from None
    except PermissionError:
        raise closed_to_user(folder, is_lake=True) from None
    except OSError as error:
        raise UnavailableError(f"cannot read {str(folder / MARKER)!r}: {error.strerror}") from None
    except UNREADABLE as error:
        raise CorruptError(f"{str(folder / MARKER)!r} is damaged: {error}") from None
    if marker.format_version > FORMAT_VERSION:
        raise LaterVersionError(f"the lake in {str(folder)!r}", marker.format_version, FORMAT_VERSION)
    tables = SqliteTables(folder / "tables.sqlite", create=False, modes=marker.shared.modes)
    modes = marker.shared.modes
    keyring = Keyring(tables, LakeKeyFile(folder, modes))
    signer = None if base_url is None else url_signer(keyring, base_url, url_secret)
    served = None if sources is None else ServedFolders(folder, sources, signer, modes)
    return _lake(folder, tables, clock, modes, keyring, signer, memory, served)


def url_signer(keyring: Keyring, base_url: str, secret: bytes | None = None) -> UrlSigner:
    """Return a signer that makes and checks presigned URLs below ``base_url``, with ``secret``, or with the current secret of the
    lake, which all its processes share. Cost: none; for the lake's, one table read now and then, when URLs are made or
    checked."""
    return UrlSigner(base_url, SharedSecret(keyring, URL_SECRET).fresh if secret is None else secret)


def folder_store(folder: Path, namespace: str, signer: UrlSigner | None = None, modes: Modes = PRIVATE) -> Objects:
    """Return the objects of a namespace, for the lake in ``folder``: ``local://<name>`` lies in it, others at their address.
    ``modes`` are the permissions of new files there."""
    if not namespace.startswith(SCHEME):
        return open_namespace(namespace, signer, modes=modes)
    return FolderObjects(_inside(folder, namespace), namespace, signer, modes)


class ServedFolders:
    """The folders that a server of the lake in ``folder`` reads and writes for its clients: nothing behind a symbolic link, and
    outside of repositories only what lies below one of the addresses ``sources``. ``signer`` and ``modes`` as for
    :func:`folder_store`. :class:`InvalidError` for a source that is not an address, :class:`ForbiddenError` for one behind a link
    of another user."""

    def __init__(self, folder: Path, sources: Sequence[str], signer: UrlSigner | None, modes: Modes = PRIVATE) -> None:
        self._folder = folder
        self._signer = signer
        self._modes = modes
        self._sources = tuple(source if source.endswith("/") else f"{source}/" for source in sources)
        roots = {source: Path(source.removeprefix(_FILE)) for source in self._sources if source.startswith(_FILE)}
        self._seen = _SeenFolders()
        """Those without links on the way to them."""
        self._roots = {
            source: FolderObjects(root, signer=signer, foreign=True, confinement=self._beside(root))
            for source, root in roots.items()
        }

    def store(self, namespace: str) -> Objects:
        """Return the objects of a repository's namespace. No request. :class:`ForbiddenError` behind a link of another user."""
        if namespace.startswith(_FILE):
            confinement = self._beside(Path(namespace.removeprefix(_FILE)))
            return open_namespace(namespace, self._signer, modes=self._modes, confinement=confinement)
        if not namespace.startswith(SCHEME):
            return folder_store(self._folder, namespace, self._signer, self._modes)
        root = _inside(self._folder, namespace)
        return FolderObjects(root, namespace, self._signer, self._modes, confinement=Confinement())

    def source(self, namespace: str) -> Objects | None:
        """Return the objects of the source with this address, if it is a folder."""
        return self._roots.get(f"{namespace}/")

    def outside(self, address: str) -> tuple[Objects, str]:
        """Return the store and key of an address outside of the repository that names it.
        :class:`ForbiddenError` for one that is below no source, in the lake's own folder, or behind a link."""
        for source, store in self._roots.items():
            if address.startswith(source):
                key = address.removeprefix(source)
                file = store.name_of(key)
                with suppress(OSError):  # a folder that does not exist may be created later
                    if not self._seen.has(file):  # reading the file makes the full check
                        with suppress(FileNotFoundError):  # and so may an object
                            store.files.status(Path(file))
                        self._seen.add(file)
                return store, key
        if address.startswith(_FILE) or not address.startswith(self._sources):
            from shlex import quote  # only for this error

            folder = quote(f"{address.rpartition('/')[0]}/")
            raise ForbiddenError(
                f"{address[:200]!r} is outside the sources that this server reads; to let it read them, start it with `graveler "
                f"serve --import-source {folder}`, or a folder above"
            )
        return locate(address, self._signer)

    def _beside(self, root: Path) -> Confinement:
        in_memory = trusted_path(root).is_relative_to(_MEMORY)
        never = (self._folder, *(() if in_memory else _SYSTEM))
        statuses = [path.stat() for path in never if path.exists()]
        identities = frozenset((status.st_dev, status.st_ino) for status in statuses)
        return Confinement(str(_MEMORY) if in_memory else "/", identities)


class _SeenFolders:
    """Folders of files that were checked a short while ago, with their device and inode, and until when that is trusted."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}

    def has(self, file: str) -> bool:
        """Return whether the file's folder is one of them, and the file is not a link. Two system calls, while a check takes one
        or more for each folder above. ``OSError``."""
        folder = file.rpartition("/")[0]
        identity, expires = self._seen.get(folder, _NEVER)
        if time.monotonic() > expires:
            return False
        status = os.stat(folder)  # noqa: PTH116 - a path object takes as long as the system call
        return (status.st_dev, status.st_ino) == identity and not _is_link(file)

    def add(self, file: str) -> None:
        """Note that the folder of a file was checked. ``OSError``."""
        folder = file.rpartition("/")[0]
        status = os.stat(folder)  # noqa: PTH116 - as above
        if len(self._seen) >= _FOLDERS:
            self._seen.clear()
        self._seen[folder] = (status.st_dev, status.st_ino), time.monotonic() + _BELIEVED


def _is_link(file: str) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(file).st_mode)
    except FileNotFoundError:
        return False


def _inside(folder: Path, namespace: str) -> Path:
    name = namespace.removeprefix(SCHEME)
    try:
        check_object_key(name)
    except InvalidError:
        raise InvalidError(f"storage namespace {namespace!r} is not of the form {SCHEME}<name>") from None
    if any(len(part.encode()) > _LONGEST_PART for part in name.split("/")):
        raise InvalidError(
            f"storage namespace {namespace[:80]}… has a part of more than {_LONGEST_PART} bytes, too long for the name of a "
            "folder; choose a shorter one"
        )
    return folder / "objects" / name


def _lake(
    folder: Path,
    tables: SqliteTables,
    clock: Clock | None,
    modes: Modes,
    keyring: Keyring,
    signer: UrlSigner | None = None,
    memory: int | None = None,
    served: ServedFolders | None = None,
) -> Lake:
    may_write = tables.may_write()
    # Without a place for them, notes are kept in memory.
    notes = FileCache(folder / "cache", _NOTES_BYTES, math.inf, modes=modes) if may_write else None
    return Lake(
        tables,
        served.store if served else lambda namespace: folder_store(folder, namespace, signer, modes),
        clock=clock,
        trees=TreeSettings(
            notes=notes,
            workers=processors(),
            writes_at_once=_WRITES_AT_ONCE,
            on_disk=True,
            memory=memory,
            serves_pages=served is not None,
        ),
        surroundings=Surroundings(
            close=tables.close,
            folder_permissions=FolderPermissions(folder, modes),
            keyring=keyring,
            machine_queue=MachineQueue(folder / QUEUE_FILE, modes) if AVAILABLE and may_write else None,
            notice="" if may_write else _ONLY_READ.format(str(folder)),
            writable=may_write,
        ),
        outside=served.outside if served else _OwnSources(folder, signer).outside,
    )


class _OwnSources:
    """Sources outside of repositories for a user of the library: all that they may read, except the lake's own folder. Otherwise
    a user with permission to write to one repository could link the table, or another one's objects, and read them. The system's
    virtual files are excluded, too: the environment of a process has its secrets."""

    def __init__(self, folder: Path, signer: UrlSigner | None) -> None:
        self._folder = folder
        self._signer = signer
        self._files = FolderObjects(Path("/"), signer=signer, foreign=True)
        self._seen = _SeenFolders()

    def outside(self, address: str) -> tuple[Objects, str]:
        """Return the store and key of an address outside of the repository that names it. :class:`ForbiddenError`."""
        if not address.startswith(_ROOT):
            return locate(address, self._signer)
        key = address[len(_ROOT) :]
        file = self._files.name_of(key)
        with suppress(OSError):  # a folder that does not exist may be created later
            if self._seen.has(file):
                return self._files, key
        path = os.path.realpath(file)
        if _is_within(path, os.path.realpath(self._folder)):
            raise ForbiddenError(f"{address!r} is in the lake's own folder, which cannot be used as a source")
        if any(_is_within(path, str(system)) for system in _SYSTEM) and not _is_within(path, str(_MEMORY)):
            raise ForbiddenError(f"{address!r} is not a regular file but a view of the system, and cannot be an object")
        with suppress(OSError):
            if not _is_link(file):
                self._seen.add(file)
        return self._files, key


def _is_within(path: str, folder: str) -> bool:
    """Return whether a real path is a folder's, or below it. (``Path`` takes ten times as long, and each open asks.)"""
    return path == folder or path.startswith(folder if folder == "/" else f"{folder}/")
