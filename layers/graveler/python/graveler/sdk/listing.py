"""Listings: lazy iterators, which notebooks show as tables."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from graveler.errors import GravelerError
from graveler.lake.text import utf8
from graveler.system.tracebacks import are_short, short_traceback, shortened
from graveler.values.paging import Pages

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from graveler.model import Page
    from graveler.sdk.display_tables import Row
    from graveler.tree.key_range import KeyRange

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
RowT = TypeVar("RowT", bound="Row")


class _ListedPages(Pages[T_co]):
    """The pages of a listing of the Python API."""

    def __next__(self) -> Iterator[T_co]:
        try:
            return super().__next__()
        except GravelerError as error:
            __tracebackhide__ = are_short()
            raise shortened(error)  # noqa: B904 - the same error


class Listing(Iterator[T_co]):
    """An iterator that requests each page when it is reached. A notebook shows the next 20 rows as a table, and they are still to
    come afterwards. Looping over it takes no time beyond the pages' own: a loop runs on the iterator inside."""

    __slots__ = ("_if_none", "_items", "_kind", "_name", "_pages", "_whole")

    def __init__(
        self,
        name: str,
        pages: "Pages[Row]",
        items: Iterator[T_co],
        kind: type["Row"],
        whole: "Callable[[], pyarrow.RecordBatchReader] | None" = None,
        if_none: str = "nothing",
    ) -> None:
        self._if_none = if_none
        self._name = name
        self._pages = pages
        self._items = items
        self._kind = kind
        self._whole = whole

    def __iter__(self) -> Iterator[T_co]:
        return self._items

    def __next__(self) -> T_co:
        return next(self._items)

    def __repr__(self) -> str:
        return f"Listing({self._name!r})"

    @short_traceback
    def to_arrow(self) -> "pyarrow.RecordBatchReader":
        """Return what is still to come as a stream of record batches, and take it: :mod:`graveler.sql.arrow.schemas` has the
        columns.

        Each batch is a page, which is requested when it is reached. But objects of a ref, differences and uncommitted changes,
        unless some were taken, are read column by column and of one state, at 1 µs each. Errors may come as batches are read.
        :class:`UnavailableError` without pyarrow.
        """
        from graveler.sdk.frames import stream  # for those that use data frames

        return stream(self._pages, self._kind, self._whole)

    @short_traceback
    def to_pandas(self) -> "pandas.DataFrame":
        """Return what is still to come as a data frame, which is held in memory, and take it. Cost and errors as
        :meth:`to_arrow`."""
        from graveler.sdk.frames import pandas_frame  # for those that use data frames

        return pandas_frame(self.to_arrow())

    @short_traceback
    def to_polars(self) -> "polars.DataFrame":
        """Return what is still to come as a data frame, which is held in memory, and take it. Cost and errors as
        :meth:`to_arrow`."""
        from graveler.sdk.frames import polars_frame  # for those that use data frames

        return polars_frame(self.to_arrow())

    def _repr_html_(self) -> str:
        """Return the table. Cost: the first page, unless it was requested already."""
        from graveler.sdk.display_tables import listing_table  # for notebooks

        return listing_table(self._name, self._pages, self._if_none)


def listing(
    name: str,
    kind: type["Row"],
    page_after: "Callable[[str], Page[RowT]]",
    limit: int | None = None,
    after: str = "",
    *,
    whole: "Callable[[], pyarrow.RecordBatchReader] | None" = None,
    if_none: str = "nothing",
) -> Listing[RowT]:
    """Return the listing of all results after ``after``, or ``limit`` of them. ``name`` says what is listed, ``kind``
    what the results are; ``page_after`` returns the page after a position, ``whole`` all results as record batches, if there is
    a faster way to them. ``if_none`` is shown if there are none."""
    pages = _ListedPages(page_after, limit, after)
    return Listing(name, pages, chain.from_iterable(pages), kind, whole, if_none)


def keys_behind(prefix: str, after: str) -> "tuple[KeyRange, ...]":
    """Return the key range of the paths that begin with ``prefix`` and are greater than ``after``; none if there can be none."""
    from graveler.tree.key_range import KeyRange  # for those that use data frames

    keys = KeyRange.of_prefix(utf8("prefix", prefix))
    if after:
        keys &= KeyRange(utf8("after", after) + b"\0")
    return () if keys.empty else (keys,)


def mapped(
    name: str,
    kind: type["Row"],
    make: Callable[[RowT], T],
    page_after: "Callable[[str], Page[RowT]]",
    limit: int | None = None,
    after: str = "",
) -> Listing[T]:
    """Return a :func:`listing` of what ``make`` returns for each result; tables show the results themselves."""
    pages = _ListedPages(page_after, limit, after)
    return Listing(name, pages, chain.from_iterable(map(partial(map, make), pages)), kind)
