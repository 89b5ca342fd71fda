"""The operating system's calls for the files of one folder, which fail as a test says; and disks that are full or read-only."""

import builtins
import errno
import fcntl
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest

CALLS: Final = (
    "open",
    "flock",
    "fstat",
    "read",
    "write",
    "close",
    "utime",
    "scandir",
    "stat",
    "rename",
    "unlink",
    "mkdir",
)
ERRORS: Final = ("ESTALE", "EIO", "EROFS", "ENOSPC", "EDQUOT", "EACCES", "ETIMEDOUT")
"""What disks and file systems of a network say: a file that another machine removed, a fault, read-only, full, over the quota,
not allowed, nobody there."""


class FaultyDisk:
    """Before each call that has to do with ``folder``, ``order`` may return an error, given the call and its number (the first
    one of each kind is 0)."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.order: Callable[[str, int], OSError | None] = lambda *_: None
        self.short_reads = False
        self.seen: dict[str, int] = {}

    def begin(self, order: Callable[[str, int], OSError | None]) -> None:
        """Under this order from now on, counted from zero."""
        self.order, self.seen = order, {}

    def fail(self, call: str) -> None:
        """Count a call; raise what is ordered."""
        number = self.seen.get(call, 0)
        self.seen[call] = number + 1
        error = self.order(call, number)
        if error is not None:
            raise error

    def owns(self, path: Any) -> bool:
        """Whether a path, or the file of a descriptor, is in the folder."""
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        return str(path).startswith(self._folder)


class _File(io.FileIO):
    def __init__(self, disk: FaultyDisk, path: str | int, mode: str) -> None:
        self._disk = disk
        super().__init__(path, mode)

    def read(self, size: int | None = -1, /) -> bytes:
        self._disk.fail("read")
        wanted = -1 if size is None else size
        return super().read(max(1, wanted // 3) if self._disk.short_reads and wanted > 0 else wanted)

    def write(self, data: Any, /) -> int:
        try:
            self._disk.fail("write")
        except OSError:
            super().write(bytes(data)[:1])
            raise
        return super().write(data)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._disk.fail("close")


class _Entry:
    def __init__(self, disk: FaultyDisk, entry: os.DirEntry[str]) -> None:
        self._disk, self._entry = disk, entry
        self.name, self.path = entry.name, entry.path

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._entry.is_dir(follow_symlinks=follow_symlinks)

    def stat(self) -> os.stat_result:
        self._disk.fail("stat")
        return self._entry.stat()


@contextmanager
def faulty_disk(folder: Path) -> Iterator[FaultyDisk]:
    """Until the end of the block, in this process."""
    disk = FaultyDisk(folder)

    def before(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **more: Any) -> Any:
            if disk.owns(path):
                disk.fail(name)
            return real(path, *arguments, **more)

        return call

    open_, scandir = io.open, os.scandir

    def opened(path: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if not disk.owns(path):
            return open_(path, mode, *arguments, **more)
        if isinstance(path, int):  # open already
            return _File(disk, path, mode)
        disk.fail("open")
        return _File(disk, str(path), mode)

    @contextmanager
    def scanned(path: Any) -> Iterator[Iterator[Any]]:
        if disk.owns(path):
            disk.fail("scandir")
        with scandir(path) as entries:
            yield (_Entry(disk, entry) for entry in entries) if disk.owns(path) else entries

    with (
        patch.object(io, "open", opened),
        patch.object(builtins, "open", opened),
        patch.object(os, "scandir", scanned),
        patch.object(os, "open", before("open", os.open)),
        patch.object(fcntl, "flock", before("flock", fcntl.flock)),
        patch.object(os, "fstat", before("fstat", os.fstat)),
        patch.object(os, "utime", before("utime", os.utime)),
        patch.object(os, "rename", before("rename", os.rename)),
        patch.object(os, "unlink", before("unlink", os.unlink)),
        patch.object(os, "mkdir", before("mkdir", os.mkdir)),
    ):
        yield disk


class Syncs:
    """Which names of files and folders this process made durable: those that a folder held when it was synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.durable: set[Path] = set()
        real = os.fsync

        def fsync(descriptor: int) -> None:
            real(descriptor)
            folder = Path(f"/proc/self/fd/{descriptor}").readlink()
            if folder.is_dir():
                self.durable.update(folder.iterdir())

        monkeypatch.setattr(os, "fsync", fsync)

    def lost(self, *paths: Path) -> list[Path]:
        """Those of the paths, and of the folders above them, that a power cut could take."""
        return [at for path in paths for at in (path, *path.parents[:-1]) if at not in self.durable]


def trouble(name: str) -> OSError:
    """An error by its name, as the operating system raises it."""
    number = getattr(errno, name)
    return OSError(number, os.strerror(number))


@cache
def _may_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def on_a_disk_of_its_own(program: str, folder: Path, *, size: str) -> str:
    """Run a program in Python with ``disk`` (a path), a file system in memory of ``size`` that nobody else sees, and
    ``mount(option)`` for it. What it prints; AssertionError if it fails. Skips where nobody may mount anything."""
    try:
        allowed = _may_mount()
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("to mount a disk takes Linux's `unshare`, and the right to use it")
    folder.mkdir(parents=True, exist_ok=True)
    begin = (
        "import subprocess\nfrom pathlib import Path\n"
        f"disk = Path({str(folder)!r})\n"
        "def mount(*options):\n    subprocess.run(['mount', *options, str(disk)], check=True)\n"
        f"mount('-t', 'tmpfs', '-o', 'size={size}', 'tmpfs')\n"
    )
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", begin + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
