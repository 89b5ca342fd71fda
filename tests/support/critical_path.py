"""How long a verb waits for its stores: the longest chain of requests of which each begins when the one before has answered.

path = CriticalPath()
lake = Lake(TimedTables(tables, path), lambda namespace: TimedObjects(objects(namespace), path))
with path:
    lake.repository("sales").commit("main", "m")
assert path.now == 9.0

Threads are followed: what a pool does begins when it was submitted, and who asks for its result goes on when that is there.
Requests of one call that the adapters send at once (a batch, several queries) are one step. Pools count as wide enough.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import local
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from unittest.mock import patch
from weakref import WeakKeyDictionary

from graveler.runtime.writes import Writes, _Threads
from graveler.storage.objects.port import Objects
from graveler.storage.tables.port import Query, QueryPage, Tables, query_in_turn
from graveler.system.daemon_pool import DaemonPool
from graveler.tree.range_info import RangeInfo
from graveler.tree.sstable import Table
from graveler.tree.store import TreeStore
from tests.support.instruments import CountingObjects, CountingTables

T = TypeVar("T")

Latency = Callable[[str], float]
"""From a request's kind (``read``, ``write``, ``transact`` of the table; ``get``, ``put``, ... of objects) to what it takes."""


def one(_: str) -> float:
    """Each request takes one step: the time is the number of requests that wait for one another."""
    return 1.0


_OF_TABLES: Final = {
    "get": "read",
    "get_many": "read",
    "query": "read",
    "put": "write",
    "write_many": "write",
    "delete": "write",
    "transact": "transact",
}


class CriticalPath:
    """The time at which the calling thread is, by ``latency``. As a context it follows pools, one of them at a time."""

    def __init__(self, latency: Latency = one) -> None:
        self._latency = latency
        self._at = local()
        self._ends: WeakKeyDictionary[Future[Any], list[float]] = WeakKeyDictionary()
        self._writes: WeakKeyDictionary[object, list[float]] = WeakKeyDictionary()
        """By queue, when the files were written that nobody has waited for yet."""
        self._fetched: dict[str, float] = {}
        """By name, when a range was there that was fetched ahead. Who opens it later waited for it all the same: here, requests
        take no time, so that it is there at once."""
        self._patches: list[Any] = [
            patch.object(ThreadPoolExecutor, "submit", self._follow(ThreadPoolExecutor.submit)),
            patch.object(DaemonPool, "submit", self._follow(DaemonPool.submit)),
            patch.object(_Threads, "begin", self._write(_Threads.begin)),
            patch.object(Writes, "_ended", self._written(Writes._ended)),
            patch.object(Future, "result", self._join(Future.result)),
            patch.object(Future, "exception", self._join(Future.exception)),
            patch.object(TreeStore, "_arrive", self._arrive(TreeStore._arrive)),
            patch.object(TreeStore, "_still_open", self._found(TreeStore._still_open)),
        ]

    @property
    def now(self) -> float:
        at: float = getattr(self._at, "time", 0.0)
        return at

    def step(self, kind: str, together: int = 1) -> None:
        """Wait for the last of ``together`` requests."""
        self._at.time = self.now + max((self._latency(kind) for _ in range(together)), default=0.0)

    def __enter__(self) -> Self:
        self._at.time = 0.0
        self._fetched.clear()
        for each in self._patches:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._patches:
            each.stop()

    def _follow(self, submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
        def followed(pool: object, work: Callable[..., object], /, *arguments: object, **named: object) -> Future[Any]:
            begin, end = self.now, list[float]()

            def run() -> object:
                self._at.time = begin
                try:
                    return work(*arguments, **named)
                finally:
                    end.append(self.now)

            future = submit(pool, run)
            self._ends[future] = end
            return future

        return followed

    def _join(self, wait: Callable[..., T]) -> Callable[..., T]:
        def joined(future: Future[Any], timeout: float | None = None) -> T:
            try:
                return wait(future, timeout)
            finally:
                self._at.time = max([self.now, *self._ends.get(future, ())])

        return joined

    def _write(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        def begun(pool: object, put: Callable[..., None], file: tuple[Any, ...], done: Any) -> Any:
            at, done = self.now, SimpleQueue() if done is None else done
            ends = self._writes.setdefault(done, [])

            def run(*arguments: object) -> None:
                self._at.time = at
                try:
                    put(*arguments)
                finally:
                    ends.append(self.now)

            return begin(pool, run, file, done)

        return begun

    def _written(self, wait: Callable[[Writes], T]) -> Callable[[Writes], T]:
        def waited(writes: Writes) -> T:
            try:
                return wait(writes)
            finally:
                ends = self._writes[writes._done]
                first = min(ends)
                ends.remove(first)
                self._at.time = max(self.now, first)

        return waited

    def _arrive(self, arrive: Callable[..., Table]) -> Callable[..., Table]:
        def arriving(store: TreeStore, info: RangeInfo) -> Table:
            try:
                return arrive(store, info)
            finally:
                self._fetched[info.name] = self.now

        return arriving

    def _found(self, find: Callable[..., Table | None]) -> Callable[..., Table | None]:
        def finding(store: TreeStore, name: str) -> Table | None:
            table = find(store, name)
            if table is not None:
                self._at.time = max(self.now, self._fetched.pop(name, 0.0))
            return table

        return finding


class TimedTables(CountingTables):
    def __init__(self, inner: Tables, path: CriticalPath) -> None:
        super().__init__(inner)
        self._path, self._plain = path, inner

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        self.calls["query"] += len(queries)
        self._path.step("read", len(queries))
        return query_in_turn(self._plain, queries)

    def _note(self, method: str, requests: int, items: int) -> None:
        super()._note(method, requests, items)
        self._path.step(_OF_TABLES[method], requests)


class TimedObjects(CountingObjects):
    def __init__(self, inner: Objects, path: CriticalPath) -> None:
        super().__init__(inner)
        self._path = path

    def _note(self, method: str, key: str) -> None:
        super()._note(method, key)
        if method != "presign":
            self._path.step(method)
