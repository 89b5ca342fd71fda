"""Threads for blocking work off the event loop: handlers, file reads and writes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """A pool of up to ``amount`` threads, started on demand. Further work waits in a queue."""

    def __init__(self, name: str, amount: int) -> None:
        self._pool = ThreadPoolExecutor(amount, thread_name_prefix=name)

    def run(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> "asyncio.Future[R]":
        """Return a future of what ``work`` returns or raises in one of the threads. Call it in an event loop."""
        return asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *arguments, **named))

    def close(self) -> None:
        """Wait for running work."""
        self._pool.shutdown()
