"""The files of a folder, made from the objects of a commit."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from graveler.errors import InvalidError, UnavailableError
from graveler.gateway.run.folders.file_copies import FileCopier
from graveler.gateway.run.folders.places import FolderPlace
from graveler.gateway.run.folders.problems import listed
from graveler.lake.exporting.export_names import IS_MARKER, FileNames, unwritable
from graveler.lake.objects.verification import damaged
from graveler.model import ObjectEntry
from graveler.storage.durable_files import unavailable
from graveler.system.daemon_pool import in_threads
from graveler.system.progress import ObjectProgress

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_BATCH: Final = 32
"""The number of files that a thread writes at once."""
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
        names = FileNames.below(self._place.folder, frozenset())
        left_out = unwritable(self._objects, prefix, names)
        problems = [(path, reason) for path, reason in left_out.items() if reason != IS_MARKER]
        if problems:
            raise InvalidError(
                f"objects below {prefix!r} cannot be files in {str(self._place.folder)!r}: {listed(problems)}. The program did "
                "not run; rename these objects, or name a prefix without them"
            )
        written: set[str] = set()
        files = (entry for entry in self._objects() if entry.path not in left_out)
        for batch in in_threads("graveler-folder", self._write_batch, _batches(files), self._stop):
            written.update(batch)
        for path in left_out:
            name = path[len(prefix) :].rstrip("/")
            if names.problem(name) is None:
                with self._errors_of(name), suppress(FileExistsError, NotADirectoryError):
                    Path(self._path(name)).mkdir(parents=True)
        if self._place.read_only:
            self._forbid_new_files()
        return written

    def _objects(self) -> Iterator[ObjectEntry]:
        return self._repository.objects(self._commit, self._place.prefix)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _write_batch(self, entries: Sequence[ObjectEntry]) -> list[str]:
        names = [entry.path[len(self._place.prefix) :] for entry in entries]
        for name, entry in zip(names, entries, strict=True):
            self._go_on()
            with self._errors_of(name):
                self._write_file(name, entry)
            self._progress(1, entry.size)
        return names

    def _write_file(self, name: str, entry: ObjectEntry) -> None:
        path = self._path(name)
        above = name.rpartition("/")[0]
        if above not in self._folders:
            Path(self._path(above)).mkdir(parents=True, exist_ok=True)
            self._folders.add(above)
        source = self._repository.open_file(self._commit, entry)
        if source is None:
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        else:
            with source:
                target = self._copier.copy(source.fileno(), path)
        try:
            if source is None:
                for piece in self._repository.bytes_in(self._commit, entry):
                    self._go_on()
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[os.write(target, rest) :]
            size = os.fstat(target).st_size
            if size != entry.size:
                raise damaged(entry, self._commit, f"{size:,} bytes")
            os.utime(target, (entry.mtime, entry.mtime))
            if self._place.read_only:
                os.fchmod(target, _FILE_READ_ONLY)
        finally:
            os.close(target)

    def _forbid_new_files(self) -> None:
        for folder, _, _ in os.walk(self._root):
            with self._errors_of(folder[len(self._root) + 1 :]):
                os.chmod(folder, _FOLDER_READ_ONLY)  # noqa: PTH101

    def _errors_of(self, name: str) -> "_ErrorsOf":
        return _ErrorsOf(self._path(name))

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise UnavailableError("stopped because another file of the folder failed")


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


def _batches(entries: Iterator[ObjectEntry]) -> Iterator[list[ObjectEntry]]:
    while batch := list(islice(entries, _BATCH)):
        yield batch
