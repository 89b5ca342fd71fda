"""Writing several files at once: a disk that has to make sure of each, and a store behind a network, mostly let one wait."""

import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from graveler.forks import new_lock

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Put = Callable[[str, str, bytes], None]

_pools: "dict[tuple[int, int], ThreadPoolExecutor]" = {}
_lock: Final = new_lock()


class Writes:
    """What one writer of a tree has put and not yet made sure of: up to ``at_once`` files are under way in other threads, and
    one is held back, which :meth:`settle` writes itself, so that a single file costs no thread. With ``at_once`` of 1 each file
    is written when it is put. Used by one thread."""

    def __init__(self, put: Put, at_once: int) -> None:
        self._put = put
        self._at_once = at_once
        self._held: tuple[str, str, bytes] | None = None
        self._under_way: deque[Future[None]] = deque()

    def put(self, kind: str, name: str, data: bytes) -> None:
        """Write a file, sooner or later. Raises what went wrong with an earlier one."""
        if self._at_once <= 1:
            self._put(kind, name, data)
            return
        if self._held is not None:
            if len(self._under_way) >= self._at_once:
                self._under_way.popleft().result()
            self._under_way.append(_pool(self._at_once).submit(self._put, *self._held))
        self._held = kind, name, data

    def settle(self) -> None:
        """All files are durable afterwards; the first error of one of them is raised, when none is under way any more."""
        held, self._held = self._held, None
        under_way, self._under_way = self._under_way, deque()
        try:
            if held is not None:
                self._put(*held)
        finally:
            failed = [error for error in [future.exception() for future in under_way] if error is not None]
        if failed:
            raise failed[0]


def _pool(size: int) -> "ThreadPoolExecutor":
    """This process's threads for writing. A forked child must not use its parent's."""
    from concurrent.futures import ThreadPoolExecutor  # 10 ms, for whoever writes many files

    with _lock:
        found = _pools.get((os.getpid(), size))
        if found is None:
            # Twice as many as one writer uses, since several may be at work.
            found = _pools[os.getpid(), size] = ThreadPoolExecutor(2 * size, thread_name_prefix="graveler-write")
        return found
