"""The folder that an export writes to: its state according to its marker, and changes to it that leave no partial files.

Its state is in a marker file. ``base`` is the commit that the folder held when an export was last complete (empty: no files at
all), ``targets`` the commits that exports have aimed at since and not reached: while there are some, each file is as in one of
all these. ``run`` is the export that has begun and not ended: work for any other export has to stop.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import md5
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Final, Literal

import msgspec

from graveler.errors import UNREADABLE, BusyError, ConflictError, CorruptError, LaterVersionError
from graveler.lake.objects.noted_times import noted_time
from graveler.lake.objects.verification import md5_of
from graveler.model import ObjectEntry, RepositoryUID
from graveler.storage.durable_files import make_folder, sync_file, unavailable
from graveler.storage.file_modes import PLAIN

MARKER: Final = ".graveler-export.json"
FORMAT_VERSION: Final = 1
_NEW_MARKER: Final = ".graveler-export.json.new"
_UNFINISHED: Final = ".graveler-export-unfinished"
OWN_NAMES: Final = frozenset((MARKER, _NEW_MARKER, _UNFINISHED))
_PIECE: Final = 1 << 20


class ExportFolderError(ConflictError):
    """The folder holds something other than an earlier export of the same."""


class ExportMarker(msgspec.Struct, frozen=True):
    """The contents of the marker file; see the module's docstring."""

    repository: RepositoryUID
    prefix: str
    state: Literal["started", "complete"]
    base: str
    targets: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION
    run: str = ""

    def begun(self, goal: str) -> "ExportMarker":
        """Return the marker of an export to commit ``goal`` that begins now."""
        targets = tuple(dict.fromkeys((*self.targets, goal)))
        return msgspec.structs.replace(self, state="started", targets=targets, run=token_hex(16))

    def ended(self, goal: str) -> "ExportMarker":
        """Return the marker of an export that has ended."""
        return msgspec.structs.replace(self, state="complete", base=goal, targets=(), run="")


def same_bytes(entry: ObjectEntry, other: ObjectEntry) -> bool:
    """Return whether two objects have the same bytes, as far as the lake knows. Without a known checksum, those at another
    address, or of another time, may differ."""
    if (entry.size, entry.checksum) != (other.size, other.checksum):
        return False
    if noted_time(entry.checksum) is not None:
        return entry.address == other.address
    return bool(entry.checksum) or (entry.address, entry.mtime) == (other.address, other.mtime)


class ExportFolder:
    """Files in ``root``, an absolute path, by their paths relative to it. Safe to share between threads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: set[str] = set()

    def marker(self) -> ExportMarker | None:
        """Return the folder's marker; None if the folder is empty, or does not exist.

        :class:`ExportFolderError` if it holds something else, :class:`CorruptError` for a damaged marker,
        :class:`LaterVersionError`.
        """
        try:
            data = (self.root / MARKER).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            self._refuse_contents()
            return None
        except OSError as error:
            raise unavailable(error, f"reading {str(self.root / MARKER)!r}") from None
        try:
            version = msgspec.json.decode(data, type=_Version).format_version
            if version > FORMAT_VERSION:
                raise LaterVersionError(f"the export in {str(self.root)!r}", version, FORMAT_VERSION)
            return msgspec.json.decode(data, type=ExportMarker)
        except UNREADABLE as error:
            raise CorruptError(f"{str(self.root / MARKER)!r} is damaged: {error}; export to a new folder") from None

    def mark(self, marker: ExportMarker) -> None:
        """Write the marker, durably and as a whole."""
        new = self.root / _NEW_MARKER
        with self._errors(MARKER):
            with new.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(marker)) + b"\n")
                file.flush()
                sync_file(file.fileno())
            new.replace(self.root / MARKER)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Create the folder if need be, and keep other exports out meanwhile, on file systems with locks.
        :class:`BusyError`."""
        with self._errors(""):
            make_folder(self.root, PLAIN)
            descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(f"another export to {str(self.root)!r} is in progress; wait until it is done") from None
            except OSError:
                pass  # Some network file systems have no locks for folders.
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def unfinished(self) -> Iterator[None]:
        """Provide a place for unfinished files, around calls of :meth:`write`."""
        folder = self.root / _UNFINISHED
        rmtree(folder, ignore_errors=True)
        with self._errors(""):
            folder.mkdir()
        try:
            yield
        finally:
            rmtree(folder, ignore_errors=True)

    def holds(self, name: str, entry: ObjectEntry, md5_stored: Callable[[], str] | None = None) -> bool | None:
        """Return whether the file has the bytes of ``entry``, judged by size and MD5. None if the checksum does not have the form
        of an MD5 and the size is right, so it is unknown. Reads the file if its size is right.

        A checksum in that form may be an ETag and not an MD5 (:mod:`graveler.lake.objects.verification`). So if it differs,
        ``md5_stored`` is called, if given, for the MD5 of the bytes that the store has.
        """
        path = self.root / name
        if self._size(name) != entry.size:
            return False
        noted = md5_of(entry)
        if not noted:
            return None
        digest = md5(usedforsecurity=False)
        with self._errors(name), path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
        actual = digest.hexdigest()
        return actual == noted or (md5_stored is not None and actual == md5_stored())

    def exists(self, name: str) -> bool:
        """Return whether anything but a folder has this name."""
        with self._errors(name), _absent():
            return not stat.S_ISDIR(os.lstat(self.root / name).st_mode)
        return False

    def is_folder(self, name: str) -> bool:
        """Return whether there is a folder of this name."""
        return (self.root / name).is_dir()

    def remove(self, name: str) -> bool:
        """Remove a file, and the folders that are empty without it; return False if there was none."""
        if not self._has_folder_of(name) or not self.exists(name):
            return False
        with self._errors(name):
            (self.root / name).unlink()
            folder = name.rpartition("/")[0]
            with suppress(OSError):  # the first that is not empty
                while folder:
                    (self.root / folder).rmdir()
                    folder = folder.rpartition("/")[0]
        return True

    def write(self, name: str, number: int, pieces: Callable[[], Iterator[bytes]]) -> None:
        """Make a file of these pieces, which appears as a whole or, if they raise, not at all. ``number`` is unique for each
        call. :class:`ExportFolderError` if something that no export made stands in its place."""
        unfinished = self.root / _UNFINISHED / str(number)
        with self._errors(name), unfinished.open("xb", buffering=0) as file:
            for piece in pieces():
                rest = memoryview(piece)
                while rest:
                    rest = rest[file.write(rest) :]
        self._make_folder_of(name)
        with self._errors(name):
            try:
                unfinished.replace(self.root / name)
            except IsADirectoryError:
                with suppress(OSError):
                    (self.root / name).rmdir()
                    unfinished.replace(self.root / name)
                    return
                raise self._in_the_way(name) from None

    def _refuse_contents(self) -> None:
        try:
            held = [path.name for path in self.root.iterdir() if path.name != _NEW_MARKER]
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise ExportFolderError(f"{str(self.root)!r} is not a folder; export to one") from None
        except OSError as error:
            raise unavailable(error, f"reading folder {str(self.root)!r}") from None
        if held:
            raise ExportFolderError(
                f"folder {str(self.root)!r} is neither empty nor an export (it contains {min(held)!r}); "
                "export to a new folder, or to one that an earlier export made"
            )

    def _size(self, name: str) -> int | None:
        """Return the size of the file; None if there is no file."""
        with self._errors(name), _absent():
            status = os.lstat(self.root / name)
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        return None

    def _has_folder_of(self, name: str) -> bool:
        """Return whether all entries above a file are folders, and not links to elsewhere."""
        slash = name.rfind("/")
        while slash > 0:
            with self._errors(name), _absent():
                if stat.S_ISDIR(os.lstat(self.root / name[:slash]).st_mode):
                    slash = name.rfind("/", 0, slash)
                    continue
            return False
        return True

    def _make_folder_of(self, name: str) -> None:
        slash = name.find("/")
        while slash > 0:
            folder = name[:slash]
            if folder not in self._folders:
                with self._errors(name):
                    with suppress(FileExistsError):
                        (self.root / folder).mkdir()
                    if not stat.S_ISDIR(os.lstat(self.root / folder).st_mode):
                        raise self._in_the_way(folder)
                self._folders.add(folder)
            slash = name.find("/", slash + 1)

    def _in_the_way(self, name: str) -> ExportFolderError:
        return ExportFolderError(
            f"{str(self.root / name)!r} is in the way, and was not exported; move it elsewhere, then export again"
        )

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unavailable(error, f"exporting to {str(self.root / name)!r}") from None


class _Version(msgspec.Struct):
    format_version: int


@contextmanager
def _absent() -> Iterator[None]:
    """Ignore the errors for a missing file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
