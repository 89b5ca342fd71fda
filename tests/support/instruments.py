"""Wrappers of the two ports for tests: they count requests, and make them fail on purpose.

objects = CountingObjects(FolderObjects(root))
... a verb ...
assert objects.calls == {"get": 2, "put": 1}

boundary = Boundaries()                       # one count over both ports
lake = Lake(FaultyObjects(objects, fail_nth(7, "fail_after"), boundary), FaultyTables(tables, ..., boundary))
"""

import builtins
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Final, Literal, TypeAlias, TypeVar

from graveler.errors import AnswerLostError, BusyError, GravelerError, UnavailableError
from graveler.storage.objects.port import (
    Noted,
    Objects,
    Page,
    Sent,
    StoredObject,
    StoredPart,
    UnfinishedUpload,
    UnsyncedObjects,
)
from graveler.storage.tables.port import (
    Condition,
    Delete,
    Item,
    Key,
    Put,
    Query,
    QueryPage,
    Tables,
    Write,
    query_in_turn,
    replace_then_get,
)

LIST_PAGE: Final = 1000
GET_BATCH: Final = 100
WRITE_BATCH: Final = 25

Fault: TypeAlias = Literal["fail_before", "refuse", "fail_after", "repeat", "late"] | None
"""What happens to one request: it never arrives; it is refused, as by a service that is too busy; it has its effect, but the
answer is lost; it arrives twice, and the second answer counts; it hangs until the client gives up, and arrives when
:meth:`Boundaries.deliver` says so; None, nothing special."""
Schedule: TypeAlias = Callable[[str, int], Fault]
"""From a request's method and its ordinal (from 0, over everything that shares :class:`Boundaries`) to its fault."""

T = TypeVar("T")


class CountingObjects:
    """Counts requests in ``calls`` by method (a listing counts one for each page of 1,000), and bytes. ``presign`` is counted
    too, though it is no request: :attr:`requests` leaves it out."""

    def __init__(self, inner: Objects) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()
        self.keys: list[tuple[str, str]] = []
        """Every request as (method, key), in order; a listing's key is its prefix."""
        self.bytes_read = 0
        self.bytes_written = 0

    @property
    def namespace(self) -> str:
        return self._inner.namespace

    @property
    def requests(self) -> int:
        """All requests together."""
        return self.calls.total() - self.calls["presign"]

    def reset(self) -> None:
        """Begin to count anew."""
        self.calls.clear()
        self.keys.clear()
        self.bytes_read = self.bytes_written = 0

    def get(self, key: str) -> bytes:
        self._note("get", key)
        data = self._inner.get(key)
        self.bytes_read += len(data)
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._note("get_range", key)
        data = self._inner.get_range(key, start, length)
        self.bytes_read += len(data)
        return data

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        self._note("stream", key)
        for piece in self._inner.stream(key, start, length):
            self.bytes_read += len(piece)
            yield piece

    def head(self, key: str) -> StoredObject:
        self._note("head", key)
        return self._inner.head(key)

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        self._note("put", key)
        self.bytes_written += len(data) if isinstance(data, bytes) else data.stat().st_size
        return self._inner.put(key, data, if_absent=if_absent, sent=sent)

    def copy(self, source: str, destination: str) -> None:
        self._note("copy", destination)
        self._inner.copy(source, destination)

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        self._note("delete", key)
        self._inner.delete(key, if_match=if_match)

    def delete_many(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        for key, _ in objects:
            self.keys.append(("delete", key))
        self.calls["delete_many"] += -(-len(objects) // LIST_PAGE)
        return self._inner.delete_many(objects)

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        self._note("list", prefix)
        for number, stored in enumerate(self._inner.list(prefix, after)):
            if number and number % LIST_PAGE == 0:
                self._note("list", prefix)
            yield stored

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        self._note("page", prefix)
        return self._inner.page(prefix, after, folders=folders)

    def presign(self, key: str, method: str, expires_in: int, noted: Noted | None = None) -> str:
        self._note("presign", key)
        return self._inner.presign(key, method, expires_in, noted)

    def presign_part(self, key: str, upload_id: str, number: int, expires_in: int) -> str:
        self._note("presign", key)
        return self._inner.presign_part(key, upload_id, number, expires_in)

    def create_multipart(self, key: str) -> str:
        self._note("create_multipart", key)
        return self._inner.create_multipart(key)

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        self._note("put_part", key)
        self.bytes_written += len(data)
        return self._inner.put_part(key, upload_id, number, data)

    def parts(self, key: str, upload_id: str, after: int = 0) -> Iterator[StoredPart]:
        self._note("parts", key)
        return self._inner.parts(key, upload_id, after)

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        self._note("complete_multipart", key)
        return self._inner.complete_multipart(key, upload_id, parts, if_absent=if_absent)

    def abort_multipart(self, key: str, upload_id: str) -> None:
        self._note("abort_multipart", key)
        self._inner.abort_multipart(key, upload_id)

    def uploads(self) -> Iterator[UnfinishedUpload]:
        self._note("uploads", "")
        return self._inner.uploads()

    def _note(self, method: str, key: str) -> None:
        self.calls[method] += 1
        self.keys.append((method, key))


class CountingTables:
    """Counts requests in ``calls`` by method: ``get_many`` one for each 100 keys, ``write_many`` one for each 25 writes.
    ``items`` counts the keys that were asked for, written, checked or, by ``query``, found."""

    def __init__(self, inner: Tables) -> None:
        self._inner = inner
        self.calls: Counter[str] = Counter()
        self.items: Counter[str] = Counter()

    @property
    def requests(self) -> int:
        """All requests together."""
        return self.calls.total()

    def reset(self) -> None:
        """Begin to count anew."""
        self.calls.clear()
        self.items.clear()

    def get(self, key: Key) -> Item | None:
        self._note("get", 1, 1)
        return self._inner.get(key)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        self._note("get_many", len(_batches(keys, GET_BATCH)), len(keys))
        return self._inner.get_many(keys)

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        page = self._inner.query(partition, start=start, end=end, limit=limit, descending=descending)
        self._note("query", 1, len(page.items))
        return page

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        return query_in_turn(self, queries)

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        self._note("put", 1, 1)
        self._inner.put(key, item, condition)

    def replace(self, key: Key, item: Item) -> Item | None:
        self._note("put", 1, 1)  # the same request, which answers more
        return self._inner.replace(key, item)

    def replace_and_get(self, key: Key, item: Item, keys: Sequence[Key]) -> tuple[Item | None, list[Item | None]]:
        return replace_then_get(self, key, item, keys)

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        self._note("delete", 1, 1)
        self._inner.delete(key, condition)

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        self._note("write_many", len(_batches(writes, WRITE_BATCH)), len(writes))
        self._inner.write_many(writes)

    def transact(self, writes: Sequence[Write]) -> None:
        self._note("transact", 1, len(writes))
        self._inner.transact(writes)

    def remove_expired(self, now: float) -> int:
        self._note("remove_expired", 1, 0)
        return self._inner.remove_expired(now)

    def remove_partitions(self, prefix: str) -> int:
        self._note("remove_partitions", 1, 0)
        return self._inner.remove_partitions(prefix)

    def _note(self, method: str, requests: int, items: int) -> None:
        self.calls[method] += requests
        self.items[method] += items


class Boundaries:
    """Numbers requests from 0, over every wrapper that shares it. ``seen`` is their methods, in order; ``under_way`` are those
    that hang."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.under_way: list[Callable[[], object]] = []
        self._lock = Lock()

    def next(self, method: str) -> int:
        """The ordinal of the request that is about to be made."""
        with self._lock:
            self.seen.append(method)
            return len(self.seen) - 1

    def deliver(self) -> None:
        """Now the requests arrive that hung. Nobody is there for their answers."""
        for perform in self.under_way:
            with suppress(GravelerError):
                perform()
        self.under_way.clear()


def fail_nth(ordinal: int, fault: Fault) -> Schedule:
    """The schedule with one fault: at the request with this ordinal."""
    return lambda _, number: fault if number == ordinal else None


class _Faults:
    def __init__(self, schedule: Schedule, boundaries: Boundaries | None) -> None:
        self._schedule = schedule
        self.boundaries = boundaries or Boundaries()

    def request(self, method: str, perform: Callable[[], T]) -> T:
        ordinal = self.boundaries.next(method)
        fault = self._schedule(method, ordinal)
        if fault == "fail_before":
            raise UnavailableError(f"fault on purpose: request {ordinal} ({method}) never arrived")
        if fault == "refuse":
            raise BusyError(f"fault on purpose: request {ordinal} ({method}) was refused")
        if fault == "late":
            self.boundaries.under_way.append(perform)
            raise AnswerLostError(f"fault on purpose: request {ordinal} ({method}) timed out")
        if fault is not None:
            with suppress(GravelerError):  # the first answer is lost, whatever it was
                perform()
            if fault == "fail_after":
                raise AnswerLostError(f"fault on purpose: the answer to request {ordinal} ({method}) was lost")
        return perform()


class FaultyObjects:
    """Lets each request fail as ``schedule`` says. A listing is one request for each page of 1,000, a stream is one."""

    def __init__(self, inner: Objects, schedule: Schedule, boundaries: Boundaries | None = None) -> None:
        self._inner = inner
        self._faults = _Faults(schedule, boundaries)
        self.boundaries = self._faults.boundaries

    @property
    def namespace(self) -> str:
        return self._inner.namespace

    def get(self, key: str) -> bytes:
        return self._faults.request("get", lambda: self._inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._faults.request("get_range", lambda: self._inner.get_range(key, start, length))

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        yield from self._faults.request("stream", lambda: self._inner.stream(key, start, length))

    def head(self, key: str) -> StoredObject:
        return self._faults.request("head", lambda: self._inner.head(key))

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        contents = (
            data if isinstance(data, bytes) else data.read_bytes()
        )  # a file may be gone when a late request arrives
        return self._faults.request("put", lambda: self._inner.put(key, contents, if_absent=if_absent, sent=sent))

    def copy(self, source: str, destination: str) -> None:
        self._faults.request("copy", lambda: self._inner.copy(source, destination))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        self._faults.request("delete", lambda: self._inner.delete(key, if_match=if_match))

    def delete_many(self, objects: Sequence[tuple[str, str]]) -> builtins.list[GravelerError | None]:
        return self._faults.request("delete_many", lambda: self._inner.delete_many(objects))

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        while True:
            page = self._faults.request("list", partial(self._page, prefix, after))
            yield from page
            if len(page) < LIST_PAGE:
                return
            after = page[-1].key

    def _page(self, prefix: str, after: str) -> tuple[StoredObject, ...]:
        return tuple(islice(self._inner.list(prefix, after), LIST_PAGE))

    def page(self, prefix: str, after: str = "", *, folders: bool = False) -> Page:
        return self._faults.request("page", lambda: self._inner.page(prefix, after, folders=folders))

    def presign(self, key: str, method: str, expires_in: int, noted: Noted | None = None) -> str:
        return self._inner.presign(key, method, expires_in, noted)

    def presign_part(self, key: str, upload_id: str, number: int, expires_in: int) -> str:
        return self._inner.presign_part(key, upload_id, number, expires_in)

    def create_multipart(self, key: str) -> str:
        return self._faults.request("create_multipart", lambda: self._inner.create_multipart(key))

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        return self._faults.request("put_part", lambda: self._inner.put_part(key, upload_id, number, data))

    def parts(self, key: str, upload_id: str, after: int = 0) -> Iterator[StoredPart]:
        yield from self._faults.request("parts", lambda: list(self._inner.parts(key, upload_id, after)))

    def complete_multipart(
        self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], *, if_absent: bool = False
    ) -> StoredObject:
        return self._faults.request(
            "complete_multipart",
            lambda: self._inner.complete_multipart(key, upload_id, parts, if_absent=if_absent),
        )

    def abort_multipart(self, key: str, upload_id: str) -> None:
        self._faults.request("abort_multipart", lambda: self._inner.abort_multipart(key, upload_id))

    def uploads(self) -> Iterator[UnfinishedUpload]:
        yield from self._faults.request("uploads", lambda: list(self._inner.uploads()))


class FaultyUnsyncedObjects(FaultyObjects):
    """The same of a store that has :class:`UnsyncedObjects`."""

    def __init__(
        self, inner: Objects, unsynced: UnsyncedObjects, schedule: Schedule, boundaries: Boundaries | None = None
    ) -> None:
        super().__init__(inner, schedule, boundaries)
        self._unsynced = unsynced

    def put_unsynced(self, key: str, data: bytes) -> None:
        self._faults.request("put", lambda: self._unsynced.put_unsynced(key, data))

    def sync(self, keys: Sequence[str]) -> builtins.list[str]:
        return self._faults.request("sync", lambda: self._unsynced.sync(keys))


def faulty(inner: Objects, schedule: Schedule, boundaries: Boundaries | None = None) -> FaultyObjects:
    """A store whose requests fail, with all that it offers."""
    if isinstance(inner, UnsyncedObjects):
        return FaultyUnsyncedObjects(inner, inner, schedule, boundaries)
    return FaultyObjects(inner, schedule, boundaries)


class FaultyTables:
    """Lets each request fail as ``schedule`` says. ``write_many`` is one request for each 25 writes, so a fault in a later
    one leaves the earlier ones done; ``get_many`` one for each 100 keys."""

    def __init__(self, inner: Tables, schedule: Schedule, boundaries: Boundaries | None = None) -> None:
        self._inner = inner
        self._faults = _Faults(schedule, boundaries)
        self.boundaries = self._faults.boundaries

    def get(self, key: Key) -> Item | None:
        return self._faults.request("get", lambda: self._inner.get(key))

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        found: list[Item | None] = []
        for batch in _batches(keys, GET_BATCH):
            found += self._faults.request("get_many", partial(self._inner.get_many, batch))
        return found

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        return self._faults.request(
            "query",
            lambda: self._inner.query(partition, start=start, end=end, limit=limit, descending=descending),
        )

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        return query_in_turn(self, queries)

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        self._faults.request("put", lambda: self._inner.put(key, item, condition))

    def replace(self, key: Key, item: Item) -> Item | None:
        return self._faults.request("put", lambda: self._inner.replace(key, item))

    def replace_and_get(self, key: Key, item: Item, keys: Sequence[Key]) -> tuple[Item | None, list[Item | None]]:
        return replace_then_get(self, key, item, keys)

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        self._faults.request("delete", lambda: self._inner.delete(key, condition))

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        for batch in _batches(writes, WRITE_BATCH):
            self._faults.request("write_many", partial(self._inner.write_many, batch))

    def remove_expired(self, now: float) -> int:
        return self._faults.request("remove_expired", lambda: self._inner.remove_expired(now))

    def remove_partitions(self, prefix: str) -> int:
        return self._faults.request("remove_partitions", lambda: self._inner.remove_partitions(prefix))

    def transact(self, writes: Sequence[Write]) -> None:
        self._faults.request("transact", lambda: self._inner.transact(writes))


def _batches(everything: Sequence[T], size: int) -> list[Sequence[T]]:
    return [everything[begin : begin + size] for begin in range(0, len(everything), size)]
