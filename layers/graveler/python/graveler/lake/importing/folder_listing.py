"""Listing a folder for an import: every file with its size, its time and (unless the time is trusted) its MD5, sorted by key."""

import errno
import os
import stat
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, cast

from graveler.errors import GravelerError, InvalidError, NotFoundError
from graveler.lake.importing.file_records import (
    Batch,
    ReadBatch,
    Records,
    Run,
    digested,
    file_record,
    path_in,
    timed,
    unreadable,
)
from graveler.lake.importing.gate import FILE, Gate, Refused, refused, table_refusal
from graveler.storage.objects.folder_files import FolderFiles
from graveler.system.links import folder_behind, is_special, special_files
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.record import RecordCodec, object_size
from graveler.values.ignore_rules import IGNORE_FILE, FolderRules, LeftOutFiles

if TYPE_CHECKING:
    from concurrent.futures import Future

_BATCH: Final = 256
"""The number of files that are read as one piece of work."""

_ALONE: Final = 16
"""The number of batches up to which starting worker processes would take too long."""

_PENDING: Final = 4
"""The number of batches for each worker process that it has or may begin."""

_OPENED: Final = 8
"""The number of batches whose large files are being read ahead of the record that is taken, which bounds the memory."""

_OF_A_LAKE: Final = frozenset(("graveler.json", "tables.sqlite"))
"""Files that mark the folder of a lake."""


class FolderListing:
    """The files of ``folder``, as records under ``destination`` (a key prefix, possibly empty).

    Files are addressed where they lie, ``file://<absolute path>``, and not copied. Symbolic links to files count as files; links
    to folders are followed inside ``folder``. ``skipped`` then has the other links: those that lead out of it, round in circles,
    or nowhere; ``special`` has pipes, sockets and devices, which with ``refuses_special`` end the listing with an error
    that names them. Folders of lakes are omitted, whose own garbage collector would not know
    that their files are needed. With a ``gate``, files that it refuses end the listing with an error that names and counts them;
    files that are ``copied`` get other addresses, so only their place matters. ``threads`` read large files concurrently;
    ``workers`` processes read thousands of small ones. Directly in the folder, only names that begin with ``beginning`` are
    listed. ``files`` may be confined: then symbolic links are refused. With ``trust_mtime`` no file is read, and its size and
    time stand for its bytes. What the patterns of ``exclude`` name is left out; with ``ignore`` also what ``.gravelerignore``
    files name, and what is never data (:mod:`graveler.values.ignore_rules`).
    """

    def __init__(
        self,
        folder: Path,
        destination: str,
        codec: RecordCodec,
        progress: ObjectProgress = no_object_progress,
        threads: int = 4,
        *,
        workers: int = 1,
        beginning: str = "",
        files: FolderFiles | None = None,
        trust_mtime: bool = False,
        refuses_special: bool = False,
        gate: Gate | None = None,
        copied: bool = False,
        exclude: Sequence[str] = (),
        ignore: bool = False,
    ) -> None:
        self._shown = str(folder)
        self._folder = folder.absolute()
        self._destination = destination
        self._codec = codec
        self._progress = progress
        self._threads = threads
        self._workers = workers
        self._read: ReadBatch = timed if trust_mtime else digested
        self._beginning = beginning
        self._files = files or FolderFiles(self._folder)
        self.skipped: list[str] = []
        self.special: list[str] = []
        self._refuses_special = refuses_special
        self._gate = gate
        self._copied = copied
        self._rules = FolderRules.of(exclude, ignore=ignore)
        self._left_out: LeftOutFiles | None = None
        self._tables = frozenset[int]()
        """Inodes of open tables."""
        self._refused: list[Refused] = []
        self._followed: dict[str, str] = {}
        """The real paths of links that will be followed."""

    @property
    def left_out(self) -> LeftOutFiles:
        """The files that the rules left out. If another process or an earlier request listed the folder, its names are read once
        more. If that fails, those read so far count: the work is done, and must not fail for a number."""
        if self._left_out is None:
            with suppress(GravelerError):
                for _ in self._runs():
                    """Only what is not among them counts."""
        assert self._left_out is not None
        return self._left_out

    def __call__(self) -> Generator[tuple[bytes, bytes], None, None]:
        """Yield the records in ascending order of their keys. Reads each file once; memory for some thousand names and records.

        :class:`NotFoundError` without the folder, :class:`InvalidError` for names that cannot be keys, :class:`UnavailableError`
        for unreadable files; for those that the gate refuses :class:`ForbiddenError` or :class:`InvalidError`.
        """
        self._check()
        stop = Event()
        from concurrent.futures import ThreadPoolExecutor  # 10 ms, only for imports of folders

        with ThreadPoolExecutor(self._threads, "graveler-import") as pool, closing(self._read_batches()) as read:
            opened: deque[tuple[Records, deque[Future[bytes]]]] = deque()
            try:
                for batch, records in read:
                    begun: deque[Future[bytes]] = deque()
                    if records.unread:
                        paths = (path_in(folder, name) for folder, _, names in batch for name in names)
                        for path, key, record in zip(paths, records.keys, records.packed, strict=True):
                            if record is None:
                                begun.append(pool.submit(file_record, path, key, self._codec, stop, self._files))
                    opened.append((records, begun))
                    if len(opened) >= _OPENED:
                        yield from self._finished(*opened.popleft())
                while opened:
                    yield from self._finished(*opened.popleft())
            except BaseException:
                stop.set()  # a file may be huge
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _finished(self, records: Records, begun: "deque[Future[bytes]]") -> Iterator[tuple[bytes, bytes]]:
        """Return the records of a batch, some of which are awaited. ObjectProgress on finished ones is reported first."""
        self._progress(len(records.keys) - records.unread, records.bytes)
        if not begun:
            return zip(records.keys, cast(list[bytes], records.packed), strict=True)
        return self._awaited(records, begun)

    def _awaited(self, records: Records, begun: "deque[Future[bytes]]") -> Iterator[tuple[bytes, bytes]]:
        for key, record in zip(records.keys, records.packed, strict=True):
            if record is not None:
                yield key, record
                continue
            packed = begun.popleft().result()
            self._progress(1, object_size(packed))
            yield key, packed

    def _read_batches(self) -> Generator[tuple[Batch, Records], None, None]:
        """Yield each batch with its records, in order: from worker processes if there are some, and enough work."""
        batches = self.batches()
        opening = list(islice(batches, _ALONE + 1))
        if len(opening) <= _ALONE or self._workers < 2:
            for batch in chain(opening, batches):
                yield batch, self._read(batch, self._files, self._codec)
            return
        from concurrent.futures import ThreadPoolExecutor

        from graveler.runtime.crew import crew

        helpers = self._workers - 1  # and this process
        processes = crew(helpers)

        def ask(batch: Batch) -> Records:
            (records,) = processes.run(self._read, [(batch, self._files, self._codec)])
            return records

        with ThreadPoolExecutor(helpers, "graveler-import") as asking:
            pending: deque[tuple[Batch, Future[Records]]] = deque()
            try:
                for batch in chain(opening, batches):
                    pending.append((batch, asking.submit(ask, batch)))
                    if len(pending) > _PENDING * helpers:
                        yield self._first_of(pending)
                while pending:
                    yield self._first_of(pending)
            except BaseException:
                asking.shutdown(wait=False, cancel_futures=True)
                raise

    def _first_of(self, pending: "deque[tuple[Batch, Future[Records]]]") -> tuple[Batch, Records]:
        """Return the first batch and its records. While they are not finished, this process does batches that no other has
        begun."""
        future = pending[0][1]
        for number, (batch, submitted) in enumerate(pending):
            if future.done():
                break
            if submitted.cancel():
                done: Future[Records] = type(submitted)()
                done.set_result(self._read(batch, self._files, self._codec))
                pending[number] = batch, done
                future = pending[0][1]
        batch, submitted = pending.popleft()
        return batch, submitted.result()

    def _check(self) -> None:
        try:
            str(self._folder).encode()
        except UnicodeEncodeError:
            raise InvalidError(
                f"the path of folder '{_shown(self._folder)}' is not UTF-8, so it cannot be an object's address; rename it"
            ) from None
        try:
            is_folder = stat.S_ISDIR(self._files.status(self._folder).st_mode)
        except FileNotFoundError:
            raise NotFoundError(f"folder {self._shown!r} does not exist; check its name") from None
        except OSError as error:
            raise unreadable(self._shown, error) from None
        if not is_folder:
            raise InvalidError(f"{self._shown!r} is not a folder; name the folder that contains it")
        resolved = self._folder.resolve()
        for above in (resolved, *resolved.parents):
            if all((above / name).exists() for name in _OF_A_LAKE):
                raise InvalidError(
                    f"{self._shown!r} is inside {str(above)!r}, the folder of a lake, which may remove its files; copy what you "
                    "need to another place, and import that"
                )
        if self._gate is not None:
            from graveler.storage.tables.sqlite_files import open_inodes  # not for lakes on AWS

            self._tables = open_inodes()
            place = str(resolved)
            refusal = self._gate.place_refusal(place) if self._copied else self._gate.folder_refusal(str(self._folder))
            if refusal is not None:
                raise refusal

    def batches(self) -> Iterator[Batch]:
        """Yield all files, about :data:`_BATCH` at a time."""
        batch: Batch = []
        room = _BATCH
        for folder, prefix, names in self._runs():
            position = 0
            while part := names[position : position + room]:
                batch.append(Run(folder, prefix, part))
                position += len(part)
                room -= len(part)
                if not room:
                    yield batch
                    batch, room = [], _BATCH
        if batch:
            yield batch

    def _runs(self) -> Iterator[Run]:
        """Yield files in the order of their keys, as long as they are neighbours in one folder. Once a file is refused, no more
        are yielded, and the rest is only searched for others."""
        lowest = self._destination + self._beginning
        root = os.path.realpath(self._folder)
        above = [root]
        self._left_out = LeftOutFiles()
        entry_names, rules = self._names(str(self._folder), above, self._rules, self._beginning)
        names = [name for name in entry_names if (self._destination + name).startswith(lowest)]
        self.special = [path for path in self.special if (self._destination + Path(path).name).startswith(lowest)]
        levels = [(str(self._folder), self._destination, iter(names), rules)]
        while levels:
            folder, prefix, rest, rules = levels[-1]
            run: list[str] = []
            below = ""
            for name in rest:
                if name[-1] == "/":
                    below = name
                    break
                run.append(name)
            else:
                levels.pop()
                above.pop()
            if run and not self._refused:
                yield Run(folder, prefix, run)
            if below:
                inner = path_in(folder, below[:-1])
                above.append(self._followed.pop(inner, "") or path_in(above[-1], below[:-1]))
                entry_names, rules = self._names(inner, above, rules.inside(below[:-1]))
                levels.append((inner, prefix + below, iter(entry_names), rules))
        if self.special and self._refuses_special:
            raise InvalidError(
                f"{special_files(sorted(self.special))} cannot be objects; move them elsewhere, and import again"
            )
        if self._refused:
            raise refused(self._refused)

    def _names(
        self, folder: str, above: Sequence[str], rules: FolderRules, beginning: str = ""
    ) -> tuple[list[str], FolderRules]:
        """Return the entries of a folder that begin with ``beginning``, sorted: a folder's name ends with a slash, with which it
        sorts as its keys do. Return also the rules for what is in it: ``rules`` with those of its own file. ``above`` are the
        real paths of the root, of the folders on the way, and of this one."""
        entry_names: list[str] = []
        suspects: list[str] = []
        special: list[str] = []
        skipped: list[str] = []
        linked: list[str] = []
        marks: set[str] = set()
        current = ""
        try:
            with self._files.entries(Path(folder)) as entries:
                for entry in entries:
                    name = entry.name
                    if name in _OF_A_LAKE:
                        marks.add(name)
                    current = name
                    if entry.is_symlink():
                        if not self._files.follows_links:
                            linked.append(name)
                        elif _leads_to_file(entry):
                            entry_names.append(name)
                            suspects.append(name)
                        elif (real := folder_behind(path_in(folder, name), above[0], above)) is not None:
                            entry_names.append(name + "/")
                            self._followed[path_in(folder, name)] = real
                        else:
                            (special if is_special(entry) else skipped).append(name)
                    elif entry.is_dir(follow_symlinks=False):
                        entry_names.append(name + "/")
                    elif entry.is_file(follow_symlinks=False):
                        entry_names.append(name)
                        if name[0] == "." or entry.inode() in self._tables:
                            suspects.append(name)
                    elif is_special(entry):
                        special.append(name)
                    current = ""
        except OSError as error:
            raise unreadable(path_in(folder, current) if current else folder, error) from None
        if marks.issuperset(_OF_A_LAKE):
            return [], rules
        if rules.is_reading and IGNORE_FILE in linked:
            raise self._files.linked(Path(path_in(folder, IGNORE_FILE)))
        if rules.is_reading and IGNORE_FILE in entry_names:
            rules = rules.with_file(self._patterns(path_in(folder, IGNORE_FILE)))
        if rules.levels:
            entry_names, special, skipped, linked = (
                [name for name in names if name.startswith(beginning) and self._takes(rules, name)]
                for names in (entry_names, special, skipped, linked)
            )
            suspects = sorted(set(suspects).intersection(entry_names))
        if linked:
            raise self._files.linked(Path(path_in(folder, min(linked))))
        self.special += (path_in(folder, name) for name in special)
        self.skipped += (path_in(folder, name) for name in skipped)
        _expect_utf8(folder, entry_names)
        entry_names.sort()  # the order of code points is that of their UTF-8 bytes
        if self._gate is not None:
            self._refused += self._refusals(self._gate, folder, above[-1], entry_names, sorted(suspects))
        return entry_names, rules

    def _takes(self, rules: FolderRules, name: str) -> bool:
        """Return whether an entry is taken; count it if it is left out."""
        is_folder = name[-1] == "/"
        reason = rules.reason(name.rstrip("/"), is_folder=is_folder)
        if reason is not None and self._left_out is not None:
            self._left_out.add(reason, rules.path + name)
        return reason is None

    def _patterns(self, path: str) -> bytes:
        """Return the text of a file of patterns."""
        try:
            with os.fdopen(self._files.open(path, os.O_RDONLY), "rb") as file:
                return file.read()
        except OSError as error:
            raise unreadable(path, error) from None

    def _refusals(
        self, gate: Gate, folder: str, real: str, names: Sequence[str], suspects: Sequence[str]
    ) -> Iterator[Refused]:
        """Yield the files of a folder that a gate refuses; ``real`` is the folder's real path. The gate is asked for each of the
        ``suspects``: links, hard links to tables, hidden files, whose names may be reserved. All other files have one place, and
        no fault but the length of their names: so it is asked for the longest one, and for all only if it refuses that."""
        files = [name for name in names if name[-1] != "/"]
        if self._copied:
            if files and (refusal := gate.place_refusal(real)) is not None:
                yield from (Refused(path_in(folder, name), refusal) for name in files)
                return
            for name in suspects:
                target = os.path.realpath(path_in(folder, name))
                if (
                    refusal := gate.place_refusal(target.rpartition("/")[0] or "/") or table_refusal(target)
                ) is not None:
                    yield Refused(path_in(folder, name), refusal)
            return
        longest = max(files, key=lambda name: len(name.encode()), default="")
        if longest and gate.refusal(f"{FILE}{path_in(folder, longest)}") is not None:
            suspects = files
        for name in suspects:
            if (refusal := gate.refusal(f"{FILE}{path_in(folder, name)}")) is not None:
                yield Refused(path_in(folder, name), refusal)


def _leads_to_file(link: "os.DirEntry[str]") -> bool:
    """Return whether a link leads to a file; a circular one does not."""
    try:
        return link.is_file()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _expect_utf8(folder: str, names: list[str]) -> None:
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        end = 0
        for name in names:
            end += len(name)
            if end > error.start:
                raise InvalidError(
                    f"the name of '{_shown(path_in(folder, name.rstrip('/')))}' is not UTF-8, so it cannot be an object's path; "
                    "rename the file"
                ) from None


def _shown(path: "str | os.PathLike[str]") -> str:
    """Return a path that is not UTF-8 with its invalid bytes escaped, as in ``a\\xff``."""
    return os.fsencode(path).decode(errors="backslashreplace")
