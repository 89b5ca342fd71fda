"""Files of folders as records: opened in their folder, read whole, hashed.

A small file costs more in system calls, and in the interpreter between them, than in its bytes. So files come in batches of
stretches of folders: a folder is opened once, and each file in it is opened by its name, read in one call, closed. A batch can be
sent to a worker process (:mod:`graveler.runtime.crew`). Threads read large files, since hashing releases the interpreter's lock.
"""

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import md5
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple

from graveler.errors import UnavailableError
from graveler.lake.objects.noted_times import MARK, time_checksum
from graveler.model import ObjectEntry
from graveler.storage.objects.folder_files import FolderFiles
from graveler.tree.record import MAX_KEY_BYTES, RecordCodec, encode_key, object_size

LARGE: Final = 256 << 10
"""The size in bytes from which a thread reads a file, piece by piece."""

_PIECE: Final = 256 << 10
"""The number of bytes of a large file to read at a time: few enough to be hashed out of the processor's cache."""

_READ: Final = os.O_RDONLY | os.O_NONBLOCK
"""Avoids waiting for a writer if the file is replaced by a named pipe."""

_TRIAL: Final = 32
"""The number of files of a batch after which it is known whether reading them involves waiting."""

_AT_ONCE: Final = 8
"""The number of files that a process reads concurrently if it has to wait for each."""

_WAITS_OF: Final[int] = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class Run(NamedTuple):
    """Files of ``folder``, an absolute path, by their names. ``prefix`` is the prefix of their keys."""

    folder: str
    prefix: str
    names: list[str]


Batch = list[Run]
"""Some hundred files, in the order of their keys."""


class Records(NamedTuple):
    """The records of a batch: keys, and packed bytes; None for a file that is still to be read, by :func:`file_record`.
    ``unread`` is the number of those; ``bytes`` is the size of all others."""

    keys: list[bytes]
    packed: list[bytes | None]
    bytes: int
    unread: int


ReadBatch = Callable[[Batch, FolderFiles, RecordCodec], Records]
"""Makes the records of a batch, here or in a worker."""


def path_in(folder: str, name: str) -> str:
    """Return the path of an entry in a folder."""
    return f"{folder}/{name}" if folder != "/" else f"/{name}"


def digested(batch: Batch, files: FolderFiles, codec: RecordCodec) -> Records:
    """Return the records of a batch, with the MD5 of what was read. About 15 µs a file of some KiB. None for files of
    :data:`LARGE` or more, and for those whose length differs from their status, since they are being written.

    Files are read one after the other, unless the first ones involved waiting, like those of a server or a slow disk: then the
    rest concurrently. :class:`UnavailableError` for an unreadable file.
    """
    packed: list[bytes | None] = []
    total = unread = 0
    waited = _waits()
    for number, (folder, _, names) in enumerate(batch):
        encode = codec.plain(f"file://{path_in(folder, '')}")
        with opened_folder(folder, files) as within:
            for position, name in enumerate(names, 1):
                try:
                    content = _digest(files.open_in(within, folder, name, _READ), folder, name)
                except OSError as error:
                    raise unreadable(path_in(folder, name), error) from None
                if content is None:
                    unread += 1
                    packed.append(None)
                else:
                    total += content[0]
                    packed.append(encode(name.encode(), *content))
                if len(packed) == _TRIAL and _waits() - waited > _TRIAL // 2:
                    rest = [Run(folder, "", names[position:]), *batch[number + 1 :]]
                    remaining = _digested_at_once(rest, files, codec)
                    total += sum(object_size(record) for record in remaining if record is not None)
                    return Records(keys_of(batch), packed + remaining, total, unread + remaining.count(None))
    return Records(keys_of(batch), packed, total, unread)


def timed(batch: Batch, files: FolderFiles, codec: RecordCodec) -> Records:
    """Return the records of a batch with the time of the last modification instead of a checksum
    (:mod:`graveler.lake.objects.noted_times`). No file is opened. About 4 µs a file."""
    packed: list[bytes | None] = []
    total = 0
    mark = MARK.encode()
    for folder, _, names in batch:
        encode = codec.plain(f"file://{path_in(folder, '')}", text=True)
        with opened_folder(folder, files) as within:
            for name in names:
                try:
                    status = files.status_in(within, folder, name)
                except OSError as error:
                    raise unreadable(path_in(folder, name), error) from None
                if not stat.S_ISREG(status.st_mode):
                    raise not_plain(path_in(folder, name))
                size = status.st_size
                total += size
                checksum = b"%s%d" % (mark, status.st_mtime_ns)
                packed.append(encode(name.encode(), size, checksum, int(status.st_mtime)))
    return Records(keys_of(batch), packed, total, 0)


@contextmanager
def opened_folder(folder: str, files: FolderFiles) -> Iterator[int]:
    """Open a folder during the block, and yield its descriptor."""
    try:
        descriptor = files.open(Path(folder), os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise unreadable(folder, error) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def file_record(path: str, key: bytes, codec: RecordCodec, stop: Event, files: FolderFiles) -> bytes:
    """Return the record of one of the ``files``, of any size. Reads the file once, for its MD5; ``stop`` ends that early, with a
    record that must not be used."""
    try:
        descriptor = files.open(Path(path), _READ)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise not_plain(path)
            digest = md5(usedforsecurity=False)
            size = 0
            piece = memoryview(bytearray(min(_PIECE, status.st_size + 1)))
            while not stop.is_set() and (length := os.readv(descriptor, (piece,))):
                digest.update(piece[:length])
                size += length
        finally:
            os.close(descriptor)
    except OSError as error:
        raise unreadable(path, error) from None
    return codec.encode(ObjectEntry(key.decode(), f"file://{path}", size, digest.hexdigest(), int(status.st_mtime)))


def keys_of(batch: Batch) -> list[bytes]:
    """Return the keys of a batch's files. :class:`InvalidError` for one that is too long."""
    keys = []
    for _, prefix, names in batch:
        before = prefix.encode()
        keys += [before + name.encode() for name in names]
    if len(longest := max(keys, key=len)) > MAX_KEY_BYTES:
        encode_key(longest.decode())
    return keys


def not_plain(path: str) -> UnavailableError:
    """Return the error for a path that is no longer a plain file."""
    return UnavailableError(f"cannot import {path!r}: it is no longer a regular file; nothing was imported")


def timed_record(path: str, key: bytes, codec: RecordCodec, files: FolderFiles) -> bytes:
    """Return the record of one of the ``files``, as :func:`timed` makes it."""
    try:
        status = files.status(Path(path))
    except OSError as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(status.st_mode):
        raise not_plain(path)
    checksum = time_checksum(status.st_mtime_ns)
    return codec.encode(ObjectEntry(key.decode(), f"file://{path}", status.st_size, checksum, int(status.st_mtime)))


def unreadable(path: str, error: OSError) -> UnavailableError:
    """Return the error for a file that cannot be examined or read."""
    reason = "no permission to read it" if error.errno in (errno.EACCES, errno.EPERM) else os.strerror(error.errno or 0)
    return UnavailableError(f"cannot import {path!r}: {reason}; nothing was imported")


def _digest(descriptor: int, folder: str, name: str) -> tuple[int, bytes, int] | None:
    """Return size, MD5 and time of an open file, and close it; None for a file that is large, or being written."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise not_plain(path_in(folder, name))
        size = status.st_size
        if size >= LARGE:
            return None
        data = os.read(descriptor, size + 1)  # a byte more, to detect the end
    finally:
        os.close(descriptor)
    return None if len(data) != size else (size, md5(data, usedforsecurity=False).digest(), int(status.st_mtime))


def _digested_at_once(batch: Batch, files: FolderFiles, codec: RecordCodec) -> list[bytes | None]:
    from concurrent.futures import ThreadPoolExecutor  # 10 ms

    def record(file: tuple[str, str]) -> bytes | None:
        folder, name = file
        path = path_in(folder, name)
        try:
            read = _digest(files.open(Path(path), _READ), folder, name)
        except OSError as error:
            raise unreadable(path, error) from None
        return None if read is None else codec.plain(f"file://{path}")(b"", *read)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-import") as pool:
        return list(pool.map(record, [(folder, name) for folder, _, names in batch for name in names]))


def _waits() -> int:
    """Return how often this thread has waited so far: for a disk, a server, a lock."""
    return resource.getrusage(_WAITS_OF).ru_nvcsw
