"""Requests that write objects of a lake to where others read them."""

from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from graveler.model import CommitID
from graveler.requests.base import Permission, Request


class ExportReport(Struct, frozen=True):
    """What an export did. ``written`` and ``removed`` are numbers of files, ``size`` is the bytes written. Files that were as
    they should be do not count."""

    commit_id: CommitID
    written: int = 0
    removed: int = 0
    size: int = 0


class Export(Request[ExportReport], frozen=True, kw_only=True):
    """Make ``folder`` hold the objects of the ref's commit whose path begins with ``prefix``, named by what follows it.

    The folder is new, empty, or one that an earlier export from this repository and prefix made; what that one wrote and
    differs is written again or removed. An export that did not come to its end is finished by the next one, to whatever commit.
    Other files in the folder stay, unless an object has their name. Uncommitted changes are not exported.

    With ``verify``, each exported file is read and compared first, and what is missing is written again; a file whose MD5 is
    not the lake's checksum is compared with the object's bytes, since an ETag may be no MD5. Without it, changes that somebody
    made in the folder are neither seen nor kept. ``dry_run`` only counts. ``threads`` write files at the same time. Each object's
    bytes are compared with what the lake noted, before their file appears. Files are not synced: after a power cut, use
    ``verify``.

    Cost: three times a diff with the commit exported before (of a new folder: a listing of all), for each object
    that is new a stat of it and of the folders above, and a read of each that
    differs. With ``verify``, also a read of each object whose checksum is not the MD5 of its file. Memory for some thousand
    entries.

    :class:`UnwritableKeysError` lists all objects that cannot be files, before anything is changed; :class:`ExportFolderError`,
    :class:`ModifiedExportError`, :class:`BusyError`, :class:`DamagedObjectError`,
    :class:`PreconditionError` if the commit that was exported before is gone,
    :class:`UnavailableError`.
    """

    permission: ClassVar = Permission.READ
    refs: ClassVar = ("ref",)

    ref: str
    folder: Path
    prefix: str = ""
    verify: bool = False
    dry_run: bool = False
    threads: int = 4
