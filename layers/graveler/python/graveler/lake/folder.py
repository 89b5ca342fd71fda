"""The embedded lake: a folder with a SQLite table and the objects beside it. No account, no server, no set-up.

::

    <folder>/graveler.json        format version
    <folder>/tables.sqlite        refs, commits, uncommitted changes
    <folder>/cache/               what makes commits cheaper; may be removed at any time
    <folder>/objects/<name>/      one namespace, ``local://<name>``, for each repository
"""

import math
from pathlib import Path
from typing import Final

import msgspec

from graveler.errors import AlreadyExistsError, CorruptError, InvalidError, NotFoundError, UnavailableError
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.repositories import LAKE
from graveler.storage.cache import FileCache
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.limits import check_object_key
from graveler.storage.namespaces import open_namespace
from graveler.storage.objects import ObjectConditionError, Objects
from graveler.storage.sqlite_tables import SqliteTables

FORMAT_VERSION: Final = 1
MARKER: Final = "graveler.json"
SCHEME: Final = "local://"
_NOTES_BYTES: Final = 256 << 20
"""Record IDs of eight million records."""


class _Marker(msgspec.Struct, frozen=True):
    format_version: int


def create_folder_lake(folder: Path, *, clock: Clock | None = None) -> Lake:
    """Make an empty lake in a folder, which is created if need be. :class:`AlreadyExistsError` if there is one."""
    taken = AlreadyExistsError("lake", str(folder), "open it, or choose another folder")
    try:
        if (folder / MARKER).exists():
            raise taken
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"cannot make a lake in {str(folder)!r}: {error.strerror}") from None
    # The marker goes last: a folder with it is a lake that can be opened.
    tables = SqliteTables(folder / "tables.sqlite")
    tables.get(LAKE)  # makes the file
    try:
        FolderObjects(folder).put(MARKER, msgspec.json.encode(_Marker(FORMAT_VERSION)), if_absent=True)
    except ObjectConditionError:
        raise taken from None
    return _lake(folder, tables, clock)


def open_folder_lake(folder: Path, *, clock: Clock | None = None) -> Lake:
    """The lake in a folder. :class:`NotFoundError` if there is none, :class:`InvalidError` for a newer format."""
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except FileNotFoundError:
        raise NotFoundError(f"there is no lake in {str(folder)!r}; make one with `graveler init {folder}`") from None
    except OSError as error:
        raise UnavailableError(f"cannot read {str(folder / MARKER)!r}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise CorruptError(f"{str(folder / MARKER)!r} is damaged: {error}") from None
    if marker.format_version > FORMAT_VERSION:
        raise InvalidError(
            f"the lake in {str(folder)!r} has format {marker.format_version}; this graveler knows formats up to "
            f"{FORMAT_VERSION}: use a newer one"
        )
    return _lake(folder, SqliteTables(folder / "tables.sqlite", create=False), clock)


def _lake(folder: Path, tables: SqliteTables, clock: Clock | None) -> Lake:
    def open_objects(namespace: str) -> Objects:
        if not namespace.startswith(SCHEME):
            return open_namespace(namespace)
        name = namespace.removeprefix(SCHEME)
        try:
            check_object_key(name)
        except InvalidError:
            raise InvalidError(f"storage namespace {namespace!r} is not of the form {SCHEME}<name>") from None
        return FolderObjects(folder / "objects" / name, namespace)

    notes = FileCache(folder / "cache", _NOTES_BYTES, math.inf)
    return Lake(tables, open_objects, clock=clock, notes=notes, close=tables.close)
