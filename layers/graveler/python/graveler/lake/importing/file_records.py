"""Files of folders as records: opened in their folder, read whole, digested.

A small file costs system calls, and the interpreter between them, more than its bytes do. So files come in batches of stretches
of folders: a folder is opened once, and each file in it by its name, read in one call, closed. A batch can be sent to a worker
process (:mod:`graveler.runtime.crew`). Large files are left to threads, which hashing does not hold up.
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
from graveler.storage.beneath import Beneath
from graveler.tree.record import MAX_KEY_BYTES, RecordCodec, encode_key, object_size

LARGE: Final = 256 << 10
"""Bytes from which on a file is read by a thread, piece by piece."""

_PIECE: Final = 256 << 10
"""Bytes of a large file that are read at a time: few enough to be hashed out of the processor's cache."""

_READ: Final = os.O_RDONLY | os.O_NONBLOCK
"""Not to wait for a writer, should somebody have put a named pipe there."""

_TRIAL: Final = 32
"""Files of a batch after which it is known whether reading them means waiting."""

_AT_ONCE: Final = 8
"""Files that a process reads at the same time where it has to wait for each."""

_WAITS_OF: Final[int] = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class Run(NamedTuple):
    """Files of ``folder``, an absolute path, by their names. ``prefix`` is what their keys begin with."""

    folder: str
    prefix: str
    names: list[str]


Batch = list[Run]
"""Some hundred files, in the order of their keys."""


class Records(NamedTuple):
    """What was made of a batch: keys, and packed bytes; None for a file that is still to be read, by :func:`file_record`. So many
    are ``left``; all others have so many ``bytes``."""

    keys: list[bytes]
    packed: list[bytes | None]
    bytes: int
    left: int


ReadBatch = Callable[[Batch, Beneath, RecordCodec], Records]
"""Makes the records of a batch, here or in a worker."""


def path_in(folder: str, name: str) -> str:
    """The path of what is called so in a folder."""
    return f"{folder}/{name}" if folder != "/" else f"/{name}"


def digested(batch: Batch, files: Beneath, codec: RecordCodec) -> Records:
    """The records of a batch, with the MD5 of what was read. About 15 µs a file of some KiB. None for files of :data:`LARGE` or
    more, and for those that were not as long as they said, since somebody is writing them.

    One file after the other, unless the first ones had to be waited for, as those of a server or a slow disk: then the rest at
    the same time. :class:`UnavailableError` for what cannot be read.
    """
    packed: list[bytes | None] = []
    total = left = 0
    waited = _waits()
    for number, (folder, _, names) in enumerate(batch):
        encode = codec.plain(f"file://{path_in(folder, '')}")
        with opened_folder(folder, files) as within:
            for at, name in enumerate(names, 1):
                try:
                    found = _digest(files.open_in(within, folder, name, _READ), folder, name)
                except OSError as error:
                    raise unreadable(path_in(folder, name), error) from None
                if found is None:
                    left += 1
                    packed.append(None)
                else:
                    total += found[0]
                    packed.append(encode(name.encode(), *found))
                if len(packed) == _TRIAL and _waits() - waited > _TRIAL // 2:
                    rest = [Run(folder, "", names[at:]), *batch[number + 1 :]]
                    others = _digested_at_once(rest, files, codec)
                    total += sum(object_size(record) for record in others if record is not None)
                    return Records(keys_of(batch), packed + others, total, left + others.count(None))
    return Records(keys_of(batch), packed, total, left)


def timed(batch: Batch, files: Beneath, codec: RecordCodec) -> Records:
    """The records of a batch with the time of the last modification in the place of a checksum
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
def opened_folder(folder: str, files: Beneath) -> Iterator[int]:
    """The descriptor of a folder, during the block."""
    try:
        descriptor = files.open(Path(folder), os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise unreadable(folder, error) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def file_record(path: str, key: bytes, codec: RecordCodec, stop: Event, files: Beneath) -> bytes:
    """The record of one of the ``files``, of any size. Reads the file once, for its MD5; ``stop`` ends that early, with a record
    that is not to be used."""
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
    """The keys of its files. :class:`InvalidError` for one that is too long."""
    keys = []
    for _, prefix, names in batch:
        before = prefix.encode()
        keys += [before + name.encode() for name in names]
    if len(longest := max(keys, key=len)) > MAX_KEY_BYTES:
        encode_key(longest.decode())
    return keys


def not_plain(path: str) -> UnavailableError:
    """The error for what was a file a moment ago."""
    return UnavailableError(f"cannot import {path!r}: it is no plain file any more; nothing was imported")


def timed_record(path: str, key: bytes, codec: RecordCodec, files: Beneath) -> bytes:
    """The record of one of the ``files``, as :func:`timed` makes it."""
    try:
        status = files.status(Path(path))
    except OSError as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(status.st_mode):
        raise not_plain(path)
    checksum = time_checksum(status.st_mtime_ns)
    return codec.encode(ObjectEntry(key.decode(), f"file://{path}", status.st_size, checksum, int(status.st_mtime)))


def unreadable(path: str, error: OSError) -> UnavailableError:
    """The error for what cannot be looked at or read."""
    what = "no permission to read it" if error.errno in (errno.EACCES, errno.EPERM) else os.strerror(error.errno or 0)
    return UnavailableError(f"cannot import {path!r}: {what}; nothing was imported")


def _digest(descriptor: int, folder: str, name: str) -> tuple[int, bytes, int] | None:
    """Size, MD5 and time of an open file, which is closed; None for one that is large, or being written."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise not_plain(path_in(folder, name))
        size = status.st_size
        if size >= LARGE:
            return None
        data = os.read(descriptor, size + 1)  # a byte more, to see the end
    finally:
        os.close(descriptor)
    return None if len(data) != size else (size, md5(data, usedforsecurity=False).digest(), int(status.st_mtime))


def _digested_at_once(batch: Batch, files: Beneath, codec: RecordCodec) -> list[bytes | None]:
    from concurrent.futures import ThreadPoolExecutor  # 10 ms

    def record(found: tuple[str, str]) -> bytes | None:
        folder, name = found
        path = path_in(folder, name)
        try:
            read = _digest(files.open(Path(path), _READ), folder, name)
        except OSError as error:
            raise unreadable(path, error) from None
        return None if read is None else codec.plain(f"file://{path}")(b"", *read)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-import") as pool:
        return list(pool.map(record, [(folder, name) for folder, _, names in batch for name in names]))


def _waits() -> int:
    """How often this thread has waited until now: for a disk, a server, a lock."""
    return resource.getrusage(_WAITS_OF).ru_nvcsw
