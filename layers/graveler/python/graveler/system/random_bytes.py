"""Random bytes for unique IDs, read from the system some thousand at a time.

Each read of the system's source is a system call that releases the interpreter's lock; a server that stages thousands of
objects a second pays more for that than for the bytes. Secrets come from :mod:`secrets` instead.
"""

import os
from threading import local
from typing import Final

_READ_BYTES: Final = 4096


class _Stock(local):
    """The unused bytes of a thread, and the process and generation that read them."""

    data = b""
    position = 0
    origin: tuple[int, int] = (0, 0)


class _Generation:
    number = 0


_stock = _Stock()


def random_bytes(size: int) -> bytes:
    """Return so many random bytes, 64 at most, which no other call in any process gets."""
    stock, now = _stock, (os.getpid(), _Generation.number)  # a forked child has its parent's memory
    end = stock.position + size
    if end > len(stock.data) or stock.origin != now:
        stock.data, stock.origin, end = os.urandom(_READ_BYTES), now, size
    stock.position = end
    return stock.data[end - size : end]


def forget() -> None:
    """Discard all bytes that were read before: for a process that may be copied from now on, other than by a fork."""
    _Generation.number += 1
