"""Listings: lazy iterators, which notebooks show as tables."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from graveler.paging import Pages

if TYPE_CHECKING:
    from graveler.model import Page
    from graveler.sdk.tables import Row

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
RowT = TypeVar("RowT", bound="Row")


class Listing(Iterator[T_co]):
    """An iterator that requests each page when it is reached. A notebook shows the next 20 rows as a table, and they are still to
    come afterwards. Looping over it takes no time beyond the pages' own: a loop runs on the iterator inside."""

    __slots__ = ("_items", "_name", "_pages")

    def __init__(self, name: str, pages: "Pages[Row]", items: Iterator[T_co]) -> None:
        self._name = name
        self._pages = pages
        self._items = items

    def __iter__(self) -> Iterator[T_co]:
        return self._items

    def __next__(self) -> T_co:
        return next(self._items)

    def __repr__(self) -> str:
        return f"Listing({self._name!r})"

    def _repr_html_(self) -> str:
        """Return the table. Cost: the first page, unless it was requested already."""
        from graveler.sdk.tables import listing_table  # for notebooks

        return listing_table(self._name, self._pages)


def listing(
    name: str, page_after: "Callable[[str], Page[RowT]]", limit: int | None = None, after: str = ""
) -> Listing[RowT]:
    """Return the listing of all results after ``after``, or ``limit`` of them. ``name`` says what is listed; ``page_after``
    returns the page after a position."""
    pages = Pages(page_after, limit, after)
    return Listing(name, pages, chain.from_iterable(pages))


def mapped(
    name: str,
    make: Callable[[RowT], T],
    page_after: "Callable[[str], Page[RowT]]",
    limit: int | None = None,
    after: str = "",
) -> Listing[T]:
    """Return a :func:`listing` of what ``make`` returns for each result; tables show the results themselves."""
    pages = Pages(page_after, limit, after)
    return Listing(name, pages, chain.from_iterable(map(partial(map, make), pages)))
