"""Threads that fetch files before they are opened: behind a network, a dozen concurrent reads take as long as one."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from graveler.system.daemon_pool import DaemonPool
from graveler.system.forks import new_lock

T = TypeVar("T")

_pools: dict[tuple[int, int], DaemonPool] = {}
_lock: Final = new_lock()


class ThreadRead(Generic[T]):
    """A read in another thread of this process."""

    __slots__ = ("_future", "_process")

    def __init__(self, future: Future[T]) -> None:
        self._future = future
        self._process = os.getpid()

    @property
    def is_lost(self) -> bool:
        """True if this process is a fork of the one that started the read. Such a child has none of its parent's threads."""
        return self._process != os.getpid()

    def result(self) -> T:
        """Wait for the end of the read, and return its result or raise its error."""
        return self._future.result()


def begin(size: int, load: Callable[..., T], *arguments: object) -> ThreadRead[T]:
    """Start ``load(*what)`` in one of this process's threads for reading, for walks that fetch up to ``size`` files ahead. A read
    that hangs blocks neither Ctrl-C nor the end of the process; a forked child has its own threads."""
    return ThreadRead(_pool(size).submit(load, *arguments))


def _pool(size: int) -> DaemonPool:
    with _lock:
        pool = _pools.get((os.getpid(), size))
        if pool is None:
            # Twice as many as one walk uses, since several may be at work.
            pool = _pools[os.getpid(), size] = DaemonPool(2 * size, "graveler-read")
        return pool
