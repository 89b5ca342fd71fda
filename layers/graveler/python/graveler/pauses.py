"""How a call waits for another thread: by blocking its own, unless that one runs an event loop.

``graveler serve`` answers short requests in its event loop, without a thread for each. What such a request may wait for (a write
of the table, a pause before the next try) lets the loop go on with others, and what it should not wait for there at all (a file
that is not at hand) sends it to a thread, as long as it has written nothing. The rooms that wait know only this module: a thread
says once, by :func:`here`, who waits for it.
"""

import time
from threading import Lock, local
from typing import Protocol


class WouldWaitError(BaseException):
    """A short request asks for something that is not at hand. It has changed nothing, and is to be asked again in a thread. Like
    ``GeneratorExit`` this is no failure: what handles those must not see it."""


class Pause(Protocol):
    """One wait."""

    def wait(self) -> None:
        """Return once :meth:`wake` was called, by whatever thread, before or meanwhile."""

    def wake(self) -> None:
        """End the wait. To be called once."""


class Waiter(Protocol):
    """Waits for the calls of a thread that has others to go on with."""

    def pause(self) -> Pause:
        """A wait of the call that is made now."""

    def sleep(self, seconds: float) -> None:
        """Let so much time go by for the call that is made now. :class:`WouldWaitError` if it has written nothing yet."""

    def expect_at_hand(self) -> None:
        """:class:`WouldWaitError`, unless the call that is made now has written something."""


class _ThreadPause:
    """Blocks the thread."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def wait(self) -> None:
        self._lock.acquire()

    def wake(self) -> None:
        self._lock.release()


class _Here(local):
    waiter: Waiter | None = None


_here = _Here()


def here(waiter: Waiter | None) -> None:
    """Have ``waiter`` wait for all calls of this thread from now on; None: they block it, as they do at first."""
    _here.waiter = waiter


def new_pause() -> Pause:
    """A wait for another thread, to be awaited by this one."""
    waiter = _here.waiter
    return _ThreadPause() if waiter is None else waiter.pause()


def sleep(seconds: float) -> None:
    """Let time go by."""
    waiter = _here.waiter
    if waiter is None:
        time.sleep(seconds)
    else:
        waiter.sleep(seconds)


def expect_at_hand() -> None:
    """Say that what follows may take long, as reading a file does: in an event loop :class:`WouldWaitError`, unless the call has
    written something and so cannot be made again."""
    waiter = _here.waiter
    if waiter is not None:
        waiter.expect_at_hand()
