"""Threads for work that may hang, such as a transfer that waits for minutes for a network or store that no longer responds.

Like :class:`concurrent.futures.ThreadPoolExecutor`, with one difference: a block left by an exception, Ctrl-C for instance,
waits for the threads no longer than :data:`GRACE`, and the end of the process does not wait for them either. Their work must
stop by itself when it continues, and must leave nothing half done wherever it ends.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

GRACE: Final = 3.0
"""Seconds that threads have to stop, after an exception."""

_THREADS: Final = 8
_IN_FLIGHT: Final = 64

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class DaemonPool:
    """Up to ``amount`` threads, started on demand, for as long as a ``with`` block. Excess work waits in a queue."""

    def __init__(self, amount: int, name: str) -> None:
        self._amount = amount
        self._name = name
        self._todo: SimpleQueue[tuple[Future[object], Callable[[], object]] | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def submit(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> Future[R]:
        """Run ``work`` in one of the threads; the future has its result or exception."""
        future: Future[R] = Future()
        self._todo.put((future, lambda: work(*arguments, **named)))  # type: ignore[arg-type]
        if len(self._threads) < self._amount:
            thread = Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._cancel()
        for _ in self._threads:
            self._todo.put(None)
        deadline = monotonic() + GRACE
        for thread in self._threads:
            thread.join(None if kind is None else max(0.0, deadline - monotonic()))

    def _cancel(self) -> None:
        while True:
            try:
                waiting = self._todo.get_nowait()
            except Empty:
                return
            if waiting is not None:
                waiting[0].cancel()

    def _work(self) -> None:
        while (job := self._todo.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - the caller of ``result`` gets it
                future.set_exception(error)
            else:
                future.set_result(result)
            del job, future, work


def in_threads(name: str, work: Callable[[T], R], todo: Iterable[T], stop: Event | None = None) -> Iterator[R]:
    """Run ``work`` on each of ``todo`` in a few threads, with results in the order of ``todo``; the first error ends it, and sets
    ``stop`` for the running ones."""
    with DaemonPool(_THREADS, name) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for task in todo:
                waiting.append(pool.submit(work, task))
                if len(waiting) >= _IN_FLIGHT:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            if stop is not None:
                stop.set()
            raise
