"""Listing a folder for an import: every file with its size, time and MD5, in the order of the keys."""

import errno
import os
import stat
from collections import deque
from collections.abc import Generator, Iterator
from hashlib import md5
from io import FileIO
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from graveler.errors import InvalidError, NotFoundError, UnavailableError
from graveler.lake.importing.progress import Progress, no_progress
from graveler.model import ObjectEntry
from graveler.storage.beneath import Beneath
from graveler.tree.record import RecordCodec, encode_key

if TYPE_CHECKING:
    from concurrent.futures import Future

_PIECE: Final = 1 << 20
_IN_FLIGHT: Final = 256
"""Files that are being digested ahead of the one that is taken: what bounds the memory."""

_OF_A_LAKE: Final = ("graveler.json", "tables.sqlite")
"""Files that the folder of a lake has."""


class FolderListing:
    """The files of ``folder``, as records under ``destination`` (a key prefix, possibly empty).

    Files are addressed where they lie, ``file://<absolute path>``, and not copied. Symbolic links to files count as files; links
    to folders are not followed; links to nothing, sockets, pipes and devices are left out, and so are folders of lakes, whose own
    collector of garbage would not know who needs their files. ``threads`` read files at the same time. Of what is directly in the
    folder, only what begins with ``beginning`` is listed. ``files`` may be confined: then symbolic links are refused.
    """

    def __init__(
        self,
        folder: Path,
        destination: str,
        codec: RecordCodec,
        progress: Progress = no_progress,
        threads: int = 4,
        *,
        beginning: str = "",
        files: Beneath | None = None,
    ) -> None:
        self._shown = str(folder)
        self._folder = folder.absolute()
        self._destination = destination
        self._codec = codec
        self._progress = progress
        self._threads = threads
        self._beginning = beginning
        self._files = files or Beneath(self._folder)

    def __call__(self) -> Generator[tuple[bytes, bytes], None, None]:
        """The records in ascending order of their keys. Reads each file once; memory for some hundred records.

        :class:`NotFoundError` without the folder, :class:`InvalidError` for names that are no keys, :class:`UnavailableError`
        for files that cannot be read.
        """
        self._check()
        stop = Event()
        from concurrent.futures import ThreadPoolExecutor  # 10 ms, for whoever imports a folder

        with ThreadPoolExecutor(self._threads, thread_name_prefix="graveler-import") as pool:
            waiting: deque[Future[tuple[bytes, bytes, int]]] = deque()
            try:
                for path, key in self._found():
                    waiting.append(pool.submit(file_record, path, key, self._codec, stop, self._files))
                    if len(waiting) >= _IN_FLIGHT:
                        yield self._finished(waiting.popleft())
                while waiting:
                    yield self._finished(waiting.popleft())
            except BaseException:
                stop.set()  # a file may be huge
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _finished(self, future: "Future[tuple[bytes, bytes, int]]") -> tuple[bytes, bytes]:
        key, packed, size = future.result()
        self._progress(1, size)
        return key, packed

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
            raise NotFoundError(f"folder {self._shown!r} does not exist; name one that does") from None
        except OSError as error:
            raise _unreadable(self._shown, error) from None
        if not is_folder:
            raise InvalidError(f"{self._shown!r} is not a folder; name the folder that holds it")
        place = self._folder.resolve()
        for above in (place, *place.parents):
            if all((above / name).exists() for name in _OF_A_LAKE):
                raise InvalidError(
                    f"{self._shown!r} lies in {str(above)!r}, the folder of a lake, which may remove its files; copy what you "
                    "need to another place, and import that"
                )

    def _found(self) -> Iterator[tuple[str, bytes]]:
        """Paths of files and their keys, in the order of the keys: a folder sorts as if its name ended with the slash."""
        top = self._children(str(self._folder), self._destination)
        first = self._destination + self._beginning
        open_folders = [iter([child for child in top if child[1].startswith(first)])]
        while open_folders:
            for path, name, is_folder in open_folders[-1]:
                if is_folder:
                    open_folders.append(self._children(path, name))
                    break
                yield path, encode_key(name)
            else:
                open_folders.pop()

    def _children(self, folder: str, prefix: str) -> Iterator[tuple[str, str, bool]]:
        """What is in a folder: path, key (of a folder the prefix of its keys), and whether it is a folder."""
        found: list[tuple[bytes, str, bool]] = []
        names: set[str] = set()
        at = folder
        try:
            with self._files.entries(Path(folder)) as entries:
                above = folder.rstrip("/")
                for entry in entries:
                    at = f"{above}/{entry.name}"
                    names.add(entry.name)
                    if entry.is_symlink() and self._files.confinement is not None:
                        raise self._files.linked(Path(at))
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_folder or _is_file(entry):
                        name = entry.name + ("/" if is_folder else "")
                        found.append((_name_bytes(name, at), at, is_folder))
                    at = folder
        except OSError as error:
            raise _unreadable(at, error) from None
        if names.issuperset(_OF_A_LAKE):
            return iter(())
        found.sort()
        return ((path, prefix + name.decode(), is_folder) for name, path, is_folder in found)


def file_record(path: str, key: bytes, codec: RecordCodec, stop: Event, files: Beneath) -> tuple[bytes, bytes, int]:
    """Key and record of one of the ``files``, and its size. Reads the file once, for its MD5; ``stop`` ends that early, with a
    record that is not to be used."""
    try:
        # Not to wait for a writer, should somebody have put a named pipe there.
        with FileIO(files.open(Path(path), os.O_RDONLY | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UnavailableError(f"cannot import {path!r}: it is no plain file any more; nothing was imported")
            mtime = int(status.st_mtime)
            digest = md5(usedforsecurity=False)
            size = 0
            while not stop.is_set() and (piece := file.read(_PIECE)):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise _unreadable(path, error) from None
    entry = ObjectEntry(key.decode(), f"file://{path}", size, digest.hexdigest(), mtime)
    return key, codec.encode(entry), size


def _is_file(entry: "os.DirEntry[str]") -> bool:
    """A file, or a link to one. A link that goes in circles leads to none."""
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _name_bytes(name: str, path: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise InvalidError(
            f"the name of '{_shown(path)}' is not UTF-8, so it cannot be an object's path; rename the file"
        ) from None


def _shown(path: "str | os.PathLike[str]") -> str:
    """A path that is not UTF-8 with its odd bytes written out, as in ``a\\xff``."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _unreadable(path: str, error: OSError) -> UnavailableError:
    what = "no permission to read it" if error.errno in (errno.EACCES, errno.EPERM) else os.strerror(error.errno or 0)
    return UnavailableError(f"cannot import {path!r}: {what}; nothing was imported")
