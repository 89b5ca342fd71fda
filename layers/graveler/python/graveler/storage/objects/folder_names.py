"""Names of objects in a folder: given to complete files in one step, durably, and taken away.

Put-if-absent is ``link(2)``. Overwriting and deleting take a lock of the key, which all processes share.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

from graveler.errors import InvalidError, UnavailableError
from graveler.storage.file_modes import Modes
from graveler.storage.objects.folder_files import FolderFiles
from graveler.storage.objects.folder_writer import Explained, described, discard
from graveler.storage.objects.port import ObjectConditionError, StoredObject
from graveler.storage.owned_files import create_owned

HIDDEN: Final = ".graveler-tmp"
"""Folder in the root for temporary files, parts of uploads, and locks. No component of a key may have this name."""

_LOCK_STRIPES: Final = 64
_LOCK_WAIT: Final = 30.0
_ATTEMPTS: Final = 100
_MAX_SETTLED: Final = 10_000


class FolderNames:
    """The names of the objects in ``files``, whose address begins with ``namespace``. ``modes`` are the permissions of new files
    and folders."""

    def __init__(self, files: FolderFiles, namespace: str, modes: Modes) -> None:
        self.files = files
        self.namespace = namespace
        self.modes = modes
        self.hidden = files.root / HIDDEN
        self.writes = self.hidden / "writes"
        self.explained = partial(Explained, namespace)
        """A block that names a step and an object in errors (:class:`Explained`)."""
        # Folders whose own name this process knows to be durable, with device and inode.
        self._settled: dict[Path, tuple[int, int]] = {}

    def new_temporary(self, key: str) -> tuple[Path, int]:
        """Return a new, hidden file, and its descriptor, which holds its lock."""
        with self.explained("writing", key):
            try:
                return create_owned(self.files, self.writes, self.modes)
            except FileNotFoundError:
                self.files.make_root(self.modes)
                self.files.make_folders(self.writes, self.modes)
                return create_owned(self.files, self.writes, self.modes)

    def publish(
        self, key: str, path: Path, temporary: Path, status: os.stat_result, *, if_absent: bool
    ) -> StoredObject:
        """Give a complete temporary file its name, durably."""
        is_left = True
        try:
            self.assign(key, path, temporary, if_absent=if_absent)
            is_left = if_absent  # then the file has two names
        finally:
            if is_left:
                discard(self.files, temporary)
        with self.explained("writing", key, done=True):
            self.settle(path.parent)
        return described(key, status)

    def assign(self, key: str, path: Path, temporary: Path, *, if_absent: bool) -> None:
        """Give a complete temporary file its name: another one, or with ``if_absent`` one more."""
        with self.explained("writing", key):
            for _ in range(_ATTEMPTS):
                try:
                    if if_absent:
                        self.files.link(temporary, path)
                    else:
                        with self.locked(key):
                            self.files.rename(temporary, path)
                    break
                except FileNotFoundError:  # a new folder, or a delete pruned it since
                    if not self.files.is_file(temporary):
                        raise self.robbed(key, temporary) from None
                    with suppress(FileExistsError):
                        # The folder was removed. A new one may get its inode, and would pass for settled.
                        for folder in (path.parent, *path.parent.parents):
                            self._settled.pop(folder, None)
                        self.files.make_folders(path.parent, self.modes)
                        continue
                    raise self._clash(key) from None
                except NotADirectoryError:
                    raise self._clash(key) from None
                except (FileExistsError, IsADirectoryError):
                    if not self.files.is_folder(path):
                        self.refuse_taken(key, path)
                    try:
                        self.files.rmdir(path)  # an empty folder is not an object, and may go
                    except OSError as error:
                        if error.errno == errno.ENOTEMPTY:
                            raise self._clash(key) from None
                        if error.errno != errno.ENOENT:
                            raise
            else:
                raise UnavailableError(
                    f"writing {self.namespace}/{key} failed: its folder keeps being removed by others"
                )

    def robbed(self, key: str, temporary: Path) -> UnavailableError:
        """Return the error for a temporary file that is gone."""
        return UnavailableError(
            f"writing {self.namespace}/{key} failed: another program removed its temporary file {str(temporary)!r} before it "
            "was complete; exclude this folder from that program's clean-up, then try again"
        )

    def _clash(self, key: str) -> InvalidError:
        return InvalidError(
            f"object key {key!r} is below another object, or is the folder of one; in a folder, 'x' and 'x/y' cannot both "
            "be objects, choose another key"
        )

    def refuse_taken(self, key: str, path: Path) -> None:
        """Raise :class:`ObjectConditionError` for an object that exists, once its name is durable."""
        # A caller that learns that the object exists builds on it. Its writer may have died before it synced the folder.
        with self.explained("writing", key):
            self.settle(path.parent)
        raise ObjectConditionError(self.namespace, key, "it already exists")

    def settle(self, folder: Path) -> None:
        """Make the names in ``folder`` durable, and its own name, and so on upwards as far as this process has not done so.

        Every process does this, not only the one that made a folder: that one may not have done it yet, or have died.
        """
        fresh: list[tuple[Path, tuple[int, int]]] = []
        try:
            identity = self.files.sync(folder)
            while folder != self.files.root and self._settled.get(folder) != identity:
                fresh.append((folder, identity))
                folder = folder.parent
                identity = self.files.sync(folder)
        except FileNotFoundError:
            return  # deleted by another process already, with the object in it
        if len(self._settled) > _MAX_SETTLED:
            self._settled.clear()
        self._settled.update(fresh)

    def prune(self, folder: Path) -> None:
        """Remove ``folder`` and those above it as far as they are empty; make durable what stays."""
        while folder != self.files.root:
            try:
                with suppress(FileNotFoundError):  # another process pruned it
                    self.files.rmdir(folder)
            except OSError:  # not empty, as a rule; an empty one that stays does no harm
                break
            self._settled.pop(folder, None)
            folder = folder.parent
        with suppress(FileNotFoundError):
            self.files.sync(folder)

    @contextmanager
    def locked(self, key: str) -> Iterator[None]:
        """Exclude other overwriting puts and deletes of ``key``, in all processes, for some microseconds."""
        path = self.hidden / "locks" / f"{crc32(key.encode()) % _LOCK_STRIPES:02}"
        deadline = time.monotonic() + _LOCK_WAIT
        while True:
            try:
                descriptor = self.files.open_or_create(path, os.O_RDWR, self.modes)
            except FileNotFoundError:
                for folder in (self.hidden, path.parent):
                    self.files.make_folder(folder, self.modes)
                descriptor = self.files.open_or_create(path, os.O_RDWR, self.modes)
            try:
                self._wait_for(descriptor, key, deadline)
                if os.fstat(descriptor).st_nlink:  # else it was tidied up before it was locked
                    break
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        try:
            yield
        finally:
            os.close(descriptor)  # which releases the lock, as the death of the process does

    def _wait_for(self, descriptor: int, key: str, deadline: float) -> None:
        pause = 0.0005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"changing {self.namespace}/{key} failed: another process has held its lock for "
                        f"{_LOCK_WAIT:.0f} s; is it stopped?"
                    ) from None
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
