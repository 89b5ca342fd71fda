"""Copies of files that share no bytes with their source, as far as anybody can see: clones where the disk has them.

A clone (reflink) shares blocks until one of the files is written to, so it takes no time and no room. A hard link would be the
same file: a write into it would change what is committed.
"""

import ctypes
import errno
import fcntl
import os
import sys
from contextlib import suppress
from typing import Final

from graveler.storage.objects.folder_writer import write_all

_FICLONE: Final = 0x40049409
_CURRENT_FOLDER: Final = -2  # AT_FDCWD of macOS
_RANGE: Final = 64 << 20
_PIECE: Final = 1 << 20
_NO_RANGES: Final = frozenset((errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTSUP))


class FileCopier:
    """Makes copies of open files. It remembers which disks have no clones. Safe to share between threads."""

    def __init__(self) -> None:
        self._without_clones: set[int] = set()

    def copy(self, source: int, path: str) -> int:
        """Copy all of an open file to a new one, and return the descriptor of that. ``FileExistsError``, and other
        ``OSError``: a file may be there then, incomplete."""
        target = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            device = os.fstat(source).st_dev
            if device not in self._without_clones:
                cloned = _cloned_on_apfs(source, target, path) if sys.platform == "darwin" else _cloned(source, target)
                if cloned is not None:
                    return cloned
                self._without_clones.add(device)
            _copy(source, target)
        except BaseException:
            os.close(target)
            raise
        return target


def _cloned(source: int, target: int) -> int | None:
    """Make an empty open file a clone, and return its descriptor; None if the disk has no clones."""
    with suppress(OSError):  # copying will raise the reason, unless it was the cloning
        fcntl.ioctl(target, _FICLONE, source)
        return target
    return None


def _cloned_on_apfs(source: int, target: int, path: str) -> int | None:
    """Replace an empty open file by a clone, and return that one's descriptor; None, with the file as it was, without clones."""
    mode = os.fstat(target).st_mode & 0o777
    clone = ctypes.CDLL(None).fclonefileat
    replacement = f"{path}.clone"
    if clone(source, _CURRENT_FOLDER, os.fsencode(replacement), 0) != 0:
        return None
    os.replace(replacement, path)  # noqa: PTH105
    cloned = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    os.fchmod(cloned, mode)
    os.close(target)
    return cloned


def _copy(source: int, target: int) -> None:
    """Copy the bytes, in the kernel if it can. Both offsets are 0."""
    try:
        while os.copy_file_range(source, target, _RANGE):
            pass
    except AttributeError:  # macOS has no such call
        pass
    except OSError as error:
        if error.errno not in _NO_RANGES:
            raise
    # What is left: all of it, if the kernel did nothing, and nothing, if it did all.
    while piece := os.read(source, _PIECE):
        write_all(target, piece)
