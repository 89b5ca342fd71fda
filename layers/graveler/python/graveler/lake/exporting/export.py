"""Export: write the objects of a ref to a folder, and later update that folder to another commit, by the differences alone.

The folder is changed in this order: the marker says *started*, files are removed, files are written (each appears as a whole),
the marker says *complete*. However an export ends before that, the marker tells the next one which files may be in which states;
it checks those, and finishes.

Objects that cannot be files are left out: those with a name that no file can have, and those that are also a folder of another
object. Both follow from a commit alone, so the files that a commit stands for are known without a note of what was left out.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from functools import lru_cache, partial
from hashlib import md5
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from threading import Event
from typing import Final, Protocol

import msgspec

from graveler.errors import (
    BusyError,
    ConflictError,
    DamagedObjectError,
    InvalidError,
    NotFoundError,
    ObjectNotFoundError,
    PreconditionError,
    RefNotFoundError,
)
from graveler.lake.context import Context
from graveler.lake.exporting.export_folder import (
    OWN_NAMES,
    ExportFolder,
    ExportFolderError,
    ExportMarker,
    same_bytes,
)
from graveler.lake.exporting.export_names import (
    IS_ALIKE,
    IS_FOLDER,
    FileNames,
    files_that_are_folders,
    unwritable,
)
from graveler.lake.parts import RepositoryParts
from graveler.lake.reading.reader import RepositoryReader
from graveler.model import Change, Commit, CommitID, CommonPrefix, ObjectEntry, Page, Repository
from graveler.requests.exporting import Export, ExportReport
from graveler.system.daemon_pool import DaemonPool
from graveler.system.progress import ObjectProgress

_PAGE: Final = 1000
_IN_FLIGHT: Final = 64
"""The number of files being written ahead of the one that is waited for, which bounds the memory."""
_KNOWN_FOLDERS: Final = 4096
_SHOWN: Final = 10

_Change = tuple[str, CommitID, ObjectEntry | None, ObjectEntry | None]
"""A path, the commit that changes it, and how: before and after."""


class ExportedRepository(Protocol):
    """The verbs of a repository that an export needs, those of
    :class:`graveler.lake.repository.OpenRepository`."""

    @property
    def repository(self) -> Repository: ...
    def commit_of(self, ref: str) -> Commit: ...
    def stat(self, ref: str, path: str) -> ObjectEntry: ...
    def list_objects(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ObjectEntry | CommonPrefix]: ...
    def objects(self, ref: str, prefix: str = "") -> Iterator[ObjectEntry]: ...
    def diff(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]: ...
    def stream(self, ref: str, path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]: ...
    def bytes_in(
        self, ref: str, entry: ObjectEntry, start: int = 0, length: int | None = None, *, verify: bool = True
    ) -> Iterator[bytes]: ...


class ModifiedExportError(ConflictError):
    """Exported files were changed. ``paths`` are all of them, in order, relative to the folder."""

    def __init__(self, folder: Path, paths: Iterable[str]) -> None:
        self.folder, self.paths = folder, tuple(paths)
        number = len(self.paths)
        super().__init__(
            f"{number} file{'s' if number != 1 else ''} in {str(folder)!r} {'were' if number != 1 else 'was'} changed since the "
            "export: "
            f"{', '.join(map(repr, self.paths[:_SHOWN]))}{', …' if number > _SHOWN else ''}. Nothing was changed; move them "
            "elsewhere or delete them, then export again: missing files are written again"
        )


def export(repository: ExportedRepository, request: Export, context: Context) -> ExportReport:
    """See :class:`graveler.requests.exporting.Export`."""
    ref, folder, prefix, verify = request.ref, request.folder, request.prefix, request.verify
    dry_run, threads, progress = request.dry_run, request.threads, context.progress
    if prefix and not prefix.endswith("/"):
        raise InvalidError(f"prefix {prefix!r} of an export must be empty or end with '/'")
    if threads < 1:
        raise InvalidError(f"threads is {threads}; an export needs at least 1")
    goal = repository.commit_of(ref).id
    target = ExportFolder(folder.absolute())
    marker = target.marker()
    before = marker or ExportMarker(repository.repository.uid, prefix, "complete", "")
    _refuse_other(target, before, repository, prefix)
    if marker is not None and marker.state == "complete" and marker.base == goal and not verify:
        return ExportReport(goal)
    run = _Run(repository, target, before, goal, verify=verify, progress=progress, threads=threads)
    if verify:
        run.check_files()
    if dry_run:
        return run.estimate()
    left_out = run.left_out()
    with target.claimed():
        if target.marker() != marker:
            raise BusyError(f"another export to {str(target.root)!r} has finished meanwhile; export again")
        started = before.begun(goal)
        target.mark(started)
        with target.unfinished():
            removed = run.remove()
            written, size = run.write()
        target.mark(started.ended(goal))
    return ExportReport(goal, written, removed, size, left_out)


class _Step(msgspec.Struct, frozen=True):
    """A file that may have to change: into ``target``, from being absent or one of the objects ``possible``, each of a commit.
    ``before`` is what it was when an export was last complete."""

    name: str
    path: str
    before: ObjectEntry | None
    target: ObjectEntry | None
    possible: tuple[tuple[CommitID, ObjectEntry], ...]


class _Run:
    """One export. Each pass over the steps computes them anew, from commits, so that nothing has to be kept."""

    def __init__(
        self,
        repository: ExportedRepository,
        target: ExportFolder,
        marker: ExportMarker,
        goal: CommitID,
        *,
        verify: bool,
        progress: ObjectProgress,
        threads: int,
    ) -> None:
        self._repository = repository
        self._folder = target
        self._goal = goal
        self._prefix = marker.prefix
        self._base = self._known(marker.base) if marker.base else None
        self._others = [self._known(commit) for commit in marker.targets if commit != goal]
        self._interrupted = marker.state == "started"
        self._verify = verify
        self._progress = progress
        self._threads = threads
        self._stopped = Event()
        self._names = FileNames.below(target.root, OWN_NAMES)
        self._object_at = lru_cache(_KNOWN_FOLDERS)(self._look_up)
        self._same_names: dict[CommitID, AbstractSet[str]] = {}
        self._pairs: dict[tuple[CommitID | None, CommitID], Mapping[str, tuple[bool, bool]]] = {}

    # Passes

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Return the objects that this export leaves out, path and reason. Those that were left out before and did not change are
        not among them."""
        problems: dict[str, str] = {}
        for path, _, _, after in self._differences(self._base, self._goal):
            if after is not None and (problem := self._names.problem_of(after, self._prefix)) is not None:
                problems[path] = problem
        was, now = self._alike(self._base), self._alike(self._goal)
        contested = self._contested(self._base, self._goal)
        problems |= {path: IS_FOLDER for path, (_, left_out) in contested.items() if left_out and path not in now}
        problems |= dict.fromkeys(now - was, IS_ALIKE)
        return tuple(sorted(problems.items()))

    def check_files(self) -> None:
        """Raise :class:`ModifiedExportError` unless each file is missing, or in a state that an export gave it."""
        modified = [step.name for step in self._steps() if self._folder.exists(step.name) and not self._is_ours(step)]
        if modified:
            raise ModifiedExportError(self._folder.root, modified)

    def estimate(self) -> ExportReport:
        """Return what the next two passes would do."""
        removed = written = size = 0
        for step in self._steps():
            if step.target is None:
                removed += self._folder.exists(step.name)
            elif not self._is_there(step, step.target):
                written += 1
                size += step.target.size
        return ExportReport(self._goal, written, removed, size, self.left_out())

    def remove(self) -> int:
        """Remove what the goal does not have; first, since a new file may need a folder where an old file is. Return the number
        of files."""
        return sum(self._folder.remove(step.name) for step in self._steps() if step.target is None)

    def write(self) -> tuple[int, int]:
        """Write the files of the goal that differ. Return the numbers of files and bytes."""
        written = size = 0
        with DaemonPool(self._threads, "graveler-export") as pool:
            waiting: deque[Future[int | None]] = deque()
            numbers = count()
            try:
                steps = self._steps()
                while True:
                    step = next(steps, None)
                    if step is not None and step.target is not None:
                        waiting.append(pool.submit(self._bring, step, step.target, next(numbers)))
                    if step is None and not waiting:
                        return written, size
                    if waiting and (step is None or len(waiting) >= _IN_FLIGHT):
                        done = waiting.popleft().result()
                        if done is not None:
                            written += 1
                            size += done
                            self._progress(1, done)
            except BaseException:  # Ctrl-C too: no thread continues, and unfinished files are not in place
                self._stopped.set()
                raise

    # Steps

    def _steps(self) -> Iterator[_Step]:
        """Yield the files that may have to change, in the order of their names."""
        goal = self._changes(self._base, self._goal)
        alternatives: list[Iterator[_Change]] = [self._changes(self._base, other) for other in self._others]
        if self._verify and self._base is not None:
            alternatives.append((path, base, entry, entry) for path, base, _, entry in self._changes(None, self._base))
        merged = heapq.merge(goal, *alternatives, key=itemgetter(0))
        for path, group in groupby(merged, key=itemgetter(0)):
            changes = list(group)
            before = changes[0][2]
            target = next((after for _, commit, _, after in changes if commit == self._goal), before)
            states = [(self._base, before), *((commit, after) for _, commit, _, after in changes)]
            possible = tuple((commit, entry) for commit, entry in states if commit is not None and entry is not None)
            yield _Step(path[len(self._prefix) :], path, before, target, possible)

    def _changes(self, old: CommitID | None, new: CommitID) -> Iterator[_Change]:
        """Yield what turns the files of one commit, or nothing, into those of another, in the order of the paths."""
        contested = self._contested(old, new)
        for path, _, before, after in self._with_unchanged(sorted(contested), self._differences(old, new), new):
            was, now = contested.get(path, (False, False))
            file_before, file_after = None if was else before, None if now else after
            if (file_before or file_after) and self._names.problem(path[len(self._prefix) :]) is None:
                yield path, new, file_before, file_after

    def _with_unchanged(
        self, paths: Sequence[str], differences: Iterator[_Change], commit: CommitID
    ) -> Iterator[_Change]:
        """Yield the differences, and the objects at those ``paths`` that are the same on both sides."""
        waiting = deque(paths)
        for change in differences:
            while waiting and waiting[0] < change[0]:
                yield self._unchanged(waiting.popleft(), commit)
            if waiting and waiting[0] == change[0]:
                waiting.popleft()
            yield change
        while waiting:
            yield self._unchanged(waiting.popleft(), commit)

    def _unchanged(self, path: str, commit: CommitID) -> _Change:
        entry = self._repository.stat(commit, path)
        return path, commit, entry, entry

    def _differences(self, old: CommitID | None, new: CommitID) -> Iterator[_Change]:
        """Yield what turns one commit, or nothing, into another, in the order of the paths."""
        if old is None:
            for entry in self._repository.objects(new, self._prefix):
                yield entry.path, new, None, entry
            return
        after: str | None = ""
        while after is not None:
            page = self._repository.diff(old, new, prefix=self._prefix, after=after, amount=_PAGE)
            for change in page.results:
                yield change.path, new, change.before, change.after
            after = page.next_after

    def _known(self, commit_id: str) -> CommitID:
        try:
            return self._repository.commit_of(commit_id).id
        except RefNotFoundError:
            raise PreconditionError(
                f"{str(self._folder.root)!r} contains an export of commit {commit_id[:16]}, which is gone, so it is unknown what "
                "differs; export to a new folder"
            ) from None

    # Names

    def _contested(self, old: CommitID | None, new: CommitID) -> Mapping[str, tuple[bool, bool]]:
        """Return the objects that cannot be files beside another one, in either commit, as far as that may have changed between
        them: whether that is so in the first and in the second."""
        contested = self._pairs.get((old, new))
        if contested is None:
            folders = dict(self._new_folders(new) if old is None else self._changed_folders(old, new))
            was, now = self._alike(old), self._alike(new)
            for path in was | now:
                before, after = folders.get(path, (False, False))
                folders[path] = before or path in was, after or path in now
            contested = self._pairs[old, new] = folders
        return contested

    def _alike(self, commit: CommitID | None) -> AbstractSet[str]:
        """Return the objects of a commit whose file would be that of another one, if the file system ignores case."""
        if commit is None or not self._names.folds:
            return frozenset()
        alike = self._same_names.get(commit)
        if alike is None:
            left_out = unwritable(lambda: self._repository.objects(commit, self._prefix), self._prefix, self._names)
            alike = self._same_names[commit] = frozenset(
                path for path, reason in left_out.items() if reason == IS_ALIKE
            )
        return alike

    def _new_folders(self, commit: CommitID) -> Iterator[tuple[str, tuple[bool, bool]]]:
        paths = (path for path, _, _, _ in self._differences(None, commit))
        names = (path[len(self._prefix) :] for path in paths)
        for name in files_that_are_folders(name for name in names if self._names.problem(name) is None):
            yield self._prefix + name, (False, True)

    def _changed_folders(self, old: CommitID, new: CommitID) -> Iterator[tuple[str, tuple[bool, bool]]]:
        for path, _, before, after in self._differences(old, new):
            name = path[len(self._prefix) :]
            if self._names.problem(name) is not None:
                continue
            if before is None or after is None:
                slash = path.find("/", len(self._prefix))
                while slash > 0:
                    above = path[:slash]
                    if self._object_at(old, above) or self._object_at(new, above):
                        yield above, self._are_folders(old, new, above)
                    slash = path.find("/", slash + 1)
            elif not (self._interrupted or self._names.folds or self._folder.is_folder(name)):
                continue  # nothing is below it, nor was
            yield path, self._are_folders(old, new, path)

    def _are_folders(self, old: CommitID, new: CommitID, path: str) -> tuple[bool, bool]:
        was, now = (self._object_at(commit, path) and self._has_below(commit, path) for commit in (old, new))
        return was, now

    def _has_below(self, commit: CommitID, path: str) -> bool:
        """Return whether the commit has an object below a path that can be a file."""
        after: str | None = ""
        while after is not None:
            page = self._repository.list_objects(commit, prefix=path + "/", after=after, amount=_SHOWN)
            if any(self._names.problem(listed.path[len(self._prefix) :]) is None for listed in page.results):
                return True
            after = page.next_after
        return False

    def _look_up(self, commit: CommitID, path: str) -> bool:
        try:
            self._repository.stat(commit, path)
        except ObjectNotFoundError:
            return False
        return True

    # Files

    def _is_ours(self, step: _Step) -> bool:
        states = {(entry.size, entry.checksum): (commit, entry) for commit, entry in step.possible}
        return any(
            self._folder.holds(step.name, entry, partial(self._md5_stored, commit, entry)) is not False
            for commit, entry in states.values()
        )

    def _md5_stored(self, commit: CommitID, entry: ObjectEntry) -> str:
        """Return the MD5 of an object's bytes as the store has them; empty if it has none of this size."""
        digest = md5(usedforsecurity=False)
        try:
            for piece in self._repository.bytes_in(commit, entry, verify=False):
                digest.update(piece)
        except (NotFoundError, DamagedObjectError):
            return ""
        return digest.hexdigest()

    def _is_there(self, step: _Step, target: ObjectEntry) -> bool:
        if self._interrupted:
            return self._folder.holds(step.name, target) is True
        if step.before is None or not same_bytes(step.before, target):
            return False
        return not self._verify or self._folder.exists(step.name)

    def _bring(self, step: _Step, target: ObjectEntry, number: int) -> int | None:
        """Write a file and return its bytes; None if the file was as wanted."""
        if self._is_there(step, target):
            return None
        self._folder.write(step.name, number, lambda: self._pieces(target))
        return target.size

    def _pieces(self, entry: ObjectEntry) -> Iterator[bytes]:
        """Yield the object's bytes. :class:`DamagedObjectError` instead of the end if they are not what the commit recorded."""
        for piece in self._repository.stream(self._goal, entry.path):
            if self._stopped.is_set():
                raise _StoppedError
            yield piece
        if self._stopped.is_set():  # the caller may have given up, so no file may appear
            raise _StoppedError


class _StoppedError(Exception):
    """Another file failed, or the export was interrupted; the result of this one is not needed any more."""


def _refuse_other(target: ExportFolder, marker: ExportMarker, repository: ExportedRepository, prefix: str) -> None:
    if marker.repository != repository.repository.uid:
        raise ExportFolderError(
            f"{str(target.root)!r} contains an export of another repository than {repository.repository.name!r}; "
            "export to another folder"
        )
    if marker.prefix != prefix:
        raise ExportFolderError(
            f"{str(target.root)!r} contains an export of prefix {marker.prefix!r}, not of {prefix!r}; export to another folder"
        )


def export_here(repository: RepositoryParts, request: Export, context: Context) -> ExportReport:
    """Export from a lake of this process."""
    return export(RepositoryReader(repository), request, context)
