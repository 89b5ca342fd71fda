"""Waiting for another thread: a call waits by blocking its own, unless that thread runs an event loop.

``graveler serve`` handles short requests in its event loop, without a thread for each. While such a request waits (for a table
write, or before a retry), the loop goes on with others. If its next step may take long and would block the loop
(such as reading a file), it moves to a thread, as long as it has written nothing. The rooms that wait know only this
module: a thread registers its waiter once, with :func:`install_waiter`.
"""

import time
from threading import Lock, local
from typing import Protocol


class WouldWaitError(BaseException):
    """A short request needs something that may take long. It has changed nothing, and must be repeated in a thread. Like
    ``GeneratorExit`` this is not a failure, so handlers of failures must not catch it."""


class Pause(Protocol):
    """A single wait."""

    def wait(self) -> None:
        """Return once :meth:`wake` was called, by any thread, before or during the wait."""

    def wake(self) -> None:
        """End the wait. Call it once."""


class Waiter(Protocol):
    """A strategy for waiting in a thread that has other calls to go on with."""

    def pause(self) -> Pause:
        """Return a wait for the current call."""

    def sleep(self, seconds: float) -> None:
        """Let the current call sleep for so many seconds. :class:`WouldWaitError` if it has written nothing yet."""

    def require_cached(self) -> None:
        """Raise :class:`WouldWaitError`, unless the current call has written something."""


class _ThreadPause:
    """A wait that blocks the thread."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def wait(self) -> None:
        self._lock.acquire()

    def wake(self) -> None:
        self._lock.release()


class _ThreadWaiter(local):
    waiter: Waiter | None = None


_thread = _ThreadWaiter()


def install_waiter(waiter: Waiter | None) -> None:
    """Let ``waiter`` wait for all calls of this thread from now on; None: they block the thread, as by default."""
    _thread.waiter = waiter


def new_pause() -> Pause:
    """Return a wait for another thread, in which this thread waits."""
    waiter = _thread.waiter
    return _ThreadPause() if waiter is None else waiter.pause()


def sleep(seconds: float) -> None:
    """Sleep for so many seconds."""
    waiter = _thread.waiter
    if waiter is None:
        time.sleep(seconds)
    else:
        waiter.sleep(seconds)


def require_cached() -> None:
    """Announce that the next step may take long, such as reading a file. In an event loop this raises :class:`WouldWaitError`,
    unless the call has written something and so cannot be repeated."""
    waiter = _thread.waiter
    if waiter is not None:
        waiter.require_cached()
