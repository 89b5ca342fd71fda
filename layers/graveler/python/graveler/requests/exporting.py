"""Requests that write objects of a lake to other places."""

from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Struct

from graveler.model import CommitID
from graveler.requests.base import Field, Permission, Request


class ExportReport(Struct, frozen=True):
    """The result of an export. ``written`` and ``removed`` are numbers of files, ``size`` is the bytes written. Files that were
    already correct do not count. ``left_out`` are the objects that cannot be files, path and reason, by path; not those that an
    earlier export left out and that have not changed since."""

    commit_id: CommitID
    written: int = 0
    removed: int = 0
    size: int = 0
    left_out: tuple[tuple[str, str], ...] = ()


class Export(Request[ExportReport], frozen=True, kw_only=True):
    """Make ``folder`` hold the objects of the ref's commit whose path begins with ``prefix``, named by the rest of the path.

    The folder is new, empty, or from an earlier export of this repository and prefix; files of that export that
    differ are written again or removed. The next export, of any commit, finishes one that was interrupted.
    Other files in the folder stay, unless an object has their name. Uncommitted changes are not exported. Objects that cannot be
    files are left out and reported: their path has an empty or too long name, ``.`` or ``..``, or ends with a slash (a folder
    marker), or it is also a folder of another object.

    With ``verify``, each exported file is first read and compared, and missing ones are written again; a file whose MD5 is not
    the lake's checksum is compared with the object's bytes, since an ETag may not be an MD5. Without it, changes made in the
    folder by others are neither detected nor kept. ``dry_run`` only counts. ``threads`` write files concurrently. Each object's
    bytes are compared with what the lake recorded, before their file appears. Files are not synced: after a power cut, use
    ``verify``.

    Cost: four times a diff with the previously exported commit (for a new folder: a listing of all), for each object that is new
    or gone a stat of the folders above and a listing of what is below it, in both commits, and a read of each object that
    differs. With ``verify``, also a read of each object whose checksum is not the MD5 of its file. Memory for some thousand
    entries.

    :class:`ExportFolderError`, :class:`ModifiedExportError`, :class:`BusyError`, :class:`DamagedObjectError`,
    :class:`PreconditionError` if the previously exported commit is gone,
    :class:`UnavailableError`.
    """

    permission: ClassVar = Permission.READ
    refs: ClassVar = ("ref",)
    implementation: ClassVar = "exporting.export:export_here"

    ref: str
    folder: Path
    prefix: str = ""
    verify: Annotated[bool, Field("First read and compare all files exported earlier.")] = False
    dry_run: Annotated[bool, Field("Show what would be done, without doing it.")] = False
    threads: Annotated[int, Field("Write N files in parallel.", metavar="N", least=1)] = 4
