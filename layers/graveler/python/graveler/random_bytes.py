"""Random bytes that tell things apart, read from the system some thousand at a time.

Each read of the system's source is a system call that lets go of the interpreter's lock; a server that stages thousands of
objects a second pays more for that than for the bytes. What is to be kept secret is made by :mod:`secrets`.
"""

import os
from threading import local
from typing import Final

_AT_ONCE: Final = 4096


class _Stock(local):
    """What a thread has left, and of which process and generation it is."""

    left = b""
    at = 0
    of: tuple[int, int] = (0, 0)


class _Generation:
    number = 0


_stock = _Stock()


def random_bytes(size: int) -> bytes:
    """So many random bytes, 64 at most, which no other call in whatever process gets."""
    stock, now = _stock, (os.getpid(), _Generation.number)  # a forked child has its parent's memory
    end = stock.at + size
    if end > len(stock.left) or stock.of != now:
        stock.left, stock.of, end = os.urandom(_AT_ONCE), now, size
    stock.at = end
    return stock.left[end - size : end]


def forget() -> None:
    """Use nothing that was read until now: for a process of which there may be copies from here on, other than by a fork."""
    _Generation.number += 1
