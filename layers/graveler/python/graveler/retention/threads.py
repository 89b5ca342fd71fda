"""Bounded concurrency, with results in order."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS = 16
"""Concurrent requests."""


def at_once(threads: int, do: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Map ``do`` over ``items``, with ``threads`` working some items ahead; with 1, without any thread. The first error ends
    it."""
    if threads == 1:
        yield from map(do, items)
        return
    source = iter(items)
    with ThreadPoolExecutor(threads, thread_name_prefix="graveler-gc") as pool:
        while some := list(islice(source, 4 * threads)):
            yield from pool.map(do, some)
