"""A bounded cache of immutable files in a folder, shared by threads and processes, also by machines (EFS).

Only the file system is shared: a file's modification time is when its contents were last known to be in the store, its access
time when it was last used; no index exists. Files may vanish at any time. A cache never makes an operation fail: what it cannot
do, it leaves undone, counts and logs.

It needs no more than NFS guarantees: a rename replaces a file atomically, a file that another machine removes may vanish while it
is read (ESTALE), and a failed write is reported at the latest when the file is closed. A file that is being written has a lock of
its writer (:mod:`graveler.storage.owned_files`), so that others know whether that one lives.
"""

import errno
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.storage.file_modes import PRIVATE, Modes
from graveler.storage.objects.folder_files import FolderFiles
from graveler.storage.owned_files import abandoned, create_owned
from graveler.system.forks import new_lock

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
_TEMPORARY: Final = ".writing-"
_USE_STEP: Final = 60.0
"""Seconds: resolution of the least-recently-used order. Recording each use would make reading expensive."""
_LOG_EVERY: Final = 60.0
"""Seconds between two log lines about the same problem: a broken file system fails for every file."""
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


class CachedFile(Struct, frozen=True):
    """A cached copy. ``due``: it is so old that the caller should check whether the store still has the file. ``confirmed``: the
    time at which the store was last known to have it, in Unix seconds."""

    data: bytes
    due: bool
    confirmed: float


class Cache(Protocol):
    """A store of copies of immutable files. It never makes an operation fail."""

    def get(self, name: str) -> CachedFile | None:
        """Return the copy of this name, or None."""
        ...

    def put(self, name: str, data: bytes, confirmed: float | None = None) -> None:
        """Keep a copy that the store was last known to have at ``confirmed`` (Unix seconds; None: now)."""
        ...

    def confirm(self, name: str) -> None:
        """Note that the store was seen to have this file just now."""
        ...

    def drop(self, name: str) -> None:
        """Remove the copy of this name; a missing one is success."""
        ...


def _nobody() -> None:
    """Ignore a failure."""


class FileCache:
    """At most ``max_bytes`` of files in ``folder``, which is made when needed; the least recently used go first.

    Each process looks at the whole folder only after it has added a sixteenth of ``max_bytes``, so n processes may exceed the
    bound by n - 1 sixteenths for a moment. If the disk is full before that, it frees a sixteenth of its contents at a time.
    ``clock`` returns Unix seconds; ``failed`` is called for each failure (not by copies in other processes). ``modes`` are the
    permissions of the folder and its files.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        recheck_after_seconds: float,
        clock: Callable[[], float] = time.time,
        failed: Callable[[], None] = _nobody,
        modes: Modes = PRIVATE,
    ) -> None:
        if max_bytes < 1:
            raise InvalidError(f"a cache of {max_bytes} bytes is too small; give it 1 or more, or use none")
        self._folder = Path(folder).absolute()
        self._files = FolderFiles(self._folder)
        self._max_bytes = max_bytes
        self._recheck_after = recheck_after_seconds
        self._clock = clock
        self._tell = failed
        self._modes = modes
        self._lock = new_lock()
        self._room_left = 0
        self._under_way = 0
        self._logged: dict[str, float] = {}
        self.failures = 0
        """Number of times that this object failed to read, write or remove something, and went on without."""

    def __reduce__(self) -> tuple[object, ...]:
        return (
            FileCache,
            (self._folder, self._max_bytes, self._recheck_after, self._clock, _nobody, self._modes),
        )

    def get(self, name: str) -> CachedFile | None:
        """Return the copy of this name, or None. Cost: one open, one read."""
        path = self._path(name)
        try:
            try:
                return self._read(path)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                return self._read(path)  # another machine has replaced or removed it meanwhile
        except FileNotFoundError:
            return None
        except OSError as error:
            self._failed("read", name, error)
            return None

    def put(self, name: str, data: bytes, confirmed: float | None = None) -> None:
        """Keep a copy that the store was last known to have at ``confirmed`` (Unix seconds; None: now). Replaces one of this
        name."""
        path = self._path(name)
        try:
            if not self._reserve(len(data)):
                return
            try:
                self._write(path, data, confirmed)
            finally:
                with self._lock:
                    self._under_way -= len(data)
        except OSError as error:
            self._failed("write", name, error)
            if error.errno in _FULL:
                self._give_way(len(data))

    def confirm(self, name: str) -> None:
        """Note that the store was seen to have this file just now."""
        now = _ns(self._clock())
        try:
            os.utime(self._path(name), ns=(now, now))
        except OSError as error:
            if not _is_gone(error):
                self._failed("touch", name, error)

    def drop(self, name: str) -> None:
        """Remove the copy of this name; a missing one is success."""
        try:
            self._path(name).unlink()
        except OSError as error:
            if not _is_gone(error):
                self._failed("remove", name, error)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidError(f"{name!r} cannot name a cached file: 1 to 200 letters, digits, '.', '_' or '-'")
        return self._folder / name

    def _failed(self, doing: str, name: str, error: OSError) -> None:
        self.failures += 1
        self._tell()
        now = time.monotonic()
        if now - self._logged.get(doing, -_LOG_EVERY) >= _LOG_EVERY:
            self._logged[doing] = now
            import logging  # 3 ms, which a reader of one object should not wait for

            logging.getLogger(__name__).warning(
                "cache %s: cannot %s %s (%s); continuing without it", self._folder, doing, name, error.strerror or error
            )

    def _read(self, path: Path) -> CachedFile:
        now = self._clock()
        with path.open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            data = file.read(status.st_size + 1)
            if len(data) < status.st_size:  # as a network file system may do
                data += file.readall()
            if abs(now - status.st_atime) >= _USE_STEP:
                try:
                    os.utime(file.fileno(), ns=(_ns(now), status.st_mtime_ns))
                except OSError as error:  # as on a read-only file system
                    self._failed("touch", path.name, error)
        return CachedFile(data, abs(now - status.st_mtime) > self._recheck_after, status.st_mtime)

    def _write(self, path: Path, data: bytes, confirmed: float | None) -> None:
        temporary, lock = self._new_temporary()
        try:
            # No sync: after a power cut a copy may be damaged, which readers of the file notice by its checksums. Closing a copy
            # of the descriptor reports errors of writing, and leaves the lock until the file has its name.
            with os.fdopen(os.dup(lock), "wb") as file:
                file.write(data)
            now = _ns(self._clock())
            os.utime(lock, ns=(now, now if confirmed is None else _ns(confirmed)))
            os.rename(temporary, path)  # noqa: PTH104 - a path object takes as long as the system call
        except BaseException:
            with suppress(OSError):  # it is removed as a leftover later
                temporary.unlink()
            raise
        finally:
            os.close(lock)

    def _new_temporary(self) -> tuple[Path, int]:
        """Return a new file and its descriptor, which holds its lock."""
        try:
            return create_owned(self._files, self._folder, self._modes, _TEMPORARY)
        except FileNotFoundError:
            self._modes.make_folders(self._folder)
            return create_owned(self._files, self._folder, self._modes, _TEMPORARY)

    def _reserve(self, size: int) -> bool:
        """Make room for ``size`` more bytes; return False if that is impossible."""
        if size > self._max_bytes:
            return False
        with self._lock:
            if size > self._room_left:
                free = self._max_bytes - self._under_way - self._evict(size + self._under_way)
                # The amount to add before the next look, by this process and, as often, by others.
                self._room_left = min(free, max(size, self._max_bytes // 16))
                if size > free:
                    return False
            self._room_left -= size
            self._under_way += size
            return True

    def _evict(self, size: int) -> int:
        """Look at the folder; if ``size`` more and a sixteenth do not fit, remove the least recently used until a quarter is
        free. Returns the bytes that stay."""
        total, files = self._look()
        if total + size + self._max_bytes // 16 > self._max_bytes:
            total -= self._remove(files, total + size - self._max_bytes * 3 // 4)
        return total

    def _give_way(self, size: int) -> None:
        """Free space on a full disk: remove a sixteenth of the folder's contents, and at least ``size``."""
        try:
            total, files = self._look()
        except OSError as error:
            self._failed("list", ".", error)
            return
        self._remove(files, max(size, total // 16))

    def _look(self) -> tuple[int, list[tuple[float, int, str]]]:
        """Return the bytes in the folder; and its files with access times and sizes, the least recently used first."""
        total = 0
        files: list[tuple[float, int, str]] = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            continue  # not ours
                        status = entry.stat()
                    except OSError as error:
                        if not _is_gone(error):
                            self._failed("look at", entry.name, error)
                        continue
                    total += status.st_size
                    if not entry.name.startswith(_TEMPORARY):
                        files.append((status.st_atime, status.st_size, entry.name))
                    elif self._is_abandoned(Path(entry.path)):
                        files.append((0.0, status.st_size, entry.name))
        except FileNotFoundError:
            return 0, []
        return total, sorted(files)

    def _is_abandoned(self, temporary: Path) -> bool:
        try:
            with abandoned(self._files, temporary) as status:
                return status is not None
        except OSError as error:
            if not _is_gone(error):
                self._failed("open", temporary.name, error)
            return False

    def _remove(self, files: list[tuple[float, int, str]], size: int) -> int:
        """Remove files from the front of the list until ``size`` bytes are free. Returns the bytes removed."""
        removed = 0
        for _, length, name in files:
            if removed >= size:
                break
            try:
                if not self._unlink(name):
                    continue
            except OSError as error:
                if not _is_gone(error):
                    self._failed("remove", name, error)
                    if error.errno == errno.EROFS:
                        break  # nor can the others
                    continue
            removed += length
        return removed

    def _unlink(self, name: str) -> bool:
        """Remove a file; return False for a temporary one that its writer has locked since it was looked at. The lock of an
        abandoned one is held meanwhile, so a writer that comes now notices that it has lost the file."""
        path = self._folder / name
        if not name.startswith(_TEMPORARY):
            path.unlink()
            return True
        with abandoned(self._files, path) as status:
            if status is not None:
                path.unlink()
            return status is not None


class Tiers:
    """Two caches, one before the other: ``near`` is quick and this machine's own, ``far`` is shared with others.

    A copy found only in ``far`` is copied to ``near``. If a near copy is due, another machine may have checked the store
    meanwhile: then ``far`` records that, and the store need not be asked.
    """

    def __init__(self, near: Cache, far: Cache) -> None:
        self._near, self._far = near, far

    def get(self, name: str) -> CachedFile | None:
        """Return the copy of this name, or None. Cost: an open and a read in one of the two, or in both."""
        near = self._near.get(name)
        if near is not None and not near.due:
            return near
        far = self._far.get(name)
        if far is None or (near is not None and far.confirmed <= near.confirmed):
            return near
        self._near.put(name, far.data, far.confirmed)
        return far

    def put(self, name: str, data: bytes, confirmed: float | None = None) -> None:
        """Keep a copy in both."""
        self._near.put(name, data, confirmed)
        self._far.put(name, data, confirmed)

    def confirm(self, name: str) -> None:
        """Note in both that the store was seen to have this file just now."""
        self._near.confirm(name)
        self._far.confirm(name)

    def drop(self, name: str) -> None:
        """Remove both copies."""
        self._near.drop(name)
        self._far.drop(name)


class CacheNotes:
    """A cache of recomputable data, for :class:`graveler.tree.range_notes.Notes`: nothing in it is ever out of date."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def get(self, name: str) -> bytes | None:
        """Return the note under this name, or None if it is gone. Cost: one open, one read."""
        copy = self._cache.get(name)
        return None if copy is None else copy.data

    def put(self, name: str, data: bytes) -> None:
        """Store a note."""
        self._cache.put(name, data)


def _is_gone(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ESTALE)


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
