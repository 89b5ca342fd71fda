"""One lazy stream from pages: each page is fetched only when the reader gets there."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from graveler.model import Page

T = TypeVar("T")


def items(page_after: "Callable[[str], Page[T]]", limit: int | None = None, after: str | None = "") -> Iterator[T]:
    """Yield all results of a listing after ``after``, or ``limit`` of them. ``page_after`` returns the page after a position."""
    left = limit
    while after is not None:
        page = page_after(after)
        for result in page.results:
            if left == 0:
                return
            if left is not None:
                left -= 1
            yield result
        after = page.next_after
