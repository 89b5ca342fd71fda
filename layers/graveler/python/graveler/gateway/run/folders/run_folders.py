"""The folders of a run: made for it, filled from its branch, and staged there at its end."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from graveler.errors import (
    BusyError,
    ConflictError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    MergeConflictError,
    PreconditionError,
    RuleError,
    UnavailableError,
)
from graveler.gateway.control import Tally, Volume
from graveler.gateway.run.folders.places import FolderPlace
from graveler.storage.durable_files import unavailable
from graveler.system.links import shown
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.system.temporary_files import try_lock

if TYPE_CHECKING:
    from graveler.gateway.run.folders.folder_changes import FolderChanges
    from graveler.gateway.run.folders.folder_scan import FileState
    from graveler.remote.any_repository import AnyRepository

ShownProgress: TypeAlias = Callable[[str], AbstractContextManager[ObjectProgress]]
"""Shows progress of some work with files, named by a verb such as "copying", for a block."""

_PAGE: Final = 1000


def _no_progress(_: str) -> AbstractContextManager[ObjectProgress]:
    return nullcontext(no_object_progress)


class RunFolders:
    """The folders of a run, in their order; for one attempt after the other."""

    def __init__(self, places: Sequence[FolderPlace] = (), progress: ShownProgress = _no_progress) -> None:
        self._places = tuple(places)
        self._progress = progress
        self._folders: tuple[RunFolder, ...] = ()
        self._stay = self._succeeded = False
        self.remaining: tuple[Path, ...] = ()
        """The folders that were left where they are: after a failure, or because they could not be removed."""

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make the folders for a block. At its end they are removed, unless they are to stay. So they are if the program has
        succeeded, and its work could not be published, and is on no branch.

        :class:`PreconditionError` for one that is not empty, :class:`BusyError` for one that another run has,
        :class:`UnavailableError`.
        """
        self._stay = self._succeeded = False
        claimed: list[RunFolder] = []
        try:
            for place in self._places:
                claimed.append(RunFolder(place))  # noqa: PERF401 - those before one that fails are removed
            self._folders = tuple(claimed)
            yield
        except GravelerError as error:
            is_published_later = isinstance(error, RuleError) and error.waits
            is_elsewhere = bool(error.kept) or isinstance(error, MergeConflictError) or is_published_later
            self._stay = self._stay or (self._succeeded and not is_elsewhere)
            raise
        finally:
            remaining = []
            for folder in claimed:
                if (self._stay or not folder.remove()) and os.path.lexists(folder.place.folder):
                    remaining.append(folder.place.folder)
                folder.release()
            self.remaining = tuple(remaining)

    def stay(self) -> None:
        """Leave the folders where they are at the end of the block."""
        self._stay = True

    def fill(self, repository: "AnyRepository", ref: str) -> None:
        """Write the files, as of the last commit of ``ref``. Cost: resolving, and :meth:`FolderFilling.write` of each; waiting
        for a step of the file system's clock. Errors of that."""
        if self._folders:
            commit = repository.commit_of(ref).id
            with self._progress("copying") as progress:
                for folder in self._folders:
                    folder.fill(repository, commit, progress)

    def stage(self, repository: "AnyRepository", branch: str, close: Callable[[], Tally]) -> Tally:
        """Stage on a branch what the program changed, once it has succeeded. First ``close`` ends all other writes of the branch,
        and returns their tally; return that with the folders' changes. After an error nothing may be published.

        Cost: :func:`changes_of` and :meth:`FolderChanges.stage`; if there are changes, a listing of the branch's other changes.
        :class:`InvalidError` for what no object can be, :class:`ForbiddenError` for changes of a read-only folder,
        :class:`ConflictError` for an object that was changed both in a folder and on the branch, :class:`UnavailableError`.
        """
        self._succeeded = True
        tally = close()
        changes = [folder.changes(repository) for folder in self._folders]
        _refuse_problems(changes)
        _refuse_changes_of_read_only([change for change in changes if change.place.read_only])
        for folder, change in zip(self._folders, changes, strict=True):
            folder.refuse_conflicts(repository, branch, change)
        with self._progress("staging") as progress:
            for change in changes:
                objects, size = change.stage(repository, branch, progress)
                tally = replace(
                    tally,
                    written=Volume(objects=tally.written.objects + objects, bytes=tally.written.bytes + size),
                    deleted=tally.deleted + len(change.deleted),
                )
        return tally


class RunFolder:
    """A folder of a run, claimed for it. See :meth:`RunFolders.made` for errors."""

    def __init__(self, place: FolderPlace) -> None:
        self.place = place
        self._root = os.path.realpath(place.folder)
        self._commit = ""
        self._states: dict[str, FileState] = {}
        self._by_content = False
        try:
            self._is_new = _make(self._root)
            self._mode = stat.S_IMODE(os.stat(self._root).st_mode)  # noqa: PTH116
            self._descriptor = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise PreconditionError(
                f"folder {str(place.folder)!r} cannot be made, for the one above it does not exist; make that first"
            ) from None
        except NotADirectoryError:
            raise PreconditionError(
                f"{str(place.folder)!r} is not a folder; `--folder` makes a folder of files, so name a new or empty one"
            ) from None
        except OSError as error:
            raise unavailable(error, f"making folder {str(place.folder)!r}") from None
        try:
            self._claim()
        except BaseException:
            self.release()
            raise

    def fill(self, repository: "AnyRepository", commit: str, progress: ObjectProgress) -> None:
        """Write the files. Errors of :meth:`RunFolders.fill`."""
        from graveler.gateway.run.folders.file_clock import FileClock, notes_mapped_writes  # few runs have folders
        from graveler.gateway.run.folders.filling import FolderFilling
        from graveler.gateway.run.folders.folder_scan import FolderScan

        folder = str(self.place.folder)
        try:
            self._by_content = not notes_mapped_writes(self._root)
            names = FolderFilling(self.place, self._root, repository, commit, progress).write()
            scan = FolderScan(self._root)
            if scan.problems or scan.states.keys() != names:
                strange = [path for path, _ in scan.problems] + sorted(scan.states.keys() ^ names)
                raise UnavailableError(
                    f"the file system of {folder!r} has other files than were written: {shown(strange)}; use a folder on another "
                    "one"
                )
            FileClock(self._root).wait(max((state[2] for state in scan.states.values()), default=0))
        except OSError as error:
            raise unavailable(error, f"filling folder {folder!r}") from None
        self._commit, self._states = commit, scan.states

    def changes(self, repository: "AnyRepository") -> "FolderChanges":
        """Return what the program changed. Errors of :func:`changes_of`."""
        from graveler.gateway.run.folders.folder_changes import changes_of  # few runs have folders

        folder = str(self.place.folder)
        try:
            if os.path.realpath(self.place.folder) != self._root or not stat.S_ISDIR(os.lstat(self._root).st_mode):
                raise NotADirectoryError
            return changes_of(
                self.place, self._root, self._states, repository, self._commit, by_content=self._by_content
            )
        except (FileNotFoundError, NotADirectoryError):
            raise InvalidError(
                f"folder {folder!r} is gone, is no folder any more, or leads elsewhere, so its changes are unknown, and nothing "
                "was published; to delete all objects, let the program delete the files, and leave the folder"
            ) from None
        except OSError as error:
            raise unavailable(error, f"reading folder {folder!r}") from None

    def refuse_conflicts(self, repository: "AnyRepository", branch: str, changes: "FolderChanges") -> None:
        """Raise :class:`ConflictError` if what was changed in the folder was changed on the branch, too. Cost: without changes
        none; else reading the branch, and a listing of its changes below the prefix."""
        if not changes.written and not changes.deleted:
            return
        paths = sorted(
            _changed_paths(repository, branch, self._commit, self.place.prefix).intersection(changes.paths())
        )
        if paths:
            raise ConflictError(
                f"the program changed {shown(paths)} both in folder {str(self.place.folder)!r} and past it, through the gateway, "
                "and only one version could be published, so none was; let it write each object in one way"
            )

    def remove(self) -> bool:
        """Remove the folder, or all that is in it if it was there before. Return False if some of it remains."""
        try:
            if not stat.S_ISDIR(os.lstat(self._root).st_mode):
                return False
            _open_up(self._root)
            if self._is_new:
                rmtree(self._root)
                return True
            with os.scandir(self._root) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        rmtree(entry.path)
                    else:
                        os.unlink(entry.path)  # noqa: PTH108
            os.chmod(self._root, self._mode)  # noqa: PTH101
        except FileNotFoundError:
            return not os.path.lexists(self._root)
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let other runs have the folder."""
        os.close(self._descriptor)

    def _claim(self) -> None:
        if try_lock(self._descriptor) is False:
            raise BusyError(
                f"another run works in folder {str(self.place.folder)!r}; wait for its end, or name another one"
            )
        if any(Path(self._root).iterdir()):
            raise PreconditionError(
                f"folder {str(self.place.folder)!r} is not empty, and `--folder` fills a new or empty one. If an earlier run was "
                "killed, or left it after a failure, it holds that run's files: take from them what you need, and remove it"
            )


def _make(root: str) -> bool:
    """Make a folder, unless it is there. Return whether it is new."""
    try:
        os.mkdir(root)  # noqa: PTH102
    except FileExistsError:
        return False
    return True


def _open_up(folder: str) -> None:
    """Let this process remove all that is below a folder."""
    os.chmod(folder, stat.S_IRWXU)  # noqa: PTH101
    with os.scandir(folder) as entries:
        inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in inner:
        _open_up(path)


def _refuse_problems(changes: Sequence["FolderChanges"]) -> None:
    from graveler.gateway.run.folders.problems import listed  # few runs have folders

    problems = [(f"{change.place.folder}/{name}", reason) for change in changes for name, reason in change.problems]
    if problems:
        raise InvalidError(f"the folder cannot be published, and nothing was: {listed(problems)}")


def _refuse_changes_of_read_only(changes: Sequence["FolderChanges"]) -> None:
    names = [
        f"{change.place.folder}/{name}"
        for change in changes
        for name in (*(file.name for file in change.written), *change.deleted)
    ]
    if names:
        raise ForbiddenError(
            f"the program changed {shown(names)} in a folder that is only read, and nothing was published; let it write "
            "elsewhere, or leave :ro out"
        )


def _changed_paths(repository: "AnyRepository", branch: str, commit: str, prefix: str) -> set[str]:
    """Return the paths below a prefix that a branch has otherwise than the commit that it began with."""
    paths: set[str] = set()
    after: str | None = ""
    while after is not None:
        page = repository.uncommitted(branch, prefix=prefix, after=after, amount=_PAGE)
        paths.update(change.path for change in page.results)
        after = page.next_after
    head = repository.commit_of(branch).id
    after = None if head == commit else ""
    while after is not None:
        page = repository.diff(commit, head, prefix=prefix, after=after, amount=_PAGE)
        paths.update(change.path for change in page.results)
        after = page.next_after
    return paths
