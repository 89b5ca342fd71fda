"""Short requests, handled in the event loop of a worker.

A thread per request costs more than the work of most requests: handing one over and back means contention for the interpreter's
lock (`docs/design/0011-short-requests.md`). So short work is called in the loop's own thread. Writes run in a greenlet: while it
waits for the table, the loop goes on with other requests, and it continues when the write is durable. The code of the verbs knows
nothing of this except :mod:`graveler.system.pauses`.

Work that may take long does not belong in the loop: a file that is not cached, a pause before the next attempt. A request that
reaches such a point before it has written anything is aborted (:class:`graveler.system.pauses.WouldWaitError`) and run again by a
thread, from its beginning. One that has already written continues here.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from greenlet import GreenletExit, getcurrent, greenlet

from graveler.system import pauses

R = TypeVar("R")

_MOST_IDLE = 64
"""Greenlets kept for further requests, each with a stack of 16 KiB."""


class _Short(greenlet):
    """A greenlet that runs short requests, one after the other. Starting one takes 10 µs, for the memory of its stack."""

    future: "asyncio.Future[Any]"
    work: Callable[[], object] | None = None
    raised: BaseException | None = None
    """The exception of the last request."""
    has_written = False

    def run(self) -> None:
        while True:
            assert self.parent is not None
            self.parent.switch(self._answer())

    def _answer(self) -> object:
        assert self.work is not None
        self.has_written = False
        try:
            return self.work()
        except GreenletExit:  # the greenlet will never be continued
            raise
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self.raised = error
            return None
        finally:
            self.work = None


class _Wait:
    """A short request's wait, as a :class:`graveler.system.pauses.Pause`."""

    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: "EventLoopRequests[Any]", waiting: _Short) -> None:
        self._loop, self._waiting = loop, waiting

    def wait(self) -> None:
        waiting = self._waiting
        waiting.has_written = True
        assert waiting.parent is not None
        waiting.parent.switch()

    def wake(self) -> None:
        self._loop.wake(self._waiting)


class EventLoopRequests(Generic[R]):
    """The runner of short requests in the event loop of the thread that creates it, where that thread's own waits also go on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Short] = []
        self._awake: deque[_Short] = deque()
        self._called = False
        pauses.install_waiter(self)

    def run(self, work: Callable[[], R]) -> "R | asyncio.Future[R]":
        """Return what ``work`` returns or raises, or a future of it if ``work`` waits. Call it in the event loop.
        :class:`graveler.system.pauses.WouldWaitError` if the work needs a thread."""
        short = self._idle.pop() if self._idle else _Short()
        short.work = work
        result = short.switch()
        if short.work is None:
            return self._outcome(short, result)
        short.future = self._loop.create_future()
        return short.future

    def _outcome(self, short: _Short, result: object) -> R:
        """Return or raise a request's outcome; its greenlet is free for another one."""
        error, short.raised = short.raised, None
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(short)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        return cast(R, result)

    def wake(self, waiting: _Short) -> None:
        """Continue a waiting request. Callable from any thread; the first of several calls wakes the loop. If the loop has ended,
        the request stays as it is: its client is gone, and the caller has others to wake."""
        self._awake.append(waiting)
        if not self._called:
            self._called = True
            try:
                self._loop.call_soon_threadsafe(self._continue)
            except RuntimeError:
                if not self._loop.is_closed():
                    raise

    def pause(self) -> _Wait:
        """See :meth:`graveler.system.pauses.Waiter.pause`. :class:`graveler.system.pauses.WouldWaitError` outside of
        :meth:`run`."""
        current = getcurrent()
        if isinstance(current, _Short):
            return _Wait(self, current)
        raise pauses.WouldWaitError

    def sleep(self, seconds: float) -> None:
        """See :meth:`graveler.system.pauses.Waiter.sleep`."""
        self.require_cached()
        pause = self.pause()
        self._loop.call_later(seconds, pause.wake)
        pause.wait()

    def require_cached(self) -> None:
        """See :meth:`graveler.system.pauses.Waiter.require_cached`."""
        current = getcurrent()
        if not (isinstance(current, _Short) and current.has_written):
            raise pauses.WouldWaitError

    def _continue(self) -> None:
        self._called = False  # requests woken from now on call again
        while self._awake:
            short = self._awake.popleft()
            result = short.switch()
            if short.work is not None:
                continue
            future = short.future
            try:
                outcome = self._outcome(short, result)
            except BaseException as error:  # noqa: BLE001 - the awaiting caller gets it
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(outcome)
