"""A bounded cache of immutable files in a folder, shared by threads and processes, also by machines (EFS).

The file system is the only thing that they share: a file's modification time says when its contents were last known to be
in the store, its access time when it was last used, and nobody keeps an index. Files may vanish at any time. A cache never
makes an operation fail: what it cannot do, it leaves undone, counts and logs.

Of a file system it needs no more than NFS promises: a rename replaces a file at once, a file that another machine removes may be
gone while it is read (ESTALE), and what could not be stored is said at the latest when the file is closed.
"""

import errno
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final, Protocol

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.forks import new_lock
from graveler.storage.modes import PRIVATE, Modes

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}", re.ASCII)
_TEMPORARY: Final = ".writing-"
_LEFTOVER_AGE: Final = 3600
_USE_STEP: Final = 60.0
"""Seconds: the least recently used are told apart by steps of this. Writing down each use would make reading expensive."""
_LOG_EVERY: Final = 60.0
"""Seconds between two lines of the log about the same trouble: a file system that is broken is so for each file."""
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


class CachedFile(Struct, frozen=True):
    """A cached copy. ``due``: it is so old that somebody should look whether the store still has the file. ``known``: when the
    store was last known to have it, in Unix seconds."""

    data: bytes
    due: bool
    known: float


class Cache(Protocol):
    """What keeps copies of immutable files. It never makes an operation fail."""

    def get(self, name: str) -> CachedFile | None:
        """The copy of this name, or None."""
        ...

    def put(self, name: str, data: bytes, known: float | None = None) -> None:
        """Keep a copy that the store was last known to have at ``known`` (Unix seconds; None: now)."""
        ...

    def confirm(self, name: str) -> None:
        """Note that the store was seen to have this file just now."""
        ...

    def drop(self, name: str) -> None:
        """Remove the copy of this name; none is success."""
        ...


def _nobody() -> None:
    """Tells nobody of what failed."""


class FileCache:
    """At most ``max_bytes`` of files in ``folder``, which is made when needed; the least recently used go first.

    Each process looks at the whole folder only after it has added a sixteenth of ``max_bytes``, so n processes may exceed the
    bound by n - 1 sixteenths for a moment. On a disk that is full before, it gives way by sixteenths of what it holds. ``clock``
    gives Unix seconds; ``failed`` is called for each thing that could not be done (not by copies in other processes). ``modes``
    are the permissions of the folder and its files.
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
            raise InvalidError(f"a cache of {max_bytes} bytes; give it 1 or more, or use none")
        self._folder = Path(folder).absolute()
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
        """How often this object could not read, write or remove something, and went on without."""

    def __reduce__(self) -> tuple[object, ...]:
        return (
            FileCache,
            (self._folder, self._max_bytes, self._recheck_after, self._clock, _nobody, self._modes),
        )

    def get(self, name: str) -> CachedFile | None:
        """The copy of this name, or None. Cost: one open, one read."""
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

    def put(self, name: str, data: bytes, known: float | None = None) -> None:
        """Keep a copy that the store was last known to have at ``known`` (Unix seconds; None: now). Replaces one of this name."""
        path = self._path(name)
        try:
            if not self._reserve(len(data)):
                return
            try:
                self._write(path, data, known)
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
        """Remove the copy of this name; none is success."""
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
            import logging  # 3 ms, which who reads one object does not have to wait for

            logging.getLogger(__name__).warning(
                "cache %s: cannot %s %s (%s); going on without it", self._folder, doing, name, error.strerror or error
            )

    def _read(self, path: Path) -> CachedFile:
        now = self._clock()
        with path.open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            data = file.read(status.st_size + 1)
            if len(data) < status.st_size:  # as a network's file system may do
                data += file.readall()
            if abs(now - status.st_atime) >= _USE_STEP:
                try:
                    os.utime(file.fileno(), ns=(_ns(now), status.st_mtime_ns))
                except OSError as error:  # as where nothing may be written
                    self._failed("touch", path.name, error)
        return CachedFile(data, abs(now - status.st_mtime) > self._recheck_after, status.st_mtime)

    def _write(self, path: Path, data: bytes, known: float | None) -> None:
        temporary = self._folder / f"{_TEMPORARY}{token_hex(8)}"
        try:
            # No sync: after a power cut a copy may be damaged, which readers of the file notice by its checksums.
            try:
                self._fill(temporary, data)
            except FileNotFoundError:
                self._modes.make_folders(self._folder)
                self._fill(temporary, data)
            now = _ns(self._clock())
            os.utime(temporary, ns=(now, now if known is None else _ns(known)))
            temporary.rename(path)
        except BaseException:
            with suppress(OSError):  # it is removed as a leftover later
                temporary.unlink()
            raise

    def _fill(self, temporary: Path, data: bytes) -> None:
        with open(temporary, "xb", opener=self._modes.create) as file:
            file.write(data)

    def _reserve(self, size: int) -> bool:
        """Make room for ``size`` more bytes; False if there is none to be had."""
        if size > self._max_bytes:
            return False
        with self._lock:
            if size > self._room_left:
                free = self._max_bytes - self._under_way - self._evict(size + self._under_way)
                # What may be added before the next look, by this process and, as often, by others.
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
        """The disk is full, by us or by others: remove a sixteenth of what is there, and at least ``size``."""
        try:
            total, files = self._look()
        except OSError as error:
            self._failed("list", ".", error)
            return
        self._remove(files, max(size, total // 16))

    def _look(self) -> tuple[int, list[tuple[float, int, str]]]:
        """The bytes in the folder; and its files by when they were used, with their sizes, those first that nobody uses."""
        now = self._clock()
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
                    elif now - status.st_mtime > _LEFTOVER_AGE:  # its writer has died
                        files.append((0.0, status.st_size, entry.name))
        except FileNotFoundError:
            return 0, []
        return total, sorted(files)

    def _remove(self, files: list[tuple[float, int, str]], size: int) -> int:
        """Remove the first of the files, until ``size`` bytes are free. Returns how many are."""
        removed = 0
        for _, length, name in files:
            if removed >= size:
                break
            try:
                (self._folder / name).unlink()
            except OSError as error:
                if not _is_gone(error):
                    self._failed("remove", name, error)
                    if error.errno == errno.EROFS:
                        break  # nor can the others
                    continue
            removed += length
        return removed


class Tiers:
    """Two caches, one before the other: ``near`` is quick and this machine's own, ``far`` is shared with others.

    What is found only far is copied near. A copy that is due near may have been looked for by another machine meanwhile: then the
    far one says so, and nobody asks the store."""

    def __init__(self, near: Cache, far: Cache) -> None:
        self._near, self._far = near, far

    def get(self, name: str) -> CachedFile | None:
        """The copy of this name, or None. Cost: an open and a read in one of the two, or in both."""
        near = self._near.get(name)
        if near is not None and not near.due:
            return near
        far = self._far.get(name)
        if far is None or (near is not None and far.known <= near.known):
            return near
        self._near.put(name, far.data, far.known)
        return far

    def put(self, name: str, data: bytes, known: float | None = None) -> None:
        """Keep a copy in both."""
        self._near.put(name, data, known)
        self._far.put(name, data, known)

    def confirm(self, name: str) -> None:
        """Note in both that the store was seen to have this file just now."""
        self._near.confirm(name)
        self._far.confirm(name)

    def drop(self, name: str) -> None:
        """Remove both copies."""
        self._near.drop(name)
        self._far.drop(name)


class CacheNotes:
    """A cache of what can be computed anew, for :class:`graveler.tree.ids.Notes`: nothing in it is ever out of date."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def get(self, name: str) -> bytes | None:
        """What was noted under this name, if it is still there. Cost: one open, one read."""
        copy = self._cache.get(name)
        return None if copy is None else copy.data

    def put(self, name: str, data: bytes) -> None:
        """Note something."""
        self._cache.put(name, data)


def _is_gone(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ESTALE)


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
