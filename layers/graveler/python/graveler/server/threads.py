"""Threads for what would block the event loop: handlers, and reading and writing of files."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """Up to ``amount`` threads, begun when they are needed. Work beyond waits in a queue."""

    def __init__(self, name: str, amount: int) -> None:
        self._pool = ThreadPoolExecutor(amount, thread_name_prefix=name)

    def run(self, work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> "asyncio.Future[R]":
        """What ``work`` returns or raises, from one of the threads. To be called in an event loop."""
        return asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *arguments, **named))

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown()
