"""Threads that write several files concurrently: a disk that has to sync each, or a store behind a network, mostly makes the
writer wait."""

import os
from threading import Thread
from typing import TYPE_CHECKING, Final

from graveler.system.forks import new_lock

if TYPE_CHECKING:
    from queue import SimpleQueue

    from graveler.tree.runtime import Put

_File = tuple[str, str, bytes]
_pools: "dict[tuple[int, int], _Threads]" = {}
_lock: Final = new_lock()


class Writes:
    """The pending writes of one tree writer: up to ``at_once`` files are being written by other threads, and one is held back,
    which :meth:`settle` writes itself, so that a single file costs no thread. With ``at_once`` of 1 each file is written when it
    is put. Used by one thread."""

    def __init__(self, put: "Put", at_once: int) -> None:
        self._put = put
        self._at_once = at_once
        self._held: _File | None = None
        self._under_way = 0
        self._done: SimpleQueue[BaseException | None] | None = None

    def put(self, kind: str, name: str, data: bytes) -> None:
        """Write a file, now or later. Raises the error of an earlier write."""
        if self._at_once <= 1:
            self._put(kind, name, data)
            return
        if self._held is not None:
            if self._under_way >= self._at_once and (error := self._ended()) is not None:
                raise error
            self._done = _pool(self._at_once).begin(self._put, self._held, self._done)
            self._under_way += 1
        self._held = kind, name, data

    def settle(self) -> None:
        """Make all files durable. Raises the first error of one of them once none is in progress any more."""
        held, self._held = self._held, None
        try:
            if held is not None:
                self._put(*held)
        finally:
            failed = [error for error in [self._ended() for _ in range(self._under_way)] if error is not None]
        if failed:
            raise failed[0]

    def _ended(self) -> BaseException | None:
        """Wait until a file is written, and return its error, or None."""
        assert self._done is not None
        error = self._done.get()
        self._under_way -= 1
        return error


def _pool(size: int) -> "_Threads":
    """Return this process's threads for writing. A forked child must not use its parent's."""
    with _lock:
        threads = _pools.get((os.getpid(), size))
        if threads is None:
            # Twice as many as one writer uses, since several may be at work.
            threads = _pools[os.getpid(), size] = _Threads(2 * size)
        return threads


class _Threads:
    """Threads that write files, started as needed, and kept. The caller that hands a file over waits for it; the end of the
    process does not. (``concurrent.futures`` takes 10 ms to be loaded.)"""

    def __init__(self, most: int) -> None:
        from queue import SimpleQueue  # not needed for a single file

        self._new_queue = SimpleQueue
        self._todo: SimpleQueue[tuple[Put, _File, SimpleQueue[BaseException | None]]] = SimpleQueue()
        self._most = most
        self._begun = 0

    def begin(
        self, put: "Put", file: _File, done: "SimpleQueue[BaseException | None] | None"
    ) -> "SimpleQueue[BaseException | None]":
        """Start writing a file. ``done``, which is made if None, receives None when the file is written, or the error."""
        done = self._new_queue() if done is None else done
        self._todo.put((put, file, done))
        if self._begun < self._most:
            self._begun += 1
            Thread(target=self._work, name=f"graveler-write_{self._begun}", daemon=True).start()
        return done

    def _work(self) -> None:
        while True:
            put, file, done = self._todo.get()
            try:
                put(*file)
            except BaseException as error:  # noqa: BLE001 - the thread that waits for the file raises it
                done.put(error)
            else:
                done.put(None)
            del put, file, done
