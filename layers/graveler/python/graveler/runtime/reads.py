"""Threads that fetch files before they are opened: behind a network, a dozen reads at the same time take as long as one."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from graveler.daemon_pool import DaemonPool
from graveler.forks import new_lock

T = TypeVar("T")

_pools: dict[tuple[int, int], DaemonPool] = {}
_lock: Final = new_lock()


class ThreadRead(Generic[T]):
    """A read that another thread of this process does."""

    __slots__ = ("_future", "_process")

    def __init__(self, future: Future[T]) -> None:
        self._future = future
        self._process = os.getpid()

    @property
    def is_lost(self) -> bool:
        """Did this process begin as a fork of the one that began to read? Such a child has none of its parent's threads."""
        return self._process != os.getpid()

    def result(self) -> T:
        """Wait for the end of the read. Returns or raises what it did."""
        return self._future.result()


def begin(size: int, load: Callable[..., T], *what: object) -> ThreadRead[T]:
    """Have ``load(*what)`` called by one of this process's threads for reading, for walks that fetch up to ``size`` files ahead.
    Nobody waits for one that hangs, neither Ctrl-C nor the end of the process; a forked child has its own."""
    return ThreadRead(_pool(size).submit(load, *what))


def _pool(size: int) -> DaemonPool:
    with _lock:
        found = _pools.get((os.getpid(), size))
        if found is None:
            # Twice as many as one walk uses, since several may be under way.
            found = _pools[os.getpid(), size] = DaemonPool(2 * size, "graveler-read")
        return found
