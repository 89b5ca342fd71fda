"""Reads that end when nobody waits for their result any more.

``graveler serve`` knows when a client has closed its connection, while a thread still works for it. Long reads ask here from time
to time (:func:`expect_client`), and only they: a change is never given up half way. Without a server nobody can leave, and
functions on Lambda end by their time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local


class ClientLeftError(BaseException):
    """Nobody waits for this read's result. Like ``GeneratorExit`` this is not a failure, so handlers of failures must not catch
    it."""


class _ThreadClient(local):
    has_left: Callable[[], bool] | None = None


_thread = _ThreadClient()


@contextmanager
def reading_for(has_left: Callable[[], bool]) -> Iterator[None]:
    """Within the block, end this thread's long reads once ``has_left`` returns True: :class:`ClientLeftError`."""
    _thread.has_left = has_left
    try:
        yield
    finally:
        _thread.has_left = None


def expect_client() -> None:
    """Raise :class:`ClientLeftError` if the client of this thread's read has left. 0.1 µs."""
    has_left = _thread.has_left
    if has_left is not None and has_left():
        raise ClientLeftError
