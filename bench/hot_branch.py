"""``python -m bench.hot_branch``: many writers on one branch of a lake on DynamoDB, simulated.

The engine is the real one; the table is one in memory whose partitions take what DynamoDB's take, 1,000 write units and 3,000
read units a second each, and whose requests take a few milliseconds of a simulated clock. A request beyond that is refused and
made again after the pauses of the real adapter (:class:`graveler.system.retries.Retries`), with full jitter. Each writer
works without a pause. Units are AWS's: of a write one for each KB of an item, twice that in a transaction, of a read one for each
4 KB. Only the waiting takes simulated time: the figures are bounds that the table sets, not speeds of a server.
"""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count, product
from math import ceil
from threading import Event, Thread, get_ident

from bench.lines import Line, table
from graveler.errors import AnswerLostError, BusyError
from graveler.lake.clock import SystemClock
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.storage.limits import encode_item, encode_transaction, holds
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import ConditionFailedError, Delete, Item, Key, Put, Query, QueryPage, Write
from graveler.system.retries import Retries

WRITE_UNITS, READ_UNITS = 1_000.0, 3_000.0
"""Of a partition, a second."""
WRITE_BYTES, READ_BYTES = 1024, 4096
FASTEST, SLOWEST = 0.003, 0.008
"""Seconds of a request to the table."""
BATCH = 100
"""Objects of a call of ``link_many``."""
NAME, NAMESPACE = "hot", "mem://hot"


class Time:
    """A simulated clock. Of the threads that live by it one runs at a time; when it sleeps, who is to wake up next goes on."""

    def __init__(self) -> None:
        self.now = 0.0
        self._asleep: list[tuple[float, int, Event]] = []
        self._order = count()
        self._living: set[int] = set()

    @property
    def mine(self) -> bool:
        """Whether the calling thread lives by this clock."""
        return get_ident() in self._living

    def sleep(self, seconds: float) -> None:
        """Wait. Nothing for a thread that does not live by this clock."""
        if self.mine:
            wake = Event()
            heappush(self._asleep, (self.now + seconds, next(self._order), wake))
            self._wake_next()
            wake.wait()

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Do all of these at the same time, until the last has ended."""
        starts = [Event() for _ in works]
        threads = [Thread(target=self._live, args=(work, start)) for work, start in zip(works, starts, strict=True)]
        for thread, start in zip(threads, starts, strict=True):
            thread.start()
            heappush(self._asleep, (self.now, next(self._order), start))
        self._wake_next()
        for thread in threads:
            thread.join()

    def _live(self, work: Callable[[], None], start: Event) -> None:
        start.wait()
        self._living.add(get_ident())
        try:
            work()
        finally:
            self._living.discard(get_ident())
            self._wake_next()

    def _wake_next(self) -> None:
        if self._asleep:
            self.now, _, wake = heappop(self._asleep)
            wake.set()


class SimulatedClock(SystemClock):
    """What the engine asks."""

    def __init__(self, time: Time) -> None:
        self._time = time

    def now(self) -> float:
        return 1_700_000_000 + self._time.now

    def monotonic(self) -> float:
        return self._time.now

    def sleep(self, seconds: float) -> None:
        self._time.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> bool:
        if self._time.mine:
            self._time.sleep(seconds)
            return event.is_set()
        return event.wait()  # the thread of a lease, which no work here is long enough to renew


class Bucket:
    """What a partition takes: so many units a second, and no more than a second's worth after a rest."""

    def __init__(self, rate: float) -> None:
        self._rate = self._left = rate
        self._at = 0.0

    def has(self, now: float) -> bool:
        """Whether it takes a request now."""
        self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left > 0

    def take(self, units: float) -> None:
        self._left -= units


Needs = Sequence[tuple[Bucket, float]]
"""Units of each item of a request."""


class Partitions(MemoryTables):
    """The table. ``requests`` and ``refused`` count; a batch, and queries that are asked at the same time, are one request."""

    def __init__(self, time: Time) -> None:
        super().__init__()
        self.requests = self.refused = 0
        self._time = time
        self._writes: dict[str, Bucket] = defaultdict(lambda: Bucket(WRITE_UNITS))
        self._reads: dict[str, Bucket] = defaultdict(lambda: Bucket(READ_UNITS))

    def get(self, key: Key) -> Item | None:
        self._ask([self._read(key)])
        return super().get(key)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        self._ask([self._read(key) for key in keys])
        with self._lock:
            return [super(Partitions, self).get(key) for key in keys]

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        self._ask([self._page(Query(partition, start, end, limit))])
        return super().query(partition, start=start, end=end, limit=limit, descending=descending)

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        self._ask([self._page(query) for query in queries])
        return [
            super(Partitions, self).query(each.partition, start=each.start, end=each.end, limit=each.limit)
            for each in queries
        ]

    def replace(self, key: Key, item: Item) -> Item | None:
        write = Put(key, item)
        self._ask([self._write(write)])
        with self._lock:  # nobody sleeps who holds it
            there = super().get(key)
            self._apply([write], [encode_item(key, item)])
        return there

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        self._ask([self._write(write) for write in writes])
        super().write_many(writes)

    def transact(self, writes: Sequence[Write]) -> None:
        """Of one write, as :meth:`put` and :meth:`delete` make it, the units are not doubled."""
        needs = [self._write(write) for write in writes]
        self._ask([(bucket, 2 * units) for bucket, units in needs] if len(needs) > 1 else needs, together=True)
        with self._lock:
            failures = {
                position: found
                for position, write in enumerate(writes)
                if not holds(write.condition, found := super(Partitions, self).get(write.key))
            }
            if failures:
                raise ConditionFailedError(failures)
            self._apply(writes, encode_transaction(writes))

    def _ask(self, needs: Needs, *, together: bool = False) -> None:
        """Wait for the answer. What is refused of a batch is asked again, at once if some of it was taken, as the real adapter
        does; ``together``: all is refused or nothing. :class:`BusyError`."""
        pauses = Retries().pauses()
        while self._time.mine:
            self.requests += 1
            self._time.sleep(random.uniform(FASTEST, SLOWEST))
            refused = self._refused(needs, together)
            if not refused:
                return
            self.refused += 1
            if len(refused) < len(needs):
                needs, pauses = refused, Retries().pauses()
                continue
            pause = next(pauses, None)
            if pause is None:
                raise BusyError("the partition is too busy")
            self._time.sleep(pause)

    def _refused(self, needs: Needs, together: bool) -> Needs:
        """Take what the partitions take now; what they do not."""
        now = self._time.now
        if together and not all(bucket.has(now) for bucket, _ in needs):
            return needs
        refused = []
        for bucket, units in needs:
            if together or bucket.has(now):
                bucket.take(units)
            else:
                refused.append((bucket, units))
        return refused

    def _read(self, key: Key) -> tuple[Bucket, float]:
        item = super().get(key)
        return self._reads[key.partition], _units(READ_BYTES, [] if item is None else [(key, item)])

    def _page(self, query: Query) -> tuple[Bucket, float]:
        page = super().query(query.partition, start=query.start, end=query.end, limit=query.limit)
        return self._reads[query.partition], _units(READ_BYTES, [(Key(query.partition, k), i) for k, i in page.items])

    def _write(self, write: Write) -> tuple[Bucket, float]:
        return self._writes[write.key.partition], _units(
            WRITE_BYTES, [(write.key, write.item)] if isinstance(write, Put) else []
        )


def _units(size: int, items: Sequence[tuple[Key, Item]]) -> float:
    """As many of this size as the items fill; one for nothing."""
    return max(
        1, ceil(sum(len(key.partition) + len(key.sort) + len(encode_item(key, item)) for key, item in items) / size)
    )


def main() -> None:
    print(table(lines(parser().parse_args())))


def parser() -> argparse.ArgumentParser:
    """What can be chosen."""
    made = argparse.ArgumentParser(prog="python -m bench.hot_branch", description=__doc__)
    made.add_argument("--writers", default="16,32,64", help="with commas between (default %(default)s)")
    made.add_argument("--shards", default="1,8,32", help="of a branch, with commas between (default %(default)s)")
    made.add_argument("--verbs", default=",".join(VERBS), help="with commas between (default %(default)s)")
    made.add_argument("--seconds", type=float, default=12.0, help="of the simulated clock (default %(default)s)")
    made.add_argument("--seed", type=int, default=1)
    return made


def lines(arguments: argparse.Namespace) -> list[Line]:
    """A line for each verb, number of writers and of shards."""
    found = []
    numbers = [[int(each) for each in said.split(",")] for said in (arguments.writers, arguments.shards)]
    for verb, writers, shards in product(arguments.verbs.split(","), *numbers):
        found.append(simulated(verb, writers, shards, arguments.seconds, arguments.seed))
        print(found[-1], file=sys.stderr)
    return found


Verb = Callable[[OpenRepository, int, int], int]
"""Takes a writer's number and how many calls he has made; how many objects it was."""


def link(repository: OpenRepository, writer: int, call: int) -> int:
    repository.link("main", entry(f"{writer:03}/{call:08}"))
    return 1


def link_many(repository: OpenRepository, writer: int, call: int) -> int:
    repository.link_many("main", [entry(f"{writer:03}/{call:06}/{number:03}") for number in range(BATCH)])
    return BATCH


def entry(path: str) -> ObjectEntry:
    """An object that is somewhere else."""
    return ObjectEntry(path, f"s3://elsewhere/{path}", 1000, f"{abs(hash(path)):032x}", 0)


VERBS: dict[str, Verb] = {"link": link, "link 100": link_many}


def simulated(name: str, writers: int, shards: int, seconds: float, seed: int) -> Line:
    """Let them write; what comes in the first third is to fill the table's buckets, and does not count."""
    random.seed(seed)  # the pauses of the adapter are drawn there
    time = Time()
    tables, store = Partitions(time), MemoryObjects(NAMESPACE)
    clock = SimulatedClock(time)

    def opened() -> Lake:
        return Lake(tables, lambda _: store, clock=clock, staging_shards=shards)

    opened().create_repository(NAME, NAMESPACE)
    taken: list[float] = []
    objects = failed = 0

    def write(writer: int) -> None:
        nonlocal objects, failed
        repository = opened().repository(NAME)  # each in a process of his own
        for call in count():
            begin = time.now
            if begin >= seconds:
                return
            try:
                done = VERBS[name](repository, writer, call)
            except (BusyError, AnswerLostError):
                failed += 1
                continue
            if begin >= seconds / 3:
                taken.append(time.now - begin)
                objects += done

    time.run([partial(write, writer) for writer in range(writers)])
    taken.sort()
    calls = len(taken)
    return Line(
        what=f"{name}, {writers} writers, {shards} shards, simulated",
        measured=f"{1e3 * taken[calls // 2]:.0f} ms",
        rate=f"{objects / (seconds * 2 / 3):,.0f}",
        spread=f"p99 {1e3 * taken[calls * 99 // 100]:.0f} ms, worst {1e3 * taken[-1]:.0f}",
        notes=f"{100 * tables.refused / tables.requests:.1f} % of requests refused and repeated, {failed} calls given up",
    )


if __name__ == "__main__":
    main()
