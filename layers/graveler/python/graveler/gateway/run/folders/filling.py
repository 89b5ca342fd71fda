"""The files of a folder, made from the objects of a commit."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from graveler.errors import InvalidError, UnavailableError
from graveler.gateway.run.folders.file_copies import FileCopier
from graveler.gateway.run.folders.places import FolderPlace
from graveler.gateway.run.folders.problems import listed
from graveler.lake.exporting.export_names import IS_MARKER, FileNames, unwritable
from graveler.lake.objects.noted_times import noted_time
from graveler.lake.objects.verification import damaged
from graveler.model import ObjectEntry
from graveler.storage.durable_files import unavailable
from graveler.storage.objects.folder_writer import write_all
from graveler.system.daemon_pool import in_threads
from graveler.system.progress import ObjectProgress

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_FILE_READ_ONLY: Final = 0o444
_FOLDER_READ_ONLY: Final = 0o555


class FolderFilling:
    """The files of a place, for the objects of a commit. An empty folder is at ``root``."""

    def __init__(
        self, place: FolderPlace, root: str, repository: "AnyRepository", commit: str, progress: ObjectProgress
    ) -> None:
        self._place = place
        self._root = root
        self._repository = repository
        self._commit = commit
        self._progress = progress
        self._copier = FileCopier()
        self._stop = Event()
        self._folders: set[str] = set()

    def write(self) -> set[str]:
        """Write all files, and return their names. Objects that are empty folder markers become folders.

        A file of a folder lake is cloned or copied by the operating system, and only its size compared; other objects are
        downloaded, several at a time, and verified. Cost: two listings, and a read of each object. :class:`InvalidError` for
        objects that cannot be files side by side, before the first one is written; :class:`UnavailableError` for a full disk and
        its like; errors of reading. After an error some files are there.
        """
        prefix = self._place.prefix
        names = FileNames.below(Path(self._root), frozenset())
        left_out = unwritable(self._objects, prefix, names)
        problems = [(path, reason) for path, reason in left_out.items() if reason != IS_MARKER]
        if problems:
            raise InvalidError(
                f"objects below {prefix!r} cannot be files in {str(self._place.folder)!r}: {listed(problems)}. The program did "
                "not run; rename these objects, or name a prefix without them"
            )
        self._refuse_object()
        written: set[str] = set()
        files = (entry for entry in self._objects() if entry.path not in left_out)
        for _ in in_threads("graveler-folder", self._download, self._copied(files, written), self._stop):
            pass
        for path in left_out:
            name = path[len(prefix) :].rstrip("/")
            if names.problem(name) is None:
                with self._errors_of(name), suppress(FileExistsError, NotADirectoryError):
                    Path(self._path(name)).mkdir(parents=True)
        if self._place.read_only:
            self._forbid_new_files()
        return written

    def _refuse_object(self) -> None:
        """Refuse a prefix that is the path of an object, and of nothing below it. Cost: the beginnings of two listings."""
        path = self._place.prefix.rstrip("/")
        entry = next(self._repository.objects(self._commit, path), None) if path else None
        if entry is not None and entry.path == path and next(self._objects(), None) is None:
            raise InvalidError(
                f"{path!r} is an object, and `--folder` makes files of the objects below a prefix. The program did not run; name "
                "the prefix above it"
            )

    def _objects(self) -> Iterator[ObjectEntry]:
        return self._repository.objects(self._commit, self._place.prefix)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _copied(self, entries: Iterable[ObjectEntry], written: set[str]) -> Iterator[ObjectEntry]:
        """Copy objects that are files, and yield the others. Add the names of all to ``written``. In one thread: for small files
        more of them only wait for one another."""
        for entry in entries:
            name = self._name(entry)
            written.add(name)
            self._make_folder_of(name)
            source = self._repository.open_file(self._commit, entry)
            if source is None:
                yield entry
                continue
            with source, self._errors_of(name):
                self._expect_noted_time(source.fileno(), entry)
                self._finish(self._copier.copy(source.fileno(), self._path(name)), entry)

    def _download(self, entry: ObjectEntry) -> None:
        name = self._name(entry)
        with self._errors_of(name):
            target = os.open(self._path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                for piece in self._repository.bytes_in(self._commit, entry):
                    if self._stop.is_set():
                        raise UnavailableError("stopped because another file of the folder failed")
                    write_all(target, piece)
            except BaseException:
                os.close(target)
                raise
            self._finish(target, entry)

    def _finish(self, descriptor: int, entry: ObjectEntry) -> None:
        """Check the size of a written file, set its time and permissions, and close it."""
        try:
            size = os.fstat(descriptor).st_size
            if size != entry.size:
                raise damaged(entry, self._commit, f"{size:,} bytes")
            os.utime(descriptor, (entry.mtime, entry.mtime))
            if self._place.read_only:
                os.fchmod(descriptor, _FILE_READ_ONLY)
        finally:
            os.close(descriptor)
        self._progress(1, entry.size)

    def _expect_noted_time(self, descriptor: int, entry: ObjectEntry) -> None:
        """Check the time of a file that was imported by size and time."""
        noted = noted_time(entry.checksum)
        status = os.fstat(descriptor)
        if noted is not None and status.st_mtime_ns != noted:
            raise damaged(entry, self._commit, f"{status.st_size:,} bytes modified since")

    def _name(self, entry: ObjectEntry) -> str:
        return entry.path[len(self._place.prefix) :]

    def _make_folder_of(self, name: str) -> None:
        folder = name.rpartition("/")[0]
        if folder not in self._folders:
            with self._errors_of(name):
                Path(self._path(folder)).mkdir(parents=True, exist_ok=True)
            self._folders.add(folder)

    def _forbid_new_files(self) -> None:
        for folder, _, _ in os.walk(self._root):
            with self._errors_of(folder[len(self._root) + 1 :]):
                os.chmod(folder, _FOLDER_READ_ONLY)  # noqa: PTH101

    def _errors_of(self, name: str) -> "_ErrorsOf":
        return _ErrorsOf(self._path(name))


class _ErrorsOf:
    """A block whose ``OSError`` is raised as one of writing a file."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise unavailable(error, f"writing {self._path!r}") from error
