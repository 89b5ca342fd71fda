"""Calls of the lake, made from the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from graveler.server.loop_requests import EventLoopRequests
from graveler.server.threads import Threads
from graveler.system.pauses import WouldWaitError

R = TypeVar("R")


class LakeCalls:
    """Runs calls of the lake. With ``in_loop`` short ones run in the event loop, as those of the server do
    (:mod:`graveler.server.loop_requests`): use it only if everything they access is on this machine."""

    def __init__(self, threads: Threads, *, in_loop: bool) -> None:
        self._threads = threads
        self._in_loop = in_loop
        self._loop_requests: EventLoopRequests[Any] | None = None

    async def short(self, call: Callable[[], R]) -> R:
        """Return what a short call returns. It may be made twice, the second time in a thread, unless it has written
        something."""
        if self._in_loop:
            if self._loop_requests is None:
                self._loop_requests = EventLoopRequests()
            try:
                result: R | asyncio.Future[R] = self._loop_requests.run(call)
            except WouldWaitError:
                return await self._threads.run(call)
            return await result if isinstance(result, asyncio.Future) else result
        return await self._threads.run(call)

    async def long(self, call: Callable[[], R]) -> R:
        """Return what a call returns that may take long."""
        return await self._threads.run(call)
