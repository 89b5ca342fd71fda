"""Reading several partitions in the order of their keys, one page of each ahead where one has to wait for it.

While the pages at hand are used, the next one of each partition is being fetched: a reader that takes 1,000 changes of each does
not wait for 1,000 more. A partition whose last page is at hand costs nothing more, so that few items are read without any thread.
Where a request takes nothing but the processor's time, each page is read when it is needed: two threads of one interpreter that
both work only get in each other's way.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from graveler.storage.limits import check_text_keys
from graveler.storage.tables.port import Item, LocalTables, Query, QueryPage, Tables

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

V = TypeVar("V")


class _Stream:
    """One partition: the page at hand from ``at`` on, and the request for the next one."""

    __slots__ = ("at", "items", "keys", "more", "next", "query")

    def __init__(self, query: Query) -> None:
        self.query = query
        self.next: Future[QueryPage] | None = None
        self.keys: list[bytes] = []
        self.items: list[tuple[bytes, Item]] = []
        self.at = 0
        self.more = False

    def take_page(self, page: QueryPage) -> None:
        """Continue with this page, behind the one before."""
        self.items, self.at, self.more = page.items, 0, page.more
        self.keys = [key for key, _ in page.items]
        check_text_keys(self.query.partition, self.keys)

    def following(self) -> Query:
        """Return the query for the page behind the one at hand."""
        query = self.query
        return Query(query.partition, self.keys[-1] + b"\0", query.end, query.limit)


class ReadAhead(Generic[V]):
    """A merge of queries of one table: the next page of each partition is fetched while the current one is used.

    Where several partitions hold a key, the later one counts. ``values`` maps items to the values yielded with their keys. Cost:
    one request for each page; holds two pages of each partition.
    """

    def __init__(self, tables: Tables, queries: Sequence[Query], values: Callable[[Sequence[Item]], list[V]]) -> None:
        self._tables = tables
        self._values = values
        self._asks_ahead: bool | None = None
        """Whether the next pages are fetched in threads; None before there is one, as most have none, and to ask takes 30 µs."""
        self._streams = [_Stream(query) for query in queries]
        self._pool: ThreadPoolExecutor | None = None

    def __iter__(self) -> Iterator[tuple[bytes, V]]:
        return chain.from_iterable(self._pairs())

    def _pairs(self) -> Iterator[Iterable[tuple[bytes, V]]]:
        """Yield the items in order, as many together as lie between two requests."""
        streams = self._streams
        for stream, page in zip(streams, self._tables.query_many([stream.query for stream in streams]), strict=True):
            stream.take_page(page)
        try:
            for stream in streams:
                self._ask(stream)
            while True:
                unread = [stream for stream in streams if stream.more]
                upto = min((stream.keys[-1] for stream in unread), default=None)
                yield self._taken(upto)
                if upto is None:
                    return
                for stream in unread:
                    if stream.at == len(stream.keys):
                        stream.take_page(self._query(stream) if stream.next is None else stream.next.result())
                        self._ask(stream)
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    def _taken(self, upto: bytes | None) -> Iterable[tuple[bytes, V]]:
        """Return the items of the pages at hand up to a key, inclusive (None: all)."""
        by_key: dict[bytes, V] = {}
        for stream in self._streams:
            index, keys = stream.at, stream.keys
            end = len(keys) if upto is None else bisect_right(keys, upto, index)
            stream.at = end
            if index == end:
                continue
            values = self._values([item for _, item in stream.items[index:end]])
            if len(self._streams) == 1:
                return zip(keys, values, strict=True)  # all of the page
            by_key.update(zip(keys[index:end], values, strict=True))
        return [(key, by_key[key]) for key in sorted(by_key)]

    def _ask(self, stream: _Stream) -> None:
        """Start fetching the next page, if one exists."""
        stream.next = None
        if not stream.more:
            return
        if self._asks_ahead is None:
            self._asks_ahead = not isinstance(self._tables, LocalTables)
        if not self._asks_ahead:
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # 10 ms, only for those who read much

            self._pool = ThreadPoolExecutor(len(self._streams), thread_name_prefix="graveler-staged")
        stream.next = self._pool.submit(self._query, stream)

    def _query(self, stream: _Stream) -> QueryPage:
        """Return the page behind the one at hand."""
        query = stream.following()
        return self._tables.query(query.partition, start=query.start, end=query.end, limit=query.limit)
