"""Reading a partition with damaged items.

A query fails as a whole when it meets an item that cannot be decoded. This module then finds *which* one: the least key
such that a query up to and including it fails, a byte at a time. It uses only the table port.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from graveler.errors import CorruptError
from graveler.storage.tables.port import MAX_SORT_KEY_BYTES, Item, Tables

_PAGE: Final = 1000


class DamagedItem(Struct, frozen=True):
    """An item that cannot be decoded. ``rest``: nothing from here on can be read."""

    reason: str
    rest: bool = False


def scan(tables: Tables, partition: str) -> Iterator[tuple[bytes, Item | DamagedItem]]:
    """Yield all items of a partition by sort key. One table read for each thousand; eight more for each byte of a damaged one's
    key."""
    begin = b""
    while True:
        try:
            page = tables.query(partition, start=begin, limit=_PAGE)
        except CorruptError as error:
            damaged = _first_damaged(tables, partition, begin)
            if damaged is None:
                yield begin, DamagedItem(str(error), rest=True)
                return
            yield from tables.query(partition, start=begin, end=damaged, limit=_PAGE).items
            yield damaged, DamagedItem(str(error))
            begin = damaged + b"\0"
            continue
        yield from page.items
        if not page.more:
            return
        begin = page.items[-1][0] + b"\0"


def _first_damaged(tables: Tables, partition: str, begin: bytes) -> bytes | None:
    """Return the key of the first item from ``begin`` on that cannot be decoded; None if the failure is not due to single
    items."""

    def fails_below(end: bytes) -> bool:
        try:
            tables.query(partition, start=begin, end=end, limit=_PAGE)
        except CorruptError:
            return True
        return False

    key = b""
    while len(key) <= MAX_SORT_KEY_BYTES:
        if fails_below(key + b"\0"):
            return key if key and key >= begin and not fails_below(key) else None
        low, high = 0, 255  # the next byte is the highest one below which nothing fails
        while low < high:
            middle = (low + high + 1) // 2
            if fails_below(key + bytes([middle])):
                high = middle - 1
            else:
                low = middle
        key += bytes([low])
    return None
