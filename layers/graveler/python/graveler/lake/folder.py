"""The embedded lake: a folder with a SQLite table and the objects beside it. No account, no server, no set-up.

::

    <folder>/graveler.json        format version
    <folder>/tables.sqlite        refs, commits, uncommitted changes
    <folder>/cache/               what makes commits cheaper; may be removed at any time
    <folder>/objects/<name>/      one namespace, ``local://<name>``, for each repository
"""

import math
from contextlib import suppress
from enum import Enum
from pathlib import Path
from secrets import token_bytes
from typing import Final

import msgspec

from graveler.errors import (
    UNREADABLE,
    AlreadyExistsError,
    CorruptError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from graveler.lake.clock import Clock
from graveler.lake.folder_permissions import FolderPermissions
from graveler.lake.lake import Lake
from graveler.lake.repositories import LAKE
from graveler.storage.cache import FileCache
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.folders import make_folder, unavailable
from graveler.storage.limits import check_object_key
from graveler.storage.modes import GROUP, PRIVATE, Modes
from graveler.storage.namespaces import locate, open_namespace
from graveler.storage.objects import ObjectConditionError, Objects
from graveler.storage.presigned import UrlSigner
from graveler.storage.sqlite_tables import SqliteTables
from graveler.storage.tables import Absent, ConditionFailedError, Key, Tables
from graveler.tree.files import processors

FORMAT_VERSION: Final = 1
MARKER: Final = "graveler.json"
SCHEME: Final = "local://"
_WRITES_AT_ONCE: Final = 4
"""Files of a tree: while a disk makes sure of some, the next ones are made."""
_NOTES_BYTES: Final = 1 << 30
"""What is noted of some thirty million records."""
_SYSTEM: Final = (Path("/proc"), Path("/sys"), Path("/dev"))
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - not to write there
_URL_SECRET: Final = Key("lake", b"url-secret")
_SECRET_BYTES: Final = 32


class Shared(str, Enum):
    """Who may use the files of a lake in a folder: its owner alone, or the owner's group, too."""

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
    """Make an empty lake in a folder, which is created if need be; all of it is durable afterwards. A folder of this user
    that is there and empty gets the lake's permissions. :class:`AlreadyExistsError` if there is one."""
    taken = AlreadyExistsError("lake", str(folder), "open it, or choose another folder")
    try:
        if (folder / MARKER).exists():
            raise taken
        make_folder(folder, shared.modes)
        if not any(folder.iterdir()):
            with suppress(PermissionError):  # another user's, who lets this one write there
                folder.chmod(shared.modes.folder)
    except OSError as error:
        raise unavailable(error, f"making a lake in {str(folder)!r}") from None
    # The marker goes last: a folder with it is a lake that can be opened.
    tables = SqliteTables(folder / "tables.sqlite", modes=shared.modes)
    tables.get(LAKE)  # makes the file
    try:
        FolderObjects(folder, modes=shared.modes).put(
            MARKER, msgspec.json.encode(_Marker(FORMAT_VERSION, shared)), if_absent=True
        )
    except ObjectConditionError:
        raise taken from None
    return _lake(folder, tables, clock, shared.modes)


def open_folder_lake(
    folder: Path, *, clock: Clock | None = None, base_url: str | None = None, memory: int | None = None
) -> Lake:
    """The lake in a folder. :class:`NotFoundError` if there is none, :class:`InvalidError` for a newer format.

    ``base_url`` is where a server answers presigned URLs, by :func:`url_signer` and :func:`folder_store`; without one there are
    no such URLs. ``memory`` as for :class:`Lake`.
    """
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except FileNotFoundError:
        raise NotFoundError(f"there is no lake in {str(folder)!r}; make one with `graveler init {folder}`") from None
    except OSError as error:
        raise UnavailableError(f"cannot read {str(folder / MARKER)!r}: {error.strerror}") from None
    except UNREADABLE as error:
        raise CorruptError(f"{str(folder / MARKER)!r} is damaged: {error}") from None
    if marker.format_version > FORMAT_VERSION:
        raise InvalidError(
            f"the lake in {str(folder)!r} has format {marker.format_version}; this graveler knows formats up to "
            f"{FORMAT_VERSION}: use a newer one"
        )
    tables = SqliteTables(folder / "tables.sqlite", create=False, modes=marker.shared.modes)
    signer = None if base_url is None else url_signer(tables, base_url)
    return _lake(folder, tables, clock, marker.shared.modes, signer, memory)


def url_signer(tables: Tables, base_url: str) -> UrlSigner:
    """What makes and checks presigned URLs below ``base_url``, with the lake's secret, which all its processes share.
    Cost: one table read; a write for the first one."""
    for _ in range(2):
        item = tables.get(_URL_SECRET)
        secret = b"" if item is None else item.get("secret", b"")
        if item is not None and (not isinstance(secret, bytes) or len(secret) < _SECRET_BYTES):
            raise CorruptError(f"the lake's secret for presigned URLs ({_URL_SECRET}) is damaged; delete that item")
        if isinstance(secret, bytes) and secret:
            return UrlSigner(base_url, secret)
        with suppress(ConditionFailedError):  # another process was faster, and its secret is read now
            tables.put(_URL_SECRET, {"secret": token_bytes(_SECRET_BYTES)}, Absent())
    raise CorruptError(f"the lake's secret for presigned URLs ({_URL_SECRET}) does not stay where it is written")


def folder_store(folder: Path, namespace: str, signer: UrlSigner | None = None, modes: Modes = PRIVATE) -> Objects:
    """The objects of a namespace, for the lake in ``folder``: ``local://<name>`` lies in it, others where they say. ``modes`` are
    the permissions of what is made there."""
    if not namespace.startswith(SCHEME):
        return open_namespace(namespace, signer, modes=modes)
    name = namespace.removeprefix(SCHEME)
    try:
        check_object_key(name)
    except InvalidError:
        raise InvalidError(f"storage namespace {namespace!r} is not of the form {SCHEME}<name>") from None
    return FolderObjects(folder / "objects" / name, namespace, signer, modes)


def _lake(
    folder: Path,
    tables: SqliteTables,
    clock: Clock | None,
    modes: Modes,
    signer: UrlSigner | None = None,
    memory: int | None = None,
) -> Lake:
    notes = FileCache(folder / "cache", _NOTES_BYTES, math.inf, modes=modes)
    return Lake(
        tables,
        lambda namespace: folder_store(folder, namespace, signer, modes),
        clock=clock,
        notes=notes,
        workers=processors(),
        writes_at_once=_WRITES_AT_ONCE,
        on_disk=True,
        outside=lambda address: _outside(folder, address, signer),
        memory=memory,
        close=tables.close,
        folder_permissions=FolderPermissions(folder, modes),
    )


def _outside(folder: Path, address: str, signer: UrlSigner | None) -> tuple[Objects, str]:
    """The object at an address outside of the repository that names it. The lake's own folder is no such place: whoever may write
    to one repository could link the table, or another one's objects, and read them. Nor is what the system shows as files: the
    environment of a process has its secrets. :class:`ForbiddenError`."""
    objects, key = locate(address, signer)
    if isinstance(objects, FolderObjects):
        place = objects.file_of(key).resolve()
        if place.is_relative_to(folder.resolve()):
            raise ForbiddenError(
                f"{address!r} lies in the lake's own folder, which is not to be read from outside of it"
            )
        if any(place.is_relative_to(system) for system in _SYSTEM) and not place.is_relative_to(_MEMORY):
            raise ForbiddenError(f"{address!r} is no file but a view of the system, and no object of a lake")
    return objects, key
