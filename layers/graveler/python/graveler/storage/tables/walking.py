"""All items of a partition; also past damaged ones, for callers that can go on without one, and report which it was."""

from collections.abc import Iterator
from itertools import chain

from graveler.storage.tables.port import DamagedItemError, Item, Tables


def pages(
    tables: Tables, partition: str, *, start: bytes = b"", end: bytes | None = None, page_size: int = 1000
) -> Iterator[list[tuple[bytes, Item]]]:
    """Yield the items of a partition with their sort keys, ``start <= sort key < end``, a page at a time; none is empty. One
    table read for each ``page_size``."""
    while True:
        page = tables.query(partition, start=start, end=end, limit=page_size)
        if page.items:
            yield page.items
        if not page.more or not page.items:
            return
        start = page.items[-1][0] + b"\0"


def items(tables: Tables, partition: str, *, start: bytes = b"") -> Iterator[tuple[bytes, Item]]:
    """Yield the items of a partition as :func:`pages`, one at a time."""
    return chain.from_iterable(pages(tables, partition, start=start))


def walk(
    tables: Tables, partition: str, start: bytes = b"", page_size: int = 1000
) -> Iterator[tuple[bytes, Item | DamagedItemError]]:
    """Yield sort keys, from ``start`` on, and items in their order; for an item that cannot be read, the error. One table read
    for each ``page_size``, and two more for each damaged item."""
    yield from _walk(tables, partition, start, None, page_size)


def _walk(
    tables: Tables, partition: str, start: bytes, end: bytes | None, page_size: int
) -> Iterator[tuple[bytes, Item | DamagedItemError]]:
    while end is None or start < end:
        try:
            page = tables.query(partition, start=start, end=end, limit=page_size)
        except DamagedItemError as error:
            damaged = error.key.sort
            if damaged < start:
                raise  # it is not among the requested ones
            yield from _walk(tables, partition, start, damaged, page_size)
            yield damaged, error
            start = damaged + b"\0"
            continue
        yield from page.items
        if not page.more:
            return
        start = page.items[-1][0] + b"\0"
