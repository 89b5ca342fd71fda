"""Files of SQLite tables that this process has open, with locks that survive closes and forks.

SQLite marks a table as open by POSIX locks on the file and on its index (``-shm``), and keeps its account of them in the memory
of the process. Two things make the account false:

- *Another descriptor of the file is closed.* Whatever reads the file in this process (a copy of the folder, an import of a link)
  drops all locks of the process at the end. The next process takes itself for the only one: it copies the log into the file and
  deletes it, while this process writes on, into a deleted log.
- *A fork.* The child inherits the account, but none of the locks.

So this module holds three locks of the open file (:mod:`graveler.storage.file_locks`), which survive both:

- on the bytes of the file that SQLite locks alone before it deletes the log: no SQLite of any process can;
- on the byte of the index that SQLite locks alone before it empties the index;
- on a byte of its own during each write, since SQLite's lock for writing can also be dropped midway.

One more, on a byte that stands for the log and the index, shows each newcomer whether all processes have the same two open. They
have not if a program removed one, or if the table has several names: then two would write over each other.

Before Python forks, all connections of the process are closed, as soon as no thread uses them; both processes open new ones when
they need them. So a child inherits no account. A fork that is none of Python's (a C library's) gives no such notice: its child
uses the table only if no connection was in use at that moment, and otherwise gets an error.
"""

import errno
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition, RLock, get_ident
from typing import Final, Protocol, TypeAlias, TypeVar
from weakref import WeakSet, WeakValueDictionary
from zlib import crc32

from graveler.errors import UnavailableError
from graveler.storage.file_locks import AVAILABLE, ByteRange

C = TypeVar("C", bound=sqlite3.Connection)

Identity: TypeAlias = tuple[int, int]
"""Device and inode of a file."""

_OPEN: Final = ByteRange(0x40000002, 510)
"""What SQLite locks of the file: shared while the table is open, alone to delete the log (``SHARED_FIRST`` and ``SHARED_SIZE`` in
its os.h)."""
_INDEX: Final = ByteRange(128)
"""What SQLite locks of the index: shared while the table is open, alone to empty it (``UNIX_SHM_DMS`` in its os_unix.c)."""
_WRITING: Final = ByteRange(1 << 62)
"""A byte of the file that SQLite does not know."""
_PARTNERS: Final = 1 << 61
"""The first of 2³² bytes, each of which stands for a log and an index. SQLite knows none of them."""
_PARTNER_COUNT: Final = 1 << 32
_FRAMES: Final = 16
"""Offset of the number of frames in the log, in the header of the index, 4 bytes in the machine's order
(https://sqlite.org/walformat.html)."""
_LONG: Final = 1 << 20
"""Bytes of a log that has few pages for certain."""
_PATIENCE: Final = 10.0
"""Seconds for which a fork waits for threads that use a table: far more than a transaction takes."""
_POLL: Final = 0.0005


class TableFile:
    """A table's file, as all handles of this process have it open: its connections, and the locks that they share."""

    def __init__(self, identity: Identity) -> None:
        self.path = ""
        """By which it was opened first."""
        self._stem = ""
        """The path without symbolic links, beside which SQLite puts the log and the index."""
        self.identity = identity
        self.is_lost = False
        """True if the file or its log was removed or replaced beside the open connections. These must not touch it any more."""
        self.connections: set[sqlite3.Connection] = set()
        self._identities: tuple[Identity, ...] = ()
        """Of the file, its index and its log, while they are open."""
        self._log_bytes = 0
        self._partners: ByteRange | None = None
        self._file = self._index = self._log = -1
        self._has_locks = AVAILABLE
        self._opening = RLock()
        """One that a thread can take twice: a handle that becomes garbage meanwhile closes its connections."""
        self._writer: Final[dict[None, sqlite3.Connection]] = {}
        """The connection that writes, if one does. Unlike a lock's owner it is set and named in one step, between which no signal
        handler can raise an exception."""

    def open(self, path: str, connect: Callable[[], C]) -> C:
        """Return a new connection to the file, which is at ``path``; :meth:`close` closes it. ``connect`` makes it, and reads
        from the table. The first connection takes the locks: some ten system calls. :class:`UnavailableError` if the table, its
        log or its index was removed or replaced; ``OSError``."""
        with self._opening:
            if self.is_lost and self.connections:
                raise self.lost()
            connection = connect()
            try:
                self.connections.add(connection)
                if self._file < 0:
                    self.path, self._stem = path, os.path.realpath(path)
                    self._hold()
                elif path != self.path and os.path.realpath(path) != self._stem:
                    raise UnavailableError(
                        f"the table {path} has another name, {self.path}, by which it is open: each name would get a log of its "
                        "own. Remove the hard link, or use the same name everywhere"
                    )
            except BaseException:
                self.close(connection)
                raise
            return connection

    def close(self, connection: sqlite3.Connection) -> None:
        """Close a connection. With the last one of all processes SQLite copies the log into the file and deletes it, but not for
        a fork, and not if the file was lost."""
        with self._opening:
            self.connections.discard(connection)
            if not self.connections and self._file >= 0 and self._has_locks and not self.is_lost and not _gate.is_shut:
                with suppress(OSError):  # then SQLite leaves the log in place
                    self._release()
            try:
                connection.close()
            finally:
                self.unlock_writes(connection)
                if not self.connections:
                    self._let_go()

    def lock_writes(self, connection: sqlite3.Connection) -> bool:
        """Take the lock for a write by an open connection, unless another thread or process has it; return whether. One system
        call. ``OSError``."""
        if self._writer.setdefault(None, connection) is not connection:
            return False
        try:
            if self._has_locks:
                _WRITING.lock(self._file)
        except BlockingIOError:
            del self._writer[None]
            return False
        return True

    def unlock_writes(self, connection: sqlite3.Connection) -> None:
        """Release the lock of :meth:`lock_writes`, if the connection has it. One system call."""
        if self._writer.get(None) is connection:
            try:
                if self._has_locks and self._file >= 0:
                    _WRITING.unlock(self._file)
            finally:
                del self._writer[None]

    def is_in_place(self) -> bool:
        """Return whether the file, its log and its index are those that the connections have open. Three system calls. The caller
        has an open connection."""
        try:
            status = os.fstat(self._log)
            self._log_bytes = status.st_size
            return status.st_nlink > 0 < os.fstat(self._index).st_nlink and _identity(self.path) == self.identity
        except OSError:
            return False

    def lose(self) -> UnavailableError:
        """Retire all connections of this process to the file, which is not in place any more; return the error to raise."""
        self.is_lost = True
        with _registry:
            pools = [pool for pool in _pools if not pool.all.isdisjoint(self.connections)]
        for pool in pools:
            pool.retire()
        return self.lost()

    def lost(self) -> UnavailableError:
        """Return the error for a file that is not in place any more."""
        try:
            is_same = _identity(self.path) == self.identity
        except OSError:
            is_same = False
        if is_same:
            return UnavailableError(
                f"the log {self._stem}-wal was removed or replaced by another program while the table was open, or its index "
                f"{self._stem}-shm was, or the table is open by another name, too; nothing was written now, but what was written "
                "since the log was last copied into the table may be gone. End the programs that have the table open, check with "
                "`graveler fsck`, then try again"
            )
        return UnavailableError(
            f"the table {self.path} was removed or replaced while it was open; nothing was written. Make sure that the right "
            "file is in its place, then try again"
        )

    def frames(self) -> int:
        """Return the number of pages in the log. One system call, none while the log is short. The caller has an open connection,
        and has called :meth:`is_in_place` lately."""
        if self._log_bytes < _LONG:
            return 0
        return int.from_bytes(os.pread(self._index, 4, _FRAMES), sys.byteorder)

    def _hold(self) -> None:
        """Take the locks. The caller's connection has SQLite's own, so nobody deletes the log meanwhile."""
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            status = os.fstat(self._file)
            if (status.st_dev, status.st_ino) != self.identity:
                raise UnavailableError(f"the table {self.path} was replaced while it was being opened; try again")
            self._index = os.open(f"{self._stem}-shm", os.O_RDWR | os.O_CLOEXEC)
            self._log = os.open(f"{self._stem}-wal", os.O_RDONLY | os.O_CLOEXEC)
            statuses = [os.fstat(descriptor) for descriptor in (self._index, self._log)]
            self._identities = (self.identity, *((status.st_dev, status.st_ino) for status in statuses))
            _open_files.update(self._identities)
            if self._has_locks:
                try:
                    _OPEN.share(self._file)
                    _INDEX.share(self._index)
                except OSError as error:
                    if error.errno != errno.EINVAL:
                        raise
                    self._has_locks = False  # a kernel without them, as some sandboxes have
                else:
                    self._join()
            self.is_lost = False
        except BaseException:
            self._let_go()
            raise

    def _join(self) -> None:
        """Show others which log and index this process has, and refuse these if others have different ones."""
        number = crc32(repr(self._identities).encode())
        self._partners = ByteRange(_PARTNERS + number)
        self._partners.share(self._file)
        lower, higher = ByteRange(_PARTNERS, number), ByteRange(_PARTNERS + number + 1, _PARTNER_COUNT - number)
        if (number and lower.blocker(self._file) is not None) or higher.blocker(self._file) is not None:
            self.is_lost = True
            raise self.lost()

    def _release(self) -> None:
        """Let SQLite delete the log as it closes the last connection. SQLite's own lock is taken again before, in case it was
        dropped: it keeps others from deleting the log first, and from beginning one that this process would then delete."""
        _OPEN.share_as_process(self._file)
        if self._partners is not None:
            self._partners.unlock(self._file)
        _OPEN.unlock(self._file)

    def _let_go(self) -> None:
        """Close the descriptors, and with them the locks. The process has no connection to the file any more, whose locks this
        would drop."""
        _open_files.difference_update(self._identities)
        self._identities = ()
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptors. In a forked child they are a parent's, whose locks would stay if the parent died."""
        for descriptor in (self._log, self._index, self._file):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._index = self._log = -1


class Pool(Protocol):
    """Connections of one handle of a table."""

    @property
    def all(self) -> set[sqlite3.Connection]:
        """The open ones."""

    def retire(self) -> None:
        """Close those that are not in use now, and each other one as soon as it is not."""


class _Gate:
    """Keeps other threads from opening connections while one of them forks the process."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._forking: int | None = None
        self._opening: Final[list[int]] = []
        """The threads that are opening a connection."""

    @property
    def is_shut(self) -> bool:
        return self._forking is not None

    @contextmanager
    def opening(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._forking in (None, get_ident()))
            self._opening.append(get_ident())
        try:
            yield
        finally:
            with self._changed:
                self._opening.remove(get_ident())
                self._changed.notify_all()

    def shut(self, seconds: float) -> None:
        """Wait until no other thread forks, and then until no other one is opening a connection; neither for longer than that.
        (This one may be, if it forks in a signal handler.)"""
        with self._changed:
            self._changed.wait_for(lambda: self._forking is None, seconds)
            self._forking = get_ident()
            self._changed.wait_for(lambda: set(self._opening) <= {get_ident()}, seconds)

    def reopen(self) -> None:
        with self._changed:
            self._forking = None
            self._changed.notify_all()


_files: Final[WeakValueDictionary[Identity, TableFile]] = WeakValueDictionary()
_pools: Final[WeakSet[Pool]] = WeakSet()
_open_files: Final[set[Identity]] = set()
"""The open tables with their logs and indexes."""
_registry = RLock()
"""Held for changes of the first two. A signal handler may fork in the middle of one."""
_gate = _Gate()
_process = os.getpid()
_inherited: Final[list[tuple[list[TableFile], list[Pool]]]] = []
"""What a parent had open at a fork. Closing it here could let SQLite delete the log that the parent writes to."""
_open_in_parent: Final[set[Identity]] = set()
"""Tables that a parent had open at the fork. SQLite keeps one account of locks, and one index, for a file in a process: a child
would take the parent's locks for its own, and go on with an index that the parent may have deleted."""


@contextmanager
def opening(path: str, pool: Pool) -> Iterator[TableFile]:
    """Enter the opening of a connection of ``pool`` to an existing file; yield the file. Waits while another thread forks the
    process. ``OSError``; :class:`UnavailableError` in a process whose parent had the table open while a C library forked."""
    if _process != os.getpid():
        _begin_anew()
    with _gate.opening():
        identity = _identity(path)
        if identity in _open_in_parent:
            raise UnavailableError(
                f"the table {path} cannot be used in this process: its parent had it open while the process was "
                "forked. Start processes by `multiprocessing` with the method 'spawn' or 'forkserver', or close the "
                "lake before"
            )
        with _registry:
            _pools.add(pool)
            file = _files.get(identity) or _files.setdefault(identity, TableFile(identity))
        yield file


def is_open_table(status: os.stat_result) -> bool:
    """Return whether a file is a table that this process has open, or its log or index. Nobody has business reading these as
    files: they hold the secrets of the lake, and other repositories' entries. No system call."""
    return (status.st_dev, status.st_ino) in _open_files


def open_inodes() -> frozenset[int]:
    """Return the inodes of the files of :func:`is_open_table`, with which a listing of a folder rules out nearly all files
    without asking for their status. No system call."""
    return frozenset(identity[1] for identity in list(_open_files))


def _identity(path: str) -> Identity:
    status = os.stat(path)  # noqa: PTH116 - each write asks, and a path object takes as long as the system call
    return status.st_dev, status.st_ino


def _before_fork() -> None:
    deadline = time.monotonic() + _PATIENCE
    _gate.shut(_PATIENCE)
    with _registry:
        pools = list(_pools)
    for pool in pools:
        pool.retire()
    while any(pool.all for pool in pools) and time.monotonic() < deadline:
        time.sleep(_POLL)
        for pool in pools:
            pool.retire()


def _after_fork() -> None:
    _gate.reopen()


def _begin_anew() -> None:
    """Forget the parent's files in a forked child, where no other thread runs."""
    global _gate, _process, _registry
    _process, _gate, _registry = os.getpid(), _Gate(), RLock()
    files = [file for file in _files.values() if file.connections]
    pools = [pool for pool in _pools if pool.all]
    if files:
        _inherited.append((files, pools))
        for file in files:
            _open_in_parent.add(file.identity)
            file.abandon()
    _files.clear()
    _pools.clear()
    _open_files.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_begin_anew)
