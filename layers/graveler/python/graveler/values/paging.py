"""One lazy stream from pages: each page is fetched only when the reader gets there."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from graveler.model import Page

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def items(page_after: "Callable[[str], Page[T]]", limit: int | None = None, after: str | None = "") -> Iterator[T]:
    """Yield all results of a listing after ``after``, or ``limit`` of them. ``page_after`` returns the page after a position."""
    return chain.from_iterable(Pages(page_after, limit, after))


class Pages(Generic[T_co]):
    """The pages of a listing, each an iterator of its results, fetched when it is reached. Arguments as for :func:`items`.

    :meth:`following` looks ahead: what it returns has yet to come, in the page that was taken last or in pages behind it. That
    needs no count of the results taken, so each of them costs no Python code: ``chain.from_iterable(pages)`` joins the pages.
    """

    def __init__(
        self, page_after: "Callable[[str], Page[T_co]]", limit: int | None = None, after: str | None = ""
    ) -> None:
        self._page_after = page_after
        self._left = limit
        self._after = after
        self._taken: tuple[T_co, ...] = ()
        self._rest: Iterator[T_co] = iter(self._taken)
        self._ahead: deque[tuple[T_co, ...]] = deque()
        self.begun = False
        """True if a page was taken."""

    def __iter__(self) -> "Pages[T_co]":
        return self

    def __next__(self) -> Iterator[T_co]:
        try:
            more = bool(self._ahead) or self._fetch()
        except BaseException:
            self._after = None  # an iterator that raised has ended
            raise
        if not more:
            raise StopIteration
        self._taken = self._ahead.popleft()
        self._rest = iter(self._taken)
        self.begun = True
        return self._rest

    def rest(self) -> list[T_co]:
        """Return what is left of the page that was taken last, and take it."""
        return [*self._rest]

    def end(self) -> None:
        """Let nothing more come."""
        self._ahead.clear()
        self._after, self.begun = None, True

    def following(self, amount: int) -> tuple[T_co, ...]:
        """Return the next results, ``amount`` of them or all, without taking them. Fetches pages only as far as these need."""
        results = self._taken[len(self._taken) - length_hint(self._rest) :][:amount]
        for page in self._ahead:
            results += page[: amount - len(results)]
        while len(results) < amount and self._fetch():
            results += self._ahead[-1][: amount - len(results)]
        return results

    def _fetch(self) -> bool:
        """Fetch the next page, if there is one, and return whether there was."""
        if self._after is None or self._left == 0:
            return False
        page = self._page_after(self._after)
        results = page.results if self._left is None else page.results[: self._left]
        if self._left is not None:
            self._left -= len(results)
        self._after = page.next_after
        self._ahead.append(results)
        return True
