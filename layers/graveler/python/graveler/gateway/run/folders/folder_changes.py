"""The changes that a program made in a folder: by the states of its files first, and by their bytes where these differ."""

import os
from collections.abc import Iterator
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.errors import UnavailableError
from graveler.gateway.protocol.object_headers import http_metadata
from graveler.gateway.run.folders.file_clock import FileClock
from graveler.gateway.run.folders.folder_scan import FileState, FolderScan, Problem, name_problem, state_of
from graveler.gateway.run.folders.open_files import has_writer
from graveler.gateway.run.folders.places import FolderPlace
from graveler.lake.context import Context
from graveler.lake.objects.uploads import size_and_md5
from graveler.lake.objects.verification import md5_of
from graveler.model import ObjectEntry
from graveler.requests.staging import Delete, Upload
from graveler.system.daemon_pool import in_threads
from graveler.system.progress import ObjectProgress

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository

_DELETED_AT_ONCE: Final = 1000


class ChangedFile(Struct, frozen=True):
    """A file that is new or differs, with its state and the object that it was, None for a new one."""

    name: str
    state: FileState
    before: ObjectEntry | None


class FolderChanges(Struct, frozen=True):
    """The changes of a folder: ``written`` and ``deleted`` files, and what cannot be published (``problems``)."""

    place: FolderPlace
    root: str
    written: tuple[ChangedFile, ...]
    deleted: tuple[str, ...]
    problems: tuple[Problem, ...]

    def paths(self) -> Iterator[str]:
        """Yield the paths of the objects that these changes change."""
        prefix = self.place.prefix
        yield from (prefix + file.name for file in self.written)
        yield from (prefix + name for name in self.deleted)

    def stage(self, repository: "AnyRepository", branch: str, progress: ObjectProgress) -> tuple[int, int]:
        """Stage all changes, and return the numbers of objects and bytes written. Cost: an upload of each written file, several
        at a time, and a delete. :class:`UnavailableError` for a file that changes meanwhile; errors of an upload. After an error
        some are staged."""
        size = 0
        upload = partial(self._upload, repository, branch, progress)
        for written in in_threads("graveler-folder", upload, self.written):
            size += written
        for start in range(0, len(self.deleted), _DELETED_AT_ONCE):
            names = self.deleted[start : start + _DELETED_AT_ONCE]
            repository.run(Delete(branch=branch, objects=tuple(self.place.prefix + name for name in names)))
        return len(self.written), size

    def _upload(self, repository: "AnyRepository", branch: str, progress: ObjectProgress, file: ChangedFile) -> int:
        path = Path(self.root, file.name)
        request = Upload(
            branch=branch,
            path=self.place.prefix + file.name,
            content_type="" if file.before is None else file.before.content_type,
            metadata={} if file.before is None else http_metadata(file.before.metadata),
        )
        entry = repository.run(request, Context(body=path, progress=progress))
        expect_state(str(path), file.state)
        return entry.size


def changes_of(
    place: FolderPlace,
    root: str,
    states: dict[str, FileState],
    repository: "AnyRepository",
    commit: str,
    *,
    by_content: bool = False,
) -> FolderChanges:
    """Return what was changed in a folder since its files had these ``states``, and were the objects of a commit. With
    ``by_content`` the bytes of all files are compared.

    Only after a program has ended: a file that is changed from now on is a problem. Cost: :class:`FolderScan`; for those whose
    state differs a stat, and if their size is the same a read of the file. :class:`InvalidError` if there is no folder;
    :class:`UnavailableError`.
    """
    clock = FileClock(root)
    end = clock.now()
    clock.wait(end)
    scan = FolderScan(root)
    problems = list(scan.problems)
    suspects = [name for name, state in scan.states.items() if by_content or states.get(name) != state]
    for name in suspects:
        if scan.states[name][2] > end:
            problems.append((name, "was changed after the end of the program; let it wait for its children"))
        elif has_writer(f"{root}/{name}"):
            problems.append((name, "is still open for writing; let the program wait for its children"))
        elif name not in states and (reason := name_problem(place.prefix, name)):
            problems.append((name, reason))
    deleted = tuple(sorted(states.keys() - scan.states.keys()))
    if problems:
        return FolderChanges(place, root, (), deleted, tuple(sorted(problems)))
    before = _entries(repository, commit, place.prefix, [name for name in suspects if name in states])
    files = [ChangedFile(name, scan.states[name], before.get(name)) for name in sorted(suspects)]
    of_same_size = [file for file in files if file.before is not None and file.before.size == file.state[0]]
    has_same_bytes = partial(_has_same_bytes, root, repository, commit)
    compared = zip(of_same_size, in_threads("graveler-folder", has_same_bytes, of_same_size), strict=True)
    same = {file.name for file, is_same in compared if is_same}
    return FolderChanges(place, root, tuple(file for file in files if file.name not in same), deleted, ())


def expect_state(path: str, state: FileState) -> None:
    """Check that a file still has a state. :class:`UnavailableError`."""
    try:
        current = state_of(os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        current = None
    if current != state:
        raise UnavailableError(
            f"{path!r} changed while it was being read, after the end of the program; let the program wait for its children"
        )


def _entries(repository: "AnyRepository", commit: str, prefix: str, names: list[str]) -> dict[str, ObjectEntry]:
    if not names:
        return {}
    entries = repository.stat_many(commit, [prefix + name for name in names])
    return {name: entry for name, entry in zip(names, entries, strict=True) if entry is not None}


def _has_same_bytes(root: str, repository: "AnyRepository", commit: str, file: ChangedFile) -> bool:
    """Return whether a file has the bytes of the object that it was, and whose size it has. A checksum in the form of an MD5 may
    be an ETag that is none (:mod:`graveler.lake.objects.verification`), so if it differs, the bytes in the store count."""
    entry = file.before
    assert entry is not None
    path = f"{root}/{file.name}"
    _, digest = size_and_md5(Path(path))
    expect_state(path, file.state)
    if digest == md5_of(entry):
        return True
    stored = md5(usedforsecurity=False)
    for piece in repository.bytes_in(commit, entry, verify=False):
        stored.update(piece)
    return digest == stored.hexdigest()
