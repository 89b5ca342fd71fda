"""Work that may hang, such as a request to a server of others, in a thread that is left alone when its time is up."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from time import monotonic
from typing import Final, TypeVar

T = TypeVar("T")

_WAIT: Final = 0.25


def in_time(work: Callable[[], T], seconds: float, stop: Callable[[], None]) -> T | None:
    """Return what ``work`` returns within so many seconds, or raise what it raises; None if it takes longer. ``stop`` is called
    meanwhile, and may raise. The thread goes on until the work ends by itself, and the process does not wait for it."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised below
            future.set_exception(error)

    Thread(target=run, name="graveler-check", daemon=True).start()
    deadline = monotonic() + seconds
    while True:
        try:
            return future.result(max(0.0, min(_WAIT, deadline - monotonic())))
        except TimeoutError:
            if future.done():  # meanwhile, or the error is the work's own
                return future.result()
        stop()
        if monotonic() >= deadline:
            return None
